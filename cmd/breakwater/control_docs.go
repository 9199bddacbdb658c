package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
	"breakwater/slo/ingest"
	"breakwater/slo/openslo"
)

// importSource names the documents given at start; what is no longer among them
// is retired.
const importSource = "config"

// importDocuments takes SLOs, scenarios and game days from --config. A bad
// document changes nothing of its kind: what was imported before stays.
func (c *control) importDocuments(ctx context.Context, now time.Time) error {
	if c.set.config == "" {
		return nil
	}
	files, err := conf.Load(c.set.config)
	if err != nil {
		return fmt.Errorf("read the documents: %w", err)
	}
	// Before the effect, like every change: which documents this start imports.
	if err := c.store.Audit(ctx, auth.Entry{
		Actor: "system", Action: "documents.import", Object: c.set.config,
		Detail: fmt.Sprintf("%d files, hash %s", len(files), conf.Hash(files)),
	}); err != nil {
		return fmt.Errorf("import the documents: %w", err)
	}
	if err := (documentDesk{c}).keepImported(ctx, files, now); err != nil {
		return err
	}
	c.imported = conf.Hash(files)
	c.releases.documents(files, func(msg string, err error) { c.log.Error(msg, "err", err) })
	var mistakes conf.Log
	var objectives []slo.Objective
	for _, f := range files {
		objectives = append(objectives, openslo.Parse(f, &mistakes).Objectives...)
	}
	for _, w := range mistakes.Warnings() {
		c.log.Warn("SLO document", "warning", w.Error())
	}
	if err := mistakes.Err(); err != nil {
		c.log.Error("SLO documents are not imported", "err", err)
	} else if err := slo.CheckSet(objectives); err != nil {
		c.log.Error("SLO documents are not imported", "err", err)
	} else if _, err := c.store.ImportObjectives(ctx, importSource, objectives, now); err != nil {
		return fmt.Errorf("import the objectives: %w", err)
	}
	drills, warnings, err := scenario.Parse(files...)
	for _, w := range warnings {
		c.log.Warn("drill document", "warning", w.Error())
	}
	if err != nil {
		c.log.Error("scenarios and game days are not imported", "err", err)
		return nil
	}
	if err := c.engine.Desk().Import(ctx, drills); err != nil {
		return fmt.Errorf("import scenarios and game days: %w", err)
	}
	if err := c.days.held.Import(ctx, drills); err != nil {
		return fmt.Errorf("import game days: %w", err)
	}
	return nil
}

// budgets answers the injector from the evaluation that everybody sees.
type budgets struct{ slo *slo.Evaluator }

func (b budgets) Budget(service string) injector.Budget {
	var mine []slo.Status
	for _, s := range b.slo.Statuses() {
		// What an experiment may spend is counted in requests: so is the budget it spends of.
		if s.Objective.Service == service && !s.Objective.Sliced() {
			mine = append(mine, s)
		}
	}
	s, ok := slo.Worst(mine)
	if !ok {
		return injector.Budget{}
	}
	return injector.Budget{
		Known: !s.Budget.NoData, Frozen: s.Level == slo.Frozen, TargetPPB: s.Objective.TargetPPB,
		Allowed: s.Budget.Allowed, RemainingPPM: s.Budget.RemainingPPM,
	}
}

// pageLedger is what the pages read of budgets.
type pageLedger struct {
	*slo.Evaluator
	store *store.Store
}

func (l pageLedger) DatabaseAway() (time.Time, bool) {
	since := l.Health().AwaySince
	return since, !since.IsZero()
}

func (l pageLedger) Points(ctx context.Context, o slo.Objective, env string, from, to time.Time, step time.Duration) ([]slo.Point, error) {
	return l.store.Points(ctx, o, env, from, to, step)
}

func (l pageLedger) Recent(ctx context.Context, service string, n int) ([]retrylog.Exchange, error) {
	// Rows are kept of what was retried or touched by an experiment too, however it ended.
	found, err := l.store.Noteworthy(ctx, service, "exchange", time.Now().Add(time.Hour), 10*n)
	if err != nil {
		return nil, err
	}
	out := make([]retrylog.Exchange, 0, len(found))
	for _, f := range found {
		var r retrylog.Record
		if err := json.Unmarshal(f.Body, &r); err != nil || r.Exchange == nil {
			return nil, fmt.Errorf("event %s of %s is not an exchange: %w", f.RequestID, f.At, err)
		}
		if ingest.Classify(r.Exchange) == ingest.Bad && len(out) < n {
			out = append(out, *r.Exchange)
		}
	}
	return out, nil
}

// pageGate is the gate as pages see it: decided the same way, but not kept,
// since looking is no question of a pipeline.
type pageGate struct {
	slo  *slo.Evaluator
	book *freeze.Book
}

func (g pageGate) Decide(_ context.Context, service string) (gate.Decision, error) {
	facts := gate.Facts{Statuses: g.slo.Statuses(), Known: g.book.Known()}
	return gate.Judge(gate.Request{Service: service, Kind: gate.Feature}, facts, time.Now()), nil
}
