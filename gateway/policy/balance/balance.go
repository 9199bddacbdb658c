// Package balance chooses the endpoint of a try: of two drawn at random the one
// with the lower cost, which is its peak-sensitive latency average times the
// requests it has in flight plus one. Endpoints that fail again and again, or
// that probes find ill, are left out for a while.
package balance

import (
	"maps"
	"slices"
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
	Ejection  Ejection
	// PanicPPM is the share of ready endpoints under which readiness is not looked
	// at any more: better all of them than too few. 0: off, and with none ready
	// tries are refused at once.
	PanicPPM int64
	// Rand draws from [0, 1); it must be safe for concurrent use.
	Rand func() float64
	// Changed is told of endpoints that were ejected; nil: nobody is.
	Changed func(Change)
	// Gates are what stands before an endpoint; nil: nothing does.
	Gates func(address string) []Gate
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

func (c Config) filled() Config {
	if c.Tau <= 0 {
		c.Tau = defaultTau
	}
	if c.Seed <= 0 {
		c.Seed = defaultSeed
	}
	return c
}

// Pool is what is known of the endpoints of one upstream. It outlives snapshots.
type Pool struct {
	mu      sync.Mutex // of changes; picks and results do not take it
	nodes   map[string]*node
	serving bool  // what joins from now on joins others that have traffic
	mostPPM int64 // of endpoints that may be out at once
	held    atomic.Int64
}

// NewPool returns a pool that knows nothing yet.
func NewPool() *Pool { return &Pool{nodes: map[string]*node{}, mostPPM: defaultMaxPPM} }

// Endpoint is one endpoint as a snapshot sees it: what is known of it, and what
// stands before it.
type Endpoint struct {
	*node
	gates []Gate
}

// node is what is known of one endpoint, by all snapshots.
type node struct {
	Address string

	average  cell
	inFlight atomic.Int64
	since    time.Time // when it joined a running pool; zero: it was there from the start
	readiness
}

func newEndpoint(address string, a Average) *Endpoint {
	n := &node{Address: address, average: cell{base: a.at}}
	n.average.word.Store(n.average.pack(a))
	return &Endpoint{node: n}
}

// Endpoints returns the state of each address of cfg, made where there is none
// yet. It forgets none: several routes may use parts of one upstream.
func (p *Pool) Endpoints(cfg Config, now time.Time) []*Endpoint {
	cfg = cfg.filled()
	list := p.nodesOf(cfg, now)
	if cfg.Gates != nil { // under no lock: gates have their own, and ask for this one
		for _, e := range list {
			e.gates = cfg.Gates(e.Address)
		}
	}
	return list
}

func (p *Pool) nodesOf(cfg Config, now time.Time) []*Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*Endpoint, 0, len(cfg.Endpoints))
	for _, address := range cfg.Endpoints {
		if p.nodes[address] == nil {
			e := newEndpoint(address, Average{float64(cfg.Seed), now})
			if p.serving {
				e.since = now
			}
			p.nodes[address] = e.node
		}
		list = append(list, &Endpoint{node: p.nodes[address]})
	}
	return list
}

// Keep forgets all endpoints but those named. A request under way keeps its own.
func (p *Pool) Keep(addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.nodes, func(address string, n *node) bool {
		gone := !slices.Contains(addresses, address)
		if gone && n.held.Swap(false) {
			p.held.Add(-1)
		}
		return gone
	})
	p.serving = true
}

// Cost is what a request more would cost there.
func (e *Endpoint) Cost(cfg *Config, now time.Time) float64 {
	cost := e.average.read(cfg.Tau, now) * float64(e.inFlight.Load()+1)
	if cfg.SlowStart > 0 && !e.since.IsZero() {
		if age := now.Sub(e.since); age < cfg.SlowStart {
			cost /= max(coldest, float64(age)/float64(cfg.SlowStart))
		}
	}
	return cost
}

// InFlight is the number of tries it has under way.
func (e *node) InFlight() int64 { return e.inFlight.Load() }

// Result is how a try went.
type Result struct {
	Outcome    retrylog.Outcome
	Status     int
	Took       time.Duration // to the head of the answer
	RetryAfter time.Duration // 0: none
}

// Observe takes in how long a try took, as far as its end says so.
func (e *Endpoint) Observe(cfg *Config, now time.Time, r Result) {
	switch {
	case r.Outcome == retrylog.ClientAbort:
		e.average.observe(cfg.Tau, now, r.Took, true) // how long it would have taken nobody knows
	case r.Outcome == retrylog.UpstreamFailure, r.Outcome == retrylog.Timeout, r.Status == 429:
		e.average.observe(cfg.Tau, now, max(r.Took, Penalty, min(r.RetryAfter, MaxRetryAfter)), false)
	case r.Outcome == retrylog.OK:
		e.average.observe(cfg.Tau, now, r.Took, false)
	}
}

// End implements exchange.Ender: the try is over, body and all.
func (e *node) End(*exchange.Exchange, retrylog.Outcome) { e.inFlight.Add(-1) }

// Stats is the state of one endpoint, for people.
type Stats struct {
	Address  string
	InFlight int64
	CostMS   float64 // of one more request
	State    State
	// Failures in a row that count towards an ejection.
	Failures  int64
	Ejections int64 // since the endpoint is known
	// OutFor is how long an ejection still lasts.
	OutFor time.Duration
}

// Stats returns the state of every endpoint at now, by the standard figures and
// in no order.
func (p *Pool) Stats(now time.Time) []Stats {
	cfg := Config{}.filled()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Stats, 0, len(p.nodes))
	for _, n := range p.nodes {
		e := &Endpoint{node: n}
		out = append(out, Stats{
			Address: e.Address, InFlight: e.InFlight(), CostMS: e.Cost(&cfg, now) / float64(time.Millisecond),
			State: e.State(now), Failures: e.failures.Load(), Ejections: e.ejections.Load(), OutFor: e.outFor(now),
		})
	}
	return out
}
