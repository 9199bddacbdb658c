package concurrency

import (
	"slices"
	"sync"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var answer = Result{Outcome: retrylog.OK, Status: 200}

// after is a clock of a test.
func after(d time.Duration) time.Time { return epoch.Add(d) }

// feed tells l of n answers that took so long, spread over the window that ends at
// until, with peak requests under way in it.
func feed(l *Limit, until time.Duration, n int, r Result, peak int64) {
	for l.inFlight.Load() < peak {
		l.Take()
	}
	for i := range n {
		at := until - 100*ms + time.Duration(i+1)*100*ms/time.Duration(n)
		l.Observe(after(at), r)
	}
	for l.inFlight.Load() > 0 {
		l.Release()
	}
}

func took(d time.Duration) Result { r := answer; r.Took = d; return r }

func level(l *Limit) int64 { return l.Stats(epoch).Limit }

func TestFixed(t *testing.T) {
	l := New(Config{Kind: Fixed, Max: 2}, epoch, Deps{})
	for i, want := range []bool{true, true, false} {
		if ready, got := l.Ready(), l.TryAcquire(epoch); got != want || ready != want {
			t.Errorf("place %d: ready %v, had %v", i+1, ready, got)
		}
	}
	l.Release()
	if !l.Ready() || !l.TryAcquire(epoch) {
		t.Error("the place given back is not there")
	}
	for i := range 50 {
		feed(l, time.Duration(i+1)*100*ms, 20, Result{Outcome: retrylog.Timeout, Took: time.Second}, 2)
	}
	if s := l.Stats(epoch); s.Limit != 2 || s.Refused != 1 {
		t.Errorf("after drops: %+v", s)
	}
	l.Reconfigure(Config{Kind: Fixed, Max: 5}, epoch)
	if level(l) != 5 {
		t.Errorf("told 5, it is %d", level(l))
	}
}

// R51: an upstream that refuses quickly looks fast; latencies alone would open the
// limit as far as it goes.
func TestPolicies_R51(t *testing.T) {
	drops := map[string]Result{
		"503":     {Outcome: retrylog.UpstreamFailure, Status: 503, Took: ms},
		"429":     {Outcome: retrylog.OK, Status: 429, Took: ms},
		"timeout": {Outcome: retrylog.Timeout, Took: ms},
	}
	for _, kind := range []Kind{Gradient, Gradient2, Vegas, AIMD} {
		for name, drop := range drops {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				l := New(Config{Kind: kind, Max: 1000, Initial: 100, Min: 5}, epoch, Deps{})
				feed(l, 100*ms, 30, took(50*ms), 100) // what a probe wants
				feed(l, 250*ms, 30, took(50*ms), 100)
				before := level(l)
				feed(l, 400*ms, 30, drop, 100)
				if got := level(l); got != before*9/10 && got != (before*9+9)/10 {
					t.Errorf("after one window with drops: %d, want nine tenths of %d", got, before)
				}
				for i := range 60 {
					feed(l, 500*ms+time.Duration(i)*110*ms, 30, drop, 100)
				}
				if got := level(l); got != 5 {
					t.Errorf("dropping on and on: %d, want the floor 5", got)
				}
			})
		}
	}
}

// After drops a limit grows by one and seldom: an upstream that refuses fast turns
// everything above its capacity into failures.
func TestGrowthAfterDrops(t *testing.T) {
	l := New(Config{Kind: AIMD, Max: 1000, Initial: 100}, epoch, Deps{})
	feed(l, 100*ms, 30, Result{Outcome: retrylog.UpstreamFailure, Status: 503}, 100)
	if level(l) != 90 {
		t.Fatalf("after a drop %d, want 90", level(l))
	}
	grown := func(until time.Duration) int64 {
		for at := until - 10*time.Second; at < until; at += 110 * ms {
			feed(l, at, 30, took(50*ms), 100)
		}
		return level(l)
	}
	if got := grown(10 * time.Second); got != 93 {
		t.Errorf("after 10 s %d, want 93", got)
	}
	grown(65 * time.Second)
	before := level(l)
	if got := grown(75 * time.Second); got < before+50 {
		t.Errorf("after a minute without drops it grows from %d to %d only", before, got)
	}
}

