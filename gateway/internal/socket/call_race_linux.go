//go:build race

package socket

import (
	"errors"
	"syscall"
)

// Package syscall tells the race detector that what was written happened before it was
// read, and the scheduler with it.

func receive(fd uintptr, p []byte) (int, syscall.Errno) { return told(syscall.Read, fd, p) }

func send(fd uintptr, p []byte) (int, syscall.Errno) { return told(syscall.Write, fd, p) }

func told(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := call(int(fd), p)
		switch errno, _ := errors.AsType[syscall.Errno](err); errno {
		case 0:
			return n, 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
