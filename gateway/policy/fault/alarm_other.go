//go:build !linux

package fault

import (
	"sync"
	"time"
)

// Alarm wakes sleepers by the runtime's timers, which are exact to a millisecond.
type Alarm struct {
	once sync.Once
	gone chan struct{}
}

// NewAlarm starts an alarm; Close ends it.
func NewAlarm() (*Alarm, error) { return &Alarm{gone: make(chan struct{})}, nil }

// After returns a channel that is closed when d is over; stop takes it back.
func (a *Alarm) After(d time.Duration) (over <-chan struct{}, stop func()) {
	c, given := make(chan struct{}), make(chan struct{})
	go func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-given:
		case <-a.gone:
		}
		close(c)
	}()
	return c, sync.OnceFunc(func() { close(given) })
}

// Close wakes whoever still sleeps.
func (a *Alarm) Close() error {
	a.once.Do(func() { close(a.gone) })
	return nil
}
