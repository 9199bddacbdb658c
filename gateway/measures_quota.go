package gateway

import (
	"fmt"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/limiter"
)

// drawn is who draws on a quota: the one service whose routes do, "" where there are
// several, and the most that one of their requests costs.
func drawn(s *snapshot, quota string) (service string, least int64) {
	several := false
	for _, c := range s.routes {
		if c.route.Limit.Quota != quota {
			continue
		}
		several = several || service != "" && service != c.route.Service
		service, least = c.route.Service, max(least, c.route.Limit.Cost.Tokens, c.route.Limit.Cost.Max, 1)
	}
	if several {
		return "", least
	}
	return service, least
}

// limitQuotas changes the rates of quotas on which one service alone draws. Of one that
// others draw on too nothing is taken: they have not spent that budget. Every gateway
// is told the same, and the store turns what a bucket holds into the other rate. The
// lock of policies is held.
func (m *measures) limitQuotas(s *snapshot, changes map[string][]plan.Measure, now time.Time) {
	p := m.g.policies
	for _, q := range s.cfg.Quotas {
		own, store := p.quotas[q.Name], p.stores[q.Store]
		if own == nil || store == nil {
			continue
		}
		cfg := q.QuotaConfig
		if service, least := drawn(s, q.Name); service != "" {
			if want, wanted := strictestOf(changes[service]); wanted {
				cfg.Rate = want.Rate(q.Rate, least)
			}
		}
		// Compared with what rules, and not with what was asked for last: a reload has
		// put back what is configured.
		if own.Rate() != cfg.Rate {
			own.Reconfigure(cfg, store.Quota(cfg.Rate), now)
		}
	}
}

// quotas adds to x what it makes of the quotas of its service.
func (x *measureStats) quotas(p *policies, s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range s.cfg.Quotas {
		own := p.quotas[q.Name]
		if own == nil || !draws(s, q.Name, x.Service) {
			continue
		}
		if service, _ := drawn(s, q.Name); service == "" {
			x.Others = append(x.Others, q.Name)
			continue
		}
		r := own.Rate()
		x.Quotas = append(x.Quotas, changedQuota{q.Name, r.Per.Microseconds() / max(r.Tokens, 1), r.Burst, rateText(q.Rate)})
	}
}

func draws(s *snapshot, quota, service string) bool {
	for _, c := range s.routes {
		if c.route.Limit.Quota == quota && c.route.Service == service {
			return true
		}
	}
	return false
}

type changedQuota struct {
	Quota   string `json:"quota"`
	EveryUS int64  `json:"one_every_us"`
	Burst   int64  `json:"burst"`
	Own     string `json:"configured"`
}

func rateText(r limiter.Rate) string { return fmt.Sprintf("%d per %s", r.Tokens, r.Per) }

type measureStats struct {
	plan.Measure
	LeftMS int64 `json:"left_ms"`
	// Refused says why it is not obeyed.
	Refused string `json:"refused,omitempty"`
	// Routes are those whose rate it changes, with what rules now.
	Routes []changedRate `json:"routes,omitempty"`
	// Unlimited are routes of the service that have no rate to change.
	Unlimited []string `json:"routes_without_rate,omitempty"`
	// Quotas are shared ones whose rate it changes; Others are left alone, since other
	// services draw on them too.
	Quotas []changedQuota `json:"quotas,omitempty"`
	Others []string       `json:"quotas_of_others_too,omitempty"`
}

type changedRate struct {
	Route   string `json:"route"`
	EveryUS int64  `json:"one_every_us"`
	Burst   int64  `json:"burst"`
	Own     string `json:"configured"`
}

func (m *measures) stats(now time.Time) []measureStats {
	s := m.g.now.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []measureStats{}
	for _, h := range m.held {
		left := h.Until.Sub(now)
		if left <= 0 {
			continue
		}
		x := measureStats{Measure: h.Measure, LeftMS: left.Milliseconds(), Refused: faulty(h.Measure)}
		if s != nil && !m.here(h.Measure, s) {
			x.Refused = "it is for environment " + h.Env
		}
		if s != nil && h.Kind == plan.Limit && x.Refused == "" {
			for _, c := range s.routes {
				if c.route.Service == h.Service {
					m.rate(&x, c.route)
				}
			}
			x.quotas(m.g.policies, s)
		}
		out = append(out, x)
	}
	return out
}

func (m *measures) rate(x *measureStats, r config.Route) {
	m.g.policies.mu.Lock()
	own := m.g.policies.limiters[r.Name]
	m.g.policies.mu.Unlock()
	switch {
	case own != nil && r.Limit.Rate.Tokens > 0:
		each, burst := own.Now()
		x.Routes = append(x.Routes, changedRate{r.Name, each.Microseconds(), burst, rateText(r.Limit.Rate)})
	case r.Limit.Quota == "":
		x.Unlimited = append(x.Unlimited, r.Name)
	}
}
