package limiter

import (
	"math/bits"
	"time"
)

// Verdict is what follows a request for tokens.
type Verdict struct {
	OK        bool
	Remaining int64 // tokens left at this instant
	// Retry is when so many tokens will be there; 0 with a refusal: never, since
	// the request costs more than the bucket holds.
	Retry time.Duration

	spilled bool // the key had no bucket of its own
}

// pace is a Rate in nanoseconds: each is what one token takes to come, full what
// a whole bucket of burst tokens does.
type pace struct{ each, full, burst int64 }

func (r Rate) pace() pace {
	if r.Tokens <= 0 || r.Per <= 0 {
		return pace{}
	}
	each := max(int64(r.Per)/r.Tokens, 1)
	burst := max(r.Burst, 1)
	return pace{each, each * burst, burst}
}

// take is the generic cell rate algorithm (ITU-T I.371, annex A). The state of a
// bucket is one instant, tat: when it will be full if nothing more is taken.
// A now that lies before an earlier one finds tat further away and so never finds
// a token that the earlier one did not: clocks out of order mint nothing.
func (p pace) take(tat, now, cost int64) (v Verdict, next int64) {
	t := max(tat, now)
	if cost > p.burst {
		return Verdict{Remaining: p.left(t, now)}, tat
	}
	next = t + cost*p.each
	if wait := next - p.full - now; wait > 0 {
		return Verdict{Remaining: p.left(t, now), Retry: time.Duration(wait)}, tat
	}
	return Verdict{OK: true, Remaining: p.left(next, now)}, next
}

func (p pace) left(tat, now int64) int64 { return max(p.full-(tat-now), 0) / p.each }

// spend takes what is there of cost.
func (p pace) spend(tat, now, cost int64) int64 {
	t := max(tat, now)
	return max(t, min(t+min(cost, p.burst)*p.each, now+p.full))
}

// spent is how many tokens are missing, rounded up.
func (p pace) spent(tat, now int64) int64 {
	gone := min(max(tat-now, 0), p.full)
	return (gone + p.each - 1) / p.each
}

// carry gives a bucket of pace p the pace of q: it keeps its tokens, as many as q holds.
func (p pace) carry(q pace, tat, now int64) int64 {
	if p == q {
		return tat
	}
	level := p.full - (max(tat, now) - now) // in nanoseconds of p
	if level < 0 {
		// now is older than what the bucket has seen: it stays empty until the same instant.
		return tat - p.full + q.full
	}
	if level/p.each >= q.burst {
		return now
	}
	hi, lo := bits.Mul64(uint64(level), uint64(q.each))
	scaled, _ := bits.Div64(hi, lo, uint64(p.each)) // less than q.full, see above
	return now + q.full - int64(scaled)
}
