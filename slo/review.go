package slo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ReviewLedger is what a review of a period reads.
type ReviewLedger interface {
	BudgetAt(ctx context.Context, o Objective, env string, at time.Time) (Budget, error)
	Points(ctx context.Context, o Objective, env string, from, to time.Time, step time.Duration) ([]Point, error)
	Attribution(ctx context.Context, o Objective, env string, from, to time.Time) ([]Portion, error)
	Transitions(ctx context.Context, service string, since time.Time, limit int) ([]Transition, error)
}

// Review is a week or a quarter of promises, by team and service. Everything in it
// is read for one period, and page, Markdown and JSON are made of this one value.
type Review struct {
	Unit Unit
	Zone string
	// From and To bound the period; Until is how far it is counted, before To while it
	// goes on. At is when the review was made.
	From, To, Until, At time.Time
	Teams               []TeamReview
}

// TeamReview are the services of one owner; "" for those without.
type TeamReview struct {
	Owner    string
	Services []ServiceReview
}

// ServiceReview is a service in one environment.
type ServiceReview struct {
	Name, Env string
	Promises  []PromiseReview
}

// Verdict is whether a promise was kept in a period.
type Verdict string

// The verdicts.
const (
	Kept     Verdict = "kept"
	Broken   Verdict = "broken"
	NotKnown Verdict = "no_data"
)

// PromiseReview is one objective over the period.
type PromiseReview struct {
	Objective Objective
	Env       string
	// Period is the period weighed by itself: as if the promise were made for it.
	// Start and End are the promise's own budget where the period begins and where it
	// is counted to.
	Period, Start, End Budget
	// FirstTry is Period if no retry had helped; only for availability.
	FirstTry Budget
	Points   []Point // of the promise's own budget
	// Causes are what the period's failures were put down to, Untold what they do
	// not cover: minutes are kept for 35 days, and time is put down to nobody.
	Causes []Portion
	Untold int64
	// Moves are changes of level within the period, oldest first; Frozen is how long
	// it was frozen, Freezes how often that began.
	Moves   []Transition
	Frozen  time.Duration
	Freezes int
}

// Verdict says whether the promise was kept over the period.
func (p PromiseReview) Verdict() Verdict {
	switch {
	case p.Period.NoData:
		return NotKnown
	case p.Period.RemainingPPM < 0 || p.Period.Remaining < 0:
		return Broken
	}
	return Kept
}

// ErrReview is wrapped by every refusal of a period.
var ErrReview = errors.New("bad period")

// ReviewPeriod is the week or quarter of zone that holds an instant. Weeks begin on
// Mondays.
func ReviewPeriod(unit Unit, zone string, at time.Time) (from, to time.Time, err error) {
	if unit != Week && unit != Quarter && unit != Month {
		return from, to, fmt.Errorf("%w: must be week, month or quarter, got %q", ErrReview, unit)
	}
	c := Calendar{Unit: unit, Start: "2024-01-01 00:00:00", Zone: zone} // a Monday, and the first of a quarter
	if err := c.Check(); err != nil {
		return from, to, fmt.Errorf("%w: %w", ErrReview, err)
	}
	from, to = c.Period(at.Add(1))
	return from, to, nil
}

