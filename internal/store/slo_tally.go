package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// ask is one span of one service, minute edges.
type ask struct {
	service, env string
	since, until time.Time
}

// whole returns the hours that lie wholly inside, empty at until where none does.
func (a ask) whole() (first, last time.Time) {
	first = a.since.Add(time.Hour - 1).Truncate(time.Hour)
	last = a.until.Truncate(time.Hour)
	if !first.Before(last) {
		return a.until, a.until
	}
	return first, last
}

type asks struct {
	service, env               []string
	since, first, last, before []time.Time
}

func (a *asks) add(q ask) {
	first, last := q.whole()
	a.service, a.env = append(a.service, q.service), append(a.env, q.env)
	a.since, a.before = append(a.since, q.since), append(a.before, q.until)
	a.first, a.last = append(a.first, first), append(a.last, last)
}

func (a *asks) args() pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"service": a.service, "env": a.env, "since": a.since, "first": a.first, "last": a.last, "until": a.before}
}

// partsSQL yields the rows that make up each asked span: whole clean hours, the
// minutes of both edges, and the minutes of whole hours that are marked dirty. An
// hour with neither row nor mark has no minutes. Minutes are summed by hour inside
// a lateral query, which keeps the planner from joining whole tables: each ask is
// a few ranges of one index, whatever the statistics say.
const partsSQL = `
with ask as (
    select * from unnest(@service::text[], @env::text[], @since::timestamptz[], @first::timestamptz[], @last::timestamptz[], @until::timestamptz[])
        with ordinality as a (service, env, since, first, last, until, n)
), dirty as materialized (
    select distinct service, env, at from slo_dirty
), span as (
    select n, service, env, since as lo, first as hi from ask where since < first
    union all
    select n, service, env, last, until from ask where last < until
    union all
    select a.n, a.service, a.env, d.at, d.at + interval '1 hour'
    from ask a join dirty d on d.service = a.service and d.env = a.env and d.at >= a.first and d.at < a.last
), part as (
    select a.n, x.at, x.good, x.bad, x.neutral, x.throttled, x.aborted, x.chaos_bad, x.first_try_bad, x.exchanges, x.attempts, x.retried, x.recovered, x.over_limit
    from ask a cross join lateral (
        select h.at, h.good, h.bad, h.neutral, h.throttled, h.aborted, h.chaos_bad, h.first_try_bad, h.exchanges, h.attempts, h.retried, h.recovered, h.over_limit
        from slo_hour h
        where h.service = a.service and h.env = a.env and h.at >= a.first and h.at < a.last
          and not exists (select from dirty d where d.service = h.service and d.env = h.env and d.at = h.at)
        offset 0
    ) x
    union all
    select s.n, x.at, x.good, x.bad, x.neutral, x.throttled, x.aborted, x.chaos_bad, x.first_try_bad, x.exchanges, x.attempts, x.retried, x.recovered, x.over_limit
    from span s cross join lateral (
        select date_trunc('hour', m.at, 'UTC') as at,
        sum(good)::bigint as good, sum(bad)::bigint as bad, sum(neutral)::bigint as neutral,
        sum(throttled)::bigint as throttled, sum(aborted)::bigint as aborted, sum(chaos_bad)::bigint as chaos_bad,
        sum(first_try_bad)::bigint as first_try_bad, sum(exchanges)::bigint as exchanges, sum(attempts)::bigint as attempts,
        sum(retried)::bigint as retried, sum(recovered)::bigint as recovered, sum(over_limit)::bigint as over_limit
        from rollup_minute m where m.service = s.service and m.env = s.env and m.at >= s.lo and m.at < s.hi
        group by 1
    ) x
)`

const tallySQL = partsSQL + `
select n,
        sum(good)::bigint as good, sum(bad)::bigint as bad, sum(neutral)::bigint as neutral,
        sum(throttled)::bigint as throttled, sum(aborted)::bigint as aborted, sum(chaos_bad)::bigint as chaos_bad,
        sum(first_try_bad)::bigint as first_try_bad, sum(exchanges)::bigint as exchanges, sum(attempts)::bigint as attempts,
        sum(retried)::bigint as retried, sum(recovered)::bigint as recovered, sum(over_limit)::bigint as over_limit
from part group by n`

type tallyRow struct {
	N           int64
	Good        int64
	Bad         int64
	Neutral     int64
	Throttled   int64
	Aborted     int64
	ChaosBad    int64 `db:"chaos_bad"`
	FirstTryBad int64 `db:"first_try_bad"`
	Exchanges   int64
	Attempts    int64
	Retried     int64
	Recovered   int64
	OverLimit   int64 `db:"over_limit"`
}

func (r tallyRow) value() slo.Tally {
	return slo.Tally{Good: r.Good, Bad: r.Bad, Neutral: r.Neutral, Throttled: r.Throttled, Aborted: r.Aborted,
		ChaosBad: r.ChaosBad, FirstTryBad: r.FirstTryBad, Exchanges: r.Exchanges, Attempts: r.Attempts,
		Retried: r.Retried, Recovered: r.Recovered, OverLimit: r.OverLimit}
}

