package limiter

import (
	"math"
	"runtime"
	"sync/atomic"
)

// bucket is the one bucket of a key that all requests share. It has no lock: a
// request that is overtaken decides again, one that is refused writes nothing.
type bucket struct{ now atomic.Pointer[cell] }

type cell struct {
	pace
	tat atomic.Int64
}

// moved stands in a cell whose tokens are on their way into the next one.
const moved = math.MaxInt64

func newBucket(p pace) *bucket {
	b := &bucket{}
	b.now.Store(&cell{pace: p})
	return b
}

// change replaces the tat of the cell; f may be called several times.
func (b *bucket) change(f func(p pace, tat int64) int64) {
	for {
		c, tat := b.load()
		if next := f(c.pace, tat); next == tat || c.tat.CompareAndSwap(tat, next) {
			return
		}
	}
}

func (b *bucket) load() (*cell, int64) {
	for {
		c := b.now.Load()
		if tat := c.tat.Load(); tat != moved {
			return c, tat
		}
		runtime.Gosched()
	}
}

func (b *bucket) take(_ uint64, cost, now int64) Verdict {
	for {
		c, tat := b.load()
		v, next := c.take(tat, now, cost)
		if !v.OK || c.tat.CompareAndSwap(tat, next) {
			return v
		}
	}
}

func (b *bucket) give(_ uint64, cost int64, _ Verdict) {
	b.change(func(p pace, tat int64) int64 { return tat - cost*p.each })
}

func (b *bucket) spend(_ uint64, cost, now int64) {
	b.change(func(p pace, tat int64) int64 { return p.spend(tat, now, cost) })
}

func (b *bucket) spent(_ uint64, now int64) int64 {
	c, tat := b.load()
	return c.pace.spent(tat, now)
}

// retarget is called by one goroutine at a time.
func (b *bucket) retarget(p pace, now int64) {
	c := b.now.Load()
	if c.pace == p {
		return
	}
	next := &cell{pace: p}
	// From here on nobody can take of the old cell; they wait for the new one.
	next.tat.Store(c.carry(p, c.tat.Swap(moved), now))
	b.now.Store(next)
}

func (b *bucket) tick(int64) {}

func (b *bucket) stats() (keys, spilled int64) { return 1, 0 }
