package breaker

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestFeasible(t *testing.T) {
	polo := dual(And, 80, 250_000)
	const s = time.Second
	never := time.Duration(-1)
	tests := []struct {
		name  string
		cfg   Config
		milli int64
		want  [4]time.Duration
		why   string
	}{
		{"one window", single(), 20_000, [4]time.Duration{never, 10 * s, 6 * s, 3 * s}, "it trips 3s"},
		{"two windows, at the worst", Default(), 20_000, [4]time.Duration{never, 30 * s, 26 * s, 23 * s}, "it trips 23s"},
		{"too few calls", single(), 1_999, [4]time.Duration{never, never, never, never}, "fewer than 20 in 10s"},
		{"just enough", single(), 2_000, [4]time.Duration{never, 10 * s, 6 * s, 3 * s}, "it trips"},
		{"no calls", single(), 0, [4]time.Duration{never, never, never, never}, "no traffic"},
		// The drill that hung for a quarter of an hour: 80 in a row never came.
		{"a row and a share", polo, 20_000, [4]time.Duration{never, never, never, 7500 * time.Millisecond}, "80 in a row"},
		{"a row or a share", dual(Or, 3, 0), 10_000, [4]time.Duration{111 * s, 5100 * time.Millisecond, 1400 * time.Millisecond, 300 * time.Millisecond}, "it trips"},
		{"off", Config{Disabled: true}, 20_000, [4]time.Duration{never, never, never, never}, "switched off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Feasible(tt.cfg, tt.milli)
			for i, trip := range f.Trips {
				if (tt.want[i] == never) != trip.Never || !trip.Never && trip.After != tt.want[i] {
					t.Errorf("at %d %% it trips after %s (never %v), want %s", trip.FailPercent, trip.After, trip.Never, tt.want[i])
				}
			}
			if f.CanTrip != (tt.want[3] != never) || !strings.Contains(f.Why, tt.why) {
				t.Errorf("can trip %v: %q, want %q", f.CanTrip, f.Why, tt.why)
			}
		})
	}
}

// What it foretells is what a breaker does.
func TestFeasibleIsWhatHappens(t *testing.T) {
	const rate, runs = 20, 5 // calls a second
	for _, cfg := range []Config{single(), Default(), dual(Or, 5, 300_000), dual(And, 4, 250_000)} {
		for i, percent := range []int{10, 30, 50, 100} {
			trip := Feasible(cfg, rate*1000).Trips[i]
			want := trip.After.Seconds()
			if percent == 30 || want > 60 {
				continue // at the limit itself chance decides, and the rest takes long
			}
			rng := rand.New(rand.NewPCG(uint64(percent), 1))
			tripped, sum := 0, 0.0
			for range runs {
				b := newBench(t, cfg)
				start := 30 + rng.Float64()*10
				b.calls(0, start, 0, int(start*rate))
				for n := range int((5*want + 30) * rate) {
					now := start + float64(n)/rate
					r := Success
					if rng.IntN(100) < percent {
						r = Failure
					}
					b.call(at(now), r)
					if len(b.turns) > 0 {
						tripped++
						sum += now - start
						break
					}
				}
			}
			mean := sum / max(float64(tripped), 1)
			if tripped != runs && !trip.Never || tripped > 1 && trip.Never || !trip.Never && (mean > 3*want+1 || mean < want/3-1) {
				t.Errorf("%s %d%s at %d %%: tripped %d times of %d after %.1f s, foretold %g s (never %v)",
					cfg.Rule, cfg.Windows, cfg.Mode, percent, tripped, runs, mean, want, trip.Never)
			}
		}
	}
}

func TestRateOfStats(t *testing.T) {
	b := newBench(t, single())
	b.calls(0, 2, 0, 20)
	if got := b.Stats(at(2)).RateMilli; got != 10_000 {
		t.Errorf("20 calls in the first 2 s are %d thousandths a second, want 10000", got)
	}
	b.calls(2, 20, 0, 90)
	if got := b.Stats(at(19.99)).RateMilli; got != 5_000 {
		t.Errorf("5 calls a second are %d thousandths a second, want 5000", got)
	}
}
