package window

import (
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

var long = flag.Int("steps", 20_000, "how many random steps the model tests make")

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds*1e6+0.5) * time.Microsecond)
}

func standard() *Ring {
	return New(Config{Span: 10 * time.Second, Bucket: 500 * time.Millisecond, Shards: 4}, epoch)
}

func TestPolicies_V50(t *testing.T) {
	for _, busy := range []bool{false, true} {
		r := standard()
		r.Add(at(0.4), 0, Counts{Total: 1, Failed: 1})
		if busy { // others come in between: each edge is crossed
			for i := 1; i < 100; i++ {
				r.Add(at(float64(i)/10), uint(i), Counts{Total: 1})
			}
		}
		if got := r.Sum(at(9.99)).Failed; got != 1 {
			t.Errorf("busy %v: at 9.99 s it counts %d, want 1", busy, got)
		}
		if got := r.Sum(at(10)).Failed; got != 0 {
			t.Errorf("busy %v: at 10 s it counts %d, want 0", busy, got)
		}
	}
}

func TestPolicies_V51(t *testing.T) {
	r := standard()
	for i := range 10 {
		r.Add(at(float64(i)), 0, Counts{Total: 1})
	}
	r.Add(at(19), 0, Counts{Total: 1})
	if got := r.Sum(at(19)).Total; got != 1 {
		t.Errorf("after ten quiet seconds it counts %d, want 1", got)
	}
}

// Idle for a whole turn of the ring, and for many.
func TestPolicies_R37(t *testing.T) {
	for _, idle := range []float64{10, 20, 30.5, 3600, 86400 * 365} {
		r := standard()
		for i := range 20 {
			r.Add(at(float64(i)/2), uint(i), Counts{Total: 100, Failed: 100, Slow: 1})
		}
		if got := r.Sum(at(9.5 + idle)); got != (Counts{}) {
			t.Errorf("after %g s without calls it counts %+v", idle, got)
		}
		r.Add(at(9.5+idle), 0, Counts{Total: 1})
		if got := r.Recent(); got != (Counts{Total: 1}) {
			t.Errorf("after %g s it counts %+v, want the one call", idle, got)
		}
	}
}

func TestPolicies_V52(t *testing.T) {
	r := standard()
	for _, s := range []float64{0, 5, 9, 2, -3600, 9.1} {
		r.Add(at(s), 0, Counts{Total: 1})
	}
	if got := r.Sum(at(1)).Total; got != 6 {
		t.Errorf("it counts %d, want all 6", got)
	}
	if got := r.Sum(at(18.99)).Total; got != 4 {
		t.Errorf("what came late counts with bucket of 9 s: %d, want 4", got)
	}
	if got := r.Sum(at(19)).Total; got != 0 {
		t.Errorf("it counts %d at 19 s, want 0", got)
	}
}

// slow is the same as a list of what came.
type slow struct {
	list   []entry
	head   int64
	n      int64
	bucket time.Duration
}

type entry struct {
	slot int64
	c    Counts
}

func (s *slow) slot(now time.Time) int64 { return max(int64(now.Sub(epoch)/s.bucket), s.head) }

func (s *slow) add(now time.Time, c Counts) {
	s.head = s.slot(now)
	s.list = append(s.list, entry{s.head, c})
}

func (s *slow) amend(then time.Time, c Counts) {
	if slot := min(int64(then.Sub(epoch)/s.bucket), s.head); slot > s.head-s.n {
		s.list = append(s.list, entry{slot, c})
	}
}

func (s *slow) between(from, to int64) (sum Counts) {
	for _, e := range s.list {
		if e.slot >= from && e.slot <= to {
			sum = sum.plus(e.c)
		}
	}
	return sum
}

func (s *slow) sum(now time.Time) Counts {
	at := s.slot(now)
	return s.between(at-s.n+1, at)
}

func (s *slow) forget() {
	keep := s.list[:0]
	for _, e := range s.list {
		if e.slot > s.head-s.n {
			keep = append(keep, e)
		}
	}
	s.list = keep
}

func TestRingIsAsTheModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r *Ring
	var m *slow
	now := epoch
	for step := range *long {
		if step%500 == 0 {
			n := rng.Int64N(30) + 1
			bucket := time.Duration(rng.Int64N(900)+100) * time.Millisecond
			m = &slow{n: n, bucket: bucket}
			r = New(Config{Span: time.Duration(n) * bucket, Bucket: bucket, Shards: 1 << rng.IntN(4)}, epoch)
			now = epoch
		}
		switch gap := rng.IntN(100); {
		case gap < 60:
			now = now.Add(time.Duration(rng.Int64N(int64(m.bucket))))
		case gap < 70:
			now = now.Add(time.Duration(rng.Int64N(int64(m.bucket) * m.n)))
		case gap < 73:
			now = now.Add(time.Duration(rng.Int64N(int64(m.bucket) * m.n * 3)))
		case gap < 78: // back
			now = now.Add(-time.Duration(rng.Int64N(int64(m.bucket) * 3)))
			if now.Before(epoch) {
				now = epoch
			}
		}
		switch rng.IntN(20) {
		case 0:
			then := now.Add(-time.Duration(rng.Int64N(int64(m.bucket)*m.n + 1)))
			if then.Before(epoch) {
				then = epoch
			}
			c := Counts{Failed: 1}
			r.Amend(then, c)
			m.amend(then, c)
		case 1:
			r.Reset()
			m.list = nil
		case 2:
			from := m.head - rng.Int64N(m.n+3)
			to := m.head - rng.Int64N(m.n) + 1
			if got, want := r.Between(from, to), m.between(max(from, m.head-m.n+1), to); got != want {
				t.Fatalf("step %d: between %d and %d %+v, want %+v", step, from, to, got, want)
			}
		default:
			c := Counts{rng.Int64N(3), rng.Int64N(2), rng.Int64N(2)}
			r.Add(now, uint(rng.IntN(100)), c)
			m.add(now, c)
		}
		m.forget()
		look := now
		if rng.IntN(3) == 0 {
			look = now.Add(time.Duration(rng.Int64N(int64(m.bucket) * (m.n + 2))))
		}
		if got, want := r.Sum(look), m.sum(look); got != want {
			t.Fatalf("step %d: at %s %+v, want %+v", step, look.Sub(epoch), got, want)
		}
		if got, want := r.Recent(), m.between(m.head-m.n+1, m.head); got != want {
			t.Fatalf("step %d: recent %+v, want %+v", step, got, want)
		}
		if got, want := r.Bad(), m.between(m.head-m.n+1, m.head); got != want.Failed+want.Slow {
			t.Fatalf("step %d: bad %d, want %+v", step, got, want)
		}
	}
}

// However instants fall: nothing is below zero, nothing is more than was added, and
// what was added at the latest instant is there.
func FuzzRing(f *testing.F) {
	f.Add([]byte{0, 10, 200, 3, 255, 255})
	f.Add([]byte{128, 127, 255, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := New(Config{Span: 3 * time.Second, Bucket: 200 * time.Millisecond}, epoch)
		now, added := epoch, int64(0)
		for i := 0; i+1 < len(data); i += 2 {
			step := time.Duration(int(data[i])-100) * time.Duration(data[i+1]) * time.Millisecond
			now = now.Add(step)
			r.Add(now, uint(i), Counts{Total: 1, Failed: int64(data[i] & 1)})
			added++
			c := r.Sum(now)
			if c.Total < 1 || c.Total > added || c.Failed < 0 || c.Failed > c.Total {
				t.Fatalf("after %d calls it counts %+v", added, c)
			}
		}
	})
}

func TestAllAtOnce(t *testing.T) {
	r := New(Config{Span: 10 * time.Second, Bucket: 500 * time.Millisecond, Shards: 4}, epoch)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				r.Add(at(float64(i)*9/2000), uint(g), Counts{Total: 1, Failed: 1})
				if c := r.Sum(at(float64(i) * 9 / 2000)); c.Failed > c.Total {
					t.Errorf("%d of %d failed", c.Failed, c.Total)
				}
			}
		})
	}
	all.Wait()
	// One that is overtaken by an edge counts a bucket earlier; none is lost.
	r.Advance(at(9.4))
	r.Advance(at(9.6))
	if got := r.Sum(at(9.6)); got != (Counts{Total: 16000, Failed: 16000}) {
		t.Errorf("counted %+v, want 16000 of each", got)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	r := standard()
	if n := testing.AllocsPerRun(1000, func() { r.Add(at(1), 1, Counts{Total: 1, Failed: 1}); _ = r.Recent() }); n != 0 {
		t.Errorf("adding allocates %.1f times", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	r := standard()
	b.ReportAllocs()
	var shard uint
	var mu sync.Mutex
	b.RunParallel(func(pb *testing.PB) {
		mu.Lock()
		shard++
		mine := shard
		mu.Unlock()
		now := at(1)
		for pb.Next() {
			r.Add(now, mine, Counts{Total: 1})
		}
	})
}
