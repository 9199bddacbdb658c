package monitor

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// usual is what the kernel gives a process that nobody has told otherwise.
const usual = 50_000

// Calm gives the runtime's supervision its Slack. The thread is there before any code of
// the program and only the kernel's administrator could change it from outside, so the
// program is started once more in the same process: same id, arguments, environment and
// descriptors that outlive an exec. Call it before anything is opened or begun. After
// the second start, or where the slack has been given from outside (TimerSlackNSec= of a
// systemd unit), it gives the calling thread its precision back and returns nil. An
// error means that nothing has changed.
func Calm() error {
	runtime.LockOSThread() // what is set belongs to a thread, and exec keeps that of its caller
	defer runtime.UnlockOSThread()
	now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("read the timer slack: %w", err)
	}
	if now >= int(Slack) {
		return set(usual)
	}
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start again with more timer slack: %w", err)
	}
	if err := set(uintptr(Slack)); err != nil {
		return err
	}
	err = syscall.Exec(path, os.Args, os.Environ())
	_ = set(usual) // it was settable a moment ago
	return fmt.Errorf("start %s again with more timer slack: %w", path, err)
}

func set(ns uintptr) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, ns, 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}
	return nil
}
