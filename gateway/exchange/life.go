package exchange

import (
	"context"
	"sync"
	"time"
)

// Interrupter makes whatever an exchange waits for fail at once; it may be
// called from any goroutine, and must not block.
type Interrupter interface{ Interrupt() }

// life is the part of an Exchange that other goroutines may touch. The lock is
// the exchange's own and never contended but at the moment of a cancel.
type life struct {
	mu    sync.Mutex
	gen   uint64
	cause error
	done  chan struct{}
	waits Interrupter
}

func (l *life) renew() {
	l.mu.Lock()
	l.gen++
	l.cause, l.done, l.waits = nil, nil, nil
	l.mu.Unlock()
}

// Token lets another goroutine cancel the exchange it was taken from, and no
// later one that uses the same memory.
type Token struct {
	x   *Exchange
	gen uint64
}

// Token returns the token of the request x serves now.
func (x *Exchange) Token() Token {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Token{x, x.gen}
}

// Cancel ends the exchange: waits return, the upstream connection is
// interrupted. Only the first cause counts.
func (t Token) Cancel(cause error) {
	l := &t.x.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gen != t.gen || l.cause != nil {
		return
	}
	l.cause = cause
	if l.done != nil {
		close(l.done)
	}
	if l.waits != nil {
		l.waits.Interrupt()
	}
}

// Waiting names what a cancel has to interrupt from now on; nil for nothing. It
// returns the cause where the exchange is cancelled already.
func (x *Exchange) Waiting(i Interrupter) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waits = i
	return x.cause
}

// Unwait takes i back, where it is still what a cancel would interrupt.
func (x *Exchange) Unwait(i Interrupter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.waits == i {
		x.waits = nil
	}
}

// Cause is why the exchange was cancelled, or nil.
func (x *Exchange) Cause() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cause
}

// SetDeadline sets when the exchange must be over and returns the instant that
// stood before, to be restored. The zero time means none.
func (x *Exchange) SetDeadline(t time.Time) (before time.Time) {
	before, x.deadline = x.deadline, t
	return before
}

// Remaining is the time left at now; ok is false where there is no deadline.
func (x *Exchange) Remaining(now time.Time) (left time.Duration, ok bool) {
	if x.deadline.IsZero() {
		return 0, false
	}
	return x.deadline.Sub(now), true
}

// Wait sleeps for d, or until gone is closed. It is the only sleep of the data
// plane: a deadline ends it with context.DeadlineExceeded, a cancel with its cause.
func (x *Exchange) Wait(d time.Duration, gone <-chan struct{}) error {
	return x.WaitBy(nil, d, gone)
}

// Alarm rings once, when d is over; stop takes it back.
type Alarm interface {
	After(d time.Duration) (over <-chan struct{}, stop func())
}

// WaitBy is Wait by another clock than the runtime's timers; nil is those.
func (x *Exchange) WaitBy(a Alarm, d time.Duration, gone <-chan struct{}) error {
	late := false
	if left, ok := x.Remaining(time.Now()); ok && left < d {
		d, late = left, true
	}
	if d > 0 {
		var timer <-chan time.Time
		var over <-chan struct{}
		if a == nil {
			t := time.NewTimer(d)
			defer t.Stop()
			timer = t.C
		} else {
			ring, stop := a.After(d)
			defer stop()
			over = ring
		}
		select {
		case <-timer:
		case <-over:
		case <-gone:
			return x.Cause()
		case <-x.Done():
			return x.Cause()
		}
	}
	if cause := x.Cause(); cause != nil {
		return cause
	}
	if late {
		return context.DeadlineExceeded
	}
	return nil
}

// An Exchange is a context, so that nothing is allocated to carry a deadline.
// Code that may keep its context gets Detached instead.
var _ context.Context = (*Exchange)(nil)

// Deadline implements context.Context.
func (x *Exchange) Deadline() (time.Time, bool) { return x.deadline, !x.deadline.IsZero() }

// Done implements context.Context. It closes on a cancel; a deadline is
// enforced by Wait and by the wire, and shows in Err.
func (x *Exchange) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.cause != nil {
			close(x.done)
		}
	}
	return x.done
}

// Err implements context.Context.
func (x *Exchange) Err() error {
	if x.Cause() != nil {
		return context.Canceled
	}
	if !x.deadline.IsZero() && !time.Now().Before(x.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context; an Exchange carries none.
func (x *Exchange) Value(any) any { return nil }

// Detached returns an ordinary context with x's deadline that may outlive x. It
// is cancelled with x; the caller calls cancel when the call is over.
func (x *Exchange) Detached() (ctx context.Context, cancel func()) {
	ctx, stop := context.WithCancelCause(context.Background())
	release := func() { stop(context.Canceled) }
	if !x.deadline.IsZero() {
		c, stopTimer := context.WithDeadline(ctx, x.deadline)
		ctx, release = c, func() { stopTimer(); stop(context.Canceled) }
	}
	if cause := x.Waiting(stopper(stop)); cause != nil {
		stop(cause)
	}
	return ctx, func() { _ = x.Waiting(nil); release() }
}

type stopper context.CancelCauseFunc

func (s stopper) Interrupt() { s(ErrClientGone) }
