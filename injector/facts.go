package injector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"breakwater/injector/scenario"
)

// FactLedger is what the whole of the traffic says.
type FactLedger interface {
	// MeasuredSince is the first day on which something was counted of a service.
	MeasuredSince(ctx context.Context, service string) (time.Time, error)
	// AllRequests counts what came in for all services in the minutes within
	// [since, until).
	AllRequests(ctx context.Context, since, until time.Time) (int64, error)
}

// recently is the traffic that a forecast goes by.
const recently = 10 * time.Minute

// facts are all that is known of the live system for a run of sc; run is its own
// name, "" where it has none yet.
func (e *Engine) facts(ctx context.Context, sc scenario.Scenario, now time.Time, run string) (scenario.Facts, error) {
	f := scenario.Facts{}
	if e.cfg.Preflight != nil {
		f = e.cfg.Preflight(ctx, sc)
	}
	f.Prod = e.cfg.Env == "prod"
	for _, p := range sc.Probes() {
		if host, _ := p.Host(); !e.mayProbe(p) && !slices.Contains(f.Barred, host) {
			f.Barred = append(f.Barred, host)
		}
	}
	f.Core = f.Core || e.cfg.Core != nil && e.cfg.Core(sc.Target.Service)
	f.Traffic, f.Budgets = map[string]scenario.Traffic{}, map[string]scenario.Budget{}
	until := now.Truncate(time.Minute)
	for _, service := range sc.Services() {
		var routes []string
		if service == sc.Target.Service {
			routes = sc.Target.Routes
		}
		t, err := e.cfg.Ledger.Traffic(ctx, service, routes, until.Add(-recently), until)
		if err != nil {
			return f, fmt.Errorf("preflight: %w", err)
		}
		// No minute at all is no reading, where one without requests would be.
		if t.Requests > 0 {
			f.Traffic[service] = t
		}
		if e.cfg.Budgets == nil {
			continue
		}
		if b := e.cfg.Budgets.Budget(service); b.Known {
			f.Budgets[service] = scenario.Budget{Allowed: b.Allowed, RemainingPPM: b.RemainingPPM}
		}
	}
	if !sc.Target.Narrow() {
		week, err := e.cfg.Ledger.Matched(ctx, sc.Target.Service, sc.Target.Routes, now.Add(-7*24*time.Hour))
		if err != nil {
			return f, fmt.Errorf("preflight: %w", err)
		}
		f.Week = &week
	}
	if t, ok := f.Traffic[sc.Target.Service]; ok {
		all, err := e.cfg.Ledger.AllRequests(ctx, until.Add(-recently), until)
		if err != nil {
			return f, fmt.Errorf("preflight: %w", err)
		}
		if all > 0 {
			f.SharePPM = t.Matched * sc.Sample.PPM / all
		}
	}
	first, err := e.cfg.Ledger.MeasuredSince(ctx, sc.Target.Service)
	if err != nil {
		return f, fmt.Errorf("preflight: %w", err)
	}
	// A service that was never measured has been so for no time.
	var history time.Duration
	if !first.IsZero() {
		history = now.Sub(first)
	}
	f.History = &history
	if e.cfg.Alerts != nil {
		_, heard, err := e.cfg.Alerts(ctx, now, now)
		if err != nil {
			return f, fmt.Errorf("preflight: %w", err)
		}
		silent := now.Sub(heard)
		f.Alerts = &silent
	}
	f.Overlaps, err = e.overlaps(ctx, sc, run)
	return f, err
}

// overlaps finds runs under way that hit what sc watches, or watch what it hits.
func (e *Engine) overlaps(ctx context.Context, sc scenario.Scenario, own string) ([]scenario.Overlap, error) {
	active, err := e.cfg.Ledger.ActiveRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("preflight: %w", err)
	}
	mine := sc.Services()
	var self Active
	if i := slices.IndexFunc(active, func(a Active) bool { return a.ID == own }); i >= 0 {
		self = active[i]
	}
	var out []scenario.Overlap
	for _, a := range active {
		// What one game day does at a time is meant to meet.
		if a.ID == own || !a.State.Active() || self.Schedule != "" && a.Schedule == self.Schedule && a.At.Equal(self.At) {
			continue
		}
		if slices.Contains(mine, a.Service) {
			out = append(out, scenario.Overlap{Run: a.ID, Service: a.Service})
			continue
		}
		r, err := e.cfg.Ledger.Run(ctx, a.ID)
		if err != nil {
			return nil, fmt.Errorf("preflight: %w", err)
		}
		if other, err := e.parse(r); err == nil && slices.Contains(other.Services(), sc.Target.Service) {
			out = append(out, scenario.Overlap{Run: a.ID, Service: sc.Target.Service})
		}
	}
	return out, nil
}

// Preview is what preflight says of a scenario, without a run.
type Preview struct {
	Scenario scenario.Scenario
	Facts    scenario.Facts
	Forecast scenario.Forecast
	Warnings []scenario.Warning
}

// Preview checks a scenario as Start would. A document wins over an id.
func (e *Desk) Preview(ctx context.Context, id, document string) (Preview, error) {
	if document == "" {
		var err error
		if document, err = e.document(ctx, id); err != nil {
			return Preview{}, err
		}
	}
	sc, err := e.read(ctx, document)
	if err != nil {
		return Preview{}, &DocumentError{err}
	}
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return Preview{}, err
	}
	f, err := e.facts(ctx, sc, now, "")
	if err != nil {
		return Preview{}, err
	}
	return Preview{sc, f, sc.Forecast(f), sc.Preflight(f)}, nil
}

// document is the text of a scenario that was imported.
func (e *Desk) document(ctx context.Context, id string) (string, error) {
	docs, err := e.cfg.Ledger.Documents(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(docs, func(d Document) bool { return d.ID == id })
	if i < 0 {
		return "", fmt.Errorf("scenario %s: %w", id, ErrNotFound)
	}
	return docs[i].Text, nil
}

// Delete removes a run that has ended.
func (e *Desk) Delete(ctx context.Context, id, actor string) error {
	r, _, err := e.stand(ctx, id)
	if err != nil {
		return err
	}
	if !e.cfg.Covers(ctx, r.Service) {
		return fmt.Errorf("service %s: %w", r.Service, ErrScope)
	}
	if !r.State.Ended() {
		return fmt.Errorf("run %s is %s: %w", id, r.State, ErrStep)
	}
	if err := e.cfg.Audit(ctx, actor, "run.delete", id, "verdict "+string(r.Verdict)); err != nil {
		return err
	}
	return e.cfg.Ledger.DeleteRun(ctx, id)
}
