//go:build !linux

package spool

import "os"

// allocate reserves size bytes of blocks for f.
func allocate(f *os.File, size int64) error { return fill(f, size) }

// dataSync brings the bytes of f to the disk.
func dataSync(f *os.File) error { return f.Sync() }

// writeSync writes b at an offset of f and returns when the disk has it.
func writeSync(f *os.File, b []byte, at int64) error {
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	return f.Sync()
}
