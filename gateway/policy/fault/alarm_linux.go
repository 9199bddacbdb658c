package fault

import (
	"container/heap"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm wakes sleepers to a tenth of a millisecond. The runtime's own timers
// wait in epoll, which counts in whole milliseconds: an injected latency would be
// off by one more often than not. All sleepers share one timer of the kernel. It
// is safe for concurrent use.
type Alarm struct {
	timer *os.File
	fd    int

	ended chan struct{} // closed when nobody reads the timer any more

	mu     sync.Mutex
	rings  rings
	closed bool
}

type ring struct {
	at    int64 // CLOCK_MONOTONIC, in nanoseconds
	c     chan struct{}
	index int
}

// NewAlarm starts an alarm; Close ends it.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	a := &Alarm{timer: os.NewFile(uintptr(fd), "timerfd"), fd: fd, ended: make(chan struct{})}
	go a.run()
	return a, nil
}

// After returns a channel that is closed when d is over; stop takes it back.
func (a *Alarm) After(d time.Duration) (over <-chan struct{}, stop func()) {
	r := &ring{at: monotonic() + int64(d), c: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || d <= 0 {
		close(r.c)
		return r.c, func() {}
	}
	heap.Push(&a.rings, r)
	if r.index == 0 {
		a.set(r.at)
	}
	return r.c, func() { a.remove(r) }
}

func (a *Alarm) remove(r *ring) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.index >= 0 {
		heap.Remove(&a.rings, r.index)
	}
}

// Close wakes whoever still sleeps.
func (a *Alarm) Close() error {
	err := a.close()
	<-a.ended
	return err
}

func (a *Alarm) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	for _, r := range a.rings {
		r.index = -1
		close(r.c)
	}
	a.rings = nil
	return a.timer.Close()
}

func (a *Alarm) run() {
	defer close(a.ended)
	var expirations [8]byte
	for {
		if _, err := a.timer.Read(expirations[:]); err != nil {
			return // closed
		}
		a.fire()
	}
}

func (a *Alarm) fire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.rings) > 0 && a.rings[0].at <= monotonic() {
		close(heap.Pop(&a.rings).(*ring).c)
	}
	if len(a.rings) > 0 && !a.closed {
		a.set(a.rings[0].at)
	}
}

// set has the kernel ring at the instant at. The lock is held, so the
// descriptor is open.
func (a *Alarm) set(at int64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at)}
	_ = unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil) // an open timer and a time after the boot: cannot fail
}

func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail (clock_gettime(2))
	return now.Nano()
}

// rings implements heap.Interface by time.
type rings []*ring

func (h rings) Len() int           { return len(h) }
func (h rings) Less(i, j int) bool { return h[i].at < h[j].at }
func (h rings) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *rings) Push(r any) {
	r.(*ring).index = len(*h)
	*h = append(*h, r.(*ring))
}

func (h *rings) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	r.index = -1
	return r
}
