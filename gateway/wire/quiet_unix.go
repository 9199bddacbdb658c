//go:build unix

package wire

import "syscall"

// quiet reports whether nothing has come in while c was idle: no end, no bytes
// that nobody asked for.
func (c *conn) quiet() bool {
	if c.raw == nil {
		return true
	}
	quiet := false
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:]) // the descriptor is non-blocking
		quiet = err == syscall.EAGAIN
		return true
	})
	return err == nil && quiet
}
