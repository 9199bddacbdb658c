package gateway

import (
	"time"

	"breakwater/gateway/policy/breaker"

	"github.com/prometheus/client_golang/prometheus"
)

// policyMetrics reads the states of policies when somebody scrapes: requests pay
// nothing for them, and a series exists from the moment its policy does.
type policyMetrics struct {
	g *Gateway

	state, spent, turns, refused, probes *prometheus.Desc // of breakers
	places, inFlight, full               *prometheus.Desc // of concurrency
	shed, limited, spilled               *prometheus.Desc
	quota, quotaLocal                    *prometheus.Desc
	kept, keptBytes, hits, misses        *prometheus.Desc
	measure                              *prometheus.Desc
}

func newPolicyMetrics(g *Gateway) *policyMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	at := []string{"service", "upstream", "endpoint"}
	return &policyMetrics{
		g:       g,
		state:   desc("breakwater_breaker_state", "1 for the state a breaker is in.", append(at, "state")...),
		spent:   desc("breakwater_breaker_state_seconds_total", "Time a breaker has spent in each state.", append(at, "state")...),
		turns:   desc("breakwater_breaker_transitions_total", "Changes of a breaker's state.", append(at, "from", "to")...),
		refused: desc("breakwater_breaker_refused_total", "Calls that an open breaker stopped.", at...),
		probes:  desc("breakwater_breaker_probes_total", "Calls let through to try an upstream out.", at...),

		places:   desc("breakwater_concurrency_limit", "How many may be under way at once.", at...),
		inFlight: desc("breakwater_concurrency_in_flight", "How many are under way.", at...),
		full:     desc("breakwater_concurrency_refused_total", "Refused for want of a place.", at...),
		shed:     desc("breakwater_shed_total", "Requests shed by tier.", "service", "tier"),
		limited:  desc("breakwater_limiter_refused_total", "Requests over a limit, observed ones included.", "route", "reason"),
		spilled:  desc("breakwater_limiter_spilled_total", "Decisions for keys that found no bucket of their own.", "route"),

		measure: desc("breakwater_measure_active", "1 for each protective measure in force.", "service", "measure"),

		quota:      desc("breakwater_quota_away", "1 while a shared quota is not asked, and the local share rules.", "quota"),
		quotaLocal: desc("breakwater_quota_local_total", "Requests decided without the store.", "quota", "decision"),
		kept:       desc("breakwater_fallback_kept_entries", "Good answers kept.", "route"),
		keptBytes:  desc("breakwater_fallback_kept_bytes", "Memory of the good answers kept.", "route"),
		hits:       desc("breakwater_fallback_hits_total", "Degraded answers out of what was kept.", "route"),
		misses:     desc("breakwater_fallback_misses_total", "Degraded answers for which nothing was kept.", "route"),
	}
}

// Describe implements prometheus.Collector.
func (m *policyMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *policyMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.g.now.Load()
	if s == nil {
		return
	}
	now, p := time.Now(), m.g.policies
	send := scrape{ch}
	p.mu.Lock()
	breakers := map[[3]string]*breaker.Breaker{}
	for name, own := range p.services {
		breakers[[3]string{name}] = own.breaker
	}
	for key, own := range p.gates {
		breakers[[3]string{"", key.upstream, key.address}] = own
	}
	p.mu.Unlock()
	for at, b := range breakers {
		if !b.Config().Disabled {
			m.breaker(send, b.Stats(now), at[:])
		}
	}
	for _, own := range p.servicesStats(now) {
		m.limit(send, own.Concurrency, own.Service, "", "")
		for _, t := range own.Tiers {
			send.counter(m.shed, t.Shed, own.Service, t.Tier)
		}
	}
	for _, up := range s.cfg.Pools() {
		for _, address := range addresses(up) {
			_, limit := p.endpointStats(up.Name, address, now)
			m.limit(send, limit, "", up.Name, address)
		}
	}
	for at := range m.g.measures.active(now) {
		send.gauge(m.measure, 1, at.service, at.effect)
	}
	m.routes(send, s, now)
}

func (m *policyMetrics) breaker(send scrape, s breaker.Stats, at []string) {
	states := breaker.States()
	for i, state := range states {
		is := 0.0
		if state == s.State {
			is = 1
		}
		send.gauge(m.state, is, append(at, string(state))...)
		send.seconds(m.spent, s.Spent[i], append(at, string(state))...)
		for j, to := range states {
			if i != j {
				send.counter(m.turns, s.Turns[i][j], append(at, string(state), string(to))...)
			}
		}
	}
	send.counter(m.refused, s.Refused, at...)
	send.counter(m.probes, s.Probes, at...)
}

func (m *policyMetrics) limit(send scrape, s *concurrencyStats, at ...string) {
	if s == nil {
		return
	}
	send.gauge(m.places, float64(s.Allowed), at...)
	send.gauge(m.inFlight, float64(s.InFlight), at...)
	send.counter(m.full, s.Refused, at...)
}

func (m *policyMetrics) routes(send scrape, s *snapshot, now time.Time) {
	for _, r := range m.g.policies.routesStats(s) {
		if r.Limit != nil {
			for reason, n := range r.Limit.Refused {
				send.counter(m.limited, n, r.Route, reason)
			}
			send.counter(m.spilled, r.Limit.Spilled, r.Route)
		}
		if r.Kept != nil {
			send.gauge(m.kept, float64(r.Kept.Entries), r.Route)
			send.gauge(m.keptBytes, float64(r.Kept.Bytes), r.Route)
			send.counter(m.hits, r.Kept.Hits, r.Route)
			send.counter(m.misses, r.Kept.Misses, r.Route)
		}
	}
	for _, q := range m.g.policies.quotasStats(s, now) {
		away := 0.0
		if q.Store.Away {
			away = 1
		}
		send.gauge(m.quota, away, q.Quota)
		send.counter(m.quotaLocal, q.LocalPassed, q.Quota, "passed")
		send.counter(m.quotaLocal, q.LocalRefused, q.Quota, "refused")
	}
}

// scrape is where the metrics of one scrape go.
type scrape struct{ ch chan<- prometheus.Metric }

func (s scrape) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s scrape) counter(d *prometheus.Desc, v int64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (s scrape) seconds(d *prometheus.Desc, v time.Duration, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v.Seconds(), labels...)
}
