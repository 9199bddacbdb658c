package concurrency

import (
	"maps"
	"slices"
	"sync"
	"time"

	"breakwater/internal/retrylog"
)

// Group is the limits of one upstream, one for each of its endpoints. It outlives
// snapshots.
type Group struct {
	changed func(retrylog.Transition)

	mu     sync.Mutex // of changes: requests hold their Limit
	cfg    Config
	limits map[string]*Limit
}

// NewGroup returns a group without endpoints; changed may be nil.
func NewGroup(cfg Config, changed func(retrylog.Transition)) *Group {
	cfg.Queue = 0
	return &Group{changed: changed, cfg: cfg, limits: map[string]*Limit{}}
}

// Limit returns the limit of an endpoint, made where there is none yet; nil where
// the group limits nothing.
func (g *Group) Limit(endpoint string, now time.Time) *Limit {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.cfg.Enabled() {
		return nil
	}
	l := g.limits[endpoint]
	if l == nil {
		l = New(g.cfg, now, Deps{Changed: g.changed, Endpoint: endpoint})
		g.limits[endpoint] = l
	}
	return l
}

// Reconfigure takes cfg over for every endpoint.
func (g *Group) Reconfigure(cfg Config, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cfg.Queue = 0
	g.cfg = cfg
	for _, l := range g.limits {
		l.Reconfigure(cfg, now)
	}
}

// Keep forgets all endpoints but those named. A request under way keeps its limit.
func (g *Group) Keep(endpoints []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.limits, func(endpoint string, _ *Limit) bool { return !slices.Contains(endpoints, endpoint) })
}

// Stats returns the state of every endpoint's limit at now.
func (g *Group) Stats(now time.Time) map[string]Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[string]Stats, len(g.limits))
	for endpoint, l := range g.limits {
		out[endpoint] = l.Stats(now)
	}
	return out
}
