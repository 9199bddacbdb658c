package breaker

import (
	"time"

	"breakwater/internal/retrylog"
)

// turn changes the state at t. mu is held.
func (b *Breaker) turn(to State, t int64, reason string) {
	before := b.view.Load()
	next := *before
	next.state, next.gen, next.until = to, before.gen+1, 0
	b.account(before, t)
	b.turns[index(before.state)][index(to)]++
	b.since, b.streak, b.breach = t, 0, 0
	b.row.Store(0)
	switch to {
	case Open:
		next.until = t + int64(next.cfg.openFor(b.level))
	case HalfOpen:
		b.half = half{since: t}
	case Closed:
		b.ended = t
		b.half = half{}
		// What failed before has been paid for.
		next.ring = b.ring(next.cfg)
		next.ring.Advance(b.time(t))
		next.slow = b.flights(next.cfg, t)
		b.judged = b.evaluation(next.cfg, t)
		b.free()
	}
	b.show(next)
	b.schedule()
	b.told = append(b.told, retrylog.Transition{
		At: b.time(t), Policy: "breaker", Endpoint: b.deps.Endpoint, From: string(before.state), To: string(to), Reason: reason,
	})
}

func (b *Breaker) openFor() time.Duration { return b.view.Load().cfg.openFor(b.level) }

// free gives the place back that Hold gave.
func (b *Breaker) free() {
	if b.held {
		b.held = false
		b.deps.Free()
	}
}

// account adds the time until t to the state that ends.
func (b *Breaker) account(v *view, t int64) {
	for i, d := range v.lasted(b.since, t) {
		b.spent[i] += d
	}
}

// lasted is the time from since to t by state: of Open what is over until counts
// as half-open, though no call had come.
func (v *view) lasted(since, t int64) (out [3]time.Duration) {
	end := t
	if v.state == Open && t > v.until {
		end = v.until
		out[index(HalfOpen)] = time.Duration(t - end)
	}
	out[index(v.state)] += time.Duration(end - since)
	return out
}

func index(s State) int {
	switch s {
	case Open:
		return 1
	case HalfOpen:
		return 2
	}
	return 0
}
