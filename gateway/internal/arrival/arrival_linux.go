package arrival

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// stamped is what a stamped read needs, kept from one to the next.
type stamped struct {
	on   bool // the kernel was asked to stamp
	look func(fd uintptr) (done bool)
	p    []byte
	n    int
	at   time.Time // by the wall clock; zero: no stamp
	err  error
	oob  [64]byte
}

// Read is the connection's Read. late is the time between the arrival of the last of
// the n bytes and now, as far as it passed since the instant of that name, if that is
// one: what came before had to wait for something else. It is 0 where it is not known.
func (r *Reader) Read(p []byte, since time.Time) (n int, late time.Duration, err error) {
	if r.raw == nil || len(p) == 0 {
		n, err = r.nc.Read(p)
		return n, 0, err
	}
	if !r.on {
		r.stamp(1)
		r.look = r.receive
	}
	r.p = p
	err = r.raw.Read(r.look)
	r.p = nil
	switch {
	case err != nil: // a deadline, or it was closed
		return 0, 0, err
	case r.err != nil:
		return 0, 0, &net.OpError{Op: "read", Net: "tcp", Source: r.nc.LocalAddr(), Addr: r.nc.RemoteAddr(), Err: os.NewSyscallError("recvmsg", r.err)}
	case r.n == 0:
		return 0, 0, io.EOF
	case r.at.IsZero():
		return r.n, 0, nil
	}
	now := time.Now()
	return r.n, within(now.Sub(r.at), now, since), nil
}

// Stop has the kernel stamp no more: it costs it something for each packet.
func (r *Reader) Stop() {
	if r.on {
		r.stamp(0)
	}
}

func (r *Reader) stamp(on int) {
	r.on = on == 1
	_ = r.raw.Control(func(fd uintptr) { // an error: it is closed, which Read says too
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, on) // as old as Linux 2.6.22; without it nothing is late
	})
}

// receive is handed to raw.Read, which calls it again when there is something to read.
func (r *Reader) receive(fd uintptr) (done bool) {
	var oobn int
	for r.err = unix.EINTR; errors.Is(r.err, unix.EINTR); {
		r.n, oobn, _, _, r.err = unix.Recvmsg(int(fd), r.p, r.oob[:], 0)
	}
	if r.err == unix.EAGAIN {
		return false
	}
	r.at = time.Time{}
	if r.err == nil {
		r.at = stampOf(r.oob[:max(oobn, 0)])
	}
	return true
}

// stampOf reads the kernel's stamp out of control messages (socket(7), SO_TIMESTAMPNS).
// Nothing else was asked for, so it is the first one. It allocates nothing.
func stampOf(oob []byte) time.Time {
	if len(oob) < unix.SizeofCmsghdr { // which ParseOne takes for granted
		return time.Time{}
	}
	head, at, _, err := unix.ParseOneSocketControlMessage(oob)
	if err != nil || head.Level != unix.SOL_SOCKET || head.Type != unix.SCM_TIMESTAMPNS || len(at) != 16 {
		return time.Time{} // a machine of 32 bits has others
	}
	return time.Unix(int64(binary.NativeEndian.Uint64(at)), int64(binary.NativeEndian.Uint64(at[8:])))
}
