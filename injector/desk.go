package injector

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/injector/scenario"
)

// Desk is where people and pages read runs and act on them. It works on every
// control, whoever owns a run.
type Desk struct{ *Engine }

// Desk returns the desk of e.
func (e *Engine) Desk() *Desk { return &Desk{e} }

// PlanHandler serves GET /api/v1/plan to gateways.
func (e *Engine) PlanHandler() *Planner { return e.planner }

// Runs lists the newest runs, newest first.
func (e *Desk) Runs(ctx context.Context, limit int) ([]Run, error) {
	runs, err := e.cfg.Ledger.Runs(ctx, limit)
	for i := 0; i < len(runs) && err == nil; i++ {
		err = e.count(ctx, &runs[i])
	}
	return runs, err
}

// Active lists the runs under way as Runs does: few, where those that ended are many.
func (e *Desk) Active(ctx context.Context) ([]Run, error) {
	active, err := e.cfg.Ledger.ActiveRuns(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(active, func(a, b Active) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(b.ID, a.ID)) })
	var out []Run
	for _, a := range active {
		r, err := e.Run(ctx, a.ID)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.State.Active() { // it may have ended meanwhile
			out = append(out, r)
		}
	}
	return out, nil
}

// Run returns one run whole, or ErrNotFound.
func (e *Desk) Run(ctx context.Context, id string) (Run, error) {
	if !Nameable(id) {
		return Run{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	r, err := e.cfg.Ledger.Run(ctx, id)
	if err == nil {
		err = e.count(ctx, &r)
	}
	return r, err
}

// count fills the figures of a run under way with those it would end with now;
// they are written into it only when it ends.
func (e *Desk) count(ctx context.Context, r *Run) error {
	if r.State.Ended() || r.InjectAt.IsZero() {
		return nil
	}
	sc, err := e.parse(*r)
	if err != nil {
		return nil // its engine ends it, and says why
	}
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	d := drive{Engine: e.Engine, run: *r, sc: sc, now: now}
	c, err := d.counts(ctx)
	if err != nil {
		return fmt.Errorf("count run %s: %w", r.ID, err)
	}
	r.Attempts, r.Injected, r.Good, r.Bad, r.BudgetSpentPPM = c.Attempts, c.Injected, c.Good, c.Bad, c.BudgetSpentPPM
	return nil
}

// Events returns the log of a run in order.
func (e *Desk) Events(ctx context.Context, id string) ([]Event, error) {
	return e.cfg.Ledger.Events(ctx, id)
}

// Schedules lists what starts by itself, with the newest decisions.
func (e *Desk) Schedules(ctx context.Context) ([]Schedule, error) {
	return e.cfg.Ledger.Schedules(ctx)
}

// Halted says since when everything is halted; zero: nothing is.
func (e *Desk) Halted(ctx context.Context) (Halt, error) {
	if s, ok := e.planner.stops.of(everything); ok {
		return Halt{s.at, s.actor}, nil
	}
	return e.cfg.Ledger.Halt(ctx)
}

// Start plans a run of a scenario for now. A document wins over an id.
func (e *Desk) Start(ctx context.Context, id, document, actor string) (Run, []scenario.Warning, error) {
	if document == "" {
		var err error
		if document, err = e.document(ctx, id); err != nil {
			return Run{}, nil, err
		}
	}
	sc, err := e.read(ctx, document)
	if err != nil {
		return Run{}, nil, &DocumentError{err}
	}
	if !e.cfg.Covers(ctx, sc.Target.Service) {
		return Run{}, nil, fmt.Errorf("service %s: %w", sc.Target.Service, ErrScope)
	}
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return Run{}, nil, err
	}
	facts, err := e.facts(ctx, sc, now, "")
	if err != nil {
		return Run{}, nil, err
	}
	warnings := sc.Preflight(facts)
	for _, w := range warnings {
		if w.Refuse {
			return Run{}, warnings, &DocumentError{errors.New(w.Code + ": " + w.Text)}
		}
	}
	if _, ok := e.planner.stops.of(everything); ok {
		return Run{}, warnings, ErrHalted
	}
	if no := grant(e.cfg.Budgets, sc.Target.Service, 0); no.Reason != "" {
		return Run{}, warnings, fmt.Errorf("%s: %w", no.Text, ErrFrozen)
	}
	r := NewRun(sc, now)
	r.ID, r.Actor, r.State = runID(now, strings.ToLower(rand.Text())), actor, Scheduled
	r.Class = classOf(sc, facts)
	if r.Needs = e.needs(sc, facts); r.Needs > 0 {
		r.State = PendingApproval
	}
	if err := e.cfg.Audit(ctx, actor, "run.start", r.ID, "scenario "+sc.ID); err != nil {
		return Run{}, warnings, err
	}
	return r, warnings, e.cfg.Ledger.AddRun(ctx, r)
}

// ErrFrozen means that the budget of the target allows no run.
var ErrFrozen = errors.New("the target is frozen")

// DocumentError means that the document, not the moment, is wrong.
type DocumentError struct{ Err error }

func (e *DocumentError) Error() string { return e.Err.Error() }
func (e *DocumentError) Unwrap() error { return e.Err }

// ErrScope means that whoever asks has no say over the service.
var ErrScope = errors.New("outside the scope of this token")

// ErrSelf means that somebody tried to approve what they started.
var ErrSelf = errors.New("who started a run cannot approve it")

// Abort stops one run. It wins over whatever its engine does at the same time,
// and doing it again changes nothing.
func (e *Desk) Abort(ctx context.Context, id, actor string) error {
	if !Nameable(id) || id == everything {
		return fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	return e.stopping(ctx, id, actor, func(ctx context.Context) error { return e.abort(ctx, id, actor) })
}

func (e *Desk) abort(ctx context.Context, id, actor string) error {
	for range 10 {
		r, now, err := e.stand(ctx, id)
		if err != nil || r.State.Ended() || r.State == Aborting {
			return err
		}
		trigger := Cancel
		if r.State.Active() {
			trigger = Stopped
		}
		to, err := Step(r.State, trigger)
		if err != nil {
			return err
		}
		if err := e.cfg.Audit(ctx, actor, "run.abort", id, "state "+string(r.State)); err != nil {
			return err
		}
		err = e.cfg.Ledger.Move(ctx, Move{Run: id, From: r.State, To: to, At: now, Reason: string(ByUser), Actor: actor, Text: "stopped by " + actor})
		if err == nil {
			e.planner.wake()
		}
		if !errors.Is(err, ErrFenced) {
			return err
		}
	}
	return ErrFenced
}

func (e *Desk) stand(ctx context.Context, id string) (Run, time.Time, error) {
	if !Nameable(id) {
		return Run{}, time.Time{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return Run{}, now, err
	}
	r, err := e.cfg.Ledger.Run(ctx, id)
	return r, now, err
}

// HaltAll stops every run and keeps new ones from starting until Resume.
func (e *Desk) HaltAll(ctx context.Context, actor string) error {
	_, err := e.halt(ctx, actor)
	return err
}

// halt returns how many runs it stopped; again, it stops none.
func (e *Desk) halt(ctx context.Context, actor string) (n int, err error) {
	err = e.stopping(ctx, everything, actor, func(ctx context.Context) error {
		now, err := e.cfg.Ledger.Now(ctx)
		if err != nil {
			return err
		}
		if err := e.cfg.Audit(ctx, actor, "experiments.halt", "all", "every run stops, none starts"); err != nil {
			return err
		}
		n, err = e.cfg.Ledger.StopAll(ctx, now, actor, string(ByHalt), true)
		e.planner.wake()
		return err
	})
	return n, err
}

// Resume lets runs start again after HaltAll: those of every service, so it is not for
// who has a say over some alone.
func (e *Desk) Resume(ctx context.Context, actor string) error {
	if !e.cfg.Covers(ctx, everything) {
		return fmt.Errorf("runs of every service: %w", ErrScope)
	}
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	if err := e.cfg.Audit(ctx, actor, "experiments.resume", "all", "runs may start again"); err != nil {
		return err
	}
	err = e.cfg.Ledger.Resume(ctx, now, actor)
	if err == nil {
		e.planner.stops.done(everything)
	}
	return err
}

// Import makes the documents of set the only ones. Those that went away take
// their schedules with them; new schedules start with their next due instant,
// never at once.
func (e *Desk) Import(ctx context.Context, set scenario.Set) error {
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	var docs []Document
	for _, s := range set.Scenarios {
		docs = append(docs, Document{ID: s.ID, Title: s.Title, Service: s.Target.Service, Text: s.Text, Hash: hashText(s.Text), File: s.File})
	}
	var schedules []Schedule
	for _, g := range set.GameDays {
		if g.Schedule == nil {
			continue
		}
		calendar, err := g.Schedule.Compile(now)
		if err != nil {
			return fmt.Errorf("game day %s: %w", g.Name, err)
		}
		next, _ := calendar.Next(now)
		schedules = append(schedules, Schedule{
			ID: g.Name, GameDay: g.Name, Title: g.Title, Scenario: g.Scenarios[0], Scenarios: g.Scenarios,
			Cron: g.Schedule.Cron, Zone: g.Schedule.Zone, NextAt: next, Enabled: true, GrantPPM: g.GrantPPM, Text: g.Text,
		})
	}
	return e.cfg.Ledger.SaveDocuments(ctx, now, docs, schedules)
}
