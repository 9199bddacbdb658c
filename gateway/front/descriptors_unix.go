//go:build unix

package front

import "syscall"

// descriptors is how many files the process may have open; 0: nobody knows.
func descriptors() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(uint64(l.Cur), 1<<20))
}
