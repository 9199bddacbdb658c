package limiter

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var steps = flag.Int("steps", 20_000, "steps of the model-based tests")

func at(ms int64) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func perSecond(tokens, burst int64) Rate { return Rate{tokens, time.Second, burst} }

// step is one request of a table: at so many milliseconds.
type step struct {
	at, cost  int64
	ok        bool
	remaining int64 // of those that pass
	retry     time.Duration
}

func play(t *testing.T, rate Rate, steps []step) {
	t.Helper()
	for name, l := range map[string]*Limiter{
		"one bucket": New(Config{Rate: rate}, epoch),
		"a table":    New(Config{Rate: rate, Key: Key{By: ByTenant}}, epoch),
	} {
		k := KeyValue{kind: ofTenant, text: "t"}
		for i, s := range steps {
			v := l.Take(k, max(s.cost, 1), at(s.at))
			if v.OK != s.ok || v.OK && v.Remaining != s.remaining || v.Retry != s.retry {
				t.Errorf("%s, step %d at %d ms: got %+v, want %+v", name, i, s.at, v, s)
			}
		}
	}
}

const ms = time.Millisecond

func TestPolicies_V71(t *testing.T) {
	play(t, perSecond(10, 5), []step{
		{0, 1, true, 4, 0}, {0, 1, true, 3, 0}, {0, 1, true, 2, 0}, {0, 1, true, 1, 0}, {0, 1, true, 0, 0},
		{0, 1, false, 0, 100 * ms}, {50, 1, false, 0, 50 * ms}, {100, 1, true, 0, 0}, {100, 1, false, 0, 100 * ms},
		{250, 1, true, 0, 0}, {1000, 1, true, 4, 0}, {1000, 1, true, 3, 0},
	})
}

func TestPolicies_V72(t *testing.T) {
	play(t, perSecond(10, 5), []step{
		{0, 6, false, 0, 0}, {0, 5, true, 0, 0}, {0, 1, false, 0, 100 * ms}, {499, 1, true, 3, 0}, {500, 5, false, 0, 100 * ms},
	})
}

// R48: clocks out of order mint nothing.
func TestPolicies_R48(t *testing.T) {
	for name, l := range map[string]*Limiter{
		"one bucket": New(Config{Rate: perSecond(10, 1)}, epoch),
		"a table":    New(Config{Rate: perSecond(10, 1), Key: Key{By: ByTenant}}, epoch),
	} {
		k := KeyValue{kind: ofTenant, text: "t"}
		passed := 0
		for i := range 1000 {
			if l.Take(k, 1, at(int64(i+1)%2*100)).OK {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("%s: %d of 1000 passed, want 1", name, passed)
		}
		for i := range 10 {
			if ok := l.Take(k, 1, at(200)).OK; ok != (i == 0) {
				t.Errorf("%s: call %d at 200 ms: %v", name, i, ok)
			}
		}
	}
}

func TestPolicies_R49(t *testing.T) {
	steps := []step{}
	for i := range int64(6) {
		steps = append(steps, step{0, 1, true, 5 - i, 0})
	}
	steps = append(steps, step{0, 1, false, 0, 10 * time.Second}, step{9999, 1, false, 0, ms}, step{10_000, 1, true, 0, 0}, step{10_000, 1, false, 0, 10 * time.Second})
	play(t, Rate{6, time.Minute, 6}, steps)
}

// model is the definition: between any two grants there is never more than a
// burst and what has come in meanwhile.
type model struct {
	pace
	grants []struct{ at, cost int64 }
}

func (m *model) take(now, cost int64) bool {
	sum := cost * m.each
	if sum > m.full {
		return false
	}
	for i := len(m.grants) - 1; i >= 0; i-- {
		g := m.grants[i]
		if sum += g.cost * m.each; sum-m.full > now-g.at {
			return false
		}
	}
	m.grants = append(m.grants, struct{ at, cost int64 }{now, cost})
	return true
}

// Random requests, with clocks that go back now and then, against the definition.
// go test ./gateway/policy/limiter -run Model -steps 1000000
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	done := 0
	for done < *steps {
		rate := Rate{rng.Int64N(50) + 1, time.Duration(rng.Int64N(9)+1) * time.Second / 4, rng.Int64N(20) + 1}
		m := &model{pace: rate.pace()}
		one, many := New(Config{Rate: rate}, epoch), New(Config{Rate: rate, Key: Key{By: ByTenant}}, epoch)
		k := KeyValue{kind: ofTenant, text: "t"}
		now := int64(0)
		for range 2000 {
			now += rng.Int64N(2 * m.each)
			when := now
			if rng.IntN(10) == 0 {
				when -= rng.Int64N(m.full) // a request that was overtaken
			}
			when = max(when, 0)
			cost := rng.Int64N(3) + 1
			want := m.take(when, cost)
			for name, l := range map[string]*Limiter{"one bucket": one, "a table": many} {
				v := l.Take(k, cost, epoch.Add(time.Duration(when)))
				if v.OK != want {
					t.Fatalf("%s, %+v, step %d: cost %d at %d ns: got %+v, want %v", name, rate, done, cost, when, v, want)
				}
				if v.OK || v.Retry == 0 {
					continue
				}
				// The slot that is told is the first: not a nanosecond sooner.
				probe := func(after time.Duration) bool {
					c := &model{m.pace, append([]struct{ at, cost int64 }(nil), m.grants...)}
					return c.take(when+int64(after), cost)
				}
				if !probe(v.Retry) || probe(v.Retry-1) {
					t.Fatalf("%s, %+v: retry %v is not the first slot", name, rate, v.Retry)
				}
			}
			if done++; done >= *steps {
				return
			}
		}
	}
}

