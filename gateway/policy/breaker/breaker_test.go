package breaker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is the instant so many seconds after the breaker was made.
func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds*1e6+0.5) * time.Microsecond)
}

// bench is a breaker whose calls end at once, unless a test says otherwise.
type bench struct {
	t *testing.T
	*Breaker
	turns []string
}

func newBench(t *testing.T, cfg Config) *bench {
	b := &bench{t: t}
	b.Breaker = New(cfg, Deps{Shards: 2, Changed: func(c retrylog.Transition) {
		b.turns = append(b.turns, fmt.Sprintf("%s %s->%s", c.At.Sub(epoch), c.From, c.To))
	}}, epoch)
	return b
}

// call makes a call that ends at once, and reports whether it was let through.
func (b *bench) call(now time.Time, r Result) bool {
	p, ok := b.Allow(now, 1)
	if ok {
		b.Done(now, 1, p, r)
	}
	return ok
}

// calls spreads good and bad calls evenly over a time, failures first.
func (b *bench) calls(from, until float64, bad, good int) {
	n := bad + good
	for i := range n {
		r := Success
		if i < bad {
			r = Failure
		}
		b.call(at(from+(until-from)*float64(i)/float64(n)), r)
	}
}

func (b *bench) want(now time.Time, want State) {
	b.t.Helper()
	if got := b.State(now); got != want {
		b.t.Errorf("at %s it is %s, want %s; changes %v", now.Sub(epoch), got, want, b.turns)
	}
}

func (b *bench) wantTurns(want ...string) {
	b.t.Helper()
	if !slices.Equal(b.turns, want) {
		b.t.Errorf("changes\n%v, want\n%v", b.turns, want)
	}
}

// single is one window, judged at every result.
func single() Config { return DefaultEndpoint() }

func TestPolicies_V52_TheClockGoesBack(t *testing.T) {
	b := newBench(t, single())
	b.calls(0, 6, 0, 30)
	for range 10 {
		b.call(at(2), Failure) // from before: counts in the running bucket
	}
	if s := b.Stats(at(5)); s.Total != 40 || s.Failed != 10 {
		t.Errorf("counted %d of %d, want 10 of 40", s.Failed, s.Total)
	}
	b.want(at(5), Closed)
	b.calls(6, 6.1, 3, 0) // 13 of 43 is 30 %
	b.want(at(6.1), Open)
}

func TestPolicies_V53(t *testing.T) {
	b := newBench(t, Default())
	b.calls(0, 10, 6, 14)
	b.calls(10, 20, 6, 14)
	b.want(at(19.999), Closed)
	b.want(at(20), Open)
	if b.call(at(20), Success) {
		t.Error("a call passed at the boundary")
	}
	b.wantTurns("20s closed->open")
}

func TestPolicies_V54(t *testing.T) {
	b := newBench(t, Default())
	b.calls(0, 10, 6, 14)
	b.calls(10, 20, 5, 15)
	b.calls(20, 30, 6, 14)
	b.want(at(40), Closed)
	b.wantTurns()
}

func TestPolicies_V55(t *testing.T) {
	b := newBench(t, Default())
	b.calls(0, 10, 20, 0)
	b.calls(10, 20, 19, 0)
	b.calls(20, 30, 20, 0)
	b.want(at(30), Closed)
	b.calls(30, 40, 20, 0)
	b.want(at(40), Open)
}

func TestPolicies_V56(t *testing.T) {
	for _, windows := range []int64{1, 2} {
		cfg := Default()
		cfg.Windows, cfg.ErrorPPM = windows, 1_000_000
		b := newBench(t, cfg)
		b.calls(0, 20, 200, 0)
		b.want(at(20), Open)
		b = newBench(t, cfg)
		for i := range 200 { // one of a hundred is good
			b.call(at(float64(i)/10), []Result{Failure, Success}[max(0, i%100-98)])
		}
		if windows == 2 {
			b.want(at(20), Closed)
		}
	}
}

