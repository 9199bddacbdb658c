package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// ring counts two things over a sliding span, by slots on fixed multiples of
// their width, as the wall clock had them at the first call: measured from the
// last call instead, calls 1.9 slots apart would age by one slot each time, and a
// bound on any ten whole slots would be none on the ten seconds that a dashboard
// shows. Every request passes here, so there is no lock but at the edge of a slot.
type ring struct {
	width  time.Duration             // of a slot
	base   atomic.Pointer[time.Time] // of slot 0
	slot   atomic.Int64              // number of the running slot
	counts []counts

	mu sync.Mutex // of whatever is rarer than a count: a new slot, a retry
}

type counts struct{ a, b atomic.Int64 }

func newRing(span time.Duration, slots int) *ring {
	r := &ring{width: span / time.Duration(slots), counts: make([]counts, slots)}
	if r.width <= 0 {
		r.width = time.Second
	}
	return r
}

// here is the running slot. A count that is overtaken by the edge of a slot
// counts in the slot before.
func (r *ring) here(now time.Time) *counts {
	if base := r.base.Load(); base == nil || r.at(*base, now) > r.slot.Load() {
		r.mu.Lock()
		r.advance(now)
		r.mu.Unlock()
	}
	return &r.counts[r.slot.Load()%int64(len(r.counts))]
}

func (r *ring) sums() (a, b int64) {
	for i := range r.counts {
		a += r.counts[i].a.Load()
		b += r.counts[i].b.Load()
	}
	return a, b
}

func (r *ring) at(base, now time.Time) int64 { return int64(now.Sub(base) / r.width) }

// advance empties the slots that time has passed. mu is held.
func (r *ring) advance(now time.Time) {
	base := r.base.Load()
	if base == nil {
		// Only this call has one on the heap. The monotonic reading stays with it.
		first := now.Add(-time.Duration(now.UnixNano() % int64(r.width*time.Duration(len(r.counts)))))
		base = &first
		r.base.Store(base)
	}
	at, slot := r.at(*base, now), r.slot.Load()
	if at <= slot { // a reading taken before another's: no time has passed
		return
	}
	n := int64(len(r.counts))
	for k := min(at-slot, n); k > 0; k-- {
		c := &r.counts[(at-k+1)%n]
		c.a.Store(0)
		c.b.Store(0)
	}
	r.slot.Store(at)
}
