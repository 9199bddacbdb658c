//go:build !linux

package arrival

import "time"

type stamped struct{}

// Read is the connection's Read. Nobody can tell how late it was.
func (r *Reader) Read(p []byte, since time.Time) (n int, late time.Duration, err error) {
	n, err = r.nc.Read(p)
	return n, 0, err
}

// Stop does nothing.
func (r *Reader) Stop() {}
