package breaker

import (
	"testing"
	"time"
)

// R30: answers that say nothing give the probes' turns back.
func TestPolicies_R30(t *testing.T) {
	b := tripped(t, single())
	for i := range 5 {
		if !b.call(at(10), Ignored) { // each gives its turn to the next
			t.Fatalf("no probe %d at 10 s", i+1)
		}
	}
	b.want(at(10), HalfOpen)
	b.probeWindow(10, 5, 0)
	if s := b.Stats(at(20)); s.Passed != 1 || s.Flying != 0 {
		t.Errorf("%d windows passed, %d probes out, want 1 and 0", s.Passed, s.Flying)
	}
	// A window of nothing else is neutral.
	for i := range 5 {
		if !b.call(at(20+2*float64(i)), Ignored) {
			t.Fatalf("no probe %d in the second window", i+1)
		}
	}
	b.want(at(30), HalfOpen)
	b.probeWindow(30, 5, 0)
	b.probeWindow(40, 5, 0)
	b.want(at(50), Closed)
}

func TestPolicies_R32(t *testing.T) {
	cfg := Default()
	cfg.ErrorPPM = 1_000_000
	b := newBench(t, cfg)
	b.calls(0, 20, 40, 0)
	b.want(at(19.999), Closed)
	b.want(at(20), Open)
}

func TestPolicies_R33(t *testing.T) {
	b := newBench(t, single())
	b.calls(0, 0, 20, 0)
	b.want(at(9.999), Open)
	b.want(at(11), HalfOpen)
	b.wantTurns("0s closed->open") // it turns when a call comes
	p, ok := b.Allow(at(12), 0)
	if !ok || p.Probe() != 1 {
		t.Errorf("the first request is probe %d, let through %v", p.Probe(), ok)
	}
	b.wantTurns("0s closed->open", "12s open->half_open")
	if s := b.Stats(at(13)); s.Spent != [3]time.Duration{0, 10 * time.Second, 3 * time.Second} {
		t.Errorf("spent %v", s.Spent)
	}
}

func TestPolicies_R34(t *testing.T) {
	b := newBench(t, dual(Or, 3, 0))
	for i, r := range []Result{Success, Failure, Success, Failure, Failure} {
		b.call(at(float64(i)), r)
	}
	b.want(at(5), Closed)
	b.call(at(5), Failure)
	b.want(at(5), Open)
}

func TestPolicies_R36(t *testing.T) {
	b := newBench(t, single())
	b.calls(0, 9, 0, 9000)
	b.calls(9, 9.1, 0, 100)
	b.calls(9.1, 9.99, 900, 0)
	if s := b.Stats(at(9.99)); s.Failed != 900 || s.Total != 10_000 {
		t.Errorf("%d of %d, want 900 of 10000", s.Failed, s.Total)
	}
	b.want(at(9.99), Closed)
}

// R37: what was counted before a long silence does not count after it.
func TestPolicies_R37(t *testing.T) {
	b := newBench(t, single())
	b.calls(0, 9, 19, 0)
	b.call(at(30), Failure)
	b.want(at(30), Closed)
	if s := b.Stats(at(30)); s.Total != 1 {
		t.Errorf("%d calls counted, want 1", s.Total)
	}
}

func TestPolicies_R45(t *testing.T) {
	for _, windows := range []int64{1, 2} {
		cfg := Default()
		cfg.Windows = windows
		b := newBench(t, cfg)
		b.call(at(0), Failure)
		b.call(at(11), Failure)
		b.want(at(60), Closed)
	}
}

// A straggler says nothing about the state that came after it.
func TestLateResultsOnlyFreePermits(t *testing.T) {
	b := newBench(t, single())
	late, _ := b.Allow(at(0), 0)
	alsoLate, _ := b.Allow(at(0), 0)
	b.calls(0, 0, 20, 0)
	b.Done(at(1), 0, late, Success) // must not close it
	b.want(at(1), Open)
	probe, ok := b.Allow(at(10), 0)
	if !ok {
		t.Fatal("no probe")
	}
	b.Done(at(10.1), 0, alsoLate, Failure)
	b.call(at(12), Failure)
	b.call(at(14), Failure)
	b.want(at(14), Open) // until 34
	b.call(at(34), Success)
	b.Done(at(34.1), 0, probe, Failure)
	if s := b.Stats(at(34.2)); s.Flying != 0 || s.State != HalfOpen {
		t.Errorf("%+v", s)
	}
	b.call(at(36), Failure)
	b.want(at(36), HalfOpen) // the one from before was not counted
}

