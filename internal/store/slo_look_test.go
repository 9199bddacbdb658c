package store

import (
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

const addConfigSQL = `
insert into event (service, env, at, kind, gateway, experiment, request_id, body)
values ('', 'prod', @at, 'config', @gateway, '', '', jsonb_build_object('config', jsonb_build_object('revision', @revision::text, 'error', @error::text)))`

func TestAttributionOfWhatIsStored(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	o := sloObjective(24 * time.Hour)
	importAll(t, s, o)
	ago := func(m int) time.Time { return sloNoon.Add(-time.Duration(m) * time.Minute) }
	addMinutes(t, db,
		minute{service: "order", route: "a", at: ago(600), good: 90, bad: 2},                    // unknown
		minute{service: "order", route: "a", at: ago(500), good: 90, bad: 3},                    // after a configuration
		minute{service: "order", route: "b", at: ago(500), good: 90, bad: 4, experiment: "r-1"}, // by an experiment, in the same minute
		minute{service: "order", route: "a", at: ago(400), good: 90, bad: 5},                    // after a deploy
		minute{service: "order", route: "a", at: ago(300), good: 90, bad: 6},                    // in an incident
		minute{service: "points", route: "a", at: ago(300), good: 90, bad: 100})
	for _, c := range []struct {
		ago                      int
		gateway, revision, fault string
	}{{900, "gw-1", "rev-1", ""}, {510, "gw-1", "rev-2", ""}, {509, "gw-2", "rev-2", ""}, {450, "gw-1", "rev-3", "refused"}, {200, "gw-2", "rev-2", ""}} {
		exec(t, db, addConfigSQL, pgx.StrictNamedArgs{"at": ago(c.ago), "gateway": c.gateway, "revision": c.revision, "error": c.fault})
	}
	for _, c := range []slo.Cause{
		{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v8", Title: "release 8", From: ago(410), Actor: "ci"},
		{Kind: slo.ByIncident, Service: "order", Ref: "inc-1", From: ago(305), Actor: "ada"},
		{Kind: slo.ByDeploy, Service: "points", Env: "prod", Ref: "v9", From: ago(301), Actor: "ci"},
	} {
		if err := s.AddCause(t.Context(), c, sloNoon); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int64{"unknown": 2, "config rev-2": 3, "experiment r-1": 4, "deploy v8": 5, "incident inc-1": 6}
	for range 2 { // a second look notes nothing twice
		got, err := s.Attribution(t.Context(), o, "prod", ago(24*60), sloNoon)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%+v, %v", got, err)
		}
		var bad, ppm int64
		for _, p := range got {
			name := string(p.Kind)
			if p.Ref != "" {
				name += " " + p.Ref
			}
			if p.Bad != want[name] {
				t.Errorf("%s has %d failures, want %d", name, p.Bad, want[name])
			}
			bad, ppm = bad+p.Bad, ppm+p.PPM
		}
		if bad != 20 || ppm != 1_000_000 {
			t.Errorf("%d failures, %d ppm in all", bad, ppm)
		}
	}
	// The events go after a week; what they say of failures stays.
	exec(t, db, `delete from event where kind = @kind`, pgx.StrictNamedArgs{"kind": "config"})
	got, err := s.Attribution(t.Context(), o, "prod", ago(24*60), sloNoon)
	if err != nil || len(got) != len(want) {
		t.Errorf("without the events: %+v, %v", got, err)
	}
	var configs int
	if err := db.QueryRow(t.Context(), `select count(*) from slo_cause where kind = 'config'`).Scan(&configs); err != nil || configs != 2 {
		t.Errorf("%d configurations are noted, want two: a second gateway and a refused one are no change", configs)
	}
	// Ended later, it no longer holds what came after.
	if err := s.AddCause(t.Context(), slo.Cause{Kind: slo.ByIncident, Service: "order", Ref: "inc-1", From: ago(305), To: ago(302), Actor: "ada"}, sloNoon); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Attribution(t.Context(), o, "prod", ago(24*60), sloNoon); err != nil {
		t.Fatal(err)
	}
	for _, p := range got {
		if p.Kind == slo.ByIncident {
			t.Errorf("an incident that had ended is blamed: %+v", p)
		}
	}
}

func TestRecomputeSaysWhatWouldChange(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	o := sloObjective(48 * time.Hour)
	importAll(t, s, o)
	o.Revision = 1
	addGateway(t, db, "gw", sloNoon.Add(-time.Hour), sloNoon, sloNoon)
	for m := range 47 * 60 {
		if m%5 == 0 {
			addMinutes(t, db, minute{service: "order", route: "a", at: sloNoon.Add(-time.Duration(m+1) * time.Minute), good: 100})
		}
	}
	addMinutes(t, db, minute{service: "order", route: "b", at: sloNoon.Add(-30 * time.Minute), bad: 100})
	if st := evaluate(t, s, sloNoon)[o.ID]; st.Level != slo.Frozen {
		t.Fatalf("%s, %+v", st.Level, st.Budget)
	}
	look := func(dry bool) slo.Recomputation {
		t.Helper()
		out, err := s.Recompute(t.Context(), o, "prod", sloNoon, dry, "ada", sloNoon)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := look(true); len(out.Sums) != 0 || len(out.Decisions) != 0 || out.Minutes != 565 {
		t.Fatalf("nothing has changed, yet %+v", out)
	}
	// Sums are damaged, late events come, and a correction is made.
	exec(t, db, `update service_hour set good = good + 7 where at = @at`, pgx.StrictNamedArgs{"at": sloNoon.Add(-10 * time.Hour)})
	exec(t, db, `update service_day set bad = bad + 1 where at = @at`, pgx.StrictNamedArgs{"at": sloNoon.Truncate(day).Add(-day)})
	exec(t, db, `alter table service_minute disable trigger all`, nil)
	exec(t, db, `update service_minute set good = good + 50 where at = @at`, pgx.StrictNamedArgs{"at": sloNoon.Add(-20*time.Hour - 5*time.Minute - time.Minute)})
	exec(t, db, `alter table service_minute enable trigger all`, nil)
	if err := s.AddCorrection(t.Context(), slo.Correction{ID: "c-1", Service: "order", From: sloNoon.Add(-time.Hour), To: sloNoon.Add(-25 * time.Minute), Mode: slo.Remove, Reason: "upgrade", Author: "ada", At: sloNoon}); err != nil {
		t.Fatal(err)
	}
	out := look(true)
	spans := map[string]int{}
	for _, d := range out.Sums {
		spans[d.Span]++
	}
	// The minute is wrong, the hour above it no longer its sum, and so on up.
	if spans["minute"] != 1 || spans["hour"] != 2 || spans["day"] != 1 {
		t.Errorf("wrong sums: %v, %+v", spans, out.Sums)
	}
	if len(out.Decisions) != 1 || out.Decisions[0].Transition.To != slo.Frozen || out.Decisions[0].Measured != slo.Normal || out.Decisions[0].Bad != 0 {
		t.Errorf("decisions that would differ: %+v", out.Decisions)
	}
	if out := look(true); len(out.Sums) != 4 {
		t.Error("a dry run has changed something")
	}
	if out := look(false); len(out.Sums) != 4 {
		t.Errorf("put right: %+v", out.Sums)
	}
	after := look(true)
	if len(after.Sums) != 0 || after.Budget.Tally.Good != 56_400-700 || after.Budget.Tally.Bad != 0 {
		t.Errorf("afterwards %+v, %+v", after.Sums, after.Budget.Tally)
	}
	rows, err := s.AuditRows(t.Context(), 0, 100)
	if err != nil || rows[len(rows)-1].Action != "slo.recompute" || rows[len(rows)-1].Actor != "ada" {
		t.Errorf("audited %+v, %v", rows, err)
	}
}

func TestBacktestOverWhatIsKept(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	o := sloObjective(24 * time.Hour)
	importAll(t, s, o)
	var minutes []minute
	for m := range 72 * 60 {
		x := minute{service: "order", route: "a", at: sloNoon.Add(-time.Duration(m+1) * time.Minute), good: 100}
		if m >= 20*60 && m < 20*60+30 {
			x.bad = 10
		}
		minutes = append(minutes, x)
	}
	addMinutes(t, db, minutes...)
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	from := sloNoon.Add(-48 * time.Hour)
	strict, err := s.Backtest(t.Context(), o, slo.DefaultPolicy(), "prod", from, sloNoon)
	if err != nil || strict.Step != time.Minute || strict.Freezes != 1 || strict.Bad != 300 {
		t.Fatalf("at 99.9 %%: %+v, %v", strict, err)
	}
	lax := o
	lax.TargetPPB = 990_000_000
	if got, err := s.Backtest(t.Context(), lax, slo.DefaultPolicy(), "prod", from, sloNoon); err != nil || got.Freezes != 0 || got.WorstPPM >= 1_000_000 {
		t.Errorf("at 99 %%: %d freezes, %d ppm, %v", got.Freezes, got.WorstPPM, err)
	}
	// Read at once for several, it is for each what it is alone.
	lax.Window = 6 * time.Hour
	alone, err := s.Backtest(t.Context(), lax, slo.DefaultPolicy(), "prod", from, sloNoon)
	if err != nil {
		t.Fatal(err)
	}
	if both, err := s.Backtests(t.Context(), []slo.Objective{lax, o}, slo.DefaultPolicy(), "prod", from, sloNoon); err != nil || !reflect.DeepEqual(both, []slo.Backtest{alone, strict}) {
		t.Errorf("at once:\n%+v, %v, alone\n%+v\n%+v", both, err, alone, strict)
	}
	// With the minutes gone, hours tell.
	exec(t, db, `delete from service_minute where at < @at`, pgx.StrictNamedArgs{"at": sloNoon.Add(-30 * time.Hour)})
	coarse, err := s.Backtest(t.Context(), o, slo.DefaultPolicy(), "prod", from, sloNoon)
	if err != nil || coarse.Step != time.Hour || coarse.Freezes != 1 || coarse.End.RemainingPPM != strict.End.RemainingPPM || len(coarse.Skipped) == 0 {
		t.Errorf("by hours: %+v, %v", coarse, err)
	}
}
