// Package arrival reads from connections and tells how long what was read had been
// there: the time between the kernel taking it in and the program coming to run. An
// injected latency counts from the former, so that a busy machine does not add its
// own to it.
package arrival

import (
	"net"
	"syscall"
	"time"
)

// Reader reads from one connection. It is for one goroutine at a time, and may read
// in turn with others who use the connection itself.
type Reader struct {
	nc  net.Conn
	raw syscall.RawConn // nil: nobody can tell
	stamped
}

// New returns a Reader of nc. It is of use for a *net.TCPConn on Linux; what else it
// is given it reads all the same.
func New(nc net.Conn) *Reader {
	r := &Reader{nc: nc}
	if sc, ok := nc.(*net.TCPConn); ok {
		r.raw, _ = sc.SyscallConn() // an error: it is closed, which Read says too
	}
	return r
}

// within keeps late between nothing and the time since the instant of that name, where
// it is one: the wall clock may have been set.
func within(late time.Duration, now, since time.Time) time.Duration {
	if late = max(late, 0); !since.IsZero() {
		late = min(late, max(now.Sub(since), 0))
	}
	return late
}
