//go:build unix

package wire

import "syscall"

// quiet reports whether nothing has come in while c was idle: no end, no bytes
// that nobody asked for.
func (c *conn) quiet() bool {
	if c.raw == nil {
		return true
	}
	c.isQuiet = false
	return c.raw.Read(c.look) == nil && c.isQuiet
}

// peek is handed to raw.Read as c.look, made once: a closure would be made anew
// for each request.
func (c *conn) peek(fd uintptr) bool {
	_, err := syscall.Read(int(fd), c.peeked[:]) // the descriptor is non-blocking
	c.isQuiet = err == syscall.EAGAIN
	return true
}
