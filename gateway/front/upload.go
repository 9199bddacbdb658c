package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// upload is the client's body. It demands a least rate, tells a client that left
// from one that sent nonsense, and can be interrupted.
type upload struct {
	limits  *Limits
	x       *exchange.Exchange
	r       *http.Request
	rc      *http.ResponseController
	start   time.Time
	n       int64
	armed   time.Time // the read deadline in force
	stream  bool      // a gRPC request
	stopped atomic.Bool
}

var errInterrupted = errors.New("upload interrupted")

// Read implements io.Reader. Its errors are those of the client: a Refusal with
// the status to tell, or ErrClientGone.
func (u *upload) Read(p []byte) (int, error) {
	due := u.start.Add(u.limits.BodyGrace + time.Duration(u.n)*time.Second/time.Duration(u.limits.BodyRate))
	if u.stream { // both ends speak when they like: only silence ends it
		idle := u.x.Idle
		if idle <= 0 {
			idle = streamIdle
		}
		due = time.Now().Add(idle)
	}
	if due.Sub(u.armed) > time.Second {
		_ = u.rc.SetReadDeadline(due) // not to be had with every writer; then nothing bounds the read
		u.armed = due
	}
	if u.stopped.Load() {
		return 0, errInterrupted
	}
	n, err := u.r.Body.Read(p)
	u.n += int64(n)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		// The server watches the connection from here on; a deadline left over
		// would look to it like a client that went away.
		_ = u.rc.SetReadDeadline(time.Time{})
		for name, values := range u.r.Trailer {
			for _, v := range values {
				if exchange.TrailerAllowed(name) {
					u.x.Request.Trailer.Add(name, v)
				}
			}
		}
		return n, io.EOF
	case u.stopped.Load():
		return n, errInterrupted
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, refuse(http.StatusRequestTimeout, "slow_body")
	case errors.Is(err, io.ErrUnexpectedEOF), u.r.Context().Err() != nil:
		return n, exchange.ErrClientGone
	}
	return n, refuse(http.StatusBadRequest, "body_framing")
}

// Interrupt implements exchange.Resumer.
func (u *upload) Interrupt() {
	u.stopped.Store(true)
	_ = u.rc.SetReadDeadline(time.Unix(1, 0))
}

// Resume implements exchange.Resumer. From here on the body may be read while
// the answer is written.
func (u *upload) Resume() {
	_ = u.rc.EnableFullDuplex() // an error: the writer is no HTTP/1 connection and needs none
	u.stopped.Store(false)
	u.armed = time.Time{}
}
