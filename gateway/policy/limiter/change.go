package limiter

import (
	"math/bits"
	"time"
)

// Change alters a rate for a while, by FactorPPM of it or to the rate To, or to the
// smaller of the two. Which way is said, since "change the limit" has been read as
// both: without Relax a rate is never raised, with it never lowered. The zero
// Change changes nothing.
type Change struct {
	FactorPPM int64
	To        Rate
	Relax     bool
}

// Bounds of Change.FactorPPM: a hundredth of a rate and ten times of it.
const (
	MinFactorPPM = million / 100
	MaxFactorPPM = 10 * million
)

const million = 1_000_000

// of is the pace that p becomes. A bucket holds at least what one request may cost,
// or that request could never pass.
func (c Change) of(p pace, least int64) pace {
	if p.each == 0 {
		return p
	}
	var next pace
	if c.FactorPPM > 0 {
		factor := min(max(c.FactorPPM, MinFactorPPM), MaxFactorPPM)
		next = newPace(mulDiv(p.each, million, factor), mulDiv(p.burst, factor, million))
	}
	if to := c.To.pace(); to.each > 0 && (next.each == 0 || to.each > next.each) {
		next = to
	}
	switch {
	case next.each == 0, c.Relax && next.each > p.each, !c.Relax && next.each < p.each:
		return p
	}
	// The burst goes the same way as the rate.
	if c.Relax {
		next.burst = max(next.burst, p.burst)
	} else {
		next.burst = min(next.burst, p.burst)
	}
	return newPace(next.each, min(max(next.burst, least, 1), MaxBurst))
}

// newPace bounds the time a bucket takes to fill, so that its instants fit an int64.
func newPace(each, burst int64) pace {
	each, burst = max(each, 1), max(burst, 1)
	if most := int64(100 * MaxFill); each > most/burst {
		each = max(most/burst, 1)
	}
	return pace{each, each * burst, burst}
}

// mulDiv is a*b/c; the caller knows that it fits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// Change has the limiter go by c from now on, until it is told otherwise. Like
// Reconfigure it is called by one goroutine at a time; requests wait for nothing.
func (l *Limiter) Change(c Change, now time.Time) {
	l.change = c
	l.held.Store(renew(l.held.Load(), l.pace(), l.cfg.Key, l.cfg.MaxKeys, l.at(now)))
}

// Changed reports whether Change(c) would change anything.
func (l *Limiter) Changed(c Change) bool { return l.change != c }

func (l *Limiter) pace() pace {
	own := l.cfg.Rate.pace()
	if l.change == (Change{}) {
		return own
	}
	return l.change.of(own, max(l.cfg.Cost.Tokens, l.cfg.Cost.Max, 1))
}

// Now is the rate that rules: each is what one token takes to come, 0 where there is
// no rate, and burst what a full bucket holds.
func (l *Limiter) Now() (each time.Duration, burst int64) {
	p := l.held.Load().pace
	return time.Duration(p.each), p.burst
}
