package socket

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

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
	err := c.raw.Read(h.step)
	h.p = nil
	switch {
	case err != nil: // a deadline, or it was closed
		return 0, err
	case h.err != 0:
		return 0, c.failed("read", "recvfrom", h.err)
	case h.n == 0:
		return 0, io.EOF
	}
	return h.n, nil
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
	n, err := call(unix.SYS_RECVFROM, fd, h.p, 0)
	h.n, h.err = n, err
	return err != unix.EAGAIN
}

func (h *half) send(fd uintptr) (done bool) {
	for h.n < len(h.p) {
		n, err := call(unix.SYS_SENDTO, fd, h.p[h.n:], unix.MSG_NOSIGNAL)
		h.n, h.err = h.n+n, err
		if err != 0 {
			return err != unix.EAGAIN
		}
	}
	return true
}

// call makes a system call on p, which is not empty, and on a descriptor that does not
// block: it is made again where a signal came between (signal(7)).
func call(trap, fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, err := syscall.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0)
		switch err {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}
