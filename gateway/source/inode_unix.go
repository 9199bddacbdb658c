//go:build unix

package source

import (
	"os"
	"syscall"
)

// inode tells a file from another that was renamed over it.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
