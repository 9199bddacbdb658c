// Package wire is the upstream side of HTTP/1.1: a pool of connections and one
// attempt on one of them. It is strict in what it takes for an answer, and never
// sends a request twice that an upstream may have acted on.
package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"breakwater/gateway/exchange"
)

// Config shapes a Pool.
type Config struct {
	// Dial opens a connection; nil: an ordinary net.Dialer.
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	ConnectTimeout time.Duration // 0: 2 s
	// HeaderTimeout is how long an answer's head may take once the request is
	// wholly sent; 0: as long as the deadline allows.
	HeaderTimeout time.Duration
	MaxIdle       int           // idle connections per endpoint; 0: 128
	IdleTimeout   time.Duration // how long one may be idle; 0: 90 s
	// StreamIdle is the longest silence of an answer that has no deadline; 0: 5 min.
	StreamIdle time.Duration
	MaxHead    int // bytes of an answer's head; 0: 64 KiB
	// Timed reports whether somebody wants to know how late answers are taken up
	// (Exchange.Late), which costs a little; nil: nobody does.
	Timed func() bool
}

func (c Config) filled() Config {
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	c.ConnectTimeout = or(c.ConnectTimeout, 2*time.Second)
	c.IdleTimeout = or(c.IdleTimeout, 90*time.Second)
	c.StreamIdle = or(c.StreamIdle, 5*time.Minute)
	c.MaxIdle = or(c.MaxIdle, 128)
	c.MaxHead = or(c.MaxHead, 64<<10)
	return c
}

func or[T int | time.Duration](v, standard T) T {
	if v <= 0 {
		return standard
	}
	return v
}

// Serve makes one attempt at x.Endpoint. It is the innermost exchange.Service.
func (p *Pool) Serve(x *exchange.Exchange) error {
	for fresh := false; ; fresh = true {
		if cause := x.Cause(); cause != nil {
			return failed(x, exchange.Canceled, cause)
		}
		c, err := p.get(x, fresh)
		if err != nil {
			return err
		}
		again, err := c.roundTrip(x)
		// A connection that had been idle and is proven to have taken nothing of
		// the request was closed before it: nobody at the other end ever saw it, so
		// this is the same attempt and not a second one.
		if again && c.reused && !fresh && x.Request.Body.Rewind() == nil {
			continue
		}
		return err
	}
}

// roundTrip sends x and reads the head of the answer; c has x's deadline. again
// is proof that the other end took nothing of the request.
func (c *conn) roundTrip(x *exchange.Exchange) (again bool, err error) {
	if cause := x.Waiting(c); cause != nil {
		c.drop(x)
		return false, failed(x, exchange.Canceled, cause)
	}
	kept, whole := x.Request.Body.Kept()
	whole = whole || x.Request.Body.Empty()
	if err := c.appendHead(x); err != nil {
		c.drop(x)
		return false, err
	}
	if whole {
		c.appendKept(x, kept)
	}
	before := c.written
	if !whole {
		c.exact() // the sender and the reader would both put it off
	}
	n, writeErr := c.write(c.out)
	c.written += uint64(n)
	switch {
	case writeErr != nil && n == 0 && !timeout(writeErr):
		c.drop(x)
		ue := failed(x, exchange.Write, writeErr)
		ue.Unprocessed = true
		return true, ue
	case writeErr == nil && whole:
		c.awaitHead(x)
	case writeErr == nil:
		c.send = startSender(c, x)
	}
	// A failed write may have an answer waiting behind it: an upstream that says
	// 413 and closes. What reading yields decides.
	err = c.readHead(x)
	c.headCame()
	if err == nil {
		return false, nil
	}
	untaken := whole && c.reused && !c.gotBytes && err == io.EOF && x.Cause() == nil && c.untaken(x, before)
	c.drop(x)
	x.Response.Head.Reset()
	err = c.explain(x, err, writeErr)
	if ue, ok := err.(*exchange.UpstreamError); ok && untaken {
		ue.Unprocessed = true
	}
	return untaken, err
}

// explain gives an error of reading the head its kind; c has been dropped, so
// the sender has stopped.
func (c *conn) explain(x *exchange.Exchange, err, writeErr error) error {
	if c.send != nil {
		if c.send.panicked != nil {
			panic(c.send.panicked) // on the goroutine where it is rescued
		}
		if c.send.sourceErr != nil && !errors.Is(c.send.sourceErr, errStopped) {
			return c.send.sourceErr // the client's own: a cut upload, bad chunks, too slow
		}
		writeErr = c.send.writeErr
	}
	if cause := x.Cause(); cause != nil {
		return failed(x, exchange.Canceled, cause)
	}
	if bad, ok := errors.AsType[badResponse](err); ok {
		return failed(x, exchange.BadResponse, bad)
	}
	switch {
	case timeout(err) && !c.head.until.IsZero():
		return failed(x, exchange.HeaderTimeout, context.DeadlineExceeded)
	case timeout(err):
		return failed(x, exchange.Canceled, context.DeadlineExceeded)
	case c.gotBytes:
		return failed(x, exchange.ResetAfterFirst, err)
	case writeErr != nil:
		return failed(x, exchange.Write, writeErr)
	}
	return failed(x, exchange.ResetBeforeFirst, err)
}

func failed(x *exchange.Exchange, kind exchange.Kind, err error) *exchange.UpstreamError {
	return &exchange.UpstreamError{Kind: kind, Endpoint: x.Endpoint, Err: err}
}

func timeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// badResponse says what was wrong with an answer.
type badResponse string

func (b badResponse) Error() string { return string(b) }

// cut turns the end of a connection in the middle of something into what it is.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
