//go:build unix

package front

import (
	"net"
	"syscall"
)

// peeker returns a function that reports whether the other end of nc has closed
// or reset it; nil where nobody can tell. It takes nothing of what came.
func peeker(nc net.Conn) func() (gone bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var one [1]byte
	var n int
	look := func(fd uintptr) {
		for err = syscall.EINTR; err == syscall.EINTR; {
			n, _, err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		}
	}
	return func() bool { // of the sweeper alone
		if raw.Control(look) != nil {
			return false // closed by us
		}
		return err == nil && n == 0 || err != nil && err != syscall.EAGAIN
	}
}