// Few under way say nothing of what would be if there were more.
func TestAppLimited(t *testing.T) {
	for _, kind := range []Kind{Gradient, Gradient2, Vegas, AIMD} {
		l := New(Config{Kind: kind, Max: 1000, Initial: 100}, epoch, Deps{})
		feed(l, 100*ms, 30, took(50*ms), 3)
		from := level(l)
		for i := range 20 {
			feed(l, 250*ms+time.Duration(i)*110*ms, 30, took(50*ms), 49)
		}
		if got := level(l); got > from {
			t.Errorf("%s: grown from %d to %d with 49 of 100 in use", kind, from, got)
		}
		for i := range 20 {
			feed(l, 5*time.Second+time.Duration(i)*110*ms, 30, took(50*ms), level(l)/2+1)
		}
		if got := level(l); got <= from {
			t.Errorf("%s: not grown from %d with half of it in use: %d", kind, from, got)
		}
	}
}

// envoyproxy/envoy#46532: the floor of the limit and the concurrency of a probe
// are two numbers. And what was sent before a probe began is no part of it.
func TestProbe(t *testing.T) {
	l := New(Config{Kind: Gradient, Max: 100, Min: 10, Initial: 40, ProbeConcurrency: 4, ProbeSamples: 20, ProbeEvery: 10 * time.Second}, epoch, Deps{})
	if s := l.Stats(epoch); s.Allowed != 4 || s.Limit != 40 || !s.Probing {
		t.Fatalf("at the start: %+v, want a probe of 4", s)
	}
	feed(l, 200*ms, 25, took(10*ms), 4)
	if s := l.Stats(epoch); s.Probing || s.Allowed != 40 || s.Least < 9*ms || s.Least > 11*ms {
		t.Fatalf("probed: %+v, want 10 ms and 40", s)
	}
	// Very slow: it falls, and no further than to the floor.
	at := 300 * ms
	for ; at < 9*time.Second; at += 110 * ms {
		feed(l, at, 20, took(200*ms), 40)
	}
	if s := l.Stats(epoch); s.Allowed != 10 || s.Probing {
		t.Fatalf("slow: %+v, want the floor 10", s)
	}
	for ; !l.Stats(epoch).Probing; at += 110 * ms {
		if at > 12*time.Second {
			t.Fatal("no probe after 10 s")
		}
		feed(l, at, 20, took(200*ms), 10)
	}
	if s := l.Stats(epoch); s.Allowed != 4 || s.Limit != 10 {
		t.Fatalf("probing: %+v", s)
	}
	if _, _, steady := l.Load(); steady {
		t.Error("a probe counts as steady")
	}
	// Answers to what was sent before the probe began: slow, as load makes them.
	feed(l, at, 40, took(5*time.Second), 4)
	if s := l.Stats(epoch); !s.Probing {
		t.Fatalf("a probe took samples from before: %+v", s)
	}
	feed(l, at+200*ms, 30, took(10*ms), 4)
	if s := l.Stats(epoch); s.Probing || s.Least > 11*ms {
		t.Errorf("probed: %+v, want 10 ms", s)
	}
}

// Neither what the client gave up nor what we refused ourselves says anything.
func TestNeutral(t *testing.T) {
	l := New(Config{Kind: Gradient2, Max: 1000, Initial: 100}, epoch, Deps{})
	for i := range 30 {
		for _, o := range []retrylog.Outcome{retrylog.ClientAbort, retrylog.LocalRefusal, retrylog.Panicked} {
			feed(l, time.Duration(i+1)*110*ms, 30, Result{Outcome: o, Took: ms}, 100)
		}
		feed(l, time.Duration(i+1)*110*ms, 30, Result{Outcome: retrylog.UpstreamFailure, Status: 500, Took: ms}, 100)
	}
	if s := l.Stats(epoch); s.Limit != 100 || s.Dropped != 0 || s.Long != 0 {
		t.Errorf("%+v, want all as it was", s)
	}
}

