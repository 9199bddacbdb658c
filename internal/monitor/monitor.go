// Package monitor makes the Go runtime's own supervision cheaper where it costs most.
//
// The runtime has a thread, sysmon, that looks every 20 microseconds whether a thread
// stands still in a system call, and takes its processor away if so. A proxy makes some
// thousands of short calls a second, so the thread never falls back to longer pauses: it
// wakes more than ten thousand times a second, and on a virtual machine each wake-up is
// paid twice, in the guest and in its host. Where the host is short of time this is what
// requests wait for. What it is there for here, a write of the log that waits for a disk,
// takes milliseconds, and can be noticed after one.
//
// How long a thread oversleeps is the kernel's timer slack, 50 microseconds by default,
// and a thread has it from the one that started it. See prctl(2), PR_SET_TIMERSLACK.
package monitor

import "time"

// Slack is how late the runtime's supervision may be. Timers of the program are not
// touched by it.
const Slack = time.Millisecond
