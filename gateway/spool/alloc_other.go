//go:build !linux

package spool

import "os"

// allocate reserves size bytes of blocks for f.
func allocate(f *os.File, size int64) error { return fill(f, size) }

// dataSync brings the bytes of f to the disk.
func dataSync(f *os.File) error { return f.Sync() }
