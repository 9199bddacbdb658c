package injector

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"breakwater/injector/scenario"
	"breakwater/injector/search"
)

// seek drives every search of this control by one step.
func (e *Engine) seek(ctx context.Context, now time.Time) error {
	mine, left, err := e.cfg.Ledger.HoldSearches(ctx, e.cfg.Owner, now)
	if err != nil {
		return fmt.Errorf("hold searches: %w", err)
	}
	var errs []error
	for _, s := range left {
		// What its control had in mind is gone, and so may be the state of the system.
		errs = append(errs, e.endSearch(ctx, s, search.Step{Done: true, Verdict: search.Undone, Reason: string(ByEngine)}, "the control that drove the search is gone", now))
	}
	for _, s := range mine {
		if err := e.seekOne(ctx, s, now); err != nil && !errors.Is(err, ErrFenced) {
			errs = append(errs, fmt.Errorf("search %s: %w", s.ID, err))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) seekOne(ctx context.Context, s Search, now time.Time) error {
	undone := func(r Reason, why string) error {
		return e.endSearch(ctx, s, search.Step{Done: true, Verdict: search.Undone, Reason: string(r)}, why, now)
	}
	if s.Run != "" {
		r, err := e.cfg.Ledger.Run(ctx, s.Run)
		if errors.Is(err, ErrNotFound) {
			return undone(ByEngine, "probe "+s.Run+" is not there any more")
		}
		if err != nil || !r.State.Ended() {
			return err
		}
		p := probeOf(r, s.Value, r.Verdict)
		s.Run = ""
		// A baseline that did not hold is no probe: the system has not settled since the
		// one before, and is waited for.
		if r.Reason == notSteady {
			if now.Sub(s.CalmSince) >= calmWithin {
				return undone(NotCalm, "the promises did not hold again: "+p.Why)
			}
			return e.cfg.Ledger.SaveSearch(ctx, s)
		}
		s.Probes, s.CalmSince = append(s.Probes, p), r.EndedAt
		if p.Result == search.None && (final(Reason(r.Reason)) || r.State == Cancelled || r.State == Rejected || r.State == Expired) {
			return undone(Reason(r.Reason), "probe "+r.ID+" at "+scenario.Knob(s.Knob).Show(s.Value)+": "+p.Why)
		}
		if err := e.cfg.Ledger.SaveSearch(ctx, s); err != nil {
			return err
		}
	}
	if s.Stop != "" {
		return undone(Reason(s.Stop), "somebody ended it")
	}
	halt, err := e.Desk().Halted(ctx)
	if err != nil {
		return err
	}
	if !halt.At.IsZero() {
		return undone(ByHalt, "all experiments were halted by "+halt.Actor)
	}
	probes := make([]search.Probe, len(s.Probes))
	for i, p := range s.Probes {
		probes[i] = search.Probe{Value: p.Value, Result: p.Result}
	}
	step := search.Next(s.Spec, probes)
	if step.Done {
		return e.endSearch(ctx, s, step, "", now)
	}
	return e.probe(ctx, s, step.Value, undone, now)
}

// probe begins the next one, once the system has calmed down.
func (e *Engine) probe(ctx context.Context, s Search, value int64, undone func(Reason, string) error, now time.Time) error {
	sc, err := e.read(ctx, s.Text)
	if err != nil || sc.Search == nil {
		return undone(BadText, fmt.Sprintf("the document cannot be read any more: %v", err))
	}
	restless, err := e.restless(ctx, sc, now)
	if err != nil {
		return err
	}
	if restless != "" {
		if now.Sub(s.CalmSince) >= calmWithin {
			return undone(NotCalm, restless)
		}
		return nil
	}
	if no := e.affords(sc, s.CapPPM); no.Reason != "" {
		return undone(no.Reason, no.Text)
	}
	turned := sc.Turned(value)
	r := NewRun(turned, now)
	r.ID, r.Actor, r.State = runID(now, strings.ToLower(rand.Text())), s.Actor, Scheduled
	r.Search, r.Knob, r.CapPPM = s.ID, value, s.CapPPM
	facts, err := e.facts(ctx, turned, now, "")
	if err != nil {
		return err
	}
	r.Class = classOf(turned, facts)
	// What follows an approved run, or an approved first probe, is of the same
	// document: an approval is of its hash.
	if len(s.Probes) == 0 && s.Follows == "" {
		if r.Needs = e.needs(turned, facts); r.Needs > 0 {
			r.State = PendingApproval
		}
	}
	if err := e.cfg.Audit(ctx, "engine", "run.start", r.ID, "probe of "+s.ID+" at "+scenario.Knob(s.Knob).Show(value)+" for "+s.Actor); err != nil {
		return err
	}
	// The search names its run first: one that was begun and not written down would
	// belong to nobody.
	s.Run, s.Value = r.ID, value
	if err := e.cfg.Ledger.SaveSearch(ctx, s); err != nil {
		return err
	}
	switch err := e.cfg.Ledger.AddRun(ctx, r); {
	case errors.Is(err, ErrOverlap), errors.Is(err, ErrHalted):
		s.Run = ""
		return e.cfg.Ledger.SaveSearch(ctx, s)
	case err != nil:
		s.Run = ""
		return errors.Join(err, e.cfg.Ledger.SaveSearch(ctx, s))
	}
	e.planner.wake()
	return nil
}

// restless says what has not come to rest, or "": another run on the service, or a
// breaker that is not closed. That the promises hold again is what the baseline of
// the next probe waits for.
func (e *Engine) restless(ctx context.Context, sc scenario.Scenario, now time.Time) (string, error) {
	active, err := e.cfg.Ledger.ActiveRuns(ctx)
	if err != nil {
		return "", err
	}
	for _, a := range active {
		if a.Service == sc.Target.Service {
			return "run " + a.ID + " has not ended", nil
		}
	}
	turns, err := e.cfg.Ledger.BreakerTurns(ctx, sc.Target.Service, now.Add(-before), now)
	if err != nil {
		return "", err
	}
	return openBefore(sc, Observations{Now: now, Breakers: map[string][]Transition{sc.Target.Service: turns}}), nil
}

// affords says why the budget does not allow one more probe; a zero Stop is a yes.
func (e *Engine) affords(sc scenario.Scenario, cap int64) Stop {
	for _, x := range sc.Stop {
		if x.Kind == scenario.StopBudget && cap == 0 {
			cap = x.PPM
		}
	}
	if no := grant(e.cfg.Budgets, sc.Target.Service, cap); no.Reason != NoReading {
		return no
	}
	return Stop{}
}

// endSearch writes what a search found, and how that stands to the one before.
func (e *Engine) endSearch(ctx context.Context, s Search, step search.Step, why string, now time.Time) error {
	show := scenario.Knob(s.Knob).Show
	if s.Run != "" { // nothing may go on that nobody watches
		if err := e.Desk().Abort(ctx, s.Run, "engine"); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	s.Verdict, s.Reason, s.Pass, s.Fail, s.EndedAt, s.Run = step.Verdict, step.Reason, step.Pass, step.Fail, now, ""
	switch {
	case s.Verdict == search.Holds:
		s.Why = "holds at " + show(s.Spec.Hard)
	case s.Verdict == search.Found:
		s.Why = s.Boundary().String(show)
	case why != "":
		s.Why = step.Reason + ": " + why
	case step.Reason == search.NonMonotonic:
		s.Why = step.Reason + ": at the end the system did not bear what it had borne, or bore what it had not"
	default:
		s.Why = step.Reason + ": probes showed nothing, again and again"
	}
	if s.Verdict == search.Undone {
		return e.cfg.Ledger.SaveSearch(ctx, s)
	}
	before, ok, err := e.previous(ctx, s)
	if err != nil {
		return err
	}
	s.Change = search.Fresh
	if ok {
		s.Previous, s.Change = before.ID, search.Compare(s.Spec, before.Boundary(), s.Boundary())
		s.Why += fmt.Sprintf("; before: %s (%s)", before.Why[:firstOf(before.Why, ";")], before.EndedAt.UTC().Format(time.DateOnly))
		if before.Settings != s.Settings {
			s.Why += ", under other timeouts, retries or breaker"
		}
	}
	if err := e.cfg.Ledger.SaveSearch(ctx, s); err != nil {
		return err
	}
	if s.Change != search.Worse {
		return nil
	}
	return e.regressed(ctx, s)
}

func firstOf(text, mark string) int {
	if i := strings.Index(text, mark); i >= 0 {
		return i
	}
	return len(text)
}

// previous is the newest search before s that found something by the same knob.
func (e *Engine) previous(ctx context.Context, s Search) (Search, bool, error) {
	all, err := e.cfg.Ledger.Searches(ctx, s.Scenario, 100)
	for _, x := range all {
		same := x.Knob == s.Knob && x.Fault == s.Fault && x.Spec.Hard == s.Spec.Hard && x.Spec.Soft == s.Spec.Soft
		if x.ID != s.ID && x.Ended() && x.Verdict != search.Undone && same {
			return x, true, nil
		}
	}
	return Search{}, false, err
}

// regressed tells of a boundary that is worse, though every run of it may pass.
func (e *Engine) regressed(ctx context.Context, s Search) error {
	if e.cfg.Worse == nil {
		return nil
	}
	before, err := e.cfg.Ledger.Search(ctx, s.Previous)
	if err != nil {
		return err
	}
	show := scenario.Knob(s.Knob).Show
	return e.cfg.Worse(ctx, s, Assertion{
		ID: "boundary", Phase: "search", Text: "what " + s.Service + " bears of " + s.Knob, Expected: before.Boundary().String(show),
		Seen: s.Boundary().String(show), N: int64(len(s.Probes)), Result: Fail, From: s.StartedAt, Until: s.EndedAt,
	})
}
