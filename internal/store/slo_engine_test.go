package store

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

func with(o slo.Objective, id string, terms slo.Terms) slo.Objective {
	o.ID, o.Terms = id, &terms
	return o
}

func importAll(t *testing.T, s *Store, list ...slo.Objective) {
	t.Helper()
	if err := slo.CheckSet(list); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ImportObjectives(t.Context(), "dir", list, sloNoon); err != nil {
		t.Fatal(err)
	}
}

// evaluate ticks once at now and returns the statuses by objective.
func evaluate(t *testing.T, s *Store, now time.Time) map[string]slo.Status {
	t.Helper()
	e := slo.NewEvaluator(s, slo.Config{})
	if err := e.Tick(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	out := map[string]slo.Status{}
	for _, st := range e.Statuses() {
		out[st.Objective.ID] = st
	}
	return out
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args pgx.StrictNamedArgs) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args); err != nil {
		t.Fatal(err)
	}
}

// A grouped objective has an id a route and a total, and they add up.
func TestSLO_S8_Grouped(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	importAll(t, s, with(sloObjective(48*time.Hour), "order-availability", slo.Terms{GroupBy: "route"}))
	addGateway(t, db, "gw", sloNoon.Add(-time.Hour), sloNoon, sloNoon)
	for i, route := range []string{"a", "b", "c"} {
		for _, ago := range []time.Duration{time.Minute, 5 * time.Hour, 40 * time.Hour} {
			addMinutes(t, db, minute{service: "order", route: route, at: sloNoon.Add(-ago), good: 100, bad: int64(i)})
		}
	}
	check := func(when string) {
		t.Helper()
		st := evaluate(t, s, sloNoon)["order-availability"]
		if len(st.Groups) != 3 || st.Budget.Tally.Bad != 9 || st.Budget.Tally.Good != 900 {
			t.Fatalf("%s: %d groups, total %+v", when, len(st.Groups), st.Budget.Tally)
		}
		var good, bad int64
		for _, g := range st.Groups {
			good, bad = good+g.Budget.Tally.Good, bad+g.Budget.Tally.Bad
			if want := map[string]int64{"order-availability:a": 0, "order-availability:b": 3, "order-availability:c": 6}[g.ID]; g.Budget.Tally.Bad != want {
				t.Errorf("%s: %s has %d bad, want %d", when, g.ID, g.Budget.Tally.Bad, want)
			}
		}
		if good != 900 || bad != 9 {
			t.Errorf("%s: groups add up to %d good, %d bad", when, good, bad)
		}
	}
	check("from minutes")
	if _, err := s.Keep(t.Context(), sloNoon); err != nil {
		t.Fatal(err)
	}
	check("from days and hours")
}