// ReviewOf reads the period that holds at, for the promises of statuses: those that
// are in force now.
func ReviewOf(ctx context.Context, l ReviewLedger, statuses []Status, unit Unit, zone string, at, now time.Time) (Review, error) {
	from, to, err := ReviewPeriod(unit, zone, at)
	if err != nil {
		return Review{}, err
	}
	r := Review{Unit: unit, Zone: zone, From: from, To: to, At: now, Until: to, Teams: []TeamReview{}}
	until := time.Time{}
	for _, s := range statuses {
		if s.DataUntil.After(until) {
			until = s.DataUntil
		}
	}
	if until.Before(to) {
		r.Until = until.Truncate(time.Minute)
	}
	if !r.Until.After(from) {
		return r, fmt.Errorf("%w: it must have begun before %s, where data ends; it begins %s", ErrReview, Clock(until), Clock(from))
	}
	type key struct{ owner, service, env string }
	found := map[key][]PromiseReview{}
	moves := map[string][]Transition{}
	for _, s := range statuses {
		o := s.Objective
		if _, read := moves[o.Service]; !read {
			if moves[o.Service], err = l.Transitions(ctx, o.Service, time.Unix(0, 0).UTC(), 10_000); err != nil {
				return r, err
			}
		}
		p, err := reviewOne(ctx, l, s, r, moves[o.Service])
		if err != nil {
			return r, fmt.Errorf("review %s: %w", o.ID, err)
		}
		k := key{o.Owner, o.Service, s.Env}
		found[k] = append(found[k], p)
	}
	for k, promises := range found {
		slices.SortFunc(promises, func(a, b PromiseReview) int { return cmp.Compare(a.Objective.ID, b.Objective.ID) })
		i := slices.IndexFunc(r.Teams, func(t TeamReview) bool { return t.Owner == k.owner })
		if i < 0 {
			i, r.Teams = len(r.Teams), append(r.Teams, TeamReview{Owner: k.owner})
		}
		r.Teams[i].Services = append(r.Teams[i].Services, ServiceReview{k.service, k.env, promises})
	}
	for _, t := range r.Teams {
		slices.SortFunc(t.Services, func(a, b ServiceReview) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Env, b.Env)) })
	}
	slices.SortFunc(r.Teams, func(a, b TeamReview) int {
		return cmp.Or(cmp.Compare(boolInt(a.Owner == ""), boolInt(b.Owner == "")), cmp.Compare(a.Owner, b.Owner))
	})
	return r, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// asPeriod is o promised for a rolling window as long as the period.
func (o Objective) asPeriod(d time.Duration) Objective {
	o.Window = d
	if o.Terms != nil {
		t := *o.Terms
		t.Calendar, t.Planned, t.Pairs = nil, 0, nil
		o.Terms = &t
	}
	return o
}

func reviewOne(ctx context.Context, l ReviewLedger, s Status, r Review, moves []Transition) (p PromiseReview, err error) {
	o := s.Objective
	p = PromiseReview{Objective: o, Env: s.Env}
	whole := o.asPeriod(r.Until.Sub(r.From))
	if p.Period, err = l.BudgetAt(ctx, whole, s.Env, r.Until); err != nil {
		return p, err
	}
	if p.Start, err = l.BudgetAt(ctx, o, s.Env, r.From); err != nil {
		return p, err
	}
	if p.End, err = l.BudgetAt(ctx, o, s.Env, r.Until); err != nil {
		return p, err
	}
	if t := o.terms(); t.Indicator.Kind == Availability && !o.Sliced() && !p.Period.NoData {
		p.FirstTry = Weigh(whole, FirstTry(p.Period.Tally))
	}
	step := 24 * time.Hour
	if r.Unit == Week {
		step = 3 * time.Hour
	}
	if p.Points, err = l.Points(ctx, o, s.Env, r.From, r.Until, step); err != nil {
		return p, err
	}
	p.Points = slices.DeleteFunc(p.Points, func(x Point) bool { return !x.At.After(r.From) })
	p.Untold = max(p.Period.Tally.Bad+p.Period.ChaosSpared, 0)
	switch p.Causes, err = l.Attribution(ctx, o, s.Env, r.From, r.Until); {
	case errors.Is(err, ErrTerms): // of time nobody knows
	case err != nil:
		return p, err
	default:
		for _, c := range p.Causes {
			p.Untold -= c.Bad
		}
		p.Untold = max(p.Untold, 0)
	}
	p.move(s, moves, r.From, r.Until)
	return p, nil
}

// move reckons how long p was frozen: levels before, within, and at the end.
func (p *PromiseReview) move(s Status, moves []Transition, from, until time.Time) {
	level := Unknown
	var at = from
	mine := slices.DeleteFunc(slices.Clone(moves), func(m Transition) bool { return m.Objective != p.Objective.ID || m.Env != p.Env })
	slices.SortStableFunc(mine, func(a, b Transition) int { return a.At.Compare(b.At) })
	if len(mine) == 0 && !s.Since.After(from) {
		level = s.Level // it never moved
	}
	for _, m := range mine {
		switch {
		case m.At.Before(from):
			level = m.To
			continue
		case !m.At.Before(until):
			if len(p.Moves) == 0 && level == Unknown {
				level = m.From
			}
		default:
			if len(p.Moves) == 0 && level == Unknown {
				level = m.From
			}
			if level == Frozen {
				p.Frozen += m.At.Sub(at)
			}
			if m.To == Frozen && level != Frozen {
				p.Freezes++
			}
			level, at = m.To, m.At
			p.Moves = append(p.Moves, m)
			continue
		}
		break
	}
	if level == Frozen {
		p.Frozen += until.Sub(at)
	}
}