func TestCarry(t *testing.T) {
	tests := []struct {
		name     string
		from, to Rate
		taken    int64
		at       int64 // ms
		want     int64 // tokens after
	}{
		{"nothing changes", perSecond(10, 10), perSecond(10, 10), 4, 0, 6},
		{"a full bucket and a greater burst", perSecond(10, 10), perSecond(10, 20), 0, 0, 10},
		{"a full bucket and a smaller burst", perSecond(10, 10), perSecond(10, 3), 0, 0, 3},
		{"an empty bucket and another rate", perSecond(10, 10), perSecond(1000, 1000), 10, 0, 0},
		{"half of one", perSecond(10, 10), perSecond(1000, 10), 5, 50, 5},
		{"the slowest and the fastest", Rate{1, MaxPer, 366}, perSecond(MaxTokens, MaxBurst), 6, 0, 360},
		{"the fastest and the slowest", perSecond(MaxTokens, MaxBurst), Rate{1, MaxPer, 366}, MaxBurst - 7, 0, 7},
	}
	for _, tt := range tests {
		for _, by := range []By{ByRoute, ByTenant} {
			k := KeyValue{kind: Key{By: by}.kind(), text: "t"}
			l := New(Config{Rate: tt.from, Key: Key{By: by}}, epoch)
			// The key is one that is known: it was here, and has come to rest.
			l.Take(k, max(tt.taken, 1), at(-1000*60*60))
			if tt.taken > 0 {
				l = New(Config{Rate: tt.from, Key: Key{By: by}}, epoch)
				l.Take(k, tt.taken, at(0))
			}
			l.Reconfigure(Config{Rate: tt.to, Key: Key{By: by}}, at(tt.at))
			got := int64(0)
			for l.Take(k, 1, at(tt.at)).OK {
				got++
			}
			if got != tt.want {
				t.Errorf("%s, by %s: %d tokens, want %d", tt.name, by, got, tt.want)
			}
		}
	}
}

// A reload that knows an older instant than the last request gives nothing away.
func TestCarryByAnOlderClock(t *testing.T) {
	for _, by := range []By{ByRoute, ByTenant} {
		k := KeyValue{kind: Key{By: by}.kind(), text: "t"}
		l := New(Config{Rate: perSecond(1, 1), Key: Key{By: by}}, epoch)
		l.Take(k, 1, at(5000))
		l.Reconfigure(Config{Rate: perSecond(2, 1), Key: Key{By: by}}, at(1000))
		if l.Take(k, 1, at(5499)).OK || !l.Take(k, 1, at(5500)).OK {
			t.Errorf("by %s: the next token is not half a second after the last", by)
		}
	}
}

// V-83: reloads give nothing away.
func TestPolicies_V83(t *testing.T) {
	for _, by := range []By{ByRoute, ByTenant} {
		cfg := Config{Rate: perSecond(1, 10), Key: Key{By: by}}
		l := New(cfg, epoch)
		k := KeyValue{kind: Key{By: by}.kind(), text: "t"}
		admitted := 0
		for s := range int64(100) {
			for i := range int64(50) {
				if l.Take(k, 1, at(s*1000+i*20)).OK {
					admitted++
				}
			}
			// Every second document says something else; the burst is the same or less.
			next := cfg
			next.Rate.Burst = 10 - s%2
			l.Reconfigure(next, at(s*1000+999))
		}
		if admitted > 110 || admitted < 100 {
			t.Errorf("by %s: %d admitted in 100 s of a reload each, want 100 to 110", by, admitted)
		}
	}
}

func TestGiveReturnsWhatWasTaken(t *testing.T) {
	for _, by := range []By{ByRoute, ByTenant} {
		l := New(Config{Rate: perSecond(10, 5), Key: Key{By: by}}, epoch)
		k := KeyValue{kind: Key{By: by}.kind(), text: "t"}
		for range 20 {
			v := l.Take(k, 3, at(0))
			if !v.OK {
				t.Fatal("a token given back is not there")
			}
			l.Give(k, 3, v)
		}
		for i := range 6 {
			if ok := l.Take(k, 1, at(0)).OK; ok != (i < 5) {
				t.Errorf("by %s: token %d: %v", by, i, ok)
			}
		}
	}
}
