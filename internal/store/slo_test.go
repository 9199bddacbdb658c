package store

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

// Segments of hours and minutes equal the direct sum, for windows of any length at
// any offset, before, between and after roll-ups, with late minutes in between.
func TestSLO_T29(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	rng := rand.New(rand.NewPCG(3, 9))
	start := sloNoon.Add(-96 * time.Hour)
	var all []minute
	add := func(n int) {
		var fresh []minute
		for range n {
			fresh = append(fresh, minute{service: []string{"order", "points"}[rng.IntN(2)], route: []string{"a", "b", "c"}[rng.IntN(3)],
				experiment: []string{"", "", "r-1"}[rng.IntN(3)], at: start.Add(time.Duration(rng.IntN(96*60)) * time.Minute),
				good: rng.Int64N(1000), bad: rng.Int64N(10)})
		}
		addMinutes(t, db, fresh...)
		all = append(all, fresh...)
	}
	check := func(when string) {
		t.Helper()
		var a asks
		var want []slo.Tally
		for i := range 300 {
			from := rng.IntN(96*60 + 60)
			length := 1 + rng.IntN(72*60)
			if i%4 == 0 {
				length = 48 * 60 // whole days, as promises have them
			}
			q := ask{"order", "prod", start.Add(time.Duration(from-30) * time.Minute), start.Add(time.Duration(from-30+length) * time.Minute)}
			a.add(q)
			var sum slo.Tally
			for _, m := range all {
				if m.service == q.service && !m.at.Before(q.since) && m.at.Before(q.until) {
					sum.Good, sum.Bad = sum.Good+m.good, sum.Bad+m.bad
					sum.Exchanges, sum.Attempts = sum.Exchanges+m.good+m.bad, sum.Attempts+m.good+m.bad
					if m.experiment != "" {
						sum.ChaosGood, sum.ChaosBad = sum.ChaosGood+m.good, sum.ChaosBad+m.bad
					}
				}
			}
			want = append(want, sum)
		}
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			got, err := tallies(t.Context(), tx, &a)
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s: window %s to %s holds %+v, want %+v", when, a.since[i], a.end[i], got[i], want[i])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	add(3000)
	check("nothing rolled up")
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	var marks int
	if err := db.QueryRow(t.Context(), `select count(*) from slo_dirty`).Scan(&marks); err != nil || marks != 0 {
		t.Fatalf("%d marks left, %v", marks, err)
	}
	check("all rolled up")
	add(500)
	check("late minutes, not rolled up")
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("late minutes rolled up")
}

func TestSLO_S8(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	importOne(t, s, sloObjective(time.Hour))
	addGateway(t, db, "gw", sloNoon.Add(-time.Hour), sloNoon, sloNoon)
	for _, route := range []string{"a", "b", "c"} {
		addMinutes(t, db, minute{service: "order", route: route, at: sloNoon.Add(-time.Minute), good: 100, bad: 1})
	}
	m := read(t, s, sloNoon)
	p := m.Parts[0]
	if p.Closed.All.Good != 300 || p.Closed.All.Bad != 3 || p.Running != p.Closed || m.Reported != (slo.Tally{MeasuredMins: 60, ExpectedMins: 60}) {
		t.Errorf("three routes sum to %+v and %+v, reported %+v", p.Closed, p.Running, m.Reported)
	}
	if m.CoveragePPM != 1_000_000 || !m.DataUntil.Equal(sloNoon) || m.Env != "prod" || !m.Seen {
		t.Errorf("coverage %d until %v in %q", m.CoveragePPM, m.DataUntil, m.Env)
	}
	if len(p.Burns) != len(m.Objective.Windows()) || p.Burns[0].All.Bad != 3 || len(p.Hours) != 1 || p.Hours[0].Valid != 303 {
		t.Errorf("burns %+v, hours %+v", p.Burns, p.Hours)
	}
	top, err := s.TopRoutes(t.Context(), "order", "prod", sloNoon.Add(-time.Hour), sloNoon, 2)
	if err != nil || len(top) != 2 || top[0].Tally.Good != 100 || top[0].Tally.Bad != 1 {
		t.Errorf("top routes %+v, %v", top, err)
	}
}

// A window is read in one snapshot while minutes are being written: every batch
// adds one good request to the first minute and one to the last, so that any
// other difference is two moments in one reading.
func TestSLO_S23(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	importOne(t, s, sloObjective(3*time.Hour))
	addGateway(t, db, "gw", sloNoon.Add(-3*time.Hour), sloNoon, sloNoon)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			err := pgx.BeginFunc(context.WithoutCancel(ctx), db, func(tx pgx.Tx) error {
				for _, ago := range []time.Duration{170 * time.Minute, time.Minute} {
					if _, err := tx.Exec(context.WithoutCancel(ctx), addMinuteSQL, pgx.StrictNamedArgs{"service": "order", "route": "a", "experiment": "",
						"at": sloNoon.Add(-ago), "good": int64(1), "bad": int64(0), "chaos_bad": int64(0), "exchanges": int64(1)}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				done <- err
				return
			}
			if i == 0 {
				close(started)
			}
		}
		done <- nil
	}()
	<-started
	last := int64(0)
	for i := range 100 {
		if i%10 == 5 {
			if err := s.RollUp(t.Context()); err != nil {
				t.Error(err)
			}
		}
		p := read(t, s, sloNoon).Parts[0]
		all, recent := p.Closed.All.Good, p.Burns[0].All.Good // the last five minutes: half of everything
		if all != 2*recent || all != p.Running.All.Good || all < last || p.Hours[0].Valid+p.Hours[len(p.Hours)-1].Valid != all {
			t.Errorf("in one reading: %d in the window, %d in five minutes, %d before", all, recent, last)
			break
		}
		last = all
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestWatermark(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	importOne(t, s, sloObjective(time.Hour))
	addMinutes(t, db, minute{service: "order", route: "a", at: sloNoon.Add(-time.Minute), good: 1})
	addGateway(t, db, "fast", sloNoon.Add(-time.Hour), sloNoon, sloNoon)
	addGateway(t, db, "slow", sloNoon.Add(-time.Hour), sloNoon.Add(-time.Minute), sloNoon.Add(-time.Minute))
	if m := read(t, s, sloNoon); !m.DataUntil.Equal(sloNoon.Add(-time.Minute)) {
		t.Errorf("watermark is %v, want what the slower gateway reported", m.DataUntil)
	}
	addGateway(t, db, "fast", sloNoon.Add(-time.Hour), sloNoon.Add(20*time.Minute), sloNoon.Add(20*time.Minute))
	m := read(t, s, sloNoon.Add(20*time.Minute))
	if !m.DataUntil.Equal(sloNoon.Add(20 * time.Minute)) {
		t.Errorf("watermark is %v, want it to go on without the silent one", m.DataUntil)
	}
	if m.CoveragePPM >= 900_000 || m.CoveragePPM < 700_000 {
		t.Errorf("coverage is %d ppm, want the silence to cost 21 of 120 minutes", m.CoveragePPM)
	}
}

func TestEvaluationThroughTheDatabase(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	importOne(t, s, sloObjective(time.Hour))
	addMinutes(t, db, minute{service: "order", route: "a", at: sloNoon.Add(-time.Minute), good: 9000, bad: 1000})
	addGateway(t, db, "gw", sloNoon.Add(-time.Hour), sloNoon, sloNoon)
	// Two replicas tick on the same instant and the next: one transition.
	one, two := slo.NewEvaluator(s, slo.Config{}), slo.NewEvaluator(s, slo.Config{})
	errs := make(chan error, 2)
	for _, e := range []*slo.Evaluator{one, two} {
		go func() {
			err := e.Tick(context.WithoutCancel(t.Context()), sloNoon.Add(time.Second))
			if err == nil {
				err = e.Tick(context.WithoutCancel(t.Context()), sloNoon.Add(2*time.Second))
			}
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	moved, err := s.Transitions(t.Context(), "order", sloNoon, 10)
	if err != nil || len(moved) != 1 || moved[0].From != slo.Unknown || moved[0].To != slo.Frozen || moved[0].Bad != 1000 {
		t.Fatalf("transitions %+v, %v, want one into the freeze", moved, err)
	}
	audited, err := s.AuditRows(t.Context(), 0, 10)
	if err != nil || len(audited) != 1 || audited[0].Action != "freeze.begin" || audited[0].Object != "order/order-availability/prod" {
		t.Errorf("audited %+v, %v, want the freeze once", audited, err)
	}
	got, want := one.Statuses()[0], two.Statuses()[0]
	if got.Level != slo.Frozen || got.Budget != want.Budget || !got.ThawAt.After(sloNoon.Add(4*time.Hour)) || !got.ThawAt.Before(sloNoon.Add(4*time.Hour+time.Minute)) {
		t.Errorf("%s until %v", got.Level, got.ThawAt)
	}
	// A third one, started later, reads the state and holds it.
	three := slo.NewEvaluator(s, slo.Config{})
	if err := three.Tick(t.Context(), sloNoon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if s := three.Statuses()[0]; !s.FrozenAt.Equal(got.FrozenAt) || s.Level != slo.Frozen {
		t.Errorf("after a restart frozen at %v, want %v", s.FrozenAt, got.FrozenAt)
	}
}

func TestPointsEqualBudgets(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	o := sloObjective(24 * time.Hour)
	rng := rand.New(rand.NewPCG(5, 1))
	var minutes []minute
	for m := range 48 * 60 {
		if rng.IntN(3) > 0 {
			minutes = append(minutes, minute{service: "order", route: "a", experiment: []string{"", "r-1"}[rng.IntN(2)],
				at: sloNoon.Add(-time.Duration(m+1) * time.Minute), good: rng.Int64N(100), bad: rng.Int64N(3) / 2})
		}
	}
	addMinutes(t, db, minutes...)
	for _, step := range []time.Duration{5 * time.Minute, 7 * time.Minute, time.Hour, 2 * time.Hour} {
		to := sloNoon.Add(-13*time.Minute - 20*time.Second)
		points, err := s.Points(t.Context(), o, "prod", to.Add(-12*time.Hour), to, step)
		if err != nil || len(points) < 6 {
			t.Fatalf("step %v: %d points, %v", step, len(points), err)
		}
		if last := points[len(points)-1].At; !last.Equal(ceilMinute(to)) {
			t.Errorf("step %v: the last point is at %v, want %v", step, last, ceilMinute(to))
		}
		for i, p := range points {
			want, err := s.BudgetAt(t.Context(), o, "prod", p.At)
			if err != nil || p.RemainingPPM != want.RemainingPPM || p.NoData != want.NoData {
				t.Fatalf("step %v, point %d: %d ppm left, the budget then was %d, %v", step, i, p.RemainingPPM, want.RemainingPPM, err)
			}
		}
		if step == time.Hour {
			if err := s.RollUp(t.Context()); err != nil { // the next step reads hours
				t.Fatal(err)
			}
		}
	}
	touched, err := s.Touched(t.Context(), "order", "prod", sloNoon.Add(-48*time.Hour), sloNoon)
	if err != nil || len(touched) != 1 || touched[0].Experiment != "r-1" {
		t.Errorf("touched by %+v, %v", touched, err)
	}
}

func TestImportObjectives(t *testing.T) {
	s := New(pgtest.Pool(t))
	o := sloObjective(time.Hour)
	o.Since = time.Time{}
	for i, want := range []struct{ touched, revision int64 }{{1, 1}, {0, 1}, {1, 2}} {
		if i == 2 {
			o.Text, o.TargetPPB = "kind: SLO # changed", 990_000_000
		}
		touched, err := s.ImportObjectives(t.Context(), "dir", []slo.Objective{o}, sloNoon.Add(time.Duration(i)*time.Hour))
		if err != nil || touched != want.touched {
			t.Fatalf("import %d touched %d, %v, want %d", i, touched, err, want.touched)
		}
		all, err := s.Objectives(t.Context())
		if err != nil || len(all) != 1 || all[0].Revision != want.revision || !all[0].Since.Equal(sloNoon) || all[0].TargetPPB != o.TargetPPB {
			t.Fatalf("import %d: %+v, %v", i, all, err)
		}
	}
	if touched, err := s.ImportObjectives(t.Context(), "dir", nil, sloNoon); err != nil || touched != 1 {
		t.Errorf("retired %d, %v, want 1", touched, err)
	}
	if all, err := s.Objectives(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after it is gone: %+v, %v", all, err)
	}
}

func TestObjectiveNeverSeen(t *testing.T) {
	s := New(pgtest.Pool(t))
	importOne(t, s, sloObjective(time.Hour))
	e := slo.NewEvaluator(s, slo.Config{})
	if err := e.Tick(t.Context(), sloNoon); err != nil {
		t.Fatal(err)
	}
	if got := e.Statuses(); len(got) != 1 || got[0].Level != slo.Unknown || !got[0].Budget.NoData {
		t.Errorf("a service without any request is %+v", got)
	}
}
