package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/freeze"
)

// Two controls that decide at once begin one measure; its beginning and its end are
// rows of the audit, and whoever waits for the plan is woken.
func TestMeasuresAreBegunOnceAndKept(t *testing.T) {
	ctx := t.Context()
	s := New(pgtest.Pool(t))
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	policy := freeze.Default()
	policy.Name, policy.Acts = "shop", []freeze.Act{{From: slo.Frozen, Keep: freeze.KeepDefault, Drills: freeze.StopDrills,
		Limit: &freeze.LimitChange{Direction: freeze.Tighten, FactorPPM: 500_000, Tokens: 7, Per: time.Minute, Burst: 3}}}
	status := slo.Status{Objective: slo.Objective{ID: "o", Service: "order"}, Env: "prod", Level: slo.Frozen, Reason: "because.", At: now}
	decide := func(at time.Time) func([]freeze.Measure) freeze.Turn {
		wanted, blind := freeze.Wanted([]freeze.Policy{policy}, []slo.Status{status}, at)
		return func(live []freeze.Measure) freeze.Turn { return freeze.Turned(live, wanted, blind, at) }
	}
	begun := make(chan int, 4)
	for range cap(begun) {
		go func() {
			turn, err := s.Protect(ctx, now, decide(now))
			if err != nil {
				t.Error(err)
			}
			begun <- len(turn.Start)
		}()
	}
	total := 0
	for range cap(begun) {
		total += <-begun
	}
	if total != 3 {
		t.Errorf("%d measures were begun by four controls, want 3", total)
	}
	live, err := s.LiveMeasures(ctx)
	if err != nil || len(live) != 3 || live[0].Kind != freeze.Limit || *live[0].Limit != *policy.Acts[0].Limit || !live[0].Live(now) || !strings.Contains(live[0].Reason, "because.") || live[0].Policies[0] != "shop" {
		t.Fatalf("%+v, %v", live, err)
	}
	told, err := s.Evidence(ctx, "order", "prod", now)
	if err != nil || len(told.Protecting) != 3 || !strings.HasPrefix(told.Protecting[0], "rate limits are tightened to 50% or, if less, 7 per") {
		t.Errorf("an incident names %q, %v", told.Protecting, err)
	}
	now = now.Add(time.Minute)
	status.At = now
	if _, err := s.Protect(ctx, now, decide(now)); err != nil {
		t.Fatal(err)
	}
	if live, err = s.LiveMeasures(ctx); err != nil || len(live) != 3 || !live[0].SeenAt.Equal(now) {
		t.Errorf("seen again: %+v, %v", live, err)
	}
	status.Level = slo.Warn
	if _, err := s.Protect(ctx, now, decide(now)); err != nil {
		t.Fatal(err)
	}
	if live, err = s.LiveMeasures(ctx); err != nil || len(live) != 0 {
		t.Errorf("after the thaw: %+v, %v", live, err)
	}
	past, err := s.Measures(ctx, "order", now.Add(-time.Hour), 10)
	if err != nil || len(past) != 3 || past[0].EndedAt == nil || !past[0].EndedAt.Equal(now) || !strings.Contains(past[0].Ended, "no longer calls for it") {
		t.Errorf("kept %+v, %v", past, err)
	}
	if none, err := s.Measures(ctx, "points", now.Add(-time.Hour), 10); err != nil || len(none) != 0 {
		t.Errorf("of another service: %+v, %v", none, err)
	}
	var rows []string
	audit, err := s.AuditRows(ctx, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range audit {
		if strings.HasPrefix(r.Action, "measure.") {
			rows = append(rows, r.Action+" "+r.Object+" "+r.Detail)
		}
	}
	if len(rows) != 6 || !strings.HasPrefix(rows[0], "measure.start order/prod m-") || !strings.Contains(rows[5], "measure.end") {
		t.Errorf("audit\n%s", strings.Join(rows, "\n"))
	}
}

func TestFailuresByUpstream(t *testing.T) {
	ctx := t.Context()
	db := pgtest.Pool(t)
	s := New(db)
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for _, r := range []struct {
		service, route, upstream string
		ago                      time.Duration
		good, bad                int
	}{
		{"order", "a", "points-pool", time.Hour, 10, 30}, {"order", "b", "points-pool", 2 * time.Hour, 0, 20}, {"order", "a", "order-db", time.Hour, 90, 10},
		{"order", "a", "", time.Hour, 0, 5}, {"order", "a", "order-db", 25 * time.Hour, 0, 99}, {"points", "c", "points-pool", time.Hour, 0, 7},
	} {
		if _, err := db.Exec(ctx, `insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad) values ($1, 'prod', $2, $3, '', $4, $5, $6)`,
			r.service, r.route, r.upstream, now.Add(-r.ago), r.good, r.bad); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.FailuresByUpstream(ctx, []string{"order"}, now.Add(-24*time.Hour))
	want := []freeze.Failures{{Service: "order", Env: "prod", Upstream: "", Bad: 5, Total: 65}, {Service: "order", Env: "prod", Upstream: "order-db", Bad: 10, Total: 65}, {Service: "order", Env: "prod", Upstream: "points-pool", Bad: 50, Total: 65}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// An alert of others is one incident or one fact, however often it is said, and ends
// when that is said.
func TestAlertsOfOthersAreHeardOnce(t *testing.T) {
	ctx := t.Context()
	db := pgtest.Pool(t)
	s := New(db)
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	page := alert.Foreign{Source: "alertmanager", Fingerprint: "b1", Service: "order", Env: "prod", Name: "OrderDown", Tier: alert.L1, Text: "all fail", From: now.Add(-time.Minute)}
	pool := alert.Foreign{Source: "alertmanager", Fingerprint: "b2", Service: "order", Env: "prod", Name: "PoolFull", Tier: alert.L2, Text: "96 of 100", From: now.Add(-time.Minute)}
	hear := func(at time.Time, all ...alert.Foreign) {
		t.Helper()
		if err := s.HearAlerts(ctx, all, "am", at); err != nil {
			t.Fatal(err)
		}
	}
	facts := func(at time.Time) (n int) {
		t.Helper()
		if err := db.QueryRow(ctx, `select count(*) from alert_fact where until_at > $1`, at).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	hear(now, page, pool)
	hear(now.Add(time.Minute), page, pool)
	firing, err := s.Firing(ctx, now.Add(2*time.Minute))
	if err != nil || len(firing) != 2 || firing[0].Name != "OrderDown" || facts(now.Add(2*time.Minute)) != 1 {
		t.Errorf("%+v, %v", firing, err)
	}
	known, err := s.Known(ctx, now)
	if err != nil || len(known.Causes) != 1 || !known.Hurts("order", "OrderDown b1", now) {
		t.Errorf("the incident: %+v, %v", known.Causes, err)
	}
	page.To, pool.To = now.Add(3*time.Minute), now.Add(3*time.Minute)
	hear(now.Add(4*time.Minute), page, pool)
	page.To, pool.To = time.Time{}, time.Time{}
	hear(now.Add(5*time.Minute), page, pool) // said late
	if firing, err := s.Firing(ctx, now.Add(5*time.Minute)); err != nil || len(firing) != 0 || facts(now.Add(6*time.Minute)) != 0 {
		t.Errorf("after the end %+v, %v, %d facts", firing, err, facts(now.Add(6*time.Minute)))
	}
	if known, err = s.Known(ctx, now); err != nil || len(known.Causes) != 1 || !known.Causes[0].To.Equal(now.Add(3*time.Minute)) {
		t.Errorf("the incident after its end: %+v, %v", known.Causes, err)
	}
	page.From = now.Add(10 * time.Minute) // again, another one
	hear(now.Add(11*time.Minute), page)
	if firing, err := s.Firing(ctx, now.Add(11*time.Minute)); err != nil || len(firing) != 1 {
		t.Errorf("fired again: %+v, %v", firing, err)
	}
	if firing, err := s.Firing(ctx, now.Add(26*time.Hour)); err != nil || len(firing) != 0 {
		t.Errorf("not said for a day, and still believed: %+v, %v", firing, err)
	}
	var audited int
	if err := db.QueryRow(ctx, `select count(*) from audit where action in ('alert.hear', 'alert.over')`).Scan(&audited); err != nil || audited != 5 {
		t.Errorf("%d rows of the audit, %v, want a beginning for each of three and an end for two", audited, err)
	}
}