func TestStuckProbe(t *testing.T) {
	b := tripped(t, single())
	probe, _ := b.Allow(at(10), 0)
	b.want(at(69.999), HalfOpen)
	b.want(at(70), Open)
	if s := b.Stats(at(70)); s.Level != 1 || s.OpenLeft != 10*time.Second {
		t.Errorf("level %d for %s, want the same as before", s.Level, s.OpenLeft)
	}
	b.Done(at(71), 0, probe, Success)
	b.want(at(79.9), Open)
}

// One probe that never ends does not hold up its window for ever.
func TestEndlessProbe(t *testing.T) {
	b := tripped(t, single())
	if _, ok := b.Allow(at(10), 0); !ok {
		t.Fatal("no probe")
	}
	for i := 1; i < 30; i++ {
		b.call(at(10+2*float64(i)), Success)
	}
	b.want(at(69.9), HalfOpen)
	b.want(at(70), Closed)
}

func TestSlowProbeFails(t *testing.T) {
	b := tripped(t, slowConfig())
	first, _ := b.Allow(at(10), 0)
	second, _ := b.Allow(at(12), 0)
	b.want(at(13.99), HalfOpen)
	b.want(at(14), Open)
	b.Done(at(15), 0, first, Success)
	b.Done(at(15), 0, second, Success)
	b.want(at(33.9), Open)
}

func TestWindowIsJudgedWhenItsLastProbeIsBack(t *testing.T) {
	b := tripped(t, single())
	b.probeWindow(10, 4, 0)
	last, _ := b.Allow(at(18), 0)
	b.probeWindow(20, 5, 0)
	b.probeWindow(30, 5, 0)
	b.want(at(41), HalfOpen)
	b.Done(at(43), 0, last, Failure)
	b.want(at(43), Closed)
	b.wantTurns("0s closed->open", "10s open->half_open", "43s half_open->closed")

	b = tripped(t, single())
	b.probeWindow(10, 3, 0)
	last, _ = b.Allow(at(16), 0)
	b.Done(at(21), 0, last, Failure) // three of four are under 80 %
	b.want(at(21), Open)
}

func TestSimplePreset(t *testing.T) {
	cfg := single()
	cfg.HalfOpen.Simple = true
	b := tripped(t, cfg)
	var out []Permit
	for range 8 {
		if p, ok := b.Allow(at(10), 0); ok {
			out = append(out, p)
		}
	}
	if len(out) != 5 {
		t.Fatalf("%d at once, want 5", len(out))
	}
	b.Done(at(10), 0, out[0], Ignored)
	p, ok := b.Allow(at(10), 0)
	if !ok {
		t.Fatal("its place did not come back")
	}
	for _, p := range append(out[1:], p) {
		b.want(at(11), HalfOpen)
		b.Done(at(11), 0, p, Success)
	}
	b.want(at(11), Closed)

	b = tripped(t, cfg)
	b.call(at(10), Success)
	b.call(at(10), Failure)
	b.want(at(10), Open)
}

func TestSlidingReading(t *testing.T) {
	cfg := Default()
	cfg.Sliding = true
	b := newBench(t, cfg)
	b.calls(0, 10.9, 218, 0) // bad from the first edge on that sees 20 calls: a second
	b.want(at(10.9), Closed)
	b.want(at(11), Open)
	// Too few calls hold the verdict, where tumbling windows forget it.
	for _, sliding := range []bool{true, false} {
		cfg.Sliding = sliding
		b = newBench(t, cfg)
		b.calls(0, 10, 20, 0)
		b.calls(20, 21, 1, 0)
		b.calls(30, 40, 40, 0)
		want := Closed
		if sliding {
			want = Open
		}
		b.want(at(40.5), want)
	}
}

func TestHalfOpenPassStrictly(t *testing.T) {
	cfg := single()
	cfg.HalfOpen.PassAbove = true
	b := tripped(t, cfg)
	b.call(at(10), Failure) // four of five is exactly 80 %
	b.want(at(10), Open)
}

func TestSlowCallThatFailsLateCountsOnce(t *testing.T) {
	cfg := slowConfig()
	cfg.SlowPPM = 1_000_000
	b := newBench(t, cfg)
	var out []Permit
	for range 5 {
		p, _ := b.Allow(at(0), 0)
		out = append(out, p)
	}
	b.calls(0, 1, 0, 11)
	if s := b.Stats(at(2)); s.Total != 16 || s.Slow != 5 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	for i, p := range out {
		b.Done(at(9), 0, p, Failure)
		if s := b.Stats(at(9)); i < 4 && (s.Total != 16 || s.Slow != 5 || s.Failed != int64(i)+1) {
			t.Errorf("%+v", s)
		}
	}
	b.want(at(9), Open) // 5 of 16 is 31 %
}

