package main

import (
	"context"
	"slices"
	"time"

	"breakwater/gateway/config"
	weakness "breakwater/injector/finding" // doctor has findings of its own
	"breakwater/injector/readiness"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
	"breakwater/slo"
)

// lately is how far incidents count back.
const lately = 90 * 24 * time.Hour

// readiness answers the fifteen questions for a service from documents, promises,
// drills and findings.
func (c *control) readiness(ctx context.Context, service string) ([]readiness.Answer, error) {
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	f := readiness.Facts{Service: service, Now: now}
	c.readyDocuments(service, &f)
	for _, s := range c.slo.Statuses() {
		if o := s.Objective; o.Service == service && o.Terms != nil && o.Terms.Indicator.Kind == slo.Latency {
			f.Latency = append(f.Latency, o.ID)
		} else if o.Service == service {
			f.Success = append(f.Success, o.ID)
		}
	}
	health := c.slo.Health()
	f.AlertFeed = health.AwaySince.IsZero() && !health.LastAt.IsZero()
	for _, r := range c.releases.alerts.Routes() {
		if len(r.Services) == 0 || slices.Contains(r.Services, service) {
			for _, x := range r.Receivers {
				f.Receivers = append(f.Receivers, r.Name+"/"+x.Name)
			}
		}
	}
	gateways, err := c.store.Gateways(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range gateways {
		if g.Live(now) {
			f.Gateways++
		}
	}
	return c.readyPractice(ctx, f)
}

// readyPractice adds what drills and incidents say.
func (c *control) readyPractice(ctx context.Context, f readiness.Facts) ([]readiness.Answer, error) {
	var err error
	if f.Opened, f.Held, err = c.store.Drilled(ctx, f.Service); err != nil {
		return nil, err
	}
	docs, err := c.store.Documents(ctx)
	if err != nil {
		return nil, err
	}
	mine := map[string]bool{}
	for _, d := range docs {
		if d.Service != f.Service {
			continue
		}
		mine[d.ID] = true
		set, _, err := scenario.Parse(conf.File{Name: d.ID, Data: []byte(d.Text)})
		if err == nil && len(set.Scenarios) == 1 && slices.Contains(set.Scenarios[0].Tags, "incident") {
			f.Drawn = append(f.Drawn, d.ID)
		}
	}
	schedules, err := c.store.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range schedules {
		if s.Enabled && slices.ContainsFunc(s.Scenarios, func(id string) bool { return mine[id] }) {
			f.Schedules = append(f.Schedules, s.ID)
		}
	}
	found, err := c.store.Findings(ctx, weakness.Filter{Service: f.Service})
	if err != nil {
		return nil, err
	}
	for _, x := range found {
		f.Findings++
		if x.State != weakness.Verified {
			f.Open++
		}
		if x.Overdue(f.Now) {
			f.Overdue++
		}
	}
	if f.Incidents, err = c.store.Marked(ctx, f.Service, f.Now.Add(-lately)); err != nil {
		return nil, err
	}
	if f.Given, err = c.store.Answers(ctx, f.Service); err != nil {
		return nil, err
	}
	return readiness.Assess(f), nil
}

// readyDocuments reads what documents say of a service's routes and contracts.
func (c *control) readyDocuments(service string, f *readiness.Facts) {
	cfg, ok := c.documents()
	if !ok {
		return
	}
	upstreams := map[string]bool{}
	for _, r := range cfg.Routes {
		if r.Service != service {
			continue
		}
		upstreams[r.Upstream] = true
		f.Routes++
		if r.Limit.Active() && !r.Limit.Observe {
			f.Limited++
		}
		if !r.Retry.Active() || r.Retry.Observe {
			continue
		}
		f.Retried++
		if r.Retry.Gate.MaxPPM > 0 || budgeted(cfg, r.Upstream) {
			f.Bounded++
		}
		if r.Retry.Idempotent {
			f.Declared++
		}
	}
	for _, x := range cfg.Contracts {
		if upstreams[x.Upstream] {
			f.Contracts = append(f.Contracts, x.Name)
		}
	}
	p, _ := c.paperwork()
	for _, x := range p.contracts {
		if x.service == service {
			f.Contracts = append(f.Contracts, x.name)
		}
	}
	f.Codes = append(f.Codes, p.codes...)
}

// budgeted reports whether an upstream's retries are bounded; without a word of its
// own the standard budget bounds them.
func budgeted(cfg *config.Config, upstream string) bool {
	for _, u := range cfg.Upstreams {
		if u.Name == upstream && u.RetryBudget != nil {
			return !u.RetryBudget.Off
		}
	}
	return true
}

// core tells services that users cannot do without, by their documents.
func (c *control) core(service string) bool {
	cfg, ok := c.documents()
	if !ok {
		return false
	}
	return slices.ContainsFunc(cfg.Services, func(s config.Service) bool { return s.Name == service && s.Core })
}
