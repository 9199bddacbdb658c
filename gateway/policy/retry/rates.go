package retry

import (
	"time"

	"breakwater/gateway/internal/window"
)

// ErrorGate stops retries to an upstream while too many first tries fail there:
// what is wrong with it then is nothing that asking again would cure. The zero
// gate is open for ever.
type ErrorGate struct {
	// MaxPPM is the share of first tries that may fail; 0: the gate is off.
	MaxPPM int64 `json:"max_ppm,omitempty"`
	// MinCount: with fewer first tries in the window the gate stays open.
	MinCount int64 `json:"min_count,omitempty"`
	// Inclusive shuts the gate at MaxPPM already, and not only above it.
	Inclusive bool `json:"inclusive,omitempty"`
}

// shut reports whether failed of total is too much.
func (g ErrorGate) shut(failed, total int64) bool {
	if g.MaxPPM <= 0 || total == 0 || total < g.MinCount {
		return false
	}
	if g.Inclusive {
		return failed*1_000_000 >= g.MaxPPM*total
	}
	return failed*1_000_000 > g.MaxPPM*total
}

const (
	ratesWindow = 10 * time.Second
	ratesSlots  = 20
)

// Rates counts the first tries to one upstream, and how many of them failed, over
// the last ten seconds. It outlives snapshots and is safe for concurrent use.
type Rates struct{ span *span }

// NewRates returns one that has counted nothing.
func NewRates() *Rates { return &Rates{newSpan(ratesWindow, ratesSlots)} }

// Observe counts a first try.
func (r *Rates) Observe(now time.Time, failed bool) {
	c := window.Counts{Total: 1}
	if failed {
		c.Failed = 1
	}
	r.span.add(now, c)
}

// Counts are the first tries of the window at now, and those that failed.
func (r *Rates) Counts(now time.Time) (total, failed int64) {
	c := r.span.sum(now)
	return c.Total, c.Failed
}

// Shut reports whether g stops retries at now.
func (r *Rates) Shut(g ErrorGate, now time.Time) bool {
	if g.MaxPPM <= 0 {
		return false
	}
	total, failed := r.Counts(now)
	return g.shut(failed, total)
}
