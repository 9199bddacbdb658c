package breaker

import (
	"fmt"
	"strconv"
	"time"

	"breakwater/gateway/internal/window"
)

// catchUp lets everything happen that was due by t, each at its own instant. mu is
// held.
func (b *Breaker) catchUp(t int64) {
	for {
		v := b.view.Load()
		switch v.state {
		case Closed:
			b.passTime(v, t)
		case HalfOpen:
			b.follow(b.half.advance(v, t), t)
		}
		if b.view.Load() == v {
			b.schedule()
			return
		}
	}
}

// passTime judges the windows that ended by t, and counts the calls that became
// slow, until the breaker trips.
func (b *Breaker) passTime(v *view, t int64) {
	for {
		boundary, slow := b.boundary(v), v.slow.due()
		if min(boundary, slow) > t {
			break
		}
		if slow < boundary { // a call is slow in the window that it became so in
			if n := v.slow.harvest(); n > 0 {
				v.ring.Advance(b.time(slow))
				v.ring.Put(0, window.Counts{Total: n, Slow: n})
				if b.trips(v) {
					b.trip(v, slow)
				}
			}
			v.slow.skip(t)
		} else {
			b.judge(v, boundary)
			if now := b.evaluation(v.cfg, min(t, slow)); v.ring.Head() < b.emptyBefore(v) && now > b.judged {
				b.judged, b.streak = now, 0 // nothing came since: all those windows are empty
			}
		}
		if b.view.Load() != v {
			return
		}
	}
	if at := b.time(t); v.ring.Behind(at) {
		v.ring.Advance(at)
	}
}

// boundary is when a window is judged next, where time does it.
func (b *Breaker) boundary(v *view) int64 {
	if v.cfg.Rule != Windows || v.cfg.Windows != 2 {
		return never
	}
	return (b.judged + 1) * v.cfg.step()
}

// step is how far judgements of two windows are apart.
func (c *Config) step() int64 {
	if c.Sliding {
		return int64(c.Bucket)
	}
	return c.span()
}

// span is the window in whole buckets.
func (c *Config) span() int64 { return max(int64(c.Window/c.Bucket), 1) * int64(c.Bucket) }

// evaluation is the number of the window, or bucket, that t lies in.
func (b *Breaker) evaluation(cfg *Config, t int64) int64 { return t / cfg.step() }

// emptyBefore: a ring whose head is below it holds nothing for the next judgement.
func (b *Breaker) emptyBefore(v *view) int64 {
	if v.cfg.Sliding {
		return b.judged - v.ring.Buckets() + 1
	}
	return b.judged * v.ring.Buckets()
}

// judge closes the window that ends at the boundary.
func (b *Breaker) judge(v *view, boundary int64) {
	n := v.ring.Buckets()
	if v.cfg.Sliding {
		c := v.ring.Between(b.judged-n+1, b.judged)
		b.judged++
		switch {
		case c.Total < v.cfg.MinRequests: // says nothing: what was, still is
		case !v.cfg.breached(c):
			b.breach = 0
		case b.breach == 0:
			b.breach = boundary
		}
		if b.breach > 0 && boundary-b.breach >= v.cfg.span() && v.cfg.breached(c) {
			b.trip(v, boundary)
		}
		return
	}
	c := v.ring.Between(b.judged*n, (b.judged+1)*n-1)
	b.judged++
	if !v.cfg.breached(c) {
		b.streak = 0
		return
	}
	if b.streak++; b.streak >= 2 {
		b.trip(v, boundary)
	}
}

// breached reports whether the calls of one window are enough, and too bad.
func (c *Config) breached(n window.Counts) bool {
	return n.Total > 0 && n.Total >= c.MinRequests &&
		(c.ErrorPPM > 0 && reaches(n.Failed, c.ErrorPPM, n.Total, c.Above) || c.slowed(n))
}

