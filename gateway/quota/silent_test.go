package quota

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/policy/limiter"
)

// mute is a server that reads and never answers.
func mute(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	return ours, nil
}

var slow = limiter.Rate{Tokens: 1, Per: time.Hour, Burst: 10}

// While the store is silent one caller waits 30 ms, those that asked before anybody
// knew wait 10, and all others do not wait at all; after three calls in vain nobody
// asks for a second.
func TestOneWaitsForASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Config{URL: "redis://nowhere", Dial: mute})
		if err != nil {
			t.Fatal(err)
		}
		q := s.Quota(slow)
		var mu sync.Mutex
		waits := map[time.Duration]int{}
		ask := func() (time.Duration, error) {
			start := time.Now()
			_, err := q.Take(limiter.Ask{Key: "k", Need: 1, Want: 1, Wait: time.Second})
			if err == nil {
				t.Error("a silent store gave a token")
			}
			mu.Lock()
			defer mu.Unlock()
			waits[time.Since(start)]++
			return time.Since(start), err
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { ask() }) // at the same instant
		}
		time.Sleep(20 * time.Millisecond)
		for range 80 {
			all.Go(func() { ask() }) // when it is known to be slow
		}
		all.Wait()
		if waits[limiter.MaxWait] != 1 || waits[10*time.Millisecond] != 19 || waits[0] != 80 {
			t.Errorf("waits: %v", waits)
		}
		for range 2 {
			synctest.Wait()
			if took, err := ask(); took != limiter.MaxWait {
				t.Errorf("%v after %v", err, took)
			}
		}
		synctest.Wait()
		calls := s.Stats(time.Now()).Calls
		clear(waits)
		for range 99 {
			if _, err := ask(); !errors.Is(err, limiter.ErrAway) {
				t.Errorf("got %v", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if waits[0] != 99 || s.Stats(time.Now()).Calls != calls {
			t.Errorf("waits while nobody should ask: %v", waits)
		}
		time.Sleep(20 * time.Millisecond) // the second is over: one asks again
		for range 50 {
			all.Go(func() { ask() })
		}
		all.Wait()
		if waits[limiter.MaxWait] != 1 || waits[0] != 99+49 {
			t.Errorf("after a second: %v", waits)
		}
		_ = s.Close()
	})
}

// Nobody waits longer than is left of the request's own time.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Config{URL: "redis://nowhere", Dial: mute})
		if err != nil {
			t.Fatal(err)
		}
		for _, left := range []time.Duration{0, -time.Second, 3 * time.Millisecond} {
			start := time.Now()
			_, err := s.Quota(slow).Take(limiter.Ask{Key: "k", Need: 1, Want: 1, Wait: left})
			if took := time.Since(start); err == nil || took != max(left, 0) {
				t.Errorf("with %v left: %v after %v", left, err, took)
			}
		}
		_ = s.Close()
	})
}

// What is asked while a call is under way goes with the next one, together.
func TestCallsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go answer(theirs, 2*time.Millisecond, func(n int) { mu.Lock(); defer mu.Unlock(); sizes = append(sizes, n) })
			return ours, nil
		}
		s, err := Open(Config{URL: "redis://nowhere", Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		q := s.Quota(slow)
		var all sync.WaitGroup
		take := func(n int) {
			for range n {
				all.Go(func() {
					if g, err := q.Take(limiter.Ask{Key: "k", Need: 1, Want: 1, Wait: time.Second}); err != nil || g.Got != 1 {
						t.Errorf("got %+v, %v", g, err)
					}
				})
			}
		}
		take(1)
		synctest.Wait()
		take(30)
		all.Wait()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(sizes, []int{1, 30}) {
			t.Errorf("batches of %v, want 1 and 30", sizes)
		}
		_ = s.Close()
	})
}
