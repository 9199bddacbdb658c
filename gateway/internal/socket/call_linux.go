//go:build !race

package socket

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func receive(fd uintptr, p []byte) (int, syscall.Errno) { return call(unix.SYS_RECVFROM, fd, p, 0) }

func send(fd uintptr, p []byte) (int, syscall.Errno) {
	return call(unix.SYS_SENDTO, fd, p, unix.MSG_NOSIGNAL)
}

// call makes a system call on p, which is not empty, and on a descriptor that does not
// block: it is made again where a signal came between (signal(7)).
func call(trap, fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, err := syscall.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0)
		switch err {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}
