package breaker

import (
	"testing"
	"time"
	"unsafe"

	"breakwater/internal/retrylog"
)

// set is t with its wall clock put forward or back and its monotonic one left
// alone, as the system does when somebody sets the time.
func set(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	// Package time keeps seconds of the wall in bits 30 to 62 of its first word.
	word := (*uint64)(unsafe.Pointer(&now))
	before := now
	*word = uint64(int64(*word) + int64(by/time.Second)<<30)
	if now.Sub(before) != 0 || now.Round(0).Sub(before.Round(0)) != by {
		t.Fatalf("%s is not %s later by the wall alone", now, by)
	}
	return now
}

// F21: the wall clock jumps by an hour, to and fro; windows, open time and probes
// go by the monotonic clock. Only what is told to people has the wall's time.
func TestReliability_F21(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, time.Second, -24 * 365 * time.Hour / 2} {
		t.Run(jump.String(), func(t *testing.T) {
			var told []retrylog.Transition
			start := time.Now() // it has a monotonic reading, which sums keep
			b := New(slowConfig(), Deps{Changed: func(c retrylog.Transition) { told = append(told, c) }}, start)
			off, passed := time.Duration(0), time.Duration(0)
			now := func() time.Time { return set(t, start.Add(passed), off) }
			call := func(r Result) bool {
				p, ok := b.Allow(now(), 0)
				if ok {
					b.Done(now(), 0, p, r)
				}
				return ok
			}
			for range 5 {
				call(Success)
				passed += time.Second
			}
			hung, _ := b.Allow(now(), 0)
			off = jump
			if s := b.Stats(now()); s.Total != 5 || s.Slow != 0 {
				t.Errorf("after a jump of %s it counts %+v", jump, s)
			}
			passed += 2 * time.Second
			if s := b.Stats(now()); s.Total != 6 || s.Slow != 1 {
				t.Errorf("after a jump of %s it counts %+v", jump, s)
			}
			for range 7 {
				call(Failure)
			}
			opened := now()
			if s := b.State(now()); s != Open {
				t.Fatalf("it is %s", s)
			}
			b.Done(now(), 0, hung, Success)
			off = 0
			if left := b.Stats(now()).OpenLeft; left != 10*time.Second {
				t.Errorf("after a jump of %s it is open for %s", jump, left)
			}
			off = jump
			passed += 9999 * time.Millisecond
			if call(Success) {
				t.Error("it let a call through too soon")
			}
			passed += time.Millisecond
			for range 15 {
				off = jump - off // at every probe
				if !call(Success) {
					t.Errorf("no probe after %s", passed)
				}
				passed += 2 * time.Second
			}
			if s := b.State(now()); s != Closed {
				t.Errorf("it is %s", s)
			}
			if len(told) != 3 || !told[0].At.Equal(opened) || told[0].At.Round(0) != opened.Round(0) {
				t.Errorf("told %v, want the wall's time %s", told, opened)
			}
		})
	}
}
