// Package noisy is for tests that measure how long things really take, on a
// machine that others may use meanwhile.
package noisy

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Rounds is how often Try measures before it believes that something is broken.
const Rounds = 3

// Try runs a measurement up to Rounds times, until a round finds nothing wrong. A
// machine that stands still spoils one round or two; what is broken is broken in
// each of them, and then the faults of all rounds are reported.
func Try(t *testing.T, measure func(t testing.TB)) {
	t.Helper()
	var all []string
	for n := 1; n <= Rounds; n++ {
		r := &round{TB: t}
		r.ctx, r.cancel = context.WithCancel(t.Context())
		r.run(measure)
		if !r.Failed() {
			return
		}
		for _, f := range r.faults {
			all = append(all, fmt.Sprintf("round %d: %s", n, f))
		}
		if t.Context().Err() != nil {
			break
		}
	}
	for _, f := range all {
		t.Error(f)
	}
}

// round is a testing.TB whose faults are kept, and whose cleanups run with it.
type round struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	faults   []string
	cleanups []func()
}

// run calls measure on a goroutine of its own, which FailNow ends, and then what
// was to be cleaned up, the last first.
func (r *round) run(measure func(testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			r.cancel()
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		measure(r)
	}()
	<-done
}

func (r *round) fault(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, text)
}

func (r *round) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.faults) > 0
}

func (r *round) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }
func (r *round) Context() context.Context { return r.ctx }

func (r *round) Fail()    { r.fault("failed") }
func (r *round) FailNow() { r.fault("failed"); runtime.Goexit() }

func (r *round) Error(args ...any)                 { r.fault(fmt.Sprint(args...)) }
func (r *round) Errorf(format string, args ...any) { r.fault(fmt.Sprintf(format, args...)) }
func (r *round) Fatal(args ...any)                 { r.fault(fmt.Sprint(args...)); runtime.Goexit() }
func (r *round) Fatalf(format string, args ...any) {
	r.fault(fmt.Sprintf(format, args...))
	runtime.Goexit()
}
