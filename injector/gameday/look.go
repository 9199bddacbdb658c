package gameday

import (
	"context"
	"slices"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

// Ahead is what comes of one schedule.
type Ahead struct {
	Schedule injector.Schedule
	Day      scenario.GameDay
	Services []string // that its scenarios aim at
	Zone     *time.Location
	Words    string   // when, in plain words
	Next     []Coming // the next five, from what the scheduler has stored on
	Coming   []Coming // those of the span that was asked for
	More     bool     // the span holds more of them than are listed
}

// mostAhead bounds how much of one schedule is listed: a calendar of every minute
// tells nobody anything.
const mostAhead = 800

// Ahead lists every schedule with what comes of it in [from, until).
func (d *Desk) Ahead(ctx context.Context, from, until time.Time) ([]Ahead, error) {
	all, err := d.cfg.Runs.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	docs, err := d.cfg.Runs.Documents(ctx)
	if err != nil {
		return nil, err
	}
	out := []Ahead{}
	for _, s := range all {
		a := Ahead{Schedule: s, Zone: time.UTC}
		for _, doc := range docs {
			if slices.Contains(s.Scenarios, doc.ID) && !slices.Contains(a.Services, doc.Service) {
				a.Services = append(a.Services, doc.Service)
			}
		}
		// A document that can no longer be read is the scheduler's to complain of; the
		// schedule is there all the same.
		if g, err := parse(s.Text); err == nil && g.Schedule != nil {
			a.Day = g
			a.look(from, until)
		}
		out = append(out, a)
	}
	return out, nil
}

// look fills in when a comes.
func (a *Ahead) look(from, until time.Time) {
	s := a.Schedule
	stored := s.NextAt.Add(-time.Second)
	calendar, err := a.Day.Schedule.Compile(stored)
	if err != nil {
		return
	}
	a.Zone, a.Words = calendar.Location(), calendar.Words()
	if !s.Enabled || s.NextAt.IsZero() {
		return
	}
	coming := func(after time.Time) (Coming, bool) {
		due := calendar.Preview(after, 1)
		if len(due) == 0 {
			return Coming{}, false
		}
		return Coming{ID: injector.DayID(s.ID, due[0].UTC), UTC: due[0].UTC, Local: due[0].Local.Format("Mon 2006-01-02 15:04 MST"),
			Skipped: a.Day.Schedule.Closed(due[0].UTC, a.Zone), Note: due[0].Note}, true
	}
	for after := stored; len(a.Next) < 5; {
		c, ok := coming(after)
		if !ok {
			break
		}
		a.Next, after = append(a.Next, c), c.UTC
	}
	after := stored
	if early := from.Add(-time.Nanosecond); early.After(after) {
		after = early
	}
	for {
		c, ok := coming(after)
		if !ok || !c.UTC.Before(until) {
			return
		}
		if len(a.Coming) == mostAhead {
			a.More = true
			return
		}
		a.Coming, after = append(a.Coming, c), c.UTC
	}
}

// Held lists those that come, run and were held, the newest first.
func (d *Desk) Held(ctx context.Context) ([]Held, error) {
	return d.cfg.Ledger.HeldDays(ctx, false, 100)
}

// Documents lists all that can be held, by a schedule or by hand.
func (d *Desk) Documents(ctx context.Context) ([]Document, error) {
	return d.cfg.Ledger.GameDays(ctx)
}

// Story tells all of one game day, by its id or by its name: the one under way, else
// the next.
func (d *Desk) Story(ctx context.Context, id string) (Story, error) { return d.story(ctx, id) }

// State is h in one word: coming, waiting_for_approval, running, stopping, ended or
// skipped.
func (h Held) State(now time.Time) string { return h.state(now) }
