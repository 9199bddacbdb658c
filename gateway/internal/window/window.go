// Package window counts what happened within the last while, in a ring of time
// buckets: what is older than the window is forgotten a bucket at a time, and
// nothing is forgotten or made up when nobody looks for long.
package window

import (
	"sync"
	"sync/atomic"
	"time"
)

// Counts are what a Ring holds of each bucket. Whole numbers: a share is compared
// as Failed*1000 >= milli*Total, so that 0.3 is exact.
type Counts struct{ Total, Failed, Slow int64 }

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Total + d.Total, c.Failed + d.Failed, c.Slow + d.Slow}
}

// Config is the shape of a Ring.
type Config struct {
	// Span is the window, and a whole number of Buckets.
	Span, Bucket time.Duration
	// Shards is over how many cells totals are spread, a power of two; 0: 1. Where
	// all requests of a gateway count in one Ring, one cell would be passed from
	// core to core.
	Shards int
}

// Ring counts over the running bucket and the full ones before it: with N buckets
// it spans more than N-1 of them and at most N. It is safe for concurrent use, and
// takes a lock only at the edge of a bucket. An instant that lies before one seen
// already counts as that one: a clock that goes back forgets nothing.
//
// Buckets lie on fixed multiples of their width from the base, so that they age
// the same however the calls fall.
type Ring struct {
	base  time.Time
	width time.Duration
	n     int64
	mask  uint

	head atomic.Pointer[head]
	edge atomic.Int64 // nanoseconds after base at which the running bucket ends
	rare []struct{ failed, slow atomic.Int64 }
	all  [][]atomic.Int64 // totals, by shard and bucket

	mu sync.Mutex // of edges and corrections
}

// head is the running bucket and what the others hold. It is replaced at each edge.
type head struct {
	slot   int64 // its number from the base
	index  int64 // slot % n
	before Counts
}

// New returns an empty Ring whose buckets are counted from base.
func New(cfg Config, base time.Time) *Ring {
	if cfg.Bucket <= 0 {
		cfg.Bucket = 500 * time.Millisecond
	}
	r := &Ring{base: base, width: cfg.Bucket, n: max(int64(cfg.Span/cfg.Bucket), 1)}
	shards := 1
	for shards < cfg.Shards {
		shards *= 2
	}
	r.mask = uint(shards - 1)
	r.rare = make([]struct{ failed, slow atomic.Int64 }, r.n)
	r.all = make([][]atomic.Int64, shards)
	for i := range r.all {
		r.all[i] = make([]atomic.Int64, r.n+8) // shards share no cache line
	}
	r.head.Store(&head{})
	r.edge.Store(int64(r.width))
	return r
}

// Slot is the number of the bucket that now lies in.
func (r *Ring) Slot(now time.Time) int64 { return int64(now.Sub(r.base) / r.width) }

// Start is when a bucket begins.
func (r *Ring) Start(slot int64) time.Time { return r.base.Add(time.Duration(slot) * r.width) }

// Buckets is how many there are.
func (r *Ring) Buckets() int64 { return r.n }

// Head is the number of the last bucket that was begun.
func (r *Ring) Head() int64 { return r.head.Load().slot }

// Add counts c at now. shard is any number; callers that run at once should have
// different ones.
func (r *Ring) Add(now time.Time, shard uint, c Counts) {
	if r.Behind(now) {
		r.Advance(now)
	}
	r.Put(shard, c)
}

// Behind reports whether now lies beyond the running bucket, so that Advance is due.
func (r *Ring) Behind(now time.Time) bool { return int64(now.Sub(r.base)) >= r.edge.Load() }

// Advance begins the bucket of now and empties those that time has passed.
func (r *Ring) Advance(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, at := r.head.Load(), r.Slot(now)
	if at <= h.slot { // a reading taken before another's: no time has passed
		return
	}
	for s := max(h.slot+1, at-r.n+1); s <= at; s++ {
		r.clear(s % r.n)
	}
	r.head.Store(&head{slot: at, index: at % r.n, before: r.between(at-r.n+1, at-1)})
	r.edge.Store((at + 1) * int64(r.width))
}

// Put counts c in the running bucket, whatever the time. One that is overtaken by
// an edge counts in the bucket before.
func (r *Ring) Put(shard uint, c Counts) {
	i := r.head.Load().index
	if c.Total != 0 {
		r.all[shard&r.mask][i].Add(c.Total)
	}
	// After the total, and read before it: no reader finds more failures than calls.
	if c.Failed != 0 {
		r.rare[i].failed.Add(c.Failed)
	}
	if c.Slow != 0 {
		r.rare[i].slow.Add(c.Slow)
	}
}

// Amend adds c to the bucket of at, unless that is forgotten already: what comes
// to be known of a call that was counted before is forgotten together with it.
func (r *Ring) Amend(at time.Time, c Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.head.Load()
	s := min(r.Slot(at), h.slot)
	if s <= h.slot-r.n || s < 0 {
		return
	}
	i := s % r.n
	r.all[0][i].Add(c.Total)
	r.rare[i].failed.Add(c.Failed)
	r.rare[i].slow.Add(c.Slow)
	if s != h.slot {
		r.head.Store(&head{h.slot, h.index, h.before.plus(c)})
	}
}

// Bad is how much has failed or was slow, as of the last edge: one look tells
// whether there is anything to work out.
func (r *Ring) Bad() int64 {
	h := r.head.Load()
	rare := &r.rare[h.index]
	return h.before.Failed + h.before.Slow + rare.failed.Load() + rare.slow.Load()
}

// Recent is the sum over the window, as of the last edge.
func (r *Ring) Recent() Counts {
	h := r.head.Load()
	return h.before.plus(r.at(h.index))
}

// Sum is the sum over the window at now. It changes nothing.
func (r *Ring) Sum(now time.Time) Counts {
	h := r.head.Load()
	at := r.Slot(now)
	if at <= h.slot {
		return h.before.plus(r.at(h.index))
	}
	return r.between(max(at-r.n+1, h.slot-r.n+1), h.slot)
}

// Between is the sum over the buckets with the numbers from and to and all between
// them; what lies outside the window of the last edge counts as nothing.
func (r *Ring) Between(from, to int64) Counts {
	h := r.head.Load()
	return r.between(max(from, h.slot-r.n+1), min(to, h.slot))
}

// Reset forgets everything.
func (r *Ring) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.n {
		r.clear(i)
	}
	h := r.head.Load()
	r.head.Store(&head{slot: h.slot, index: h.index})
}

func (r *Ring) between(from, to int64) (sum Counts) {
	for s := max(from, 0); s <= to; s++ {
		sum = sum.plus(r.at(s % r.n))
	}
	return sum
}

func (r *Ring) at(i int64) Counts {
	c := Counts{Failed: r.rare[i].failed.Load(), Slow: r.rare[i].slow.Load()}
	for s := range r.all {
		c.Total += r.all[s][i].Load()
	}
	return c
}

func (r *Ring) clear(i int64) {
	r.rare[i].failed.Store(0)
	r.rare[i].slow.Store(0)
	for s := range r.all {
		r.all[s][i].Store(0)
	}
}
