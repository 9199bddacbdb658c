package front

import (
	"errors"
	"io"
	"net/http"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front/h1"
)

// write sends the answer in x past net/http: its fields go out as they came, and the
// head and what there is of the body in one write. last says that the connection
// ends behind it.
func (f *Front) write(x *exchange.Exchange, c *conn, last bool) error {
	res, length := &x.Response, x.Response.Length
	bodiless := x.Request.Method == http.MethodHead || res.Status == http.StatusNoContent || res.Status == http.StatusNotModified
	switch { // RFC 9112 section 6.3, rule 1, and RFC 9110 section 8.6
	case res.Status == http.StatusNoContent, res.Status == http.StatusNotModified, bodiless && length < 0:
		length = h1.NoBody // a 304 may name one, and there are clients that wait for it
	case !bodiless && res.Body == nil:
		length = 0
	case length < 0:
		length = h1.InChunks
	}
	pool := &f.buffers
	if length >= 0 && length <= smallAnswer {
		pool = &f.small
	}
	lent := pool.Get().(*[]byte)
	defer pool.Put(lent)
	out := h1.AppendHead((*lent)[:0], res.Status, &res.Head, f.date.text(x.HeadAt), length, last)
	defer c.arm(0)
	switch {
	case bodiless || res.Body == nil:
		return c.send(x, out, len(out))
	case length == h1.InChunks:
		return f.stream(x, c, out, *lent)
	}
	return f.whole(x, c, out, *lent, length)
}

// smallAnswer is up to which size an answer is sent from a small buffer.
const smallAnswer = 3 << 10

// whole sends out and the body behind it, which has length bytes.
func (f *Front) whole(x *exchange.Exchange, c *conn, out, buf []byte, length int64) error {
	res, head := &x.Response, len(out)
	if cap(out)-len(out) < 512 { // a head that nearly fills the buffer goes alone
		if err := c.send(x, out, head); err != nil {
			return err
		}
		out, head = buf[:0], 0
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
		out, head = buf[:0], 0
		if err != nil && left > 0 {
			return short(x, err)
		}
	}
	if err := c.send(x, out, head); err != nil { // a head without anything behind
		return err
	}
	switch n, err := res.Body.Read(buf[:1]); {
	case n > 0:
		return short(x, io.EOF) // or longer than was said
	case err != io.EOF:
		return err
	}
	return nil
}

// stream sends out and the body behind it, whose length nobody knows, in chunks as
// it comes (RFC 9112 section 7.1): it may be one that never ends. The head goes
// before, where the body is not there yet. What is cut gets no last chunk.
func (f *Front) stream(x *exchange.Exchange, c *conn, out, buf []byte) error {
	body := x.Response.Body
	if !ready(body) || cap(out)-len(out) < 512 {
		if err := c.send(x, out, len(out)); err != nil {
			return err
		}
		out = buf[:0]
	}
	for {
		head := len(out)
		from := head + h1.SizeRoom
		n, err := body.Read(out[from : cap(out)-len("\r\n0\r\n\r\n")])
		if n > 0 {
			at := head + h1.PutSize(out[head:from], n)
			copy(out[at-head:at], out[:head]) // up to where the chunk begins
			piece := append(out[at-head:from+n], "\r\n"...)
			if err == nil && over(body) {
				_, err = body.Read(out[:1:1]) // in front of piece; it says that this was all
			}
			if err == io.EOF {
				piece = h1.AppendLast(piece, &x.Response.Trailer)
			}
			if serr := c.send(x, piece, len(piece)-n); serr != nil || err == io.EOF {
				return serr
			}
			out = buf[:0]
		}
		switch {
		case err == nil:
			continue
		case err == io.EOF, streamOver(x, err):
			out = h1.AppendLast(out, &x.Response.Trailer)
			return c.send(x, out, len(out))
		}
		if serr := c.send(x, out, len(out)); serr != nil {
			return serr
		}
		return err
	}
}

// over reports whether the body's last chunk has come with what was read.
func over(body io.Reader) bool {
	b, ok := body.(interface{ Over() bool })
	return ok && b.Over()
}
