package main

import (
	"context"
	"slices"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/explain"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/fallback"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

// documents are those of the gateways as control has them; false: it has none that
// say where a request goes. They are shared, and may not be changed.
func (c *control) documents() (*config.Config, bool) {
	p, ok := c.paperwork()
	if !ok {
		return nil, false
	}
	return p.cfg, len(p.cfg.Routes) > 0
}

// paperwork is what there is to know of the documents; false: they cannot be read.
func (c *control) paperwork() (paperwork, bool) {
	if c.set.config == "" {
		return paperwork{}, false
	}
	files, err := conf.Load(c.set.config)
	if err != nil {
		return paperwork{}, false
	}
	return c.papers.of(files, parsePapers), true
}

// preflight tells the injector what the documents and budgets say of a target; what
// comes in there it knows itself.
func (c *control) preflight(_ context.Context, sc scenario.Scenario) scenario.Facts {
	facts := scenario.Facts{TargetPPB: map[string]int64{}}
	for _, s := range c.slo.Statuses() {
		facts.TargetPPB[s.Objective.Service] = s.Objective.TargetPPB
	}
	if cfg, ok := c.documents(); ok {
		factsOf(cfg, sc.Target, &facts)
		facts.Readied = true
		if who := c.ownerOf(sc.Target.Service); who != unowned {
			facts.Owner = who
		}
	}
	for _, r := range c.releases.alerts.Routes() {
		facts.Alerted = facts.Alerted || len(r.Receivers) > 0 && (len(r.Services) == 0 || slices.Contains(r.Services, sc.Target.Service))
	}
	return facts
}

// factsOf reads from cfg what a drill of t has to know. Of several routes the most
// patient and the most stubborn one counts: what reaches it reaches all.
func factsOf(cfg *config.Config, t scenario.Target, facts *scenario.Facts) {
	aimed := func(name string) bool {
		if len(t.Routes) == 0 {
			return true
		}
		for _, r := range t.Routes {
			if r == name {
				return true
			}
		}
		return false
	}
	facts.MaxPPM, facts.MaxLatency = cfg.Gateway.Caps.MaxPPM, cfg.Gateway.Caps.MaxLatency
	gated := true
	for _, r := range cfg.Routes {
		if r.Service != t.Service {
			continue
		}
		facts.Routes = append(facts.Routes, scenario.Route{Name: r.Name, NoFaults: r.NoFaults, Fallback: standsIn(r.Degrade)})
		if !aimed(r.Name) {
			continue
		}
		facts.PerTry = max(facts.PerTry, r.Retry.PerTry)
		if !r.Retry.Active() || r.Retry.Observe {
			continue
		}
		facts.Retries = max(facts.Retries, r.Retry.MaxRetries)
		gated = gated && r.Retry.Gate.MaxPPM > 0
		facts.GatePPM = max(facts.GatePPM, r.Retry.Gate.MaxPPM)
	}
	if !gated {
		facts.GatePPM = 0
	}
	for _, s := range cfg.AllServices() {
		if s.Name == t.Service {
			facts.Breaker = ruleOf(s.BreakerConfig())
		}
	}
}

// standsIn reports whether users get an answer of some use in place of one that
// cannot be had. An honest 503 is quick, and a failure all the same.
func standsIn(d fallback.Config) bool {
	return !d.Observe && d.OnOpen && (d.Action == fallback.ReturnDefault || d.Action == fallback.LastGood)
}

// plenty is traffic beyond anybody's: what cannot trip a breaker then, never can.
const plenty = 1_000_000_000

func ruleOf(b breaker.Config) *scenario.BreakerRule {
	out := &scenario.BreakerRule{
		Off: b.Disabled || b.Observe, ErrorPPM: b.ErrorPPM, Above: b.Above, Window: b.Window, Windows: 1,
		MinRequests: b.MinRequests, OpenFor: b.OpenFor, SlowPPM: b.SlowPPM, SlowAfter: b.SlowAfter,
	}
	if b.Rule == breaker.Dual {
		out.Row, out.And = b.Consecutive, b.Mode == breaker.And
	} else {
		out.Windows = max(b.Windows, 1)
	}
	if f := breaker.Feasible(b, plenty); !f.CanTrip && !out.Off {
		out.Never = f.Why
	}
	return out
}

// route names the route that takes a call, by the very table that gateways use.
func (c *control) route(_ context.Context, service string, call scenario.Call) (name string, ok bool) {
	cfg, ok := c.documents()
	if !ok {
		return "", false
	}
	a, err := explain.Explain(cfg, explain.Sample{Method: call.Method, Path: call.Path, Status: 200, At: time.Now()})
	if err != nil || a.Service != service {
		return "", false
	}
	return a.Route, true
}
