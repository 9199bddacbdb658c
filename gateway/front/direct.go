package front

import (
	"bytes"
	"errors"
	"io"
	"net/http"
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

// date is the field of answers that have none, made once a second.
type date struct{ now atomic.Pointer[second] }

type second struct {
	unix int64
	text string
}

// text is the field at t, when the answer's head came; zero: now.
func (d *date) text(t time.Time) string {
	if t.IsZero() {
		t = time.Now()
	}
	if now := d.now.Load(); now != nil && now.unix >= t.Unix() {
		return now.text
	}
	now := &second{t.Unix(), t.UTC().Format(http.TimeFormat)}
	d.now.Store(now)
	return now.text
}

// short is the error of a body that has come to its end, by err, before its length.
func short(x *exchange.Exchange, err error) error {
	if err == io.EOF {
		return &exchange.UpstreamError{Kind: exchange.BodyCut, Endpoint: x.Endpoint, Err: io.ErrUnexpectedEOF}
	}
	return err
}

// send writes out, of which framing bytes are none of the body.
func (c *conn) send(x *exchange.Exchange, out []byte, framing int) error {
	if len(out) == 0 {
		return nil
	}
	c.arm(c.front.cfg.Limits.WriteTime)
	if _, err := c.sock.Write(out); err != nil {
		return exchange.ErrClientGone
	}
	x.Event.BytesOut += int64(len(out) - framing)
	return nil
}

// say writes what is no answer to an exchange.
func (c *conn) say(out []byte) error {
	c.arm(c.front.cfg.Limits.WriteTime)
	defer c.arm(0)
	_, err := c.sock.Write(out)
	return err
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
