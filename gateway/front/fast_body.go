package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front/h1"
)

// intake is the body of the request under way, as upload is that of net/http's: it
// demands a least rate, tells a client that left from one that sent nonsense, and can
// be interrupted. It is read by one goroutine at a time.
type intake struct {
	s        *fast
	x        *exchange.Exchange
	start    int64 // by the sweeper's clock
	n        int64 // bytes read
	left     int64 // of a length
	chunked  bool
	chunks   h1.Chunks
	stream   bool // a gRPC request
	draining bool
	over     atomic.Bool // it was read to its end
	stopped  atomic.Bool
}

// begin sets the body of x.
func (in *intake) begin(s *fast, x *exchange.Exchange) {
	length := s.head.Length
	in.over.Store(length == 0)
	if length == 0 {
		x.Request.Body.Set(nil, 0)
		return
	}
	in.s, in.x, in.start, in.n = s, x, int64(x.Event.Start.Sub(s.c.sweeper.base)), 0
	in.left, in.chunked, in.chunks = max(length, 0), length < 0, h1.Chunks{}
	in.stream, in.draining = exchange.IsGRPC(&x.Request.Head), false
	in.stopped.Store(false)
	x.Request.Body.Set(in, length)
}

// Read implements io.Reader. Its errors are those of the client: a Refusal with the
// status to tell, or ErrClientGone.
func (in *intake) Read(p []byte) (n int, err error) {
	if in.over.Load() {
		return 0, io.EOF
	}
	in.arm()
	if in.stopped.Load() {
		return 0, errInterrupted
	}
	if in.chunked {
		n, err = in.chunk(p)
	} else {
		n, err = in.some(p, in.left)
		if in.left -= int64(n); in.left == 0 {
			err = io.EOF
		}
	}
	in.n += int64(n)
	switch {
	case err == nil:
	case err == io.EOF:
		in.over.Store(true)
		_ = in.s.c.reads.until(0)
	case n > 0:
		err = nil // it comes again
	case in.stopped.Load():
		err = errInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = refuse(http.StatusRequestTimeout, "slow_body")
	case err == h1.ErrChunks:
		err = refuse(http.StatusBadRequest, "body_framing")
	default:
		err = exchange.ErrClientGone
	}
	return n, err
}

// arm bounds the wait for what is read next.
func (in *intake) arm() {
	l := &in.s.front.cfg.Limits
	by := in.start + int64(l.BodyGrace+time.Duration(in.n)*time.Second/time.Duration(l.BodyRate))
	switch {
	case in.draining:
		return
	case in.stream: // both ends speak when they like: only silence ends it
		idle := in.x.Idle
		if idle <= 0 {
			idle = streamIdle
		}
		by = in.s.c.sweeper.read() + int64(idle)
	}
	_ = in.s.c.reads.until(by)
}

// some reads at most most bytes of content, so never into the next message.
func (in *intake) some(p []byte, most int64) (int, error) {
	s := in.s
	if int64(len(p)) > most {
		p = p[:most]
	}
	if s.r < s.w {
		n := copy(p, s.buf[s.r:s.w])
		s.r += n
		return n, nil
	}
	n, err := s.c.sock.Read(p)
	return n, gone(n, err)
}

// gone tells the end of a connection from that of a body.
func gone(n int, err error) error {
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// chunk reads the data of the chunk under way, and the framing behind it as far as
// it has come: who reads the last data learns that it was the last.
func (in *intake) chunk(p []byte) (n int, err error) {
	s := in.s
	for len(p) > 0 {
		used, err := in.chunks.Next(s.buf[s.r:s.w], &in.x.Request.Trailer)
		s.r += used
		switch {
		case err != nil:
			return n, err
		case in.chunks.Over():
			return n, io.EOF
		case n > 0:
			return n, nil
		}
		if left := in.chunks.Left(); left == 0 || s.r == s.w && left < int64(len(s.buf)) {
			s.room() // the framing behind comes with the data, in one call
			got, err := s.c.sock.Read(s.buf[s.w:])
			s.w += got
			if err := gone(got, err); err != nil {
				return 0, err
			}
			continue
		}
		if n, err = in.some(p, in.chunks.Left()); err != nil {
			return n, err
		}
		in.chunks.Took(n)
	}
	return n, nil
}

// drain reads a small rest of a body that no try has asked for: the connection can
// then go on behind a refusal.
func (in *intake) drain(x *exchange.Exchange) {
	if in.over.Load() || len(x.Event.Tries) > 0 || in.left > lingerMost {
		return
	}
	in.s.patience(lingerTime)
	in.draining = true
	lent := in.s.front.buffers.Get().(*[]byte)
	defer in.s.front.buffers.Put(lent)
	for total := 0; total < lingerMost; {
		n, err := in.Read(*lent)
		if total += n; err != nil {
			return
		}
	}
}

// Interrupt implements exchange.Resumer.
func (in *intake) Interrupt() {
	in.stopped.Store(true)
	_ = in.s.c.reads.set(in.s.c.sweeper, time.Unix(1, 0))
}

// Resume implements exchange.Resumer.
func (in *intake) Resume() { in.stopped.Store(false) }
