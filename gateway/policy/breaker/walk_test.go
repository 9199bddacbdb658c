package breaker

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

var (
	steps = flag.Int("steps", 20_000, "how many random steps the model test makes")
	seed  = flag.Uint64("seed", 3, "where its walk begins")
)

// some is a random configuration.
func some(rng *rand.Rand) Config {
	pick := func(n ...int64) int64 { return n[rng.IntN(len(n))] }
	c := Default()
	c.Windows = pick(1, 2)
	c.Bucket = time.Duration(pick(2, 5, 10)) * tenth
	c.Window = c.Bucket * time.Duration(pick(1, 2, 5, 10, 20))
	c.ErrorPPM = pick(100_000, 300_000, 500_000, 1_000_000)
	c.MinRequests = pick(1, 3, 20)
	if rng.IntN(3) == 0 {
		c.Rule, c.Windows, c.Above = Dual, 0, true
		c.Mode = []Mode{And, Or}[rng.IntN(2)]
		c.Consecutive = pick(1, 3, 10)
		c.ErrorPPM = pick(250_000, 500_000)
	}
	if rng.IntN(2) == 0 {
		c.SlowAfter, c.SlowPPM = 64*tenth, pick(200_000, 500_000, 1_000_000) // slots are tenths
	}
	c.OpenFor = time.Duration(pick(5, 20, 100)) * tenth
	c.MaxOpen = max(c.OpenFor, time.Duration(pick(30, 300))*tenth)
	c.Decay = time.Duration(pick(50, 300)) * tenth
	c.HalfOpen = Trial{
		Simple: rng.IntN(4) == 0, Window: time.Duration(pick(10, 20, 100)) * tenth, Probes: pick(1, 2, 5, 10), PassPPM: pick(500_000, 800_000, 1_000_000),
		PassWindows: pick(1, 3), Stuck: time.Duration(pick(100, 600)) * tenth,
	}
	return c
}

func TestBreakerIsAsTheModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seed, 4))
	var b *Breaker
	var m *model
	var out []*modelCall
	permits := map[*modelCall]Permit{}
	shards := map[*modelCall]uint{}
	var turns []retrylog.Transition
	reached := map[string]int{}
	bad := 0
	seen := m
	for step := range *steps {
		if step%400 == 0 {
			cfg := some(rng)
			turns = nil
			b = New(cfg, Deps{Shards: 1 + rng.IntN(4), Changed: func(c retrylog.Transition) { turns = append(turns, c) }}, epoch)
			m = &model{cfg: cfg.filled(), state: Closed, latest: -1}
			out = nil
			clear(permits)
			clear(shards)
			bad = rng.IntN(101)
			seen = &model{state: Closed}
		}
		switch gap := rng.IntN(200); {
		case gap < 80:
			m.walk(m.now + int64(rng.IntN(4)))
		case gap < 100:
			m.walk(m.now + int64(rng.IntN(30)))
		case gap < 101:
			m.walk(m.now + int64(rng.IntN(3000)))
		case gap < 103:
			bad = []int{0, rng.IntN(101), 100}[rng.IntN(3)]
		}
		now := epoch.Add(time.Duration(m.now) * tenth)
		what := "look"
		switch op := rng.IntN(100); {
		case op < 50:
			what = "allow"
			c := m.allow()
			p, ok := b.Allow(now, uint(step))
			if ok != (c != nil) {
				for _, c := range turns {
					t.Log(c.At.Sub(epoch), c.From, c.To, c.Reason)
				}
				t.Logf("%+v; model since %d level %d probes", b.Stats(now), m.since, m.level)
				for _, p := range m.probes {
					t.Logf("%+v", *p)
				}
				t.Fatalf("step %d at %s: let through %v, want %v; %s, config %+v", step, now.Sub(epoch), ok, c != nil, m.state, m.cfg)
			}
			if ok {
				out = append(out, c)
				permits[c], shards[c] = p, uint(step)
			}
		case op < 90 && len(out) > 0:
			what = "done"
			i := rng.IntN(len(out))
			c := out[i]
			out = slices.Delete(out, i, i+1)
			r := Success
			if rng.IntN(100) < bad {
				r = Failure
			} else if rng.IntN(10) == 0 {
				r = Ignored
			}
			m.done(c, r)
			b.Done(now, shards[c], permits[c], r)
		case op < 92:
			what = "reconfigure"
			m.cfg.OpenFor = []time.Duration{5 * tenth, 20 * tenth, 100 * tenth}[rng.IntN(3)]
			m.cfg.MaxOpen = max(m.cfg.OpenFor, m.cfg.MaxOpen)
			b.Reconfigure(m.cfg, now)
		}
		if rng.IntN(2) == 0 {
			continue // nobody looks: it makes no difference
		}
		s := b.Stats(now)
		got := fmt.Sprint(s.State, s.Total, s.Failed, s.Slow)
		want := m.stateNow()
		r := result{}
		if want == Closed {
			r = m.window()
		}
		if w := fmt.Sprint(want, r.total, r.failed, r.slow); got != w && testing.Verbose() {
			t.Logf("model %+v", m.results)
			v := b.view.Load()
			for i := range v.ring.Buckets() {
				t.Log(v.ring.Head()-i, v.ring.Between(v.ring.Head()-i, v.ring.Head()-i))
			}
		}
		if w := fmt.Sprint(want, r.total, r.failed, r.slow); got != w {
			t.Fatalf("step %d at %s, after %s: %s, want %s; level %d, config %+v", step, now.Sub(epoch), what, got, w, m.level, m.cfg)
		}
		if want != Closed && s.Level != m.level {
			t.Fatalf("step %d: level %d, want %d", step, s.Level, m.level)
		}
		if seen.state != want {
			reached[string(seen.state)+" "+string(want)]++
			seen.state = want
		}
	}
	for _, turn := range []string{"closed open", "open half_open", "half_open open", "half_open closed"} {
		if reached[turn] < 5 {
			t.Errorf("the walk went %q only %d times", turn, reached[turn])
		}
	}
}