func TestReconfigure(t *testing.T) {
	l := New(Config{Kind: AIMD, Max: 100, Initial: 20}, epoch, Deps{})
	for i := range 10 {
		feed(l, time.Duration(i+1)*110*ms, 20, took(ms), level(l))
	}
	found := level(l)
	if found <= 20 {
		t.Fatalf("it has not grown: %d", found)
	}
	l.TryAcquire(epoch)
	l.Reconfigure(Config{Kind: AIMD, Max: 100, Initial: 20, Window: time.Second}, after(2*time.Second))
	if s := l.Stats(epoch); s.Limit != found || s.InFlight != 1 {
		t.Errorf("a new window: %+v, want %d and 1 under way", s, found)
	}
	l.Reconfigure(Config{Kind: AIMD, Max: 10}, after(3*time.Second))
	if level(l) != 10 {
		t.Errorf("a lower most: %d, want 10", level(l))
	}
	l.Reconfigure(Config{Kind: Fixed, Max: 7}, after(4*time.Second))
	if level(l) != 7 {
		t.Errorf("another kind: %d, want 7", level(l))
	}
}

// A limit that begins to refuse says so once, and once that it is over; reading
// its state changes nothing.
func TestTransitions(t *testing.T) {
	var told []string
	l := New(Config{Kind: Fixed, Max: 1}, epoch, Deps{Endpoint: "e1:1", Changed: func(c retrylog.Transition) {
		told = append(told, c.Policy+" "+c.Endpoint+" "+c.From+">"+c.To)
	}})
	l.TryAcquire(epoch)
	l.TryAcquire(epoch)
	for range 3 {
		if !l.Stats(after(50 * ms)).Full {
			t.Error("it does not show as full")
		}
	}
	l.Observe(after(150*ms), answer)
	l.Observe(after(300*ms), answer)
	if l.Stats(after(4*time.Second)).Full != true || l.Stats(after(6*time.Second)).Full {
		t.Error("the state does not follow the clock")
	}
	l.Observe(after(6*time.Second), answer)
	l.Observe(after(7*time.Second), answer)
	if want := []string{"concurrency e1:1 accepting>full", "concurrency e1:1 full>accepting"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// Many goroutines never have more places than there are, and give all back.
func TestPlacesAreCounted(t *testing.T) {
	l := New(Config{Kind: Fixed, Max: 7}, epoch, Deps{})
	var running, most int64
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5000 {
				if !l.TryAcquire(epoch) {
					continue
				}
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				mu.Lock()
				running--
				mu.Unlock()
				l.Release()
			}
		})
	}
	group.Wait()
	if n, _, _ := l.Load(); n != 0 || most > 7 {
		t.Errorf("%d left, %d at most", n, most)
	}
}

func TestGroup(t *testing.T) {
	g := NewGroup(Config{Kind: Fixed, Max: 1, Queue: 9}, nil)
	a, b := g.Limit("a:1", epoch), g.Limit("b:1", epoch)
	if a == b || g.Limit("a:1", epoch) != a || !a.TryAcquire(epoch) || !b.TryAcquire(epoch) || a.TryAcquire(epoch) {
		t.Error("endpoints share a limit")
	}
	g.Reconfigure(Config{Kind: Fixed, Max: 2}, epoch)
	if !a.TryAcquire(epoch) {
		t.Error("an endpoint has not heard of the new limit")
	}
	g.Keep([]string{"a:1"})
	if s := g.Stats(epoch); len(s) != 1 || s["a:1"].InFlight != 2 {
		t.Errorf("kept %+v", s)
	}
	if NewGroup(Config{}, nil).Limit("a:1", epoch) != nil {
		t.Error("no limit is one")
	}
}
