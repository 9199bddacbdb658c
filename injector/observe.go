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
	if d.sc.Limits.Tenants > 0 {
		if v.Tenants, err = d.cfg.Ledger.HitTenants(ctx, d.run.ID); err != nil {
			return v, err
		}
	}
	for _, g := range gateways {
		if armed := slices.ContainsFunc(d.run.Receipts, func(r Receipt) bool { return r.Gateway == g.Name }); armed && g.At.Before(v.Fresh) {
			v.Fresh = g.At
		}
	}
	return v, nil
}

// phase is the span of a phase as tallies show it: up to its end, or to now.
func (d *drive) phase(name string) (from, to time.Time) {
	from, to = spanOf(d.run, name, d.now)
	if name != "after" && to.IsZero() {
		to = d.now
	}
	return from, to
}

// before is how far back a breaker's last change is looked for: none stays open
// for longer without being tried.
const before = 24 * time.Hour

// observe reads everything the verdict rests on.
func (d *drive) observe(ctx context.Context) (Observations, error) {
	o := Observations{Seen: map[string]Seen{}, Armed: d.confirmed(), Now: d.now, Breakers: map[string][]Transition{}}
	if err := d.happened(ctx, &o); err != nil {
		return o, err
	}
	if err := d.cohorts(ctx, &o); err != nil {
		return o, err
	}
	for _, p := range Phases(d.sc) {
		if !reached(d.run, p.Name) {
			continue
		}
		for _, a := range p.List {
			seen, err := d.seen(ctx, p.Name, a, o)
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

// happened reads what is no count: breakers, alerts, configurations.
func (d *drive) happened(ctx context.Context, o *Observations) (err error) {
	services := []string{d.run.Service}
	alerts := false
	for _, p := range Phases(d.sc) {
		for _, a := range p.List {
			if a.Measure == scenario.Breaker || a.Measure == scenario.Flaps {
				services = append(services, a.Service)
			}
			if a.While != "" {
				services = append(services, a.While)
			}
			alerts = alerts || a.Measure == scenario.Alert
		}
	}
	for _, s := range services {
		if o.Breakers[s] != nil {
			continue
		}
		if o.Breakers[s], err = d.cfg.Ledger.BreakerTurns(ctx, s, d.run.StartedAt.Add(-before), d.now); err != nil {
			return err
		}
	}
	if alerts && d.cfg.Alerts != nil {
		if o.Alerts, o.AlertsHeard, err = d.cfg.Alerts(ctx, d.run.StartedAt, d.now); err != nil {
			return err
		}
	}
	if o.Served, err = d.cfg.Ledger.Gateways(ctx); err != nil {
		return err
	}
	heard, err := d.cfg.Ledger.Heard(ctx)
	if err != nil {
		return err
	}
	for i, r := range d.run.Receipts {
		if !slices.Contains(o.Gateways, r.Gateway) {
			o.Gateways = append(o.Gateways, r.Gateway)
		}
		if at := heard[r.Gateway]; i == 0 || at.Before(o.Heard) {
			o.Heard = at
		}
	}
	return nil
}

// cohorts are the parts of the target's traffic, phase by phase.
func (d *drive) cohorts(ctx context.Context, o *Observations) error {
	for _, p := range Phases(d.sc) {
		if !reached(d.run, p.Name) {
			continue
		}
		from, to := d.phase(p.Name)
		control, unmatched, err := d.cfg.Ledger.Parts(ctx, d.run.Service, d.sc.Target.Routes, from, to)
		if err != nil {
			return err
		}
		parts := []Part{control, unmatched}
		parts[0].Cohort, parts[1].Cohort = scenario.Control, scenario.Unmatched
		if p.Name == "during" {
			since, until := from.Add(settle), to.Add(settle)
			own, err := d.cfg.Ledger.Tallies(ctx, d.run.Service, d.run.ID, since, until)
			if err != nil {
				return err
			}
			n := sum(own, since, until)
			parts = append([]Part{{Cohort: scenario.Exposed, Good: n.Good, Bad: n.Bad}}, parts...)
		}
		for _, x := range parts {
			x.Phase = p.Name
			o.Parts = append(o.Parts, x)
		}
	}
	return nil
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

func (d *drive) seen(ctx context.Context, phase string, a scenario.Assertion, o Observations) (Seen, error) {
	from, to := d.phase(phase)
	from, to = span(from, to, a.Window)
	switch {
	case a.Measure == scenario.Probed:
		return d.probed(ctx, phase, a), nil
	case a.Event != "" || a.Measure == scenario.Flaps:
		return Seen{}, nil
	case a.Measure.Quantile() > 0:
		bins, err := d.cfg.Ledger.Latencies(ctx, a.Service, from, to)
		return Seen{Hist: bins, From: from, Until: to}, err
	case a.Measure == scenario.Ratio:
		return d.ratio(ctx, a, from, to, o)
	case a.Measure == scenario.Repeats:
		return d.repeats(ctx, a, from, to)
	}
	since, until := from.Add(settle), to.Add(settle)
	if phase == "steady" {
		until = to // what was told after the injection began holds its effect too
	}
	all, err := d.cfg.Ledger.Tallies(ctx, a.Service, "", since, until)
	if err != nil {
		return Seen{}, err
	}
	n := sum(all, since, until)
	seen := Seen{Good: n.Good, Bad: n.Bad, Attempts: n.Attempts, From: from, Until: to}
	if a.Cohort != "" {
		x := partOf(o.Parts, phase, a.Cohort)
		seen.Good, seen.Bad = x.Good, x.Bad
	}
	switch a.Against {
	case scenario.AgainstControl:
		x := partOf(o.Parts, phase, scenario.Control)
		seen.RefGood, seen.RefBad = x.Good, x.Bad
	case scenario.AgainstBaseline:
		since, until := d.run.BaselineAt.Add(settle), d.run.InjectAt
		usual, err := d.cfg.Ledger.Tallies(ctx, a.Service, "", since, until)
		if err != nil {
			return Seen{}, err
		}
		x := sum(usual, since, until)
		seen.RefGood, seen.RefBad = x.Good, x.Bad
	}
	if n.Attempts > 0 || a.Measure != scenario.Amplification && a.Measure != scenario.Retries {
		return seen, nil
	}
	return d.tries(ctx, phase, a, from, to, seen)
}

func partOf(parts []Part, phase string, c scenario.Cohort) Part {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.Phase == phase && p.Cohort == c })
	if i < 0 {
		return Part{}
	}
	return parts[i]
}

// ratio counts a part and its whole; with While only in what gateways counted
// wholly while the breaker was open at all of them: they count together.
func (d *drive) ratio(ctx context.Context, a scenario.Assertion, from, to time.Time, o Observations) (Seen, error) {
	service, run := a.Service, ""
	if service == "" {
		service = d.run.Service
	}
	if a.Part == scenario.Injected {
		run = d.run.ID
	}
	points, err := d.cfg.Ledger.Tallies(ctx, service, run, from, to.Add(settle))
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{From: from, Until: to}
	spans := []Span{{from.Add(settle), to.Add(settle)}}
	var covers, late time.Duration
	if a.While != "" {
		if spans = openSpans(o.Breakers[a.While], o.Gateways, from, to); len(spans) == 0 {
			seen.Missing = fmt.Sprintf("nothing: the breaker of %s was not open at all gateways at once", a.While)
			return seen, nil
		}
		// A point is told by the second in which it came, and covers a poll before it.
		covers, late = plan.PollMS*time.Millisecond, settle
	}
	for _, p := range points {
		if !slices.ContainsFunc(spans, func(s Span) bool { return p.At.Add(-covers).After(s.From) && !p.At.Add(late).After(s.Until) }) {
			continue
		}
		part, whole := p.Bad, p.Good+p.Bad
		switch a.Part {
		case scenario.Degraded:
			part = p.Degraded
		case scenario.Injected:
			part, whole = p.Injected, p.Attempts
		}
		seen.Part, seen.Whole = seen.Part+part, seen.Whole+whole
	}
	return seen, nil
}

// Span is a stretch of time.
type Span struct{ From, Until time.Time }

// openSpans is when a breaker was open at every one of gateways within [from, to].
func openSpans(all []Transition, gateways []string, from, to time.Time) []Span {
	state := stood(all, from)
	whole := func() bool {
		return len(gateways) > 0 && !slices.ContainsFunc(gateways, func(g string) bool { return state[g] != "open" })
	}
	var out []Span
	since := time.Time{}
	if whole() {
		since = from
	}
	for _, t := range all {
		if !t.At.After(from) || t.At.After(to) {
			continue
		}
		state[t.Gateway] = t.To
		switch open := whole(); {
		case open && since.IsZero():
			since = t.At
		case !open && !since.IsZero():
			out, since = append(out, Span{since, t.At}), time.Time{}
		}
	}
	if !since.IsZero() {
		out = append(out, Span{since, to})
	}
	return out
}

// tries finds what gateways did not count for a service as a whole: the fault
// layer counts the tries of its target, which are all of the service's where the
// target is not narrowed; else the whole minutes tell.
func (d *drive) tries(ctx context.Context, phase string, a scenario.Assertion, from, to time.Time, seen Seen) (Seen, error) {
	t := d.sc.Target
	if phase == "during" && a.Service == t.Service && t.Whole() {
		since, until := from.Add(settle), to.Add(settle)
		own, err := d.cfg.Ledger.Tallies(ctx, a.Service, d.run.ID, since, until)
		seen.Attempts = sum(own, since, until).Attempts
		return seen, err
	}
	exchanges, attempts, err := d.cfg.Ledger.Tries(ctx, a.Service, from, to)
	return Seen{Good: exchanges, Attempts: attempts, From: from, Until: to}, err
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