func (c *Config) slowed(n window.Counts) bool {
	return c.SlowPPM > 0 && n.Total > 0 && n.Total >= c.MinRequests && reaches(n.Slow, c.SlowPPM, n.Total, false)
}

// trips reports whether a result has to open the breaker at once. Nearly always
// one look at what is rare says no.
func (b *Breaker) trips(v *view) bool {
	c := v.cfg
	if !v.dual {
		return v.weighs && v.ring.Bad() > 0 && c.breached(v.ring.Recent())
	}
	row := b.row.Load() >= c.Consecutive
	if c.Mode == Or && row {
		return true
	}
	if c.Mode == And && !row && c.SlowPPM == 0 || v.ring.Bad() == 0 {
		return false
	}
	n := v.ring.Recent()
	return (c.Mode == Or || row) && c.breached(n) || c.slowed(n)
}

// weigh opens the breaker where the result just counted asks for it.
func (b *Breaker) weigh(now time.Time, v *view) {
	if !v.weighs || !b.trips(v) {
		return
	}
	t := b.tick(now)
	if t < b.asked.Load() {
		return
	}
	b.mu.Lock()
	defer b.unlock(now)
	b.catchUp(t)
	// Once more: edges are only crossed under the lock, so nothing is half gone.
	if at := b.view.Load(); at.gen == v.gen && at.state == Closed && b.trips(at) {
		b.trip(at, t)
	}
}

// trip opens the breaker at t, unless too many are open already; then it is asked
// again a bucket later.
func (b *Breaker) trip(v *view, t int64) {
	if b.deps.Hold != nil && !v.cfg.Observe { // who only observes takes nothing out
		if t < b.asked.Load() {
			return
		}
		if !b.deps.Hold() {
			b.asked.Store(t + int64(v.cfg.Bucket))
			return
		}
		b.held = true
	}
	b.level = b.decayed(v.cfg, t) + 1
	b.turn(Open, t, b.why(v))
}

// decayed is the level that is left after being closed until t.
func (b *Breaker) decayed(cfg *Config, t int64) int64 {
	return max(b.level-(t-b.ended)/int64(cfg.Decay), 0)
}

// why tells what tripped, in numbers.
func (b *Breaker) why(v *view) string {
	c, n := v.cfg, v.ring.Recent()
	if c.Rule == Dual {
		row := b.row.Load()
		if row >= c.Consecutive {
			return fmt.Sprintf("%d failures in a row, and %d of %d calls failed in %s", row, n.Failed, n.Total, c.Window)
		}
	}
	if c.slowed(n) {
		return fmt.Sprintf("%d of %d calls took more than %s (limit %s)", n.Slow, n.Total, c.SlowAfter, percent(c.SlowPPM))
	}
	in := c.Window.String()
	if c.Rule == Windows && c.Windows == 2 {
		in = "the last of two windows of " + in
	}
	return fmt.Sprintf("%d of %d calls failed in %s (limit %s)", n.Failed, n.Total, in, percent(c.ErrorPPM))
}

// percent writes a share as people do.
func percent(ppm int64) string {
	return strconv.FormatFloat(float64(ppm)/10_000, 'f', -1, 64) + "%"
}

// follow makes the change that a probe, or time, has decided.
func (b *Breaker) follow(c change, t int64) {
	if c.to == Open {
		b.level += c.deeper
	}
	if c.to != "" {
		b.turn(c.to, min(c.at, t), c.reason)
		return
	}
	b.schedule()
}

// schedule publishes when the clock has the next word.
func (b *Breaker) schedule() {
	b.due.Store(b.next())
	if v := b.view.Load(); v.state == HalfOpen {
		b.admit.Store(b.half.admitFrom(v))
	}
}

func (b *Breaker) next() int64 {
	v := b.view.Load()
	switch v.state {
	case Closed:
		return min((v.ring.Head()+1)*int64(v.cfg.Bucket), v.slow.due())
	case HalfOpen:
		return b.half.due(v)
	}
	return never
}