// A call that took long, though none had to be told in flight.
func TestSlowCallAtItsEnd(t *testing.T) {
	b := newBench(t, slowConfig())
	p, _ := b.Allow(at(0.001), 0)
	b.Done(at(2.002), 0, p, Success)
	q, _ := b.Allow(at(3), 0)
	b.Done(at(4.9), 0, q, Success)
	if s := b.Stats(at(10)); s.Total != 2 || s.Slow != 1 {
		t.Errorf("%d of %d slow, want 1 of 2", s.Slow, s.Total)
	}
}

func TestHold(t *testing.T) {
	room, freed := false, 0
	b := New(single(), Deps{Hold: func() bool { return room }, Free: func() { freed++ }}, epoch)
	fail := func(now time.Time) {
		if p, ok := b.Allow(now, 0); ok {
			b.Done(now, 0, p, Failure)
		}
	}
	for range 50 {
		fail(at(0))
	}
	if s := b.State(at(0)); s != Closed {
		t.Fatalf("it is %s without room", s)
	}
	room = true
	fail(at(0.4)) // asked a bucket ago at most: not again
	if s := b.State(at(0.4)); s != Closed {
		t.Errorf("asked again at once: %s", s)
	}
	fail(at(0.6))
	if s := b.State(at(0.6)); s != Open {
		t.Errorf("with room it is %s", s)
	}
	b.Reconfigure(Config{Disabled: true}, at(1))
	if s := b.State(at(1)); s != Closed || freed != 1 {
		t.Errorf("switched off it is %s, freed %d times", s, freed)
	}
}

func TestReconfigureKeepsWhatItCan(t *testing.T) {
	b := newBench(t, single())
	b.calls(0, 5, 5, 25)
	cfg := single()
	cfg.ErrorPPM = 150_000
	b.Reconfigure(cfg, at(5))
	if s := b.Stats(at(5)); s.Failed != 5 || s.Total != 30 {
		t.Errorf("the window was lost: %+v", s)
	}
	b.call(at(5), Success) // 5 of 31 is 16 %
	b.want(at(5), Open)

	b = newBench(t, single())
	b.calls(0, 5, 5, 25)
	cfg.Bucket = time.Second
	b.Reconfigure(cfg, at(5))
	if s := b.Stats(at(5)); s.Total != 0 {
		t.Errorf("a window of another shape holds %+v", s)
	}
	b.calls(5, 6, 20, 0)
	b.want(at(6), Open)
}

func TestQuietWindowEndsTheStreak(t *testing.T) {
	b := newBench(t, Default())
	b.calls(0, 10, 20, 0)
	b.calls(20, 30, 20, 0) // nobody looked at the one between
	b.want(at(30), Closed)
	b.calls(30, 40, 20, 0)
	b.want(at(40), Open)
}

// One that only observes takes no endpoint out, and wants no probes; told to act
// while it is open, it needs room like any other.
func TestObserveHoldsNothing(t *testing.T) {
	for _, room := range []bool{true, false} {
		held, asked := 0, 0
		cfg := single()
		cfg.Observe = true
		b := New(cfg, Deps{Hold: func() bool { asked++; held++; return room }, Free: func() { held-- }}, epoch)
		for range 20 {
			p, _ := b.Allow(at(0), 0)
			b.Done(at(0), 0, p, Failure)
		}
		g := Gate{b}
		if b.State(at(0)) != Open || asked != 0 || g.Shut(at(0)) || g.Wants(at(0)) || g.Wants(at(11)) {
			t.Errorf("it is %s, asked %d times for room, shut %v, wants %v", b.State(at(0)), asked, g.Shut(at(0)), g.Wants(at(11)))
		}
		cfg.Observe = false
		b.Reconfigure(cfg, at(1))
		want := map[bool]State{true: Open, false: Closed}[room]
		if got := b.State(at(1)); got != want || asked != 1 || g.Shut(at(1)) != room {
			t.Errorf("with room %v it is %s, want %s", room, got, want)
		}
		cfg.Observe = true
		b.Reconfigure(cfg, at(2))
		if room && held != 0 {
			t.Error("it holds a place, and only observes")
		}
	}
}
