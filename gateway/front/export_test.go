package front

import (
	"net"
	"sync/atomic"
	"time"

	"breakwater/gateway/internal/socket"
)

// Closing reports whether a server of f has begun to stop.
func (f *Front) Closing() bool { return f.closing.Load() }

// ServeFast serves nc on the fast face alone, and returns what net/http is to go on
// with; nil where nothing is.
func (f *Front) ServeFast(nc net.Conn) (rest []byte) {
	sweeper := &sweeper{base: time.Now()}
	sweeper.read()
	c := &conn{Conn: nc, sock: socket.New(nc), front: f, peer: "192.0.2.1", sweeper: sweeper, due: time.Now().Add(time.Minute), free: func() {}}
	c.reads.force, c.writes.force = nc.SetReadDeadline, nc.SetWriteDeadline
	c.reads.by.Store(forced)
	if !c.gather() {
		return nil
	}
	if s := newFast(c, new(atomic.Bool)); s.serve() {
		return c.early
	}
	return nil
}
