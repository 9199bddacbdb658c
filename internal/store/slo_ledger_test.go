package store

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/slo"
)

// sloNoon is where the tests of this file begin.
var sloNoon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func sloObjective(window time.Duration) slo.Objective {
	return slo.Objective{ID: "order-availability", Service: "order", Title: "Orders", Owner: "shop", TargetPPB: 999_000_000,
		Window: window, Since: sloNoon.Add(-60 * 24 * time.Hour), Text: "kind: SLO"}
}

const addMinuteSQL = `
insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad, chaos_bad, exchanges, attempts)
values (@service, 'prod', @route, 'up', @experiment, @at, @good, @bad, @chaos_bad, @exchanges, @exchanges)
on conflict (service, env, route, upstream, experiment, at) do update set
    good = rollup_minute.good + excluded.good, bad = rollup_minute.bad + excluded.bad,
    chaos_bad = rollup_minute.chaos_bad + excluded.chaos_bad,
    exchanges = rollup_minute.exchanges + excluded.exchanges, attempts = rollup_minute.attempts + excluded.attempts`

type minute struct {
	service, route, experiment string
	at                         time.Time
	good, bad                  int64
}

const addMinutesOnceSQL = `
insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad, chaos_good, chaos_bad, exchanges, attempts)
select service, 'prod', route, 'up', experiment, at, sum(good), sum(bad), sum(good) * chaos, sum(bad) * chaos, sum(good + bad), sum(good + bad)
from unnest(@service::text[], @route::text[], @experiment::text[], @at::timestamptz[], @good::bigint[], @bad::bigint[])
    as m (service, route, experiment, at, good, bad), lateral (select (experiment <> '')::int::bigint as chaos) as c
group by service, route, experiment, at, chaos
on conflict (service, env, route, upstream, experiment, at) do update set
    good = rollup_minute.good + excluded.good, bad = rollup_minute.bad + excluded.bad,
    chaos_good = rollup_minute.chaos_good + excluded.chaos_good, chaos_bad = rollup_minute.chaos_bad + excluded.chaos_bad,
    exchanges = rollup_minute.exchanges + excluded.exchanges, attempts = rollup_minute.attempts + excluded.attempts`

// addMinutes adds minutes in one statement, as a batch does.
func addMinutes(t *testing.T, db *pgxpool.Pool, minutes ...minute) {
	t.Helper()
	_, err := db.Exec(t.Context(), addMinutesOnceSQL, pgx.StrictNamedArgs{
		"service":    column(minutes, func(m *minute) string { return m.service }),
		"route":      column(minutes, func(m *minute) string { return m.route }),
		"experiment": column(minutes, func(m *minute) string { return m.experiment }),
		"at":         column(minutes, func(m *minute) time.Time { return m.at }),
		"good":       column(minutes, func(m *minute) int64 { return m.good }),
		"bad":        column(minutes, func(m *minute) int64 { return m.bad }),
	})
	if err != nil {
		t.Fatal(err)
	}
}

const addGatewaySQL = `
with boot as (
    insert into gateway_boot (env, gateway, boot, from_at, until_at, seq, batches, stopped)
    values ('prod', @gateway, 'b1', @from, @until, 1, 1, false)
    on conflict (env, gateway, boot) do update set until_at = excluded.until_at
), minutes as (
    insert into gateway_minute (env, gateway, at, covered_us, lost)
    select 'prod', @gateway, m, 60000000, 0 from generate_series(@from::timestamptz, @until::timestamptz - interval '1 minute', interval '1 minute') as m
    on conflict do nothing
)
insert into gateway (env, gateway, boot, seq, until_at, stopped, last_ack) values ('prod', @gateway, 'b1', 1, @until, false, @acked)
on conflict (env, gateway) do update set until_at = excluded.until_at, last_ack = excluded.last_ack`

// addGateway makes a gateway that reported [from, until) without a hole.
func addGateway(t *testing.T, db *pgxpool.Pool, name string, from, until, acked time.Time) {
	t.Helper()
	if _, err := db.Exec(t.Context(), addGatewaySQL, pgx.StrictNamedArgs{"gateway": name, "from": from, "until": until, "acked": acked}); err != nil {
		t.Fatal(err)
	}
}

func importOne(t *testing.T, s *Store, o slo.Objective) {
	t.Helper()
	if _, err := s.ImportObjectives(t.Context(), "dir", []slo.Objective{o}, sloNoon); err != nil {
		t.Fatal(err)
	}
}

// read asks for everything about the one objective of a test.
func read(t *testing.T, s *Store, now time.Time) slo.Measured {
	t.Helper()
	all, err := s.ReadBudgets(t.Context(), slo.Question{Now: now, Whole: true})
	if err != nil || len(all) != 1 {
		t.Fatalf("read %d budgets, %v, want 1", len(all), err)
	}
	return all[0]
}
