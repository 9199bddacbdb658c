package gameday

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

// Run ticks each second until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		if err := d.Tick(ctx); err != nil && ctx.Err() == nil {
			d.cfg.Log.Error("game day tick", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Tick reminds people of what comes, and guards what is under way. Any number of
// controls may do it at once.
func (d *Desk) Tick(ctx context.Context) error {
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	errs := []error{d.remind(ctx, now)}
	open, err := d.cfg.Ledger.HeldDays(ctx, true, 1000)
	errs = append(errs, err)
	for _, h := range open {
		if !h.StartedAt.IsZero() {
			errs = append(errs, d.guard(ctx, h, now))
		} else if now.Sub(h.PlannedAt) > injector.ApprovalFor {
			// Its schedule went away before its time came.
			errs = append(errs, d.cfg.Ledger.StopDay(ctx, h.ID, "its schedule is gone"), d.cfg.Ledger.EndDay(ctx, h.ID, now))
		}
	}
	return errors.Join(errs...)
}

func (d *Desk) remind(ctx context.Context, now time.Time) error {
	all, err := d.cfg.Runs.Schedules(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		if !s.Enabled {
			continue
		}
		g, err := parse(s.Text)
		if err != nil || g.Remind == 0 || s.NextAt.Sub(now) > g.Remind || !s.NextAt.After(now) {
			continue
		}
		errs = append(errs, d.remindOf(ctx, s, g, now))
	}
	return errors.Join(errs...)
}

func (d *Desk) remindOf(ctx context.Context, s injector.Schedule, g scenario.GameDay, now time.Time) error {
	h, err := d.announce(ctx, s)
	if err != nil {
		return err
	}
	first, err := d.cfg.Ledger.Remind(ctx, h.ID, now)
	if err != nil || !first {
		return err
	}
	if h, _, err = d.cfg.Ledger.HeldDay(ctx, h.ID); err != nil {
		return err
	}
	services, _, err := d.content(ctx, g)
	if err != nil {
		return err
	}
	r := Reminder{Day: h, Document: g, Services: services, Missing: max(h.Needs-h.Agreed(now), 0), WaitsFor: h.WaitsFor(now)}
	text := fmt.Sprintf("begins at %s; approvals missing: %d", h.PlannedAt.UTC().Format("2006-01-02 15:04:05Z"), r.Missing)
	if d.cfg.Remind != nil {
		if err := d.cfg.Remind(ctx, r); err != nil {
			return errors.Join(fmt.Errorf("remind of %s: %w", h.ID, err), d.cfg.Ledger.Unremind(ctx, h.ID))
		}
	}
	return d.cfg.Ledger.Write(ctx, h.ID, Note{At: now, Actor: "engine", Kind: "reminder", Text: text})
}

// guard looks after one game day: it ends all of it where a condition of its own is
// met, where one of its runs was stopped, at its deadline and when a blackout
// begins; and it is over when all of its runs are.
func (d *Desk) guard(ctx context.Context, h Held, now time.Time) error {
	runs, err := d.cfg.Ledger.DayRuns(ctx, h.Name, h.PlannedAt)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(runs, func(r injector.Run) bool { return !r.State.Ended() }) {
		for _, r := range runs {
			if d.cfg.File == nil {
				break
			}
			if err := d.cfg.File(ctx, r); err != nil {
				return err
			}
		}
		return d.cfg.Ledger.EndDay(ctx, h.ID, now)
	}
	g, err := parse(h.Text)
	if err != nil {
		return fmt.Errorf("game day %s: %w", h.ID, err)
	}
	s, hit, err := d.reason(ctx, g, h, runs, now)
	if err != nil || !hit {
		return errors.Join(err, d.release(ctx, h, now))
	}
	return d.stop(ctx, h, s, "gameday", now)
}

func (d *Desk) reason(ctx context.Context, g scenario.GameDay, h Held, runs []injector.Run, now time.Time) (injector.Stop, bool, error) {
	if h.Stopped != "" { // a control died between writing it and doing it
		return injector.Stop{Reason: injector.DayStopped, Text: h.Stopped}, true, nil
	}
	if g.Deadline > 0 && now.Sub(h.PlannedAt) >= g.Deadline {
		return injector.Stop{Reason: injector.DayOver, Text: fmt.Sprintf("%v are over since it was to begin", g.Deadline)}, true, nil
	}
	for _, r := range runs {
		if r.State == injector.Aborting || r.State == injector.Aborted {
			return injector.Stop{Reason: injector.DayStopped, Text: r.ID + " was stopped: " + r.Reason}, true, nil
		}
	}
	if g.Schedule != nil {
		if calendar, err := g.Schedule.Compile(now); err == nil && g.Schedule.Blacked(now, calendar.Location()) && !g.Schedule.Blacked(h.PlannedAt, calendar.Location()) {
			return injector.Stop{Reason: injector.Blackout, Text: "a blackout begins"}, true, nil
		}
	}
	return d.condition(ctx, g, runs, now)
}

// condition is the guard of a run, asked of all runs as if they were one.
func (d *Desk) condition(ctx context.Context, g scenario.GameDay, runs []injector.Run, now time.Time) (injector.Stop, bool, error) {
	all := scenario.Scenario{Stop: g.Stop}
	v := injector.View{Now: now, Fresh: now, Series: map[string][]injector.Point{}, Budgets: map[string]injector.Budget{}}
	for _, r := range runs {
		if r.InjectAt.IsZero() {
			continue
		}
		if v.Run.InjectAt.IsZero() || r.InjectAt.Before(v.Run.InjectAt) {
			v.Run.BaselineAt, v.Run.InjectAt = r.BaselineAt, r.InjectAt
		}
	}
	if len(g.Stop) == 0 || v.Run.InjectAt.IsZero() {
		return injector.Stop{}, false, nil
	}
	for _, service := range all.Services() {
		if service == "" {
			continue
		}
		points, err := d.cfg.Runs.Tallies(ctx, service, "", v.Run.BaselineAt.Add(-10*time.Minute), now)
		if err != nil {
			return injector.Stop{}, false, err
		}
		v.Series[service] = points
		if d.cfg.Budgets != nil {
			v.Budgets[service] = d.cfg.Budgets.Budget(service)
		}
	}
	s, hit := injector.Guard(all, v)
	return s, hit, nil
}

// stop ends every run of h: what has not begun is skipped, what runs is aborted. The
// game day is over only when all of them are.
func (d *Desk) stop(ctx context.Context, h Held, s injector.Stop, actor string, now time.Time) error {
	if h.Stopped == "" {
		text := string(s.Reason) + ": " + s.Text
		err := errors.Join(d.cfg.Ledger.StopDay(ctx, h.ID, text), d.cfg.Ledger.Write(ctx, h.ID, Note{At: now, Actor: actor, Kind: "stop", Text: text}))
		if err != nil {
			return err
		}
	}
	if h.StartedAt.IsZero() {
		return nil // its time has not come: the schedule decides by what is written
	}
	runs, err := d.cfg.Ledger.DayRuns(ctx, h.Name, h.PlannedAt)
	if err != nil {
		return err
	}
	// From the last: a later wave must not begin because an earlier one has ended.
	slices.Reverse(runs)
	var errs []error
	for _, r := range runs {
		trigger := injector.Skip
		switch {
		case r.State.Ended() || r.State == injector.Aborting:
			continue
		case r.State.Active():
			trigger = injector.Stopped
		}
		to, err := injector.Step(r.State, trigger)
		if err == nil {
			err = d.cfg.Runs.Move(ctx, injector.Move{Run: r.ID, From: r.State, To: to, At: now, Reason: string(s.Reason), Actor: actor, Text: s.Text})
		}
		if !errors.Is(err, injector.ErrFenced) { // it has just moved: the next tick sees how it stands
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
