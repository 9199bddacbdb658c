// Package socket reads and writes TCP connections at the price of the system call.
//
// Go's scheduler is told before and after each call that it may block, and a thread of
// its own looks each 20 us whether one does, to give what waits behind it to another.
// A call on a socket that does not block is over when the kernel has copied. On the
// same machine that may be more than 20 us, since the kernel delivers the bytes at
// once: then the goroutine comes back to find itself without a processor. So the
// scheduler is not told of these calls, as it is not of memory that has to be fetched,
// and a goroutine with nothing to read, or no room to write, waits for it as ever.
// The price is that a collection that wants the world to stop waits for the call.
package socket

import "net"

// Conn reads and writes one connection. One goroutine at a time may read and one write,
// others set deadlines and close it meanwhile, and the connection itself may be read
// and written in turn.
type Conn struct {
	nc net.Conn
	quick
}

// New returns a Conn of nc. It is of use for a *net.TCPConn on Linux; what else it is
// given it reads and writes all the same.
func New(nc net.Conn) *Conn {
	c := &Conn{nc: nc}
	c.open(nc)
	return c
}

// take reads into a buffer that is lent for as long as that takes.
func (c *Conn) take(from *Buffers) (buf []byte, n int, err error) {
	buf = from.Lend()
	if n, err = c.nc.Read(buf); n == 0 {
		from.Back(buf)
		buf = nil
	}
	return buf, n, err
}
