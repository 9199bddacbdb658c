package limiter

import (
	"sync"
	"testing"
	"time"
)

// A change multiplies or replaces the rate, in the direction it names and no other.
func TestAChangeGoesOneWay(t *testing.T) {
	own := Rate{100, time.Second, 50}
	for _, tt := range []struct {
		name   string
		change Change
		each   time.Duration
		burst  int64
	}{
		{"none", Change{}, 10 * time.Millisecond, 50},
		{"a half", Change{FactorPPM: 500_000}, 20 * time.Millisecond, 25},
		{"a third", Change{FactorPPM: 333_333}, 30_000_030, 16},
		{"twice, but tightening", Change{FactorPPM: 2_000_000}, 10 * time.Millisecond, 50},
		{"twice", Change{FactorPPM: 2_000_000, Relax: true}, 5 * time.Millisecond, 100},
		{"a half, but relaxing", Change{FactorPPM: 500_000, Relax: true}, 10 * time.Millisecond, 50},
		{"to a rate", Change{To: Rate{10, time.Second, 10}}, 100 * time.Millisecond, 10},
		{"to a larger rate, but tightening", Change{To: Rate{1000, time.Second, 10}}, 10 * time.Millisecond, 50},
		{"to a larger rate", Change{To: Rate{1000, time.Second, 1000}, Relax: true}, time.Millisecond, 1000},
		{"a half or a rate, whichever is less", Change{FactorPPM: 500_000, To: Rate{10, time.Second, 10}}, 100 * time.Millisecond, 10},
		{"less than a hundredth", Change{FactorPPM: 1}, time.Second, 1},
		{"more than ten times", Change{FactorPPM: 1 << 40, Relax: true}, time.Millisecond, 500},
	} {
		l := New(Config{Rate: own}, epoch)
		l.Change(tt.change, epoch)
		if each, burst := l.Now(); each != tt.each || burst != tt.burst {
			t.Errorf("%s: one each %v and %d at once, want %v and %d", tt.name, each, burst, tt.each, tt.burst)
		}
		l.Reconfigure(Config{Rate: own}, epoch) // a reload under way
		if each, burst := l.Now(); each != tt.each || burst != tt.burst {
			t.Errorf("%s, after a reload: %v and %d", tt.name, each, burst)
		}
		l.Change(Change{}, epoch)
		if each, burst := l.Now(); each != 10*time.Millisecond || burst != 50 {
			t.Errorf("%s, taken back: %v and %d", tt.name, each, burst)
		}
	}
	dear := New(Config{Rate: own, Cost: Cost{Tokens: 1, Header: "X-Cost", Max: 20}}, epoch)
	dear.Change(Change{FactorPPM: 100_000}, epoch)
	if _, burst := dear.Now(); burst != 20 {
		t.Errorf("a bucket of %d shuts out requests that cost 20", burst)
	}
	none := New(Config{Quota: "shared"}, epoch)
	none.Change(Change{FactorPPM: 100_000}, epoch)
	if v := none.Take(KeyValue{}, 1, epoch); !v.OK {
		t.Error("a route without a rate was limited")
	}
}

// Nobody who takes tokens while the rate changes gets more of them than there are.
func TestAChangeMintsNothing(t *testing.T) {
	for name, key := range map[string]Key{"one bucket": {}, "a table": {By: ByTenant}} {
		l := New(Config{Rate: Rate{1, time.Hour, 1000}, Key: key}, epoch)
		k := KeyValue{kind: ofTenant, text: "t"}
		var group sync.WaitGroup
		var passed [4]int
		for i := range passed {
			group.Go(func() {
				for range 2000 {
					if l.Take(k, 1, epoch).OK {
						passed[i]++
					}
				}
			})
		}
		for range 200 {
			l.Change(Change{FactorPPM: 500_000}, epoch)
			l.Change(Change{}, epoch)
		}
		group.Wait()
		if total := passed[0] + passed[1] + passed[2] + passed[3]; total > 1000 {
			t.Errorf("%s: %d passed, there were 1000", name, total)
		}
	}
}

// Whatever is asked for, a bucket's instants fit and its direction holds.
func FuzzChange(f *testing.F) {
	f.Add(int64(1), int64(24*time.Hour), int64(1), int64(1), int64(0), int64(0), int64(0), false, int64(1))
	f.Add(int64(1_000_000), int64(time.Second), int64(1_000_000), int64(10_000_000), int64(5), int64(time.Second), int64(9), true, int64(20))
	f.Fuzz(func(t *testing.T, tokens, per, burst, factor, toTokens, toPer, toBurst int64, relax bool, least int64) {
		rate := func(tokens, per, burst int64) Rate { // as documents and plans are bounded
			r := Rate{bound(tokens, 0, MaxTokens), time.Duration(bound(per, 1, int64(MaxPer))), bound(burst, 1, MaxBurst)}
			if r.Tokens > 0 {
				r.Burst = min(r.Burst, int64(MaxFill/max(r.Per/time.Duration(r.Tokens), 1)))
			}
			return r
		}
		own := rate(tokens, per, burst).pace()
		c := Change{FactorPPM: max(factor, 0), To: rate(toTokens, toPer, toBurst), Relax: relax}
		got := c.of(own, bound(least, 1, MaxBurst))
		switch {
		case own.each == 0 && got != own:
			t.Fatalf("%+v became %+v", own, got)
		case own.each == 0:
			return
		case got.each < 1 || got.burst < 1 || got.full != got.each*got.burst || got.full < 0 || got.full > int64(100*MaxFill):
			t.Fatalf("%+v by %+v became %+v", own, c, got)
		case relax && got.each > own.each, !relax && got.each < own.each:
			t.Fatalf("%+v by %+v became %+v: the wrong way", own, c, got)
		}
		tat := own.carry(got, own.full/2, 0)
		got.carry(own, tat, 1)
	})
}

func bound(v, lo, hi int64) int64 { return min(max(v, lo), hi) }
