package spool

import (
	"testing"

	"golang.org/x/sys/unix"
)

// mountSmall makes dir a disk of 4 MiB, where this process is allowed to.
func mountSmall(t *testing.T, dir string) bool {
	if unix.Mount("spool", dir, "tmpfs", 0, "size=4m") != nil {
		return false
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return true
}
