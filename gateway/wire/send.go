package wire

import (
	"errors"
	"io"
	"strconv"
	"time"

	"breakwater/gateway/exchange"
)

var errStopped = errors.New("the answer came first")

// Room in a sender's buffer before the data for a chunk's size, and behind it
// for the line end.
const chunkFront, chunkBack = 10, 2

// sender sends a body that is not wholly kept, while the exchange's own
// goroutine reads the answer. It touches the body, its trailers, and the
// connection's write half, and is joined before the exchange goes on.
type sender struct {
	done chan struct{}
	stop chan struct{}
	// To be read after the join.
	sourceErr error // reading the client's body failed
	writeErr  error // writing to the upstream failed
	panicked  any
	all       bool // the last byte is out
}

func startSender(c *conn, x *exchange.Exchange) *sender {
	s := &sender{done: make(chan struct{}), stop: make(chan struct{})}
	x.Request.Body.Resume()
	go s.run(c, x)
	return s
}

func (s *sender) run(c *conn, x *exchange.Exchange) {
	defer close(s.done)
	defer func() {
		if s.panicked = recover(); s.panicked != nil || s.sourceErr != nil {
			// Nobody may take what was sent for a whole request, and the reader
			// has nothing to wait for.
			c.Interrupt()
		}
	}()
	body := &x.Request.Body
	chunked := body.Length < 0
	const front, back = chunkFront, chunkBack
	lent := c.pool.buffers.Get().(*[]byte)
	defer c.pool.buffers.Put(lent)
	buf := *lent
	for {
		select {
		case <-s.stop:
			s.sourceErr = errStopped
			return
		default:
		}
		n, err := body.Read(buf[front : len(buf)-back])
		if n > 0 {
			out := buf[front : front+n]
			if chunked {
				size := strconv.AppendInt(buf[:0:front], int64(n), 16)
				size = append(size, '\r', '\n')
				start := front - len(size)
				copy(buf[start:front], size)
				out = append(buf[start:front+n], '\r', '\n')
			}
			if s.write(c, out); s.writeErr != nil {
				return
			}
		}
		if err == io.EOF {
			if chunked {
				s.write(c, appendLastChunk(nil, &x.Request.Trailer))
			}
			if s.all = s.writeErr == nil; s.all {
				c.awaitHead(x)
			}
			return
		}
		if err != nil {
			s.sourceErr = err
			return
		}
	}
}

func (s *sender) write(c *conn, out []byte) {
	var n int
	n, s.writeErr = c.nc.Write(out)
	c.written += uint64(n)
}

// join waits until the sender has ended, for as long as grace of its own accord
// and then by force. It reports whether the whole body went out.
func (s *sender) join(c *conn, x *exchange.Exchange, grace time.Duration) bool {
	select {
	case <-s.done:
		return s.all
	default:
	}
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-s.done:
			return s.all
		case <-timer.C:
		}
	}
	close(s.stop)
	c.Interrupt() // where it waits to write
	x.Request.Body.Interrupt()
	<-s.done
	if s.panicked == nil {
		s.sourceErr = errStopped // what broke was our doing
	}
	return false
}
