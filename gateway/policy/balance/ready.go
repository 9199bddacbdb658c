package balance

import (
	"fmt"
	"sync/atomic"
	"time"

	"breakwater/internal/retrylog"
)

// Ejection takes an endpoint out that fails again and again: what traffic
// itself shows, whatever probes say.
type Ejection struct {
	// After is how many failures in a row eject; 0: nothing is ever ejected.
	After int64
	// For is how long the first ejection lasts; the n-th without a success in
	// between lasts n times as long, up to MaxOut. 0: 10 s.
	For time.Duration
	// MaxPPM is how large a share of the endpoints may be out, the candidate
	// included: what is left has to carry the load. 0: half of them.
	MaxPPM int64
}

// MaxOut is the longest an endpoint stays ejected.
const MaxOut = 300 * time.Second

const (
	defaultOut    = 10 * time.Second
	defaultMaxPPM = 500_000
	million       = 1_000_000
)

// State is whether an endpoint gets tries.
type State string

// The states.
const (
	Ready     State = "ready"
	Ejected   State = "ejected"   // by its own failures
	Unhealthy State = "unhealthy" // by what probes found
	Broken    State = "broken"    // its breaker lets no more through than probes
)

// Change is an endpoint that went from one State to another.
type Change struct {
	Endpoint string
	From, To State
	Reason   string
}

// readiness is whether an endpoint may have tries; its words are read by every
// pick.
type readiness struct {
	failures  atomic.Int64 // in a row
	out       atomic.Int64 // nanoseconds after the average's base until which it is ejected
	streak    atomic.Int64 // ejections without a success since
	ejections atomic.Int64
	ill       atomic.Bool
	held      atomic.Bool // by its breaker

	probes int64 // in a row against what ill says; under the pool's lock
}

// State of e at now. That probes found it ill says more than an ejection.
func (e *node) State(now time.Time) State {
	switch {
	case e.ill.Load():
		return Unhealthy
	case e.outFor(now) > 0:
		return Ejected
	case e.held.Load():
		return Broken
	}
	return Ready
}

func (e *node) ready(now time.Time) bool { return !e.ill.Load() && e.outFor(now) == 0 }

// outFor is how long the ejection still lasts. It ends by being looked at, not
// by a timer.
func (e *node) outFor(now time.Time) time.Duration {
	until := e.out.Load()
	if until == 0 {
		return 0
	}
	return max(time.Duration(until)-now.Sub(e.average.base), 0)
}

// judge counts failures in a row of e, and ejects it from among where they are
// enough and not too many are out. What we refused ourselves and what a client
// gave up say nothing; nor do 408 and 429, with which an endpoint answers for
// its callers.
func (p *Pool) judge(cfg *Config, e *Endpoint, among []*Endpoint, now time.Time, r Result) {
	if cfg.Ejection.After <= 0 || r.Status == 408 || r.Status == 429 || e.outFor(now) > 0 {
		return // of one that is out: tries from before
	}
	switch r.Outcome {
	case retrylog.OK:
		if e.failures.Load() != 0 {
			e.failures.Store(0)
		}
		if e.streak.Load() != 0 {
			e.streak.Store(0)
		}
	case retrylog.UpstreamFailure, retrylog.Timeout:
		if e.failures.Add(1) >= cfg.Ejection.After && room(cfg.Ejection, e, among, now) {
			p.eject(cfg, e, among, now)
		}
	}
}

// room reports whether e may be out too.
func room(cfg Ejection, e *Endpoint, among []*Endpoint, now time.Time) bool {
	share := cfg.MaxPPM
	if share <= 0 {
		share = defaultMaxPPM
	}
	out := int64(1)
	for _, other := range among {
		if other.node != e.node && other.State(now) != Ready {
			out++
		}
	}
	return out*million <= share*int64(len(among))
}

func (p *Pool) eject(cfg *Config, e *Endpoint, among []*Endpoint, now time.Time) {
	p.mu.Lock()
	// Once more, now that nobody else ejects: two at once must not both find room.
	if e.failures.Load() < cfg.Ejection.After || e.outFor(now) > 0 || !room(cfg.Ejection, e, among, now) {
		p.mu.Unlock()
		return
	}
	term := cfg.Ejection.For
	if term <= 0 {
		term = defaultOut
	}
	term = min(term*time.Duration(min(e.streak.Add(1), int64(MaxOut/time.Millisecond))), MaxOut)
	failures := e.failures.Swap(0)
	e.ejections.Add(1)
	e.out.Store(int64(now.Sub(e.average.base) + term))
	p.mu.Unlock()
	if cfg.Changed != nil {
		cfg.Changed(Change{e.Address, Ready, Ejected, fmt.Sprintf("%d failures in a row; out for %s", failures, term)})
	}
}

// Health says how many probes in a row change what is thought of an endpoint.
type Health struct {
	HealthyAfter, UnhealthyAfter int64
}

// Healthy reports whether status is the answer of an endpoint that is well. There
// is no third class: whatever is not good is bad, so that no status freezes a state.
func Healthy(status int) bool { return status >= 200 && status < 400 }

// Probed takes in what a probe of address found, and returns the change it made.
// It does not end an ejection, which has a time of its own, nor make one.
func (p *Pool) Probed(address string, cfg Health, well bool) (Change, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.nodes[address]
	if e == nil {
		return Change{}, false // gone by a reload
	}
	ill := e.ill.Load()
	if well != ill {
		e.probes = 0
		return Change{}, false
	}
	e.probes++
	if ill && e.probes >= cfg.HealthyAfter {
		e.probes = 0
		e.ill.Store(false)
		return Change{address, Unhealthy, Ready, fmt.Sprintf("%d probes in a row were well", max(cfg.HealthyAfter, 1))}, true
	}
	if !ill && e.probes >= cfg.UnhealthyAfter {
		e.probes = 0
		e.ill.Store(true)
		return Change{address, Ready, Unhealthy, fmt.Sprintf("%d probes in a row failed", max(cfg.UnhealthyAfter, 1))}, true
	}
	return Change{}, false
}

// Unprobed forgets what probes found, once there are none any more.
func (p *Pool) Unprobed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.nodes {
		e.probes = 0
		e.ill.Store(false)
	}
}
