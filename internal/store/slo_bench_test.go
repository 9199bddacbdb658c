package store

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

// How many routes the month of BenchmarkBudgetOfAMonth has: 43 200 minute rows each.
var benchRoutes = flag.Int("slo.routes", 10, "routes of the month that budgets are read from")

const fillSQL = `
insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad, exchanges, attempts, hist)
select 'order', 'prod', 'route-' || lpad(r::text, 4, '0'), 'up', '', at, 100, (r + extract(epoch from at)::bigint / 60) % 997 / 996, 100, 100, '{102613}'
from generate_series(@from::timestamptz, @until::timestamptz - interval '1 minute', interval '1 minute') as at, generate_series(1, @routes) as r`

const sumUpSQL = `
insert into service_minute (service, env, at, latency_us, ` + counts + `)
select service, env, at, sum(latency_us), ` + sums + ` from rollup_minute where at >= @from and at < @until group by service, env, at`

// fillMonth makes a month of one service, minute by minute and route by route, as
// ingest leaves it. Triggers are off: what they would do row by row is done once.
func fillMonth(b testing.TB, db *pgxpool.Pool, s *Store, routes int, until time.Time) {
	b.Helper()
	do := func(sql string, args pgx.StrictNamedArgs) {
		b.Helper()
		if _, err := db.Exec(b.Context(), sql, args); err != nil {
			b.Fatal(err)
		}
	}
	do(`alter table rollup_minute disable trigger user`, nil)
	for d := 31; d >= 0; d-- {
		from := until.Truncate(day).Add(-time.Duration(d) * day)
		to := from.Add(day)
		for _, table := range []string{"rollup_minute", "service_minute"} {
			do(`select ledger_partition(@table, @suffix, @from, @to, 70)`, pgx.StrictNamedArgs{"table": table, "suffix": from.Format("20060102"), "from": from, "to": to})
		}
		if to.After(until) {
			to = until
		}
		if first := until.Add(-30*day - time.Hour); from.Before(first) {
			from = first
		}
		if !from.Before(to) {
			continue
		}
		do(fillSQL, pgx.StrictNamedArgs{"from": from, "until": to, "routes": routes})
		do(sumUpSQL, pgx.StrictNamedArgs{"from": from, "until": to})
	}
	do(`alter table rollup_minute enable trigger user`, nil)
	if err := s.RollUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	do(`analyze`, nil)
}

// BenchmarkBudgetOfAMonth reads what pages and the gate stand on, with the last
// minutes and the running hour not summed yet. It reports the 99th percentile.
func BenchmarkBudgetOfAMonth(b *testing.B) {
	db := pgtest.Pool(b)
	s := New(db)
	until := time.Now().UTC().Truncate(time.Second)
	o := sloObjective(30 * day)
	if _, err := s.ImportObjectives(b.Context(), "dir", []slo.Objective{o}, until.Add(-40*day)); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	fillMonth(b, db, s, *benchRoutes, until.Truncate(time.Minute))
	b.Logf("%d routes filled in %v", *benchRoutes, time.Since(start).Round(time.Second))
	if _, err := db.Exec(b.Context(), addGatewaySQL, pgx.StrictNamedArgs{"gateway": "gw", "from": until.Add(-time.Hour), "until": until, "acked": until}); err != nil {
		b.Fatal(err)
	}
	// As it is between two roll-ups: the running hour is marked.
	if _, err := db.Exec(b.Context(), `insert into slo_dirty (service, env, at) values ('order', 'prod', @at)`, pgx.StrictNamedArgs{"at": until.Truncate(time.Hour)}); err != nil {
		b.Fatal(err)
	}
	want := int64(30*24*60) * int64(*benchRoutes) * 100
	for _, q := range []struct {
		name string
		run  func() error
	}{
		{"evaluate", func() error {
			m, err := s.ReadBudgets(b.Context(), slo.Question{Now: until})
			if err == nil && (len(m) != 1 || m[0].Parts[0].Running.All.Good < want-int64(*benchRoutes)*200) {
				b.Fatalf("read %+v", m)
			}
			return err
		}},
		{"whole", func() error {
			_, err := s.ReadBudgets(b.Context(), slo.Question{Now: until, Whole: true})
			return err
		}},
		{"budget_at", func() error { _, err := s.BudgetAt(b.Context(), o, "prod", until.Add(-3*time.Hour)); return err }},
		{"page_month", func() error {
			_, err := s.Points(b.Context(), o, "prod", until.Add(-30*day), until, 6*time.Hour)
			return err
		}},
		{"page_day", func() error {
			_, err := s.Points(b.Context(), o, "prod", until.Add(-day), until, 5*time.Minute)
			return err
		}},
		{"minutes", func() error {
			_, err := s.ReadMinutes(b.Context(), o, "prod", until.Add(-30*day), until)
			return err
		}},
	} {
		b.Run(q.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				at := time.Now()
				if err := q.run(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(at))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
	explain(b, db, until)
	if *benchControl != "" {
		b.Run("control", func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(controlMemory(b, db.Config().ConnString()))/(1<<20), "MiB")
			}
		})
	}
}

// explain logs the plan of the sum of a month.
func explain(b *testing.B, db *pgxpool.Pool, until time.Time) {
	var a asks
	open := ceilMinute(until)
	a.add(ask{"order", "prod", open.Add(-30 * day), open})
	rows, err := db.Query(b.Context(), `explain (analyze, buffers, costs off, timing off) `+tallySQL, a.args())
	if err != nil {
		b.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s", strings.Join(lines, "\n"))
}