// tallies answers every ask, in order, within tx's snapshot.
func tallies(ctx context.Context, tx pgx.Tx, a *asks) ([]slo.Tally, error) {
	out := make([]slo.Tally, len(a.service))
	if len(out) == 0 {
		return out, nil
	}
	rows, err := tx.Query(ctx, tallySQL, a.args())
	if err != nil {
		return nil, fmt.Errorf("sum windows: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[tallyRow])
	if err != nil {
		return nil, fmt.Errorf("sum windows: %w", err)
	}
	for _, r := range found {
		out[r.N-1] = r.value()
	}
	return out, nil
}

const hoursSQL = partsSQL + `
select n, at,
    sum(good + bad)::bigint as valid, sum(bad)::bigint as bad, sum(chaos_bad)::bigint as chaos_bad
from part group by 1, 2 having sum(good + bad) > 0 order by 1, 2`

type slotRow struct {
	N        int64
	At       time.Time
	Valid    int64
	Bad      int64
	ChaosBad int64 `db:"chaos_bad"`
}

// hours returns each ask's counts by hour; edges hold only what is inside.
func hours(ctx context.Context, tx pgx.Tx, a *asks) ([][]slo.Slot, error) {
	out := make([][]slo.Slot, len(a.service))
	if len(out) == 0 {
		return out, nil
	}
	rows, err := tx.Query(ctx, hoursSQL, a.args())
	if err != nil {
		return nil, fmt.Errorf("read hours: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[slotRow])
	if err != nil {
		return nil, fmt.Errorf("read hours: %w", err)
	}
	for _, r := range found {
		out[r.N-1] = append(out[r.N-1], slo.Slot{At: r.At.UTC(), For: time.Hour, Valid: r.Valid, Bad: r.Bad, ChaosBad: r.ChaosBad})
	}
	return out, nil
}

// rollLock lets one replica at a time roll up. Two could sum the same hour from
// different snapshots and the older sum be written last. "hour" in ASCII.
const rollLock = 0x686f7572

const takeDirtySQL = `delete from slo_dirty returning service, env, at`

// The sums are a statement of their own after the marks are taken: at read
// committed it sees every minute that was committed with a mark.
const rollHoursSQL = `
with dirty as (
    select distinct service, env, at from unnest(@service::text[], @env::text[], @at::timestamptz[]) as d (service, env, at)
), scope as (
    insert into slo_scope (service, env) select distinct service, env from dirty on conflict do nothing
)
insert into slo_hour (service, env, at, good, bad, neutral, throttled, aborted, chaos_bad, first_try_bad, exchanges, attempts, retried, recovered, over_limit)
select d.service, d.env, d.at, x.good, x.bad, x.neutral, x.throttled, x.aborted, x.chaos_bad, x.first_try_bad, x.exchanges, x.attempts, x.retried, x.recovered, x.over_limit
from dirty d cross join lateral (
    select count(*) as minutes,
        sum(good)::bigint as good, sum(bad)::bigint as bad, sum(neutral)::bigint as neutral,
        sum(throttled)::bigint as throttled, sum(aborted)::bigint as aborted, sum(chaos_bad)::bigint as chaos_bad,
        sum(first_try_bad)::bigint as first_try_bad, sum(exchanges)::bigint as exchanges, sum(attempts)::bigint as attempts,
        sum(retried)::bigint as retried, sum(recovered)::bigint as recovered, sum(over_limit)::bigint as over_limit
    from rollup_minute m where m.service = d.service and m.env = d.env and m.at >= d.at and m.at < d.at + interval '1 hour'
) x
where x.minutes > 0
on conflict (service, env, at) do update set
    good = excluded.good, bad = excluded.bad, neutral = excluded.neutral, throttled = excluded.throttled, aborted = excluded.aborted,
    chaos_bad = excluded.chaos_bad, first_try_bad = excluded.first_try_bad, exchanges = excluded.exchanges, attempts = excluded.attempts,
    retried = excluded.retried, recovered = excluded.recovered, over_limit = excluded.over_limit`

type hourKey struct {
	Service string
	Env     string
	At      time.Time
}

// RollHours recomputes the hours whose minutes have changed. Where another
// replica is at it, it does nothing.
func (s *Store) RollHours(ctx context.Context) error {
	return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `select pg_try_advisory_xact_lock(@key)`, pgx.StrictNamedArgs{"key": rollLock}).Scan(&mine); err != nil || !mine {
			return err
		}
		rows, err := tx.Query(ctx, takeDirtySQL)
		if err != nil {
			return err
		}
		marks, err := pgx.CollectRows(rows, pgx.RowToStructByName[hourKey])
		if err != nil || len(marks) == 0 {
			return err
		}
		args := struct {
			service, env []string
			at           []time.Time
		}{}
		seen := map[hourKey]bool{}
		for _, m := range marks {
			m.At = m.At.UTC()
			if seen[m] {
				continue
			}
			seen[m] = true
			args.service, args.env, args.at = append(args.service, m.Service), append(args.env, m.Env), append(args.at, m.At)
		}
		_, err = tx.Exec(ctx, rollHoursSQL, pgx.StrictNamedArgs{"service": args.service, "env": args.env, "at": args.at})
		return err
	})
}
