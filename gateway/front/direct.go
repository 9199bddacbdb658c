package front

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// An answer of HTTP/1.1 with a length, after which the connection goes on, is
// written past net/http: the upstream's fields go out as they came, and the head
// and what there is of the body in one write. net/http builds a map of them,
// clones and sorts it, which costs 4 us. It gives an empty answer of its own when
// the handler returns, which is swallowed.

// plain reports whether the answer in x may go out past net/http. Whatever that
// has to have a say in may not: a body that was not read to its end, an end of the
// connection, chunks and trailers, statuses that have no body.
func (f *Front) plain(x *exchange.Exchange, c *conn, r *http.Request) bool {
	res := &x.Response
	if c.kind.Load() != http1 || f.closing.Load() || r.ProtoMinor != 1 || r.Close || x.Streaming ||
		res.Status < 200 || res.Status == http.StatusNoContent || res.Status == http.StatusNotModified ||
		res.Length < 0 && res.Body != nil || res.Length < 0 && r.Method == http.MethodHead {
		return false
	}
	if _, whole := x.Request.Body.Kept(); !whole && !x.Request.Body.Empty() || len(r.Header["Expect"]) > 0 {
		return false
	}
	for _, field := range res.Head.Fields() {
		if !sound(field) {
			return false
		}
	}
	return true
}

// sound reports whether net/http would write the field as it stands.
func sound(field exchange.Field) bool {
	if field.Name == "" {
		return false
	}
	for i := range len(field.Name) {
		if !unreserved(field.Name[i]) {
			return false
		}
	}
	for i := range len(field.Value) {
		if b := field.Value[i]; b == '\r' || b == '\n' || b == 0 {
			return false
		}
	}
	return true
}

// appendAnswer appends the head of res, whose body has length bytes.
func (f *Front) appendAnswer(out []byte, res *exchange.Response, length int64) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = append(strconv.AppendInt(out, int64(res.Status), 10), ' ')
	if text := http.StatusText(res.Status); text != "" {
		out = append(out, text...)
	} else {
		out = strconv.AppendInt(append(out, "status code "...), int64(res.Status), 10)
	}
	out = append(out, "\r\n"...)
	dated := false
	for _, field := range res.Head.Fields() {
		switch len(field.Name) {
		case 4:
			dated = dated || same(field.Name, "Date")
		case 7:
			if same(field.Name, "Trailer") {
				continue
			}
		case 10:
			if same(field.Name, "Connection") {
				continue
			}
		case 14:
			if same(field.Name, "Content-Length") {
				continue
			}
		case 17:
			if same(field.Name, "Transfer-Encoding") {
				continue
			}
		}
		out = append(append(out, field.Name...), ": "...)
		out = append(append(out, field.Value...), "\r\n"...)
	}
	if !dated {
		out = append(append(append(out, "Date: "...), f.date.text()...), "\r\n"...)
	}
	out = strconv.AppendInt(append(out, "Content-Length: "...), length, 10)
	return append(out, "\r\n\r\n"...)
}

// date is the field of answers that have none, made once a second.
type date struct{ now atomic.Pointer[second] }

type second struct {
	unix int64
	text string
}

func (d *date) text() string {
	t := time.Now()
	if now := d.now.Load(); now != nil && now.unix == t.Unix() {
		return now.text
	}
	now := &second{t.Unix(), t.UTC().Format(http.TimeFormat)}
	d.now.Store(now)
	return now.text
}

// direct sends the answer in x past net/http, after plain has agreed.
func (f *Front) direct(x *exchange.Exchange, c *conn) error {
	res := &x.Response
	length := res.Length
	if x.Request.Method != http.MethodHead && res.Body == nil {
		length = 0
	}
	lent := f.buffers.Get().(*[]byte)
	defer f.buffers.Put(lent)
	out := f.appendAnswer((*lent)[:0], res, length)
	head := int64(len(out))
	c.answered = true
	defer c.arm(0)
	if x.Request.Method == http.MethodHead || res.Body == nil {
		return c.send(x, out, head)
	}
	if cap(out)-len(out) < 512 { // a head that nearly fills the buffer goes alone
		if err := c.send(x, out, head); err != nil {
			return err
		}
		out, head = (*lent)[:0], 0
	}
	body, _ := res.Body.(spliceable)
	for left := length; left > 0; {
		if len(out) == 0 && body != nil && body.Spliceable() {
			c.arm(f.cfg.Limits.WriteTime)
			n, err := body.SendTo(c, spliceStep)
			x.Event.BytesOut += n
			if left -= n; err == nil || err == io.EOF && left == 0 {
				continue
			}
			if _, theirs := errors.AsType[*exchange.UpstreamError](err); err != io.EOF && !theirs {
				return exchange.ErrClientGone
			}
			return short(x, err)
		}
		n, err := res.Body.Read(out[len(out):min(int64(cap(out)), int64(len(out))+left)])
		left -= int64(n)
		if serr := c.send(x, out[:len(out)+n], head); serr != nil {
			return serr
		}
		out, head = (*lent)[:0], 0
		if err != nil && left > 0 {
			return short(x, err)
		}
	}
	if err := c.send(x, out, head); err != nil { // a head without anything behind
		return err
	}
	switch n, err := res.Body.Read((*lent)[:1]); {
	case n > 0:
		return short(x, io.EOF) // or longer than was said
	case err != io.EOF:
		return err
	}
	return nil
}

// short is the error of a body that has come to its end, by err, before its length.
func short(x *exchange.Exchange, err error) error {
	if err == io.EOF {
		return &exchange.UpstreamError{Kind: exchange.BodyCut, Endpoint: x.Endpoint, Err: io.ErrUnexpectedEOF}
	}
	return err
}

// send writes out, of which head bytes are none of the body.
func (c *conn) send(x *exchange.Exchange, out []byte, head int64) error {
	if len(out) == 0 {
		return nil
	}
	c.arm(c.front.cfg.Limits.WriteTime)
	if _, err := c.Conn.Write(out); err != nil {
		return exchange.ErrClientGone
	}
	x.Event.BytesOut += int64(len(out)) - head
	return nil
}

// arm gives the client d to take what is written next; 0 ends that.
func (c *conn) arm(d time.Duration) {
	by := int64(0)
	if d > 0 { // the sweeper's clock may be a sweep behind
		by = c.sweeper.now.Load() + int64(d+sweepEvery)
	}
	_ = c.writes.until(by) // an error: it is closed, which a write says too
}

var errNotEmpty = errors.New("net/http wrote another answer than its empty one")

// swallow takes net/http's empty answer behind one that is out already.
func swallow(p []byte) (int, error) {
	if !bytes.HasPrefix(p, []byte("HTTP/1.1 200 OK\r\n")) || bytes.Index(p, []byte("\r\n\r\n")) != len(p)-4 {
		return 0, errNotEmpty // it then closes the connection
	}
	return len(p), nil
}

// same is strings.EqualFold for what is nearly always equal as it stands.
func same(a, b string) bool { return a == b || strings.EqualFold(a, b) }
