package slo

import (
	"context"
	"errors"
	"testing"
	"time"
)

// reviewed is a ledger of one failing day in ten.
type reviewed struct {
	moves  []Transition
	asked  []Objective
	causes []Portion
	err    error
}

func (r *reviewed) BudgetAt(_ context.Context, o Objective, _ string, _ time.Time) (Budget, error) {
	r.asked = append(r.asked, o)
	n := int64(o.Window / time.Hour)
	return Weigh(o, Tally{Good: n*1000 - n, Bad: n, FirstTryBad: 3 * n}), nil
}

func (r *reviewed) Points(_ context.Context, _ Objective, _ string, from, to time.Time, step time.Duration) ([]Point, error) {
	var out []Point
	for t := from; !t.After(to); t = t.Add(step) { // begins one step early, as the ledger may
		out = append(out, Point{At: t, RemainingPPM: 500_000, Valid: 10})
	}
	return out, nil
}

func (r *reviewed) Attribution(context.Context, Objective, string, time.Time, time.Time) ([]Portion, error) {
	return r.causes, r.err
}

func (r *reviewed) Transitions(context.Context, string, time.Time, int) ([]Transition, error) {
	return r.moves, nil
}

func reviewStatus(id, service, owner string) Status {
	o := Objective{ID: id, Service: service, Owner: owner, TargetPPB: 999_500_000, Window: 30 * 24 * time.Hour}
	return Status{Objective: o, Env: "prod", DataUntil: healthNoon, Level: Normal, Since: healthNoon.Add(-1000 * time.Hour)}
}

