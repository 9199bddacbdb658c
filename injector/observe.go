package injector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector/scenario"
)

// maxWindow is the longest trailing window a stop condition may have.
const maxWindow = time.Hour

// view reads what the guard decides on.
func (d *drive) view(ctx context.Context, gateways []Gateway) (View, error) {
	v := View{Now: d.now, Run: d.run, Series: map[string][]Point{}, Budgets: map[string]Budget{}, Fresh: d.now}
	since := d.now.Add(-maxWindow)
	if d.run.BaselineAt.Before(since) {
		since = d.run.BaselineAt
	}
	for _, service := range d.sc.Services() {
		points, err := d.cfg.Ledger.Tallies(ctx, service, "", since, d.now)
		if err != nil {
			return v, err
		}
		v.Series[service] = points
		if d.cfg.Budgets != nil {
			v.Budgets[service] = d.cfg.Budgets.Budget(service)
		}
	}
	hit, err := d.cfg.Ledger.Tallies(ctx, d.run.Service, d.run.ID, since, d.now)
	if err != nil {
		return v, err
	}
	v.Hit = hit
	for _, g := range gateways {
		if armed := slices.ContainsFunc(d.run.Receipts, func(r Receipt) bool { return r.Gateway == g.Name }); armed && g.At.Before(v.Fresh) {
			v.Fresh = g.At
		}
	}
	return v, nil
}

// phase is the span of a phase as tallies show it: up to its end, or to now.
func (d *drive) phase(name string) (from, to time.Time) {
	r := d.run
	first := func(times ...time.Time) time.Time {
		for _, t := range times {
			if !t.IsZero() {
				return t
			}
		}
		return d.now
	}
	switch name {
	case "steady":
		return r.BaselineAt, first(r.InjectAt, r.RecoverAt)
	case "during":
		return r.InjectAt, first(r.RecoverAt)
	}
	from = r.RecoverAt
	for _, x := range r.Receipts {
		if x.RemovedAt.After(from) {
			from = x.RemovedAt
		}
	}
	return from, d.now
}

// observe reads everything the verdict rests on.
func (d *drive) observe(ctx context.Context) (Observations, error) {
	o := Observations{Seen: map[string]Seen{}, Armed: d.confirmed()}
	for _, p := range Phases(d.sc) {
		if !reached(d.run, p.Name) {
			continue
		}
		for _, a := range p.List {
			seen, err := d.seen(ctx, p.Name, a)
			if err != nil {
				return o, fmt.Errorf("observe %s: %w", a.ID, err)
			}
			o.Seen[a.ID] = seen
		}
	}
	var err error
	o.Attempts, o.Injected, err = d.hits(ctx)
	return o, err
}

// hits are the tries that reached the fault, and those that were hit.
func (d *drive) hits(ctx context.Context) (attempts, injected int64, err error) {
	if d.run.InjectAt.IsZero() {
		return 0, 0, nil
	}
	from, to := d.phase("during")
	points, err := d.cfg.Ledger.Tallies(ctx, d.run.Service, d.run.ID, from.Add(settle), to.Add(settle))
	n := sum(points, from.Add(settle), to.Add(settle))
	return n.Attempts, n.Injected, err
}

func (d *drive) seen(ctx context.Context, phase string, a scenario.Assertion) (Seen, error) {
	from, to := d.phase(phase)
	from, to = span(from, to, a.Window)
	if a.Measure == scenario.P95 {
		bins, err := d.cfg.Ledger.Latencies(ctx, a.Service, from, to)
		return Seen{Hist: bins}, err
	}
	since, until := from.Add(settle), to.Add(settle)
	all, err := d.cfg.Ledger.Tallies(ctx, a.Service, "", since, until)
	if err != nil {
		return Seen{}, err
	}
	n := sum(all, since, until)
	seen := Seen{Good: n.Good, Bad: n.Bad, Attempts: n.Attempts}
	if n.Attempts > 0 || a.Measure != scenario.Amplification && a.Measure != scenario.Retries {
		return seen, nil
	}
	return d.tries(ctx, phase, a, from, to, seen)
}

// tries finds what gateways did not count for a service as a whole: the fault
// layer counts the tries of its target, which are all of the service's where the
// target is not narrowed; else the whole minutes tell.
func (d *drive) tries(ctx context.Context, phase string, a scenario.Assertion, from, to time.Time, seen Seen) (Seen, error) {
	t := d.sc.Target
	if phase == "during" && a.Service == t.Service && len(t.Routes) == 0 && len(t.Callers) == 0 {
		since, until := from.Add(settle), to.Add(settle)
		own, err := d.cfg.Ledger.Tallies(ctx, a.Service, d.run.ID, since, until)
		seen.Attempts = sum(own, since, until).Attempts
		return seen, err
	}
	exchanges, attempts, err := d.cfg.Ledger.Tries(ctx, a.Service, from, to)
	return Seen{Good: exchanges, Attempts: attempts}, err
}

// confirmed: every gateway that took the rule at 0 % took the real one too.
func (d *drive) confirmed() bool {
	if len(d.run.Receipts) == 0 {
		return false
	}
	r := d.run
	r.State = Injecting
	want := Faults(r, d.sc)
	for _, got := range d.run.Receipts {
		if !slices.ContainsFunc(want, func(w plan.Leased) bool { return w.Fault.ID == got.Fault && w.Hash == got.Hash }) {
			return false
		}
	}
	return true
}

// counts are the figures that stay with the run.
func (d *drive) counts(ctx context.Context) (Counts, error) {
	var c Counts
	var err error
	if c.Attempts, c.Injected, err = d.hits(ctx); err != nil || d.run.InjectAt.IsZero() {
		return c, err
	}
	gateways, err := d.cfg.Ledger.Gateways(ctx)
	if err != nil {
		return c, err
	}
	v, err := d.view(ctx, gateways)
	if err != nil {
		return c, err
	}
	from, to := d.phase("during")
	n := sum(v.Series[d.run.Service], from.Add(settle), to.Add(settle))
	c.Good, c.Bad = n.Good, n.Bad
	v.Now = to.Add(settle)
	if b := v.Budgets[d.run.Service]; b.Known && b.Allowed > 0 {
		c.BudgetSpentPPM = Spent(d.sc, d.run.Service, v) * 1_000_000 / b.Allowed
	}
	return c, nil
}
