package balance

import (
	"slices"
	"time"

	"breakwater/internal/retrylog"
)

// Pick returns the endpoint for the next try, or nil where none is ready: one
// that none of tries went to, as long as there is such a one.
func Pick(cfg *Config, from []*Endpoint, tries []retrylog.Try, now time.Time) *Endpoint {
	return pick(cfg, from, tries, nil, now)
}

// pick leaves out those that a gate of theirs refused just now.
func pick(cfg *Config, from []*Endpoint, tries []retrylog.Try, refused []*Endpoint, now time.Time) *Endpoint {
	n := len(from)
	if n == 0 {
		return nil
	}
	q := query{tries: tries, refused: refused, now: now, panicking: cfg.PanicPPM > 0 && readyOf(from, now)*million < cfg.PanicPPM*int64(n)}
	if n > 1 {
		// Nearly always two of all will do. Where they do not, the two are drawn
		// from those that do, so that all of these stay equally likely.
		a, b := two(cfg, from)
		if q.fits(a) && q.fits(b) {
			return cheaper(cfg, a, b, now)
		}
	}
	// On the stack; where more are ready than fit in, the draw is among the first
	// of a random start.
	var found [64]*Endpoint
	k := q.collect(cfg, from, &found)
	if k == 0 {
		q.tries = nil // all were tried: once more round
		k = q.collect(cfg, from, &found)
	}
	switch k {
	case 0:
		return nil
	case 1:
		return found[0]
	}
	a, b := two(cfg, found[:k])
	return cheaper(cfg, a, b, now)
}

// query is what a pick asks of an endpoint.
type query struct {
	tries     []retrylog.Try
	refused   []*Endpoint
	now       time.Time
	panicking bool
}

func (q *query) fits(e *Endpoint) bool {
	for i := range q.tries {
		if q.tries[i].Endpoint == e.Address {
			return false
		}
	}
	if slices.Contains(q.refused, e) {
		return false
	}
	for _, g := range e.gates {
		if g.Shut(q.now) {
			return false
		}
	}
	return q.panicking || e.ready(q.now)
}

func (q *query) collect(cfg *Config, from []*Endpoint, into *[64]*Endpoint) (k int) {
	start := 0
	if len(from) > len(into) {
		start = int(cfg.Rand() * float64(len(from)))
	}
	for i := range from {
		at := start + i
		if at >= len(from) {
			at -= len(from)
		}
		if e := from[at]; q.fits(e) {
			into[k] = e
			if k++; k == len(into) {
				break
			}
		}
	}
	return k
}

// two draws two different ones; the second is drawn from those that are left.
func two(cfg *Config, from []*Endpoint) (a, b *Endpoint) {
	i := int(cfg.Rand() * float64(len(from)))
	j := int(cfg.Rand() * float64(len(from)-1))
	if j >= i {
		j++
	}
	return from[i], from[j]
}

// cheaper is the one with the lower cost; a tie goes to the first draw.
func cheaper(cfg *Config, a, b *Endpoint, now time.Time) *Endpoint {
	if b.Cost(cfg, now) < a.Cost(cfg, now) {
		return b
	}
	return a
}

func readyOf(from []*Endpoint, now time.Time) (n int64) {
	for _, e := range from {
		if e.ready(now) {
			n++
		}
	}
	return n
}

// soonest is when the first of the ejected endpoints returns; 0 where none does
// by itself.
func soonest(from []*Endpoint, now time.Time) (left time.Duration) {
	for _, e := range from {
		if d := e.outFor(now); d > 0 && !e.ill.Load() && (left == 0 || d < left) {
			left = d
		}
	}
	return left
}
