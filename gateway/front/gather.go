package front

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"

	"breakwater/gateway/internal/arrival"
)

// net/http keeps a deep stack and two buffers of 4 KiB for each connection, from
// its first moment. What trickles in is therefore gathered before, where it costs
// a third: a connection is net/http's when its first head is whole.
const (
	gatherFirst = 1 << 10 // most heads fit in
	gatherMost  = 4 << 10 // whoever sent so much has paid for the rest
)

// gather reads until net/http can judge what came, and keeps it for Read. It
// reports false where there is nothing to judge and nobody to be answered.
func (c *conn) gather() bool {
	if c.secure && c.shake() != nil {
		return false
	}
	buf, line, done := c.front.heads.Lend()[:0], 0, false
	for {
		n, err := c.receive(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		line, done = judge(buf, line)
		if done || len(buf) == gatherMost || err == io.EOF && len(buf) > 0 {
			c.early = buf
			return true
		}
		if err != nil { // the time of a head is over, mostly
			return false
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(2*cap(buf), gatherMost)), buf...)
		}
	}
}

func (f *Front) timed() bool { return f.cfg.Timed != nil && f.cfg.Timed() }

// receive reads a part of a head, and notes how late where somebody wants to know.
func (c *conn) receive(p []byte) (n int, err error) {
	if !c.timed() {
		return c.sock.Read(p)
	}
	n, c.late, err = c.stamps.Read(p, c.since)
	return n, err
}

// timed reports whether somebody wants to know how late what is read next is, and has
// the kernel begin to stamp for that, or end.
func (c *conn) timed() bool {
	c.late = 0
	switch timed := c.front.timed(); {
	case timed && c.stamps == nil:
		c.stamps = arrival.New(c.Conn)
		return true
	case !timed && c.stamps != nil:
		c.stamps.Stop()
		return false
	default:
		return timed
	}
}

// judge looks at the lines of p from the one that begins at from, and returns the
// beginning of the one that is under way. done says that p is a whole head of
// HTTP/1, or surely none: another protocol, or one to be refused.
func judge(p []byte, from int) (next int, done bool) {
	for {
		end := bytes.IndexByte(p[from:], '\n')
		if end < 0 {
			return from, false
		}
		line := bytes.TrimSuffix(p[from:from+end], []byte("\r")) // net/http takes a bare line feed too
		if from == 0 {
			done = !bytes.HasSuffix(line, []byte(" HTTP/1.1")) && !bytes.HasSuffix(line, []byte(" HTTP/1.0"))
		} else {
			done = bytes.IndexByte(line, ':') < 0 // the empty line, or a mistake
		}
		if from += end + 1; done {
			return from, true
		}
	}
}

// take reads what was gathered, and then what comes.
func (c *conn) take(p []byte) (int, error) {
	if c.early == nil {
		return c.Conn.Read(p)
	}
	n := copy(p, c.early)
	if c.early = c.early[n:]; len(c.early) == 0 {
		c.early = nil
	}
	return n, nil
}

// SetReadDeadline implements net.Conn. The first one is net/http's for the first
// head, whose time has begun before.
func (c *conn) SetReadDeadline(t time.Time) error {
	if !c.due.IsZero() {
		if t.After(c.due) {
			t = c.due
		}
		c.due = time.Time{}
	}
	if c.kind.Load() != http1 {
		return c.Conn.SetReadDeadline(t)
	}
	return c.reads.set(c.sweeper, t)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if c.kind.Load() != http1 {
		return c.Conn.SetWriteDeadline(t)
	}
	return c.writes.set(c.sweeper, t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// accept takes connections until the listener is closed.
func (l *listener) accept() {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			// The server waits a while after each, so this does not spin.
			select {
			case l.failed <- err:
				continue
			case <-l.done:
				return
			}
		}
		if c := l.take(nc); c != nil {
			l.all.Add(1)
			go l.begin(c)
		}
	}
}

// begin hands c over when its head has come, and closes it when none will, or the
// fast face is through with it.
func (l *listener) begin(c *conn) {
	whole := l.hold(c) && c.gather()
	l.mu.Lock()
	delete(l.held, c)
	l.mu.Unlock()
	l.all.Done() // what follows is waited for by Drain
	if whole && c.quick {
		s := newFast(c, &l.ending)
		whole = l.front.quick.add(s) && s.serve()
		l.front.quick.remove(s)
	}
	if whole {
		select {
		case l.ready <- c:
			return
		case <-l.done:
		}
	}
	_ = c.Close() // there is nobody to be told
}

// hold starts the time of c's head. It reports false when the listener is closed.
func (l *listener) hold(c *conn) bool {
	c.due = time.Now().Add(l.front.cfg.Limits.HeadTime)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.held[c] = struct{}{}
	return c.Conn.SetReadDeadline(c.due) == nil
}

// Close implements net.Listener. Who has not sent a head by now is cut, as
// net/http itself does.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.closed = true
	l.ending.Store(true)
	close(l.done)
	for c := range l.held {
		_ = c.Conn.SetDeadline(time.Unix(1, 0)) // its gatherer closes it
	}
	l.mu.Unlock()
	l.front.quick.each(func(m member) { // nothing is lost: they wait for a request
		if s := m.(*fast); s.ending == &l.ending && s.resting.Load() {
			_ = s.c.reads.set(s.c.sweeper, time.Unix(1, 0))
		}
	})
	l.all.Wait()
	return err
}