func TestCorrectionsAreRowsWithAnAuthor(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	o := sloObjective(24 * time.Hour)
	importAll(t, s, o)
	addGateway(t, db, "gw", sloNoon.Add(-time.Hour), sloNoon, sloNoon)
	addMinutes(t, db,
		minute{service: "order", route: "a", at: sloNoon.Add(-10 * time.Hour), good: 1000},
		minute{service: "order", route: "a", at: sloNoon.Add(-5 * time.Hour), good: 50, bad: 50},
		minute{service: "order", route: "a", at: sloNoon.Add(-4 * time.Minute), good: 90, bad: 10})
	budget := func() slo.Budget {
		st := evaluate(t, s, sloNoon)[o.ID]
		// One computation: what was reckoned for the instant is what is shown.
		then, err := s.BudgetAt(t.Context(), o, "prod", sloNoon)
		if err != nil || then.RemainingPPM != st.Budget.RemainingPPM {
			t.Errorf("budget of the instant %d ppm, of the evaluation %d, %v", then.RemainingPPM, st.Budget.RemainingPPM, err)
		}
		return st.Budget
	}
	if b := budget(); b.Tally.Good != 1140 || b.Tally.Bad != 60 {
		t.Fatalf("before: %+v", b.Tally)
	}
	planned := slo.Correction{ID: "c-1", Service: "order", From: sloNoon.Add(-5 * time.Hour), To: sloNoon.Add(-5*time.Hour + 30*time.Second), Mode: slo.Remove,
		Reason: "database upgrade", Ticket: "OPS-7", Author: "ada", At: sloNoon}
	if err := s.AddCorrection(t.Context(), planned); err != nil {
		t.Fatal(err)
	}
	if b := budget(); b.Tally.Good != 1090 || b.Tally.Bad != 10 {
		t.Errorf("removed: %d good, %d bad, want 1090 and 10", b.Tally.Good, b.Tally.Bad)
	}
	up := slo.Correction{ID: "c-2", Objective: o.ID, Service: "order", From: sloNoon.Add(-6 * time.Minute), To: sloNoon, Mode: slo.Up, Reason: "known", Author: "ada", At: sloNoon}
	if err := s.AddCorrection(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	if b := budget(); b.Tally.Good != 1100 || b.Tally.Bad != 0 {
		t.Errorf("counted as up: %d good, %d bad, want 1100 and 0", b.Tally.Good, b.Tally.Bad)
	}
	if st := evaluate(t, s, sloNoon)[o.ID]; len(st.Corrections) != 2 || st.Burn(time.Hour).Bad != 0 {
		t.Errorf("corrections %+v, burn %+v", st.Corrections, st.Burn(time.Hour))
	}
	points, err := s.Points(t.Context(), o, "prod", sloNoon.Add(-12*time.Hour), sloNoon, time.Hour)
	if err != nil || points[len(points)-1].RemainingPPM != 1_000_000 {
		t.Errorf("burn-down ends with %+v, %v", points[len(points)-1], err)
	}
	if done, err := s.RevokeCorrection(t.Context(), "c-1", "bob", "it was no upgrade", sloNoon.Add(time.Minute)); err != nil || !done {
		t.Fatal(done, err)
	}
	if done, err := s.RevokeCorrection(t.Context(), "c-1", "bob", "again", sloNoon.Add(time.Minute)); err != nil || done {
		t.Errorf("revoked twice: %v, %v", done, err)
	}
	if b := budget(); b.Tally.Bad != 50 {
		t.Errorf("revoked: %d bad, want 50", b.Tally.Bad)
	}
	list, err := s.Corrections(t.Context(), "order", 10)
	if err != nil || len(list) != 2 || list[1].RevokedBy != "bob" {
		t.Errorf("kept %+v, %v", list, err)
	}
	rows, err := s.AuditRows(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, r := range rows {
		if strings.HasPrefix(r.Action, "correction.") {
			said = append(said, r.Actor+" "+r.Action+" "+r.Object)
		}
	}
	if got := strings.Join(said, ", "); got != "ada correction.add c-1, ada correction.add c-2, bob correction.revoke c-1" {
		t.Errorf("audited: %s", got)
	}
}

// Slices kept by the hour are those that minutes make, before, between and after
// roll-ups, with late minutes in between.
func TestSlicesEqualTheirMinutes(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	bySlice := with(sloObjective(24*time.Hour), "order-slices", slo.Terms{Method: slo.Timeslices, SlicePPB: 990_000_000})
	byTime := with(sloObjective(24*time.Hour), "order-time", slo.Terms{Method: slo.RatioTimeslices, Slice: 5 * time.Minute})
	points := with(sloObjective(24*time.Hour), "points-slices", slo.Terms{Method: slo.Timeslices, SlicePPB: 990_000_000})
	points.Service = "points"
	both := with(sloObjective(24*time.Hour), "both", slo.Terms{Method: slo.Timeslices, Indicator: slo.Indicator{Kind: slo.Composite,
		Members: []slo.Member{{Objective: "order-slices", WeightPPM: 1}, {Objective: "points-slices", WeightPPM: 1}}}})
	importAll(t, s, bySlice, byTime, points, both)
	addGateway(t, db, "gw", sloNoon.Add(-time.Hour), sloNoon, sloNoon)
	rng := rand.New(rand.NewPCG(8, 8))
	counted := map[string]map[time.Time]slo.Tally{"order": {}, "points": {}}
	add := func(n int) {
		var fresh []minute
		for range n {
			m := minute{service: []string{"order", "points"}[rng.IntN(2)], route: []string{"a", "b"}[rng.IntN(2)],
				at: sloNoon.Add(-time.Duration(1+rng.IntN(30*60)) * time.Minute), good: rng.Int64N(200), bad: rng.Int64N(3)}
			fresh = append(fresh, m)
			counted[m.service][m.at] = counted[m.service][m.at].Plus(slo.Tally{Good: m.good, Bad: m.bad})
		}
		addMinutes(t, db, fresh...)
	}
	bad := func(service string, at time.Time) bool {
		c := counted[service][at]
		return c.Good+c.Bad > 0 && c.Good*100 < 99*(c.Good+c.Bad)
	}
	check := func(when string) {
		t.Helper()
		var want, wantBoth, wantUS int64
		for m := range 24 * 60 {
			at := sloNoon.Add(time.Duration(m-24*60) * time.Minute)
			if bad("order", at) {
				want++
			}
			if bad("order", at) || bad("points", at) {
				wantBoth++
			}
			if m%5 == 0 {
				var sum slo.Tally
				for k := range 5 {
					sum = sum.Plus(counted["order"][at.Add(time.Duration(k)*time.Minute)])
				}
				if v := sum.Good + sum.Bad; v > 0 {
					wantUS += (sum.Bad*300_000_000 + v - 1) / v
				}
			}
		}
		got := evaluate(t, s, sloNoon)
		if b := got["order-slices"].Budget; b.Slices.Bad != want || b.Slices.Total != 1440 {
			t.Fatalf("%s: %d of %d slices bad, want %d of 1440", when, b.Slices.Bad, b.Slices.Total, want)
		}
		if b := got["both"].Budget; b.Slices.Bad != wantBoth {
			t.Fatalf("%s: %d slices of both bad, want %d", when, b.Slices.Bad, wantBoth)
		}
		if b := got["order-time"].Budget; b.Tally.Bad != wantUS || b.Valid != 24*3600*1_000_000 {
			t.Fatalf("%s: %d us of %d bad, want %d", when, b.Tally.Bad, b.Valid, wantUS)
		}
		at, err := s.BudgetAt(t.Context(), got["both"].Objective, "prod", sloNoon)
		if err != nil || at.Slices.Bad != wantBoth {
			t.Fatalf("%s: of the instant %+v, %v", when, at.Slices, err)
		}
	}
	add(1200)
	check("nothing rolled up")
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("rolled up")
	add(300)
	check("late minutes")
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("late minutes rolled up")
	// A changed slice target makes all slices anew.
	bySlice.Terms.SlicePPB, bySlice.Text = 500_000_000, "kind: SLO # changed"
	if _, err := s.ImportObjectives(t.Context(), "dir", []slo.Objective{bySlice, byTime, points, both}, sloNoon); err != nil {
		t.Fatal(err)
	}
	st := evaluate(t, s, sloNoon)["order-slices"]
	var want int64
	for m := range 24 * 60 {
		if c := counted["order"][sloNoon.Add(time.Duration(m-24*60)*time.Minute)]; c.Good < c.Bad {
			want++
		}
	}
	if st.Budget.Slices.Bad != want || st.Objective.Revision != 2 {
		t.Errorf("at 50 %% %d slices are bad, want %d, revision %d", st.Budget.Slices.Bad, want, st.Objective.Revision)
	}
}

// Calendars, corrections and slices have burn-downs of the same figures, too.
func TestPointsEqualBudgetsOfEveryKind(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	month := slo.Calendar{Unit: slo.Day, Start: "2026-01-01 00:00:00", Zone: "Asia/Kathmandu"}
	list := []slo.Objective{
		with(sloObjective(24*time.Hour), "calendar", slo.Terms{Calendar: &month}),
		with(sloObjective(24*time.Hour), "planned", slo.Terms{Calendar: &month, Planned: 1_000_000}),
		with(sloObjective(12*time.Hour), "slices", slo.Terms{Method: slo.Timeslices}),
		with(sloObjective(12*time.Hour), "quality", slo.Terms{Indicator: slo.Indicator{Kind: slo.RatioOf, Bad: []slo.Counter{"bad", "degraded"}, Total: []slo.Counter{"good", "bad"}}}),
		with(sloObjective(12*time.Hour), "spared", slo.Terms{Chaos: slo.ChaosExclude}),
		with(sloObjective(12*time.Hour), "capped", slo.Terms{Chaos: slo.ChaosCap, ChaosCapPPM: 500_000}),
	}
	importAll(t, s, list...)
	rng := rand.New(rand.NewPCG(6, 2))
	var minutes []minute
	for m := range 40 * 60 {
		minutes = append(minutes, minute{service: "order", route: "a", experiment: []string{"", "r-1"}[rng.IntN(2)],
			at: sloNoon.Add(-time.Duration(m+1) * time.Minute), good: rng.Int64N(100), bad: rng.Int64N(3) / 2})
	}
	addMinutes(t, db, minutes...)
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		for _, step := range []time.Duration{7 * time.Minute, time.Hour} {
			points, err := s.Points(t.Context(), o, "prod", sloNoon.Add(-6*time.Hour), sloNoon.Add(-5*time.Minute), step)
			if err != nil || len(points) < 6 {
				t.Fatalf("%s by %v: %d points, %v", o.ID, step, len(points), err)
			}
			for i := 0; i < len(points); i += 5 {
				want, err := s.BudgetAt(t.Context(), o, "prod", points[i].At)
				if err != nil || points[i].RemainingPPM != want.RemainingPPM || points[i].NoData != want.NoData {
					t.Fatalf("%s by %v, point %d: %d ppm left, the budget then was %d, %v", o.ID, step, i, points[i].RemainingPPM, want.RemainingPPM, err)
				}
			}
		}
	}
}

// A latency limit judges no request from before it was set.
func TestALimitCountsFromWhenItWasSet(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	o := slo.Quantile(sloObjective(24*time.Hour), 950_000_000, 300*time.Millisecond)
	importAll(t, s, o)
	addGateway(t, db, "gw", sloNoon, sloNoon.Add(time.Hour), sloNoon.Add(time.Hour))
	addMinutes(t, db, minute{service: "order", route: "a", at: sloNoon.Add(-time.Hour), good: 1000}, minute{service: "order", route: "a", at: sloNoon.Add(10 * time.Minute), good: 100})
	exec(t, db, `update rollup_minute set over_limit = 4 where at > @noon`, pgx.StrictNamedArgs{"noon": sloNoon})
	st := evaluate(t, s, sloNoon.Add(time.Hour))[o.ID]
	if st.Budget.Valid != 100 || st.Budget.Tally.Bad != 4 || st.Objective.Counted.IsZero() {
		t.Errorf("%d slow of %d, counted since %v, want 4 of 100", st.Budget.Tally.Bad, st.Budget.Valid, st.Objective.Counted)
	}
	e := slo.NewEvaluator(s, slo.Config{})
	if err := e.Tick(t.Context(), sloNoon.Add(time.Hour)); err != nil || e.Limit("order", "a") != 300*time.Millisecond || e.Limit("points", "a") != 0 {
		t.Errorf("ingest counts by %v, %v", e.Limit("order", "a"), err)
	}
	since := func(limit time.Duration, text string, now time.Time) time.Time {
		t.Helper()
		o := slo.Quantile(sloObjective(24*time.Hour), 950_000_000, limit)
		o.Text = text
		if _, err := s.ImportObjectives(t.Context(), "dir", []slo.Objective{o}, now); err != nil {
			t.Fatal(err)
		}
		all, err := s.Objectives(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Counted
	}
	if at := since(300*time.Millisecond, "another text", sloNoon.Add(2*time.Hour)); !at.Equal(st.Objective.Counted) {
		t.Errorf("the same limit counts since %v, want %v", at, st.Objective.Counted)
	}
	if at := since(time.Second, "another limit", sloNoon.Add(3*time.Hour)); !at.Equal(sloNoon.Add(3*time.Hour + settling)) {
		t.Errorf("another limit counts since %v, want when it was set", at)
	}
	revisions, err := s.Revisions(t.Context(), o.ID, 10)
	if err != nil || len(revisions) != 3 || revisions[len(revisions)-1].Revision != 1 || revisions[len(revisions)-1].Limit() != 300*time.Millisecond {
		t.Errorf("revisions %+v, %v", revisions, err)
	}
}

func TestErrTermsReachTheAsker(t *testing.T) {
	s := New(pgtest.Pool(t))
	o := with(sloObjective(time.Hour), "slices", slo.Terms{Method: slo.Timeslices})
	if _, err := s.Attribution(t.Context(), o, "prod", sloNoon.Add(-time.Hour), sloNoon); !errors.Is(err, slo.ErrTerms) {
		t.Errorf("attribution of slices: %v", err)
	}
}