func TestReviewPeriods(t *testing.T) {
	for _, tt := range []struct {
		unit     Unit
		zone, at string
		from, to string
	}{
		{Week, "UTC", "2026-03-10T12:00:00Z", "2026-03-09T00:00:00Z", "2026-03-16T00:00:00Z"},
		{Week, "UTC", "2026-03-09T00:00:00Z", "2026-03-09T00:00:00Z", "2026-03-16T00:00:00Z"},
		{Week, "America/New_York", "2026-03-10T12:00:00Z", "2026-03-09T04:00:00Z", "2026-03-16T04:00:00Z"},
		{Week, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z"}, // 167 hours
		{Quarter, "UTC", "2026-03-10T12:00:00Z", "2026-01-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		{Quarter, "UTC", "2023-12-31T23:59:59Z", "2023-10-01T00:00:00Z", "2024-01-01T00:00:00Z"},
		{Month, "UTC", "2026-02-10T12:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
	} {
		at, _ := time.Parse(time.RFC3339, tt.at)
		from, to, err := ReviewPeriod(tt.unit, tt.zone, at)
		if err != nil || from.Format(time.RFC3339) != tt.from || to.Format(time.RFC3339) != tt.to {
			t.Errorf("%s of %s in %s is %s to %s, %v, want %s to %s", tt.unit, tt.at, tt.zone, from, to, err, tt.from, tt.to)
		}
	}
	if _, _, err := ReviewPeriod(Day, "UTC", healthNoon); !errors.Is(err, ErrReview) {
		t.Errorf("a day is a period: %v", err)
	}
	if _, _, err := ReviewPeriod(Week, "Mars", healthNoon); !errors.Is(err, ErrReview) {
		t.Errorf("Mars is a zone: %v", err)
	}
}

// A period is weighed by itself, whatever window the promise has, and a period that
// goes on only as far as it is counted.
func TestReviewWeighsThePeriod(t *testing.T) {
	month := reviewStatus("monthly", "order", "shop")
	month.Objective.Terms = &Terms{Calendar: &Calendar{Unit: Month, Start: "2026-01-01 00:00:00", Zone: "UTC"}}
	l := &reviewed{causes: []Portion{{Kind: ByDeploy, Ref: "v2", Bad: 30}}}
	statuses := []Status{reviewStatus("cart-a", "cart", ""), month, reviewStatus("order-a", "order", "shop"), reviewStatus("points-a", "points", "loyalty")}
	r, err := ReviewOf(t.Context(), l, statuses, Week, "UTC", healthNoon, healthNoon)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Until.Equal(healthNoon) || len(r.Teams) != 3 || r.Teams[0].Owner != "loyalty" || r.Teams[1].Owner != "shop" || r.Teams[2].Owner != "" || len(r.Teams[1].Services) != 1 || len(r.Teams[1].Services[0].Promises) != 2 {
		t.Fatalf("%+v", r)
	}
	p := r.Teams[1].Services[0].Promises[0]
	if p.Objective.ID != "monthly" || p.Period.Valid != 36_000 || p.Period.Tally.Bad != 36 || p.Verdict() != Broken || p.FirstTry.Tally.Bad != 108 {
		t.Errorf("%+v", p)
	}
	if p.Untold != 6 {
		t.Errorf("%d failures are put down to nothing, want 36 - 30", p.Untold)
	}
	for _, x := range p.Points {
		if !x.At.After(r.From) || x.At.After(r.Until) {
			t.Errorf("a point at %s of %s to %s", x.At, r.From, r.Until)
		}
	}
	for _, o := range l.asked {
		if o.Window == 36*time.Hour && o.Terms != nil && o.Terms.Calendar != nil {
			t.Error("a period by itself has no calendar")
		}
	}
	if month.Objective.Terms.Calendar == nil {
		t.Error("the promise itself was changed")
	}
	l.err = ErrTerms
	if r, err := ReviewOf(t.Context(), l, statuses, Week, "UTC", healthNoon, healthNoon); err != nil || r.Teams[1].Services[0].Promises[0].Untold != 36 {
		t.Errorf("without attribution: %v", err)
	}
	if _, err := ReviewOf(t.Context(), l, statuses, Week, "UTC", healthNoon.Add(14*24*time.Hour), healthNoon); !errors.Is(err, ErrReview) {
		t.Errorf("a week to come: %v", err)
	}
}

// How long a promise was frozen is told by its moves, whichever side of the period
// they lie on.
func TestReviewFrozen(t *testing.T) {
	from := time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)
	move := func(h int, a, b Level) Transition {
		return Transition{Service: "order", Objective: "order-a", Env: "prod", At: from.Add(time.Duration(h) * time.Hour), From: a, To: b}
	}
	for name, tt := range map[string]struct {
		moves   []Transition
		hours   int
		freezes int
	}{
		"never":                 {nil, 0, 0},
		"within":                {[]Transition{move(2, Emergency, Frozen), move(7, Frozen, Normal)}, 5, 1},
		"began before":          {[]Transition{move(-5, Emergency, Frozen), move(4, Frozen, Normal)}, 4, 0},
		"goes on":               {[]Transition{move(30, Normal, Frozen)}, 6, 1},
		"all of it":             {[]Transition{move(-5, Emergency, Frozen)}, 36, 0},
		"before is over":        {[]Transition{move(-9, Normal, Frozen), move(-5, Frozen, Normal)}, 0, 0},
		"only what lies beyond": {[]Transition{move(40, Frozen, Normal)}, 36, 0},
		"twice":                 {[]Transition{move(1, Normal, Frozen), move(2, Frozen, Warn), move(3, Warn, Frozen), move(5, Frozen, Normal)}, 3, 2},
		"of another":            {[]Transition{{Service: "order", Objective: "x", Env: "prod", At: from, To: Frozen}}, 0, 0},
	} {
		s := reviewStatus("order-a", "order", "")
		if len(tt.moves) > 0 && tt.moves[0].Objective == "order-a" {
			s.Since = healthNoon
		}
		r, err := ReviewOf(t.Context(), &reviewed{moves: tt.moves}, []Status{s}, Week, "UTC", healthNoon, healthNoon)
		if err != nil {
			t.Fatal(err)
		}
		p := r.Teams[0].Services[0].Promises[0]
		if p.Frozen != time.Duration(tt.hours)*time.Hour || p.Freezes != tt.freezes {
			t.Errorf("%s: frozen for %s, %d times, want %d h, %d", name, p.Frozen, p.Freezes, tt.hours, tt.freezes)
		}
	}
}
