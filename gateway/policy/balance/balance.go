// Package balance chooses the endpoint of a try: of two drawn at random the one
// with the lower cost, which is its peak-sensitive latency average times the
// requests it has in flight plus one.
package balance

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Config says what to balance over. It lives as long as its snapshot.
type Config struct {
	Endpoints []string      // host:port
	Tau       time.Duration // time constant of the average; 0: 10 s
	Seed      time.Duration // what an endpoint never seen is taken to need; 0: 30 ms
	// SlowStart is how long an endpoint added to a running pool is made to look
	// dearer than it is, so that cold caches are not met by a full share. 0: off.
	SlowStart time.Duration
	// Rand draws from [0, 1); it must be safe for concurrent use.
	Rand func() float64
}

// Penalty is the least a failed try is taken to have needed, so that an endpoint
// that fails fast does not look fast.
const Penalty = 5 * time.Second

// MaxRetryAfter is the most that an endpoint's Retry-After may count for.
const MaxRetryAfter = 300 * time.Second

const (
	defaultTau  = 10 * time.Second
	defaultSeed = 30 * time.Millisecond
	// coldest is the share of its worth at which an endpoint begins its slow start.
	coldest = 0.1
)

// Average is a peak-sensitive moving average: up at once, down with time. The
// zero value knows nothing.
type Average struct {
	value float64 // nanoseconds
	at    time.Time
}

// Read is the average decayed to now. It changes nothing: how often an endpoint
// is looked at must not matter.
func (a Average) Read(tau time.Duration, now time.Time) float64 {
	dt := max(now.Sub(a.at), 0)
	return a.value * math.Exp(-float64(dt)/float64(tau))
}

// Observe takes a sample in at now.
func (a *Average) Observe(tau time.Duration, now time.Time, sample time.Duration) {
	w := math.Exp(-float64(max(now.Sub(a.at), 0)) / float64(tau))
	decayed, rtt := a.value*w, float64(sample)
	if rtt > decayed {
		a.value = rtt
	} else {
		a.value = decayed + rtt*(1-w)
	}
	a.at = now
}

// raise takes in a sample that is only a lower bound.
func (a *Average) raise(tau time.Duration, now time.Time, sample time.Duration) {
	if float64(sample) > a.Read(tau, now) {
		a.value, a.at = float64(sample), now
	}
}

// Pool is what is known of the endpoints of one upstream. It outlives snapshots.
type Pool struct {
	mu    sync.Mutex
	nodes map[string]*Endpoint
}

// NewPool returns a pool that knows nothing yet.
func NewPool() *Pool { return &Pool{nodes: map[string]*Endpoint{}} }

// Endpoint is what is known of one endpoint.
type Endpoint struct {
	Address string

	inFlight atomic.Int64
	mu       sync.Mutex
	average  Average
	since    time.Time // when it joined a running pool; zero: it was there from the start
}

// Endpoints returns the state of each address, made where there is none yet, and
// forgets those that are not named any more. A request under way keeps its own.
func (p *Pool) Endpoints(cfg Config, now time.Time) []*Endpoint {
	cfg = cfg.filled()
	p.mu.Lock()
	defer p.mu.Unlock()
	running := len(p.nodes) > 0
	nodes := make(map[string]*Endpoint, len(cfg.Endpoints))
	list := make([]*Endpoint, 0, len(cfg.Endpoints))
	for _, address := range cfg.Endpoints {
		e := p.nodes[address]
		if e == nil {
			e = &Endpoint{Address: address, average: Average{float64(cfg.Seed), now}}
			if running {
				e.since = now
			}
		}
		nodes[address] = e
		list = append(list, e)
	}
	p.nodes = nodes
	return list
}

// Cost is what a request more would cost there.
func (e *Endpoint) Cost(cfg Config, now time.Time) float64 {
	e.mu.Lock()
	cost := e.average.Read(cfg.Tau, now)
	since := e.since
	e.mu.Unlock()
	cost *= float64(e.inFlight.Load() + 1)
	if age := now.Sub(since); !since.IsZero() && age < cfg.SlowStart {
		cost /= max(coldest, float64(age)/float64(cfg.SlowStart))
	}
	return cost
}

// InFlight is the number of tries it has under way.
func (e *Endpoint) InFlight() int64 { return e.inFlight.Load() }

// Observe takes in how a try went: outcome o and status after took, and the
// Retry-After of the answer (0: none).
func (e *Endpoint) Observe(cfg Config, now time.Time, r Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case r.Outcome == retrylog.ClientAbort:
		e.average.raise(cfg.Tau, now, r.Took) // how long it would have taken nobody knows
	case r.Outcome == retrylog.UpstreamFailure, r.Outcome == retrylog.Timeout, r.Status == 429:
		e.average.Observe(cfg.Tau, now, max(r.Took, Penalty, min(r.RetryAfter, MaxRetryAfter)))
	case r.Outcome == retrylog.OK:
		e.average.Observe(cfg.Tau, now, r.Took)
	}
}

// Result is how a try went.
type Result struct {
	Outcome    retrylog.Outcome
	Status     int
	Took       time.Duration // to the head of the answer
	RetryAfter time.Duration // 0: none
}

// End implements exchange.Ender: the try is over, body and all.
func (e *Endpoint) End(*exchange.Exchange, retrylog.Outcome) { e.inFlight.Add(-1) }

// Pick returns the endpoint for the next try, or nil where there is none: one
// that none of tries went to, as long as there is such a one.
func Pick(cfg Config, from []*Endpoint, tries []retrylog.Try, now time.Time) *Endpoint {
	fresh := func(e *Endpoint) bool {
		for i := range tries {
			if tries[i].Endpoint == e.Address {
				return false
			}
		}
		return true
	}
	n := 0
	for _, e := range from {
		if fresh(e) {
			n++
		}
	}
	if n == 0 { // all were tried: once more round
		n, fresh = len(from), func(*Endpoint) bool { return true }
	}
	nth := func(i int) *Endpoint {
		for _, e := range from {
			if !fresh(e) {
				continue
			}
			if i == 0 {
				return e
			}
			i--
		}
		return nil
	}
	switch n {
	case 0:
		return nil
	case 1:
		return nth(0)
	}
	i := int(cfg.Rand() * float64(n))
	j := int(cfg.Rand() * float64(n-1))
	if j >= i {
		j++ // distinct: the second is drawn from those that are left
	}
	a, b := nth(i), nth(j)
	if b.Cost(cfg, now) < a.Cost(cfg, now) {
		return b
	}
	return a
}

func (c Config) filled() Config {
	if c.Tau <= 0 {
		c.Tau = defaultTau
	}
	if c.Seed <= 0 {
		c.Seed = defaultSeed
	}
	return c
}

// Stats is the state of one endpoint, for people.
type Stats struct {
	Address  string
	InFlight int64
	CostMS   float64 // of one more request
}

// Stats returns the state of every endpoint at now, by the standard figures and
// in no order.
func (p *Pool) Stats(now time.Time) []Stats {
	cfg := Config{}.filled()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Stats, 0, len(p.nodes))
	for _, e := range p.nodes {
		out = append(out, Stats{e.Address, e.InFlight(), e.Cost(cfg, now) / float64(time.Millisecond)})
	}
	return out
}
