package gateway

import (
	"cmp"
	"slices"
	"time"

	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/quota"
)

// Looking changes nothing: a breaker whose time is over shows as half open though
// no request has come to find out.

type breakerStats struct {
	State    breaker.State `json:"state"`
	Observe  bool          `json:"observe,omitempty"`
	Since    time.Time     `json:"since"`
	Level    int64         `json:"level"` // how often it opened in a row, less what is forgotten
	OpenMS   int64         `json:"open_for_ms,omitempty"`
	Total    int64         `json:"calls"` // of the window
	Failed   int64         `json:"failed"`
	Slow     int64         `json:"slow,omitempty"`
	Row      int64         `json:"failures_in_a_row"`
	Streak   int64         `json:"windows_breached"`
	Refused  int64         `json:"refused"` // since the start
	Probes   int64         `json:"probes"`
	Flying   int64         `json:"probes_in_flight,omitempty"`
	Passed   int64         `json:"probe_windows_passed,omitempty"`
	ProbeMS  int64         `json:"next_probe_ms,omitempty"`
	Openings int64         `json:"openings"`
	// Forecast says whether the calls of this window could ever trip it.
	Forecast breaker.Forecast `json:"forecast"`
}

func statsOf(b *breaker.Breaker, now time.Time) *breakerStats {
	cfg := b.Config()
	if cfg.Disabled {
		return nil
	}
	s := b.Stats(now)
	out := &breakerStats{
		State: s.State, Observe: cfg.Observe, Since: s.Since.UTC(), Level: s.Level, OpenMS: s.OpenLeft.Milliseconds(),
		Total: s.Total, Failed: s.Failed, Slow: s.Slow, Row: s.Row, Streak: s.Streak, Refused: s.Refused,
		Probes: s.Probes, Flying: s.Flying, Passed: s.Passed, ProbeMS: s.NextProbe.Milliseconds(),
		Forecast: breaker.Feasible(cfg, s.RateMilli),
	}
	open := slices.Index(breaker.States(), breaker.Open)
	for from := range s.Turns {
		out.Openings += s.Turns[from][open]
	}
	return out
}

type concurrencyStats struct {
	Kind     concurrency.Kind `json:"kind"`
	InFlight int64            `json:"in_flight"`
	Limit    int64            `json:"limit"`
	Allowed  int64            `json:"allowed"` // now; less than limit while the least latency is measured anew
	Waiting  int64            `json:"waiting,omitempty"`
	Refused  int64            `json:"refused"`
	Dropped  int64            `json:"dropped"`
	Full     bool             `json:"full"`
	LeastMS  float64          `json:"least_latency_ms,omitempty"`
}

func limitStats(s concurrency.Stats) *concurrencyStats {
	if s.Kind == "" {
		return nil
	}
	return &concurrencyStats{
		Kind: s.Kind, InFlight: s.InFlight, Limit: s.Limit, Allowed: s.Allowed, Waiting: s.Waiting,
		Refused: s.Refused, Dropped: s.Dropped, Full: s.Full, LeastMS: float64(s.Least.Microseconds()) / 1000,
	}
}

type tierStats struct {
	Tier     string `json:"tier"`
	SharePPM int64  `json:"share_ppm"` // of its traffic, shed by caller
	Shed     int64  `json:"shed"`      // since the start
	FloorMS  int64  `json:"shed_by_measure_ms,omitempty"`
}

type serviceStats struct {
	Service     string            `json:"service"`
	Breaker     *breakerStats     `json:"breaker,omitempty"`
	Concurrency *concurrencyStats `json:"concurrency,omitempty"`
	Shedding    string            `json:"shedding"` // the highest tier that is; none
	Tiers       []tierStats       `json:"tiers"`
}

// servicesStats are the guards of every service, by name.
func (p *policies) servicesStats(now time.Time) []serviceStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]serviceStats, 0, len(p.services))
	for name, own := range p.services {
		shed := own.shed.Stats(now)
		s := serviceStats{
			Service: name, Breaker: statsOf(own.breaker, now), Concurrency: limitStats(own.limit.Stats(now)), Shedding: shed.Level,
		}
		for i, tier := range []string{"sheddable", "default"} {
			s.Tiers = append(s.Tiers, tierStats{tier, shed.SharePPM[i], shed.Shed[i], shed.Floor[i].Milliseconds()})
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b serviceStats) int { return cmp.Compare(a.Service, b.Service) })
	return out
}

// endpointStats returns the breaker and the limit before an endpoint.
func (p *policies) endpointStats(upstream, address string, now time.Time) (*breakerStats, *concurrencyStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b *breakerStats
	if own := p.gates[gateKey{upstream, address}]; own != nil {
		b = statsOf(own, now)
	}
	var l *concurrencyStats
	if group := p.groups[upstream]; group != nil {
		if s, ok := group.Stats(now)[address]; ok {
			l = limitStats(s)
		}
	}
	return b, l
}

type routeStats struct {
	Route string          `json:"route"`
	Limit *limiter.Stats  `json:"limit,omitempty"`
	Kept  *fallback.Stats `json:"last_good,omitempty"`
}

// routesStats are the limits and the kept answers of routes that have any.
func (p *policies) routesStats(s *snapshot) []routeStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []routeStats{}
	for _, c := range s.routes {
		r := routeStats{Route: c.route.Name}
		if own := p.limiters[r.Route]; own != nil && c.route.Limit.Active() {
			stats := own.Stats()
			r.Limit = &stats
		}
		if own := p.kept[r.Route]; own != nil {
			stats := own.Stats()
			r.Kept = &stats
		}
		if r.Limit != nil || r.Kept != nil {
			out = append(out, r)
		}
	}
	return out
}

type quotaStats struct {
	Quota string `json:"quota"`
	limiter.SharedStats
	Store quota.Stats `json:"store"`
}

func (p *policies) quotasStats(s *snapshot, now time.Time) []quotaStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []quotaStats{}
	for _, q := range s.cfg.Quotas {
		if own, store := p.quotas[q.Name], p.stores[q.Store]; own != nil && store != nil {
			out = append(out, quotaStats{q.Name, own.Stats(now), store.Stats(now)})
		}
	}
	return out
}
