//go:build !linux

package socket

import "net"

type quick struct{}

func (*quick) open(net.Conn) {}

// Read is the connection's Read.
func (c *Conn) Read(p []byte) (int, error) { return c.nc.Read(p) }

// Take is Read into a buffer of from; what is not returned has gone back.
func (c *Conn) Take(from *Buffers) (buf []byte, n int, err error) { return c.take(from) }

// Write is the connection's Write.
func (c *Conn) Write(p []byte) (int, error) { return c.nc.Write(p) }
