package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// spliceMin is from which rest on a body goes from socket to socket inside the
// kernel. Below it the two system calls more cost what the copies do.
const spliceMin = 32 << 10

// Spliceable reports whether SendTo may be called and is worth it: so much is
// still to come, of a known length, and none of it has been read.
func (b *body) Spliceable() bool {
	if b.err != nil || b.kind != byLength || b.left < spliceMin || b.c.r < b.c.w {
		return false
	}
	_, ok := b.c.nc.(*net.TCPConn)
	return ok
}

// SendTo passes at most most bytes of the body on to w, which is Read into a
// buffer and Write in one: where w ends in a TCP connection, they are never copied
// into this process. Like Read it returns io.EOF at the end, and an
// *exchange.UpstreamError for what is not w's fault; any other error is w's.
func (b *body) SendTo(w io.ReaderFrom, most int64) (int64, error) {
	if b.err != nil {
		return 0, b.err
	}
	if err := b.arm(); err != nil {
		b.err = b.cut(err)
		return 0, b.err
	}
	b.c.exact()
	piece := min(most, b.left)
	b.piece = io.LimitedReader{R: b.c.nc, N: piece}
	n, err := w.ReadFrom(&b.piece)
	b.left -= n
	switch {
	case err == nil && n < piece:
		err = io.ErrUnexpectedEOF
	case err == nil && b.left == 0:
		b.err = io.EOF
		b.c.release(b.x)
		b.c = nil
		return n, io.EOF
	case err == nil:
		return n, nil
	default:
		if b.blameless() {
			return n, err
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = os.ErrDeadlineExceeded
		} else if !errors.Is(err, syscall.ECONNRESET) {
			err = io.ErrUnexpectedEOF
		}
	}
	b.err = b.cut(err)
	return n, b.err
}

// blameless reports, after a failed SendTo, that it was not the upstream: the
// kernel names an error and not the end that it came from. An upstream that is
// well has bytes to read, or none yet; one that failed has come to its end.
func (b *body) blameless() bool {
	if b.x.Cause() != nil {
		return false
	}
	if deadline, ok := b.x.Deadline(); ok && !time.Now().Before(deadline) {
		return false
	}
	b.c.setReadDeadline(time.Now().Add(time.Millisecond))
	b.until = time.Time{}
	_, err := b.c.nc.Read(b.c.buf[:1]) // the connection is of no use any more
	b.c.keep = false
	return err == nil || timeout(err)
}
