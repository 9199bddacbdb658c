package socket

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// quick is what the calls need, kept from one to the next: made for each they would
// have to be allocated.
type quick struct {
	raw     syscall.RawConn // nil: nc is to do it
	in, out half
}

// half is one direction. step is handed to the connection, which calls it again when
// there is something to read, or room.
type half struct {
	step func(fd uintptr) (done bool)
	p    []byte
	n    int
	err  syscall.Errno
	from *Buffers // of p, where it is lent for each call
}

func (q *quick) open(nc net.Conn) {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return // it is closed, which Read and Write say too
	}
	q.raw, q.in.step, q.out.step = raw, q.in.receive, q.out.send
}

// Read is the connection's Read.
func (c *Conn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.nc.Read(p)
	}
	h := &c.in
	h.p, h.n, h.err = p, 0, 0
	err := c.read()
	h.p = nil
	return h.n, err
}

// Take is Read into a buffer of from, which is lent when there is something to read and
// goes back where there was nothing. It returns the buffer where n is not 0.
func (c *Conn) Take(from *Buffers) (buf []byte, n int, err error) {
	if c.raw == nil {
		return c.take(from)
	}
	h := &c.in
	h.from, h.n, h.err = from, 0, 0
	err = c.read()
	buf, h.p, h.from = h.p, nil, nil
	return buf, h.n, err
}

func (c *Conn) read() error {
	err := c.raw.Read(c.in.step)
	switch {
	case err != nil: // a deadline, or it was closed
		return err
	case c.in.err != 0:
		return c.failed("read", "recvfrom", c.in.err)
	case c.in.n == 0:
		return io.EOF
	}
	return nil
}

// Write is the connection's Write.
func (c *Conn) Write(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.nc.Write(p)
	}
	h := &c.out
	h.p, h.n, h.err = p, 0, 0
	err := c.raw.Write(h.step)
	h.p = nil
	if err == nil && h.err != 0 {
		err = c.failed("write", "sendto", h.err)
	}
	return h.n, err
}

func (c *Conn) failed(op, call string, err syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.nc.LocalAddr(), Addr: c.nc.RemoteAddr(), Err: os.NewSyscallError(call, err)}
}

func (h *half) receive(fd uintptr) (done bool) {
	if h.from != nil {
		h.p = h.from.Lend()
	}
	h.n, h.err = receive(fd, h.p)
	if h.from != nil && h.n == 0 {
		h.from.Back(h.p)
		h.p = nil
	}
	return h.err != unix.EAGAIN
}

func (h *half) send(fd uintptr) (done bool) {
	for h.n < len(h.p) {
		n, err := send(fd, h.p[h.n:])
		h.n, h.err = h.n+n, err
		if err != 0 {
			return err != unix.EAGAIN
		}
	}
	return true
}
