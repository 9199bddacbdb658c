package fault

import (
	"errors"
	"io"
	"math/bits"
	"time"

	"breakwater/gateway/exchange"
)

var errCut = errors.New("injected: body cut")

// changeBody puts what the fault does between the answer's body and whoever
// reads it. Only what had an effect is counted as injected: for some that shows as
// late as while the body is read.
func (i *injector) changeBody(x *exchange.Exchange, d *due, h hit) {
	r, c := &x.Response, h.cell
	if bodiless(x) || r.Tunnel != nil {
		return
	}
	if c.Kind == Body {
		i.touch(x, d, c)
		r.Head.Del("Content-Encoding")
		if r.Body != nil {
			_ = r.Body.Close() // what the upstream said is not wanted
		}
		r.Trailer.Reset()
		c.fill(r)
		return
	}
	if r.Body == nil || r.Length == 0 {
		return
	}
	w := worn{ReadCloser: r.Body, injector: i, hit: h, x: x, due: d}
	switch c.Kind {
	case Truncate:
		i.truncate(w)
	case Corrupt:
		r.Body = &corrupt{worn: w}
	case Drip:
		r.Body = &drip{worn: w}
	}
}

// worn is a body under a fault.
type worn struct {
	io.ReadCloser
	injector *injector
	hit      hit
	x        *exchange.Exchange
	due      *due
	told     bool
}

func (w *worn) alive() bool { return w.injector.alive(w.hit.cell) }

// effect notes, once, that the fault has had one.
func (w *worn) effect() {
	if !w.told {
		w.told = true
		w.injector.touch(w.x, w.due, w.hit.cell)
	}
}

// bodiless reports whether the answer of x has no body by its status or method
// (RFC 9110 section 6.4.1).
func bodiless(x *exchange.Exchange) bool {
	status := x.Response.Status
	return x.Request.Method == "HEAD" || status == 204 || status == 304 || status < 200
}

// truncate ends the body after a number of bytes, or after a share of its length
// on the wire; a share of a length that nobody knows cannot be taken.
func (i *injector) truncate(w worn) {
	r, c := &w.x.Response, w.hit.cell
	keep := c.Bytes
	if c.PPMOfBody > 0 {
		if r.Length < 0 {
			i.table.missed.Add(1)
			return
		}
		hi, lo := bits.Mul64(uint64(r.Length), uint64(c.PPMOfBody))
		q, _ := bits.Div64(hi, lo, 1_000_000)
		keep = int64(q)
	}
	t := &truncate{worn: w, left: keep, endpoint: w.x.Endpoint}
	if r.Length >= 0 {
		if keep >= r.Length {
			return
		}
		t.effect()
		if c.Clean {
			// The length is promised with the head: from here on the body ends there,
			// whether the fault lives on or not.
			r.Length, t.promised = keep, true
		}
	}
	r.Body = t
}

type truncate struct {
	worn
	left     int64
	promised bool
	endpoint string
	over     bool // it was cut
}

func (t *truncate) Read(p []byte) (int, error) {
	if len(p) == 0 || !t.promised && !t.over && !t.alive() {
		return t.ReadCloser.Read(p)
	}
	if t.left > 0 {
		n, err := t.ReadCloser.Read(p[:min(int64(len(p)), t.left)])
		t.left -= int64(n)
		return n, err
	}
	if !t.told {
		// A body that ends just here by itself is not cut.
		if n, err := t.ReadCloser.Read(p[:1]); n == 0 {
			return 0, err
		}
		t.effect()
	}
	t.over = true
	if t.hit.Clean {
		return 0, io.EOF
	}
	return 0, &exchange.UpstreamError{Kind: exchange.BodyCut, Endpoint: t.endpoint, Err: errCut}
}

// corrupt flips one bit in a share of the bytes. Which, hangs on the unit alone.
type corrupt struct {
	worn
	at uint64 // bytes that have gone by
}

func (c *corrupt) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	alive := c.alive()
	for i := range p[:n] {
		c.at++
		if h := mix(c.hit.hash + c.at*0x9e3779b97f4a7c15); alive && under(h, c.hit.PPMOfBody) {
			p[i] ^= 1 << (h & 7)
			c.effect()
		}
	}
	return n, err
}

// drip lets the body through at a rate, in pieces of a tenth of a second.
type drip struct {
	worn
	began time.Time
	sent  int64
	free  bool // there was no room for one more that sleeps
}

func (d *drip) Read(p []byte) (int, error) {
	if d.free || len(p) == 0 || !d.alive() {
		return d.ReadCloser.Read(p)
	}
	if !d.injector.table.enter() {
		// From here on it goes as fast as it can, so that one body is one miss.
		d.free = true
		d.injector.table.missed.Add(1)
		return d.ReadCloser.Read(p)
	}
	defer d.injector.table.leave()
	if d.began.IsZero() {
		d.began = clock()
	}
	d.effect()
	rate := d.hit.BytesPerSecond
	piece := min(int64(len(p)), max(rate/10, 1))
	// When the last byte of the piece may be there, at the rate from the start.
	due := d.sent + piece
	ready := d.began.Add(time.Duration(due/rate)*time.Second + time.Duration(due%rate*int64(time.Second)/rate))
	if wait := ready.Sub(clock()); wait > 0 {
		if _, err := d.injector.sleep(d.x, d.hit.cell, wait); err != nil {
			return 0, err
		}
	}
	n, err := d.ReadCloser.Read(p[:piece])
	d.sent += int64(n)
	return n, err
}
