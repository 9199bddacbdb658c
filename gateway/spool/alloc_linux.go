package spool

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// allocate reserves size bytes of blocks for f.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP): // some file systems cannot
			return fill(f, size)
		}
		return err
	}
}

// dataSync brings the bytes of f to the disk.
func dataSync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// writeSync writes b at an offset of f and returns when the disk has it: one call,
// where the kernel knows it, and none of the file's other pages written.
func writeSync(f *os.File, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwritev2(int(f.Fd()), [][]byte{b}, at, unix.RWF_DSYNC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			if _, err := f.WriteAt(b, at); err != nil {
				return err
			}
			return dataSync(f)
		case err != nil:
			return err
		case n == 0:
			return io.ErrShortWrite
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}
