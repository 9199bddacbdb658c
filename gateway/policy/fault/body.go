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
// reads it, and reports whether that can have an effect.
func (i *injector) changeBody(x *exchange.Exchange, h hit) bool {
	r, c := &x.Response, h.cell
	switch c.Kind {
	case Body:
		if bodiless(x) {
			return false
		}
		r.Head.Del("Content-Encoding")
		if r.Body != nil {
			_ = r.Body.Close() // what the upstream said is not wanted
		}
		r.Trailer.Reset()
		c.fill(r)
		return true
	case Truncate:
		return i.truncate(x, c)
	}
	if r.Body == nil || r.Tunnel != nil || bodiless(x) {
		return false
	}
	switch c.Kind {
	case Corrupt:
		r.Body = &corrupt{ReadCloser: r.Body, injector: i, cell: c, dice: h.hash}
	case Drip:
		r.Body = &drip{ReadCloser: r.Body, injector: i, cell: c, x: x}
	}
	return true
}

// bodiless reports whether the answer of x has no body by its status or method
// (RFC 9110 section 6.4.1).
func bodiless(x *exchange.Exchange) bool {
	status := x.Response.Status
	return x.Request.Method == "HEAD" || status == 204 || status == 304 || status < 200
}

// truncate ends the body after a number of bytes, or after a share of its length
// on the wire; a share of a length that nobody knows cannot be taken.
func (i *injector) truncate(x *exchange.Exchange, c *cell) bool {
	r := &x.Response
	if r.Body == nil || r.Tunnel != nil || bodiless(x) || r.Length == 0 {
		return false
	}
	keep := c.Bytes
	if c.PPMOfBody > 0 {
		if r.Length < 0 {
			i.table.missed.Add(1)
			return false
		}
		hi, lo := bits.Mul64(uint64(r.Length), uint64(c.PPMOfBody))
		q, _ := bits.Div64(hi, lo, 1_000_000)
		keep = int64(q)
	}
	if r.Length >= 0 && keep >= r.Length {
		return false
	}
	t := &truncate{ReadCloser: r.Body, injector: i, cell: c, left: keep, endpoint: x.Endpoint}
	if c.Clean && r.Length >= 0 {
		// The length is promised with the head: from here on the body ends there,
		// whether the fault lives on or not.
		r.Length, t.promised = keep, true
	}
	r.Body = t
	return true
}

type truncate struct {
	io.ReadCloser
	injector *injector
	cell     *cell
	left     int64
	promised bool
	endpoint string
}

func (t *truncate) Read(p []byte) (int, error) {
	if !t.promised && !t.injector.alive(t.cell) {
		return t.ReadCloser.Read(p)
	}
	if t.left <= 0 {
		if t.cell.Clean {
			return 0, io.EOF
		}
		return 0, &exchange.UpstreamError{Kind: exchange.BodyCut, Endpoint: t.endpoint, Err: errCut}
	}
	n, err := t.ReadCloser.Read(p[:min(int64(len(p)), t.left)])
	t.left -= int64(n)
	return n, err
}

// corrupt flips one bit in a share of the bytes. Which, hangs on the unit alone.
type corrupt struct {
	io.ReadCloser
	injector *injector
	cell     *cell
	dice     uint64
}

func (c *corrupt) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if !c.injector.alive(c.cell) {
		return n, err
	}
	for i := range p[:n] {
		c.dice += 0x9e3779b97f4a7c15
		if h := mix(c.dice); under(h, c.cell.PPMOfBody) {
			p[i] ^= 1 << (h & 7)
		}
	}
	return n, err
}

// drip lets the body through at a rate, in pieces of a tenth of a second.
type drip struct {
	io.ReadCloser
	injector *injector
	cell     *cell
	x        *exchange.Exchange
	began    time.Time
	sent     int64
}

func (d *drip) Read(p []byte) (int, error) {
	if !d.injector.alive(d.cell) {
		return d.ReadCloser.Read(p)
	}
	if d.began.IsZero() {
		d.began = clock()
	}
	rate := d.cell.BytesPerSecond
	piece := min(int64(len(p)), max(rate/10, 1))
	// When the last byte of the piece may be there, at the rate from the start.
	due := d.sent + piece
	ready := d.began.Add(time.Duration(due/rate)*time.Second + time.Duration(due%rate*int64(time.Second)/rate))
	if wait := ready.Sub(clock()); wait > 0 {
		if _, err := d.injector.sleep(d.x, d.cell, wait); err != nil {
			return 0, err
		}
	}
	n, err := d.ReadCloser.Read(p[:piece])
	d.sent += int64(n)
	return n, err
}
