//go:build !linux

package spool

import "os"

// allocate reserves size bytes of blocks for f.
func allocate(f *os.File, size int64) error { return fill(f, size) }
