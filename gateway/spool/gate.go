package spool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// gate lets one goroutine wait for all writers that were inside at some moment,
// without stopping new ones: a watermark can then say that nothing older is
// still to come. It is two counters used in turn.
type gate struct {
	epoch atomic.Uint32
	_     [60]byte // the epoch is only read on the fast path: keep it off the counters' line
	in    [2]struct {
		n atomic.Int64
		_ [56]byte
	}
	drains sync.Mutex
}

// enter returns what leave wants.
func (g *gate) enter() uint32 {
	for {
		e := g.epoch.Load()
		g.in[e&1].n.Add(1)
		// A drain between the two lines would not have waited for us.
		if g.epoch.Load() == e {
			return e & 1
		}
		g.in[e&1].n.Add(-1)
	}
}

func (g *gate) leave(e uint32) { g.in[e].n.Add(-1) }

// drain returns when everyone who was inside at the call has left.
func (g *gate) drain() {
	g.drains.Lock()
	defer g.drains.Unlock()
	e := (g.epoch.Add(1) - 1) & 1
	for i := 0; g.in[e].n.Load() != 0; i++ {
		if i < 50 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// clock is wall time that never goes backwards: a watermark, once said, must
// stay true when somebody sets the machine's clock.
type clock struct {
	base   time.Time // with a monotonic reading
	wall   int64     // base in Unix nanoseconds
	offset atomic.Int64
	last   time.Duration // since base, at the last follow
}

func (c *clock) start() {
	c.base = time.Now()
	c.wall = c.base.UnixNano()
}

// now is in whole microseconds, which is what a database keeps. One reading of
// the monotonic clock and integers: it is taken for every exchange.
func (c *clock) now() time.Time {
	return time.UnixMicro((c.wall + int64(time.Since(c.base)) + c.offset.Load()) / 1000).UTC()
}

// follow lets the clock follow wall time: forward at once, backward at half
// speed. The keeper calls it before it takes a watermark.
func (c *clock) follow() {
	t := time.Now()
	since := t.Sub(c.base) // monotonic
	c.step(since, t.Round(0).Sub(c.base.Round(0))-since)
}

// step takes over ahead, by how much wall time was set since the start.
func (c *clock) step(since, ahead time.Duration) {
	have := time.Duration(c.offset.Load())
	c.offset.Store(int64(max(ahead, have-(since-c.last)/2)))
	c.last = since
}
