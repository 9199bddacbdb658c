package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// ask is one span of one service, minute edges.
type ask struct {
	service, env string
	since, until time.Time
}

// cut is where one unit of time takes over from a finer one: [since, first) and
// [last, until) are read finer, [first, last) whole. Where no whole one lies
// inside, both are at until.
func cut(since, until time.Time, unit time.Duration) (first, last time.Time) {
	first = since.Add(unit - 1).Truncate(unit)
	last = until.Truncate(unit)
	if !first.Before(last) {
		return until, until
	}
	return first, last
}

// asks are spans cut into head minutes, head hours, days, tail hours and tail
// minutes. Days and hours are those of UTC, so they nest.
type asks struct {
	service, env                                       []string
	since, firstHour, firstDay, lastDay, lastHour, end []time.Time
	shared                                             time.Time // a whole day from which on spans may be cut where others are; zero: none may
}

const day = 24 * time.Hour

func (a *asks) add(q ask) {
	firstHour, lastHour := cut(q.since, q.until, time.Hour)
	firstDay, lastDay := cut(firstHour, lastHour, day)
	a.cut(q, firstHour, firstDay, lastDay, lastHour)
}

// addHours is add for who wants to see the hours: no days are used.
func (a *asks) addHours(q ask) {
	first, last := cut(q.since, q.until, time.Hour)
	a.cut(q, first, last, last, last)
}

func (a *asks) cut(q ask, firstHour, firstDay, lastDay, lastHour time.Time) {
	a.service, a.env = append(a.service, q.service), append(a.env, q.env)
	a.since, a.end = append(a.since, q.since), append(a.end, q.until)
	a.firstHour, a.lastHour = append(a.firstHour, firstHour), append(a.lastHour, lastHour)
	a.firstDay, a.lastDay = append(a.firstDay, firstDay), append(a.lastDay, lastDay)
}

func (a *asks) args() pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"service": a.service, "env": a.env, "since": a.since, "first_hour": a.firstHour, "first_day": a.firstDay,
		"last_day": a.lastDay, "last_hour": a.lastHour, "until": a.end,
		"oldest": slices.MinFunc(a.since, time.Time.Compare), "newest": slices.MaxFunc(a.end, time.Time.Compare)}
}

// counts are the columns every sum of a service has; sums adds them up.
const (
	counts = `good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
        dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered,
        sampled, sample_var_good, sample_var_bad`
	sums = `sum(good)::bigint as good, sum(bad)::bigint as bad, sum(neutral)::bigint as neutral,
        sum(throttled)::bigint as throttled, sum(aborted)::bigint as aborted, sum(synthetic)::bigint as synthetic,
        sum(bad_local)::bigint as bad_local, sum(degraded)::bigint as degraded, sum(chaos_good)::bigint as chaos_good,
        sum(chaos_bad)::bigint as chaos_bad, sum(first_try_bad)::bigint as first_try_bad, sum(dep_timeouts)::bigint as dep_timeouts,
        sum(dep_timeout_calls)::bigint as dep_timeout_calls, sum(over_limit)::bigint as over_limit, sum(aborted_over)::bigint as aborted_over,
        sum(exchanges)::bigint as exchanges, sum(attempts)::bigint as attempts, sum(retried)::bigint as retried,
        sum(recovered)::bigint as recovered, sum(sampled)::bigint as sampled, sum(sample_var_good)::bigint as sample_var_good,
        sum(sample_var_bad)::bigint as sample_var_bad`
)

// partsSQL yields the rows that make up each asked span: whole clean days, whole
// clean hours beside them and within marked days, and the minutes of both edges
// and of marked hours. A day or hour with neither row nor mark has no minutes. The
// lateral queries keep the planner from joining whole tables: each ask is a few
// ranges of one index, whatever the statistics say. What is marked is looked up in a
// hash, which "not in" makes once and "not exists" would scan for each row. Between
// @oldest and @newest lies everything: days outside are left out once, not for each ask.
const partsSQL = `
with ask as (
    select * from unnest(@service::text[], @env::text[], @since::timestamptz[], @first_hour::timestamptz[], @first_day::timestamptz[],
        @last_day::timestamptz[], @last_hour::timestamptz[], @until::timestamptz[])
        with ordinality as a (service, env, since, first_hour, first_day, last_day, last_hour, until, n)
), dirty as materialized (
    select *, date_trunc('day', at, 'UTC') as on_day from (select distinct service, env, at from slo_dirty) d
), minute_span as (
    select n, service, env, since as lo, first_hour as hi from ask where since < first_hour
    union all
    select n, service, env, last_hour, until from ask where last_hour < until
    union all
    select a.n, a.service, a.env, d.at, d.at + interval '1 hour'
    from ask a join dirty d on d.service = a.service and d.env = a.env and d.at >= a.first_hour and d.at < a.last_hour
), hour_span as (
    select n, service, env, first_hour as lo, first_day as hi from ask where first_hour < first_day
    union all
    select n, service, env, last_day, last_hour from ask where last_day < last_hour
    union all
    select distinct a.n, a.service, a.env, d.on_day, d.on_day + interval '24 hours'
    from ask a join dirty d on d.service = a.service and d.env = a.env and d.on_day >= a.first_day and d.on_day < a.last_day
), part as (
    select a.n, x.* from (select * from ask where first_day < last_day) a cross join lateral (
        select at, ` + counts + `
        from service_day s
        where s.service = a.service and s.env = a.env and s.at >= a.first_day and s.at < a.last_day
          and (s.service, s.env, s.at) not in (select service, env, on_day from dirty)
        offset 0
    ) x
    union all
    select p.n, x.* from hour_span p cross join lateral (
        select at, ` + counts + `
        from service_hour s
        where s.service = p.service and s.env = p.env and s.at >= p.lo and s.at < p.hi
          and (s.service, s.env, s.at) not in (select service, env, at from dirty)
        offset 0
    ) x
    union all
    select p.n, x.* from minute_span p cross join lateral (
        select date_trunc('hour', at, 'UTC') as at, ` + counts + `
        from service_minute s where s.service = p.service and s.env = p.env and s.at >= p.lo and s.at < p.hi
          and s.at >= @oldest and s.at < @newest
        offset 0
    ) x
)`

