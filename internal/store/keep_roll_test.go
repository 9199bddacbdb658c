package store

import (
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/pgtest"
)

// An hour or a day that changed is summed from its own minutes: a ledger of a month has
// thirty times as many, and the page of retries asks at each full hour.
func TestMarksLookIntoTheirOwnTimeAlone(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	for d := range 6 { // partitions of days that came one after the other
		if _, err := s.Keep(t.Context(), sloNoon.AddDate(0, 0, d-5)); err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{
		`insert into rollup_minute (service, env, route, upstream, experiment, at, good, exchanges, attempts, hist)
		select 'order-' || n, 'prod', 'r', 'up', '', m, 1, 1, 1, '{}' from generate_series(1, 40) as n, generate_series(@from::timestamptz, @to, '5 minutes') as m`,
		`insert into retry_minute (service, env, upstream, status, reason, experiment, at, retried)
		select 'order-' || n, 'prod', 'up', 503, '', '', m, 1 from generate_series(1, 40) as n, generate_series(@from::timestamptz, @to, '5 minutes') as m`,
	} {
		if _, err := db.Exec(t.Context(), sql, pgx.StrictNamedArgs{"from": sloNoon.AddDate(0, 0, -5), "to": sloNoon}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Keep(t.Context(), sloNoon); err != nil { // takes the marks
		t.Fatal(err)
	}
	hour := sloNoon.Add(-2 * time.Hour)
	if _, err := db.Exec(t.Context(), `analyze`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `insert into rollup_dirty (service, env, span, at) select 'order-' || n, 'prod', 'hour', $1 from generate_series(1, 40) as n`, hour); err != nil {
		t.Fatal(err)
	}
	services, envs := make([]string, 40), make([]string, 40)
	at := make([]time.Time, 40)
	for i := range at {
		services[i], envs[i], at[i] = "order-1", "prod", hour
	}
	marks := func(at []time.Time) pgx.StrictNamedArgs {
		return pgx.StrictNamedArgs{"service": services, "env": envs, "at": at}
	}
	days := make([]time.Time, 40)
	for i := range days {
		days[i] = hour.Truncate(day)
	}
	for name, q := range map[string]struct {
		sql  string
		args pgx.StrictNamedArgs
		of   string
	}{
		"an hour":       {rollupHoursSQL, marks(at), "rollup_minute"},
		"tries":         {rollupRetriesSQL, marks(days), "retry_minute"},
		"page, retries": {retryRoutesSQL, pgx.StrictNamedArgs{"from": sloNoon.Add(-4 * time.Hour), "to": sloNoon, "first": sloNoon.Add(-4 * time.Hour), "last": sloNoon}, "rollup_minute"},
	} {
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows, err := tx.Query(t.Context(), `explain (analyze, timing off, costs off) `+q.sql, q.args)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		looked := map[string]bool{}
		for _, line := range plan {
			if m := regexp.MustCompile(` on (` + q.of + `_\d+) .*\(actual rows`).FindStringSubmatch(line); m != nil {
				looked[m[1]] = true
			}
		}
		if day := q.of + hour.Format("_20060102"); len(looked) != 1 || !looked[day] {
			t.Errorf("%s: looks into %v, want %s alone", name, looked, day)
		}
	}
}
