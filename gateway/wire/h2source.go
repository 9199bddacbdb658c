package wire

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// h2source is a request's body as net/http reads it, on a goroutine of its own.
// After join it touches the exchange no more, whoever still holds it.
type h2source struct {
	x       *exchange.Exchange
	trailer http.Header // announced; filled at the end

	forced atomic.Bool // what a Read says from now on is our doing
	mu     sync.Mutex  // held while the body is read
	closed bool
	ended  bool
	done   chan struct{} // closed when nothing will be read any more

	// To be read after the join.
	err      error
	panicked any
}

func (s *h2source) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errStopped
	}
	if s.ended {
		return 0, io.EOF
	}
	defer func() {
		if s.panicked = recover(); s.panicked != nil {
			err = errStopped
			s.stop()
		}
	}()
	n, err = s.x.Request.Body.Read(p)
	switch {
	case err == io.EOF:
		for _, f := range s.x.Request.Trailer.Fields() {
			if _, announced := s.trailer[http.CanonicalHeaderKey(f.Name)]; announced {
				s.trailer.Add(f.Name, f.Value)
			}
		}
		if !s.ended && !s.closed {
			close(s.done)
		}
		s.ended = true
	case err != nil:
		if s.err = err; s.forced.Load() {
			s.err = errStopped
		}
		s.stop()
	}
	return n, err
}

// stop is called with the lock held.
func (s *h2source) stop() {
	if !s.closed && !s.ended {
		close(s.done)
	}
	s.closed = true
}

// Close is net/http's word that it reads no more. The goroutine that reads may
// wait in a Read, and is let go by whoever joins.
func (s *h2source) Close() error { return nil }

// join waits for as long as grace for the body to be at its end, and then ends
// its use by force.
func (s *h2source) join(grace time.Duration) {
	select {
	case <-s.done:
	default:
		if grace > 0 {
			timer := time.NewTimer(grace)
			select {
			case <-s.done:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
	select {
	case <-s.done:
	default:
		s.forced.Store(true)
		s.x.Request.Body.Interrupt() // where it waits to read
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && !s.closed {
		s.err = errStopped
	}
	s.stop()
}
