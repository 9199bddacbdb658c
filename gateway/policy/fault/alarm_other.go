//go:build !linux

package fault

import "time"

// Alarm wakes sleepers by the runtime's timers, which are exact to a millisecond.
type Alarm struct{}

// NewAlarm starts an alarm; Close ends it.
func NewAlarm() (*Alarm, error) { return &Alarm{}, nil }

// After returns a channel that is closed when d is over; stop takes it back.
func (*Alarm) After(d time.Duration) (over <-chan struct{}, stop func()) {
	c := make(chan struct{})
	t := time.AfterFunc(d, func() { close(c) })
	return c, func() { t.Stop() }
}

// Close does nothing: what sleeps wakes in time.
func (*Alarm) Close() error { return nil }