func dual(mode Mode, consecutive, ppm int64) Config {
	return Config{Rule: Dual, Mode: mode, Consecutive: consecutive, Window: 30 * time.Second, Bucket: 500 * time.Millisecond, ErrorPPM: ppm, Above: true, MinRequests: 20}
}

func TestPolicies_V57(t *testing.T) {
	b := newBench(t, dual(And, 100, 300_000))
	b.calls(0, 10, 0, 400)
	b.calls(10, 20, 171, 0)
	b.want(at(20), Closed)
	b.call(at(20), Failure)
	b.want(at(20), Open)
}

func TestPolicies_V58(t *testing.T) {
	b := newBench(t, dual(And, 80, 250_000))
	b.calls(0, 10, 0, 240)
	b.calls(10, 20, 80, 0)
	b.want(at(20), Closed) // exactly 25 %
	b.call(at(20), Failure)
	b.want(at(20), Open)
}

func TestPolicies_V59(t *testing.T) {
	for _, mode := range []Mode{And, Or} {
		cfg := dual(mode, 3, 0)
		if mode == And {
			cfg.ErrorPPM, cfg.MinRequests = 1, 1
		}
		b := newBench(t, cfg)
		for i, r := range []Result{Failure, Failure, Success, Failure, Failure} {
			b.call(at(float64(i)), r)
		}
		b.call(at(5), Ignored) // neither ends the row nor is part of it
		b.want(at(5), Closed)
		b.call(at(6), Failure)
		b.want(at(6), Open)
	}
}

// The row of failures is not a matter of the window.
func TestPolicies_V59_TheRowNeverExpires(t *testing.T) {
	b := newBench(t, dual(Or, 3, 0))
	b.call(at(0), Failure)
	b.call(at(100), Failure)
	b.call(at(1000), Failure)
	b.want(at(1000), Open)
}

func TestPolicies_V60(t *testing.T) {
	b := newBench(t, single())
	b.calls(0, 1, 20, 0)
	b.want(at(1), Open)
	opened := 0.95 // the 20th call
	b.want(at(opened+9.999), Open)
	b.want(at(opened+10), HalfOpen)
	now := 11.0
	for _, open := range []float64{20, 40, 80, 160, 300, 300} {
		b.call(at(now), Failure)
		b.want(at(now), HalfOpen)
		b.call(at(now+2), Failure)
		b.want(at(now+2), Open)
		b.want(at(now+2+open-0.001), Open)
		b.want(at(now+2+open), HalfOpen)
		now += 2 + open
	}
}

// tripped is a breaker that is half-open at 10 s.
func tripped(t *testing.T, cfg Config) *bench {
	b := newBench(t, cfg)
	for range 20 {
		b.call(at(0), Failure)
	}
	b.want(at(0), Open)
	b.want(at(10), HalfOpen)
	return b
}

// probe lets so many probes of a window through, of which some fail.
func (b *bench) probeWindow(from float64, good, bad int) {
	b.t.Helper()
	for i := range good + bad {
		now := at(from + 2*float64(i))
		r := Success
		if i < bad {
			r = Failure
		}
		if !b.call(now, r) {
			b.t.Fatalf("no probe at %s", now.Sub(epoch))
		}
		if b.call(now.Add(time.Second), Success) {
			b.t.Fatalf("a second probe a second after %s", now.Sub(epoch))
		}
	}
}

func TestPolicies_V61(t *testing.T) {
	b := tripped(t, single()) // level 1
	b.probeWindow(10, 0, 1)
	b.call(at(12), Failure) // level 2: until 32
	b.call(at(32), Failure)
	b.call(at(34), Failure) // level 3: until 74
	b.want(at(34), Open)
	for w := range 3 {
		b.probeWindow(74+10*float64(w), 5, 0)
	}
	b.want(at(103.9), HalfOpen)
	b.want(at(104), Closed)
	if got := b.Stats(at(104)).Level; got != 3 {
		t.Errorf("level %d, want 3", got)
	}
	b.calls(169, 169, 20, 0) // 65 s later: two levels are forgotten
	b.want(at(169), Open)
	b.want(at(188.9), Open)
	b.want(at(189), HalfOpen)
}