const tallySQL = partsSQL + `
select n, ` + sums + ` from part group by n`

type tallyRow struct {
	N             int64
	Good          int64
	Bad           int64
	Neutral       int64
	Throttled     int64
	Aborted       int64
	Synthetic     int64
	BadLocal      int64 `db:"bad_local"`
	Degraded      int64
	ChaosGood     int64 `db:"chaos_good"`
	ChaosBad      int64 `db:"chaos_bad"`
	FirstTryBad   int64 `db:"first_try_bad"`
	DepTimeouts   int64 `db:"dep_timeouts"`
	DepCalls      int64 `db:"dep_timeout_calls"`
	OverLimit     int64 `db:"over_limit"`
	AbortedOver   int64 `db:"aborted_over"`
	Exchanges     int64
	Attempts      int64
	Retried       int64
	Recovered     int64
	Sampled       int64
	SampleVarGood int64 `db:"sample_var_good"`
	SampleVarBad  int64 `db:"sample_var_bad"`
}

func (r tallyRow) value() slo.Tally {
	return slo.Tally{Good: r.Good, Bad: r.Bad, Neutral: r.Neutral, Throttled: r.Throttled, Aborted: r.Aborted, Synthetic: r.Synthetic,
		BadLocal: r.BadLocal, Degraded: r.Degraded, ChaosGood: r.ChaosGood, ChaosBad: r.ChaosBad, FirstTryBad: r.FirstTryBad,
		DepTimeouts: r.DepTimeouts, DepCalls: r.DepCalls, OverLimit: r.OverLimit, AbortedOver: r.AbortedOver, Exchanges: r.Exchanges,
		Attempts: r.Attempts, Retried: r.Retried, Recovered: r.Recovered, Sampled: r.Sampled, VarGood: r.SampleVarGood, VarBad: r.SampleVarBad}
}

// tallies answers every ask, in order, within tx's snapshot.
func tallies(ctx context.Context, tx pgx.Tx, a *asks) ([]slo.Tally, error) {
	p, of := share(a)
	sums, err := sumEach(ctx, tx, &p.asks)
	if err != nil {
		return nil, err
	}
	return added(sums, of), nil
}

// sumEach sums every span for itself.
func sumEach(ctx context.Context, tx pgx.Tx, a *asks) ([]slo.Tally, error) {
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

const (
	hoursSQL = partsSQL + `
select n, at, ` + sums + ` from part group by n, at order by n, at`
	// Of plain objectives three sums do: a month of hours of every service is long.
	plainHoursSQL = partsSQL + `
select n, at, sum(good)::bigint as good, sum(bad)::bigint as bad, sum(chaos_bad)::bigint as chaos_bad from part group by n, at order by n, at`
)

type hourRow struct {
	tallyRow
	At time.Time
}

// hour is what was counted in one hour, or in the part of it that was asked for.
type hour struct {
	at    time.Time
	tally slo.Tally
}

// hours returns each ask's counts by hour; edges hold only what is inside. Of plain
// objectives it counts what is good, bad, and bad by an experiment.
func hours(ctx context.Context, tx pgx.Tx, a *asks, plain bool) ([][]hour, error) {
	out := make([][]hour, len(a.service))
	if len(out) == 0 {
		return out, nil
	}
	// Promises of a service ask for the same hours, which may be shared: nobody writes them.
	var each asks
	index, of := map[ask]int{}, make([]int, len(a.service))
	for i := range of {
		q := ask{a.service[i], a.env[i], a.since[i].UTC(), a.end[i].UTC()}
		n, ok := index[q]
		if !ok {
			n = len(each.service)
			index[q] = n
			each.addHours(q)
		}
		of[i] = n
	}
	found, err := hoursOf(ctx, tx, &each, plain)
	if err != nil {
		return nil, fmt.Errorf("read hours: %w", err)
	}
	for i, n := range of {
		out[i] = found[n]
	}
	return out, nil
}

func hoursOf(ctx context.Context, tx pgx.Tx, a *asks, plain bool) ([][]hour, error) {
	out := make([][]hour, len(a.service))
	if plain {
		rows, err := tx.Query(ctx, plainHoursSQL, a.args())
		if err != nil {
			return nil, err
		}
		var n, good, bad, chaos int64
		var at time.Time
		_, err = pgx.ForEachRow(rows, []any{&n, &at, &good, &bad, &chaos}, func() error {
			out[n-1] = append(out[n-1], hour{at.UTC(), slo.Tally{Good: good, Bad: bad, ChaosBad: chaos}})
			return nil
		})
		return out, err
	}
	rows, err := tx.Query(ctx, hoursSQL, a.args())
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[hourRow])
	for _, r := range found {
		out[r.N-1] = append(out[r.N-1], hour{r.At.UTC(), r.value()})
	}
	return out, err
}
