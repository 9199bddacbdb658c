package wire

import (
	"time"

	"breakwater/gateway/exchange"

	"golang.org/x/sys/unix"
)

// untaken reports proof that the other end took nothing of what was written
// after the first before bytes, on a connection that has come to its end. The
// proof is of three parts: it had closed its half, and with that had
// acknowledged all it would ever take; none of the request is among it; and it
// answered the request with a reset, so its socket was gone. A server that only
// stops sending and goes on reading acknowledges, and resets nothing.
func (c *conn) untaken(x *exchange.Exchange, before uint64) bool {
	if c.raw == nil {
		return false
	}
	for range 4 {
		var info *unix.TCPInfo
		err := c.raw.Control(func(fd uintptr) {
			info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		})
		if err != nil || info == nil {
			return false
		}
		// The kernel counts the SYN as a byte; older ones do not fill the field,
		// which then is less than what the requests before came to.
		if info.Bytes_acked != before && info.Bytes_acked != before+1 {
			return false
		}
		if info.State == unix.BPF_TCP_CLOSE {
			return true
		}
		rtt := time.Duration(info.Rtt) * time.Microsecond // the reset may be on its way
		if x.Wait(min(max(2*rtt, 200*time.Microsecond), 5*time.Millisecond), nil) != nil {
			return false
		}
	}
	return false
}