func TestPolicies_V62(t *testing.T) {
	b := tripped(t, single())
	b.probeWindow(10, 4, 1)
	b.probeWindow(20, 5, 0)
	b.probeWindow(30, 4, 1)
	b.want(at(39.999), HalfOpen)
	b.want(at(40), Closed)
	b.wantTurns("0s closed->open", "10s open->half_open", "40s half_open->closed")
}

func TestPolicies_V63(t *testing.T) {
	b := tripped(t, single())
	b.probeWindow(10, 4, 1)
	b.call(at(20), Failure)
	b.want(at(20), HalfOpen)
	b.call(at(22), Failure)
	b.want(at(22), Open)
	b.want(at(41.9), Open) // level 2: 20 s
	b.want(at(42), HalfOpen)
}

func TestPolicies_V64(t *testing.T) {
	b := tripped(t, single())
	b.probeWindow(10, 5, 0)
	b.probeWindow(30, 5, 0)
	b.want(at(40), HalfOpen)
	b.probeWindow(40, 5, 0)
	b.want(at(49.9), HalfOpen)
	b.want(at(50), Closed)
}

func TestPolicies_V65(t *testing.T) {
	b := tripped(t, single())
	passed := 0
	for i := range 100 {
		if p, ok := b.Allow(at(10), uint(i)); ok {
			passed++
			defer b.Done(at(11), uint(i), p, Success)
		}
	}
	if refused := b.Stats(at(10)).Refused; passed != 1 || refused != 99 {
		t.Errorf("%d probes, %d refused, want 1 and 99", passed, refused)
	}
}

func slowConfig() Config {
	cfg := single()
	cfg.SlowAfter, cfg.SlowPPM, cfg.MinRequests = 2*time.Second, 500_000, 10
	return cfg
}

func TestPolicies_V66(t *testing.T) {
	b := newBench(t, slowConfig())
	var out []Permit
	for i := range 20 {
		p, _ := b.Allow(at(0), uint(i))
		out = append(out, p)
	}
	b.want(at(1.999), Closed)
	b.want(at(2), Open)
	b.wantTurns("2s closed->open")
	for i, p := range out { // late: of an earlier generation
		b.Done(at(2.5), uint(i), p, Failure)
	}
	b.wantTurns("2s closed->open")
}

// Nobody looked at two seconds: it opened all the same.
func TestPolicies_V66_NobodyLooks(t *testing.T) {
	b := newBench(t, slowConfig())
	for i := range 20 {
		b.Allow(at(0), uint(i))
	}
	b.want(at(11.9), Open)
	b.want(at(12), HalfOpen)
	b.wantTurns("2s closed->open")
}

func TestPolicies_V82(t *testing.T) {
	cfg := single()
	cfg.ErrorPPM, cfg.OpenFor = 800_000, 30*time.Second
	b := newBench(t, cfg)
	b.calls(0, 0, 20, 0)
	b.want(at(5), Open)
	cfg.ErrorPPM, cfg.OpenFor = 500_000, 12*time.Second
	b.Reconfigure(cfg, at(6))
	b.want(at(6), Open)
	if left := b.Stats(at(6)).OpenLeft; left != 6*time.Second {
		t.Errorf("%s left, want 6s", left)
	}
	b.want(at(11.9), Open)
	b.want(at(12), HalfOpen)
	cfg.OpenFor = 3 * time.Second
	b.Reconfigure(cfg, at(7))
	b.want(at(7), HalfOpen) // its time is up already
	if !b.call(at(7), Success) {
		t.Error("no probe")
	}
}
