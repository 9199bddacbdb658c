// Package lockfile keeps two processes out of one directory: a file that is
// locked while its owner lives, however it dies, and gone once it ended in order.
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrHeld means that another live process holds the lock.
var ErrHeld = errors.New("held by another process")

// Lock is a held lock.
type Lock struct{ file *os.File }

// Take takes the lock at path without waiting, or fails with ErrHeld.
func Take(path string) (*Lock, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("take the lock: %w", err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, fmt.Errorf("lock %s: %w", path, ErrHeld)
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Its last owner may have removed the file between our open and our lock:
		// then we hold what nobody else will ever find.
		if same(file, path) {
			return &Lock{file}, nil
		}
		_ = file.Close()
	}
}

func same(file *os.File, path string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(path)
	return err == nil && os.SameFile(ours, theirs)
}

// Release removes the file and gives the lock back; nil is no lock.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	// Removed while the lock holds: whoever waits to look sees it is another file.
	_ = os.Remove(l.file.Name())
	_ = l.file.Close()
}
