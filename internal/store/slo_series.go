package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// A month of minutes is read for a forecast: no arithmetic on each row, and no sorting
// before the first one comes. They are in their order but for the last few days, which
// are still written to; plainSeries puts those right.
const minutesSQL = `
select at, good + bad as valid, bad, chaos_bad
from service_minute where service = @service and env = @env and at >= @from and at < @to and good + bad > 0`

const minuteCountsSQL = `
select 0::bigint as n, at, ` + counts + `
from service_minute where service = @service and env = @env and at >= @from and at < @to order by at`

const spansSQL = `
select 0::bigint as n, date_bin(@step::interval, at, @from::timestamptz) as at, ` + sums + `
from service_minute where service = @service and env = @env and at >= @from and at < @to
group by 2 order by 2`

// Spans of whole hours are read from the hours, but for the marked ones.
const hourSpansSQL = `
select 0::bigint as n, date_bin(@step::interval, at, @from::timestamptz) as at, ` + sums + `
from (
    select at, ` + counts + ` from service_hour h
    where service = @service and env = @env and at >= @from and at < @to
      and not exists (select from slo_dirty d where d.service = h.service and d.env = h.env and d.at = h.at)
    union all
    select m.at, ` + countsOfM + `
    from (select distinct at from slo_dirty where service = @service and env = @env and at >= @from and at < @to) d
    join service_minute m on m.service = @service and m.env = @env and m.at >= d.at and m.at < d.at + interval '1 hour'
) part
group by 2 order by 2`

// Of a plain objective three sums do, where all of them are twenty-two.
const (
	plainSpansSQL = `
select date_bin(@step::interval, at, @from::timestamptz) as at, sum(good + bad)::bigint as valid, sum(bad)::bigint as bad, sum(chaos_bad)::bigint as chaos_bad
from service_minute where service = @service and env = @env and at >= @from and at < @to
group by 1 having sum(good + bad) > 0 order by 1`
	plainHourSpansSQL = `
select date_bin(@step::interval, at, @from::timestamptz) as at, sum(good + bad)::bigint as valid, sum(bad)::bigint as bad, sum(chaos_bad)::bigint as chaos_bad
from (
    select at, good, bad, chaos_bad from service_hour h
    where service = @service and env = @env and at >= @from and at < @to
      and not exists (select from slo_dirty d where d.service = h.service and d.env = h.env and d.at = h.at)
    union all
    select m.at, m.good, m.bad, m.chaos_bad
    from (select distinct at from slo_dirty where service = @service and env = @env and at >= @from and at < @to) d
    join service_minute m on m.service = @service and m.env = @env and m.at >= d.at and m.at < d.at + interval '1 hour'
) part
group by 1 having sum(good + bad) > 0 order by 1`
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

type slotRow struct {
	At       time.Time
	Valid    int64
	Bad      int64
	ChaosBad int64 `db:"chaos_bad"`
}

// series returns what was counted of o in steps of [from, to), those with events
// only. step is in whole minutes.
func series(ctx context.Context, q querier, o slo.Objective, env string, from, to time.Time, step time.Duration) ([]slo.Slot, error) {
	args := pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": from, "to": to, "step": step}
	hourly := step%time.Hour == 0 && from.Truncate(time.Hour).Equal(from) && to.Truncate(time.Hour).Equal(to)
	sql, plain := spansSQL, plainSpansSQL
	switch {
	case step == time.Minute:
		sql, plain = minuteCountsSQL, minutesSQL
		delete(args, "step")
	case hourly:
		sql, plain = hourSpansSQL, plainHourSpansSQL
	}
	if o.Plain() {
		return plainSeries(ctx, q, o, plain, args, step)
	}
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", o.Service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[hourRow])
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", o.Service, err)
	}
	valid, bad, chaos := o.Forms()
	out := make([]slo.Slot, 0, len(found))
	for _, r := range found {
		t := r.value()
		if v := valid.Of(t); v > 0 {
			out = append(out, slo.Slot{At: r.At.UTC(), For: step, Valid: v, Bad: bad.Of(t), ChaosBad: chaos.Of(t)})
		}
	}
	return out, nil
}

func plainSeries(ctx context.Context, q querier, o slo.Objective, sql string, args pgx.StrictNamedArgs, step time.Duration) ([]slo.Slot, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", o.Service, err)
	}
	var out []slo.Slot
	var r slotRow
	_, err = pgx.ForEachRow(rows, []any{&r.At, &r.Valid, &r.Bad, &r.ChaosBad}, func() error {
		out = append(out, slo.Slot{At: r.At.UTC(), For: step, Valid: r.Valid, Bad: r.Bad, ChaosBad: r.ChaosBad})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", o.Service, err)
	}
	slices.SortFunc(out, func(a, b slo.Slot) int { return a.At.Compare(b.At) })
	return out, nil
}

// ReadMinutes returns what was counted of o minute by minute.
func (s *Store) ReadMinutes(ctx context.Context, o slo.Objective, env string, from, to time.Time) ([]slo.Slot, error) {
	return series(ctx, s.db, o, env, from, to, time.Minute)
}

const topRoutesSQL = `
select 0::bigint as n, route, upstream, ` + sums + `,
    histogram_sum(hist) as hist
from rollup_minute where service = @service and env = @env and at >= @from and at < @to
group by route, upstream order by sum(bad) desc, sum(exchanges) desc, route, upstream limit @limit`

type routeRow struct {
	tallyRow
	Route    string
	Upstream string
	Hist     []int64
}

// TopRoutes returns a service's routes over [from, to), most failures first.
func (s *Store) TopRoutes(ctx context.Context, service, env string, from, to time.Time, limit int) ([]slo.RouteTally, error) {
	rows, err := s.db.Query(ctx, topRoutesSQL, pgx.StrictNamedArgs{"service": service, "env": env, "from": from, "to": to, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("routes of %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[routeRow])
	if err != nil {
		return nil, fmt.Errorf("routes of %s: %w", service, err)
	}
	out := make([]slo.RouteTally, len(found))
	for i, r := range found {
		out[i] = slo.RouteTally{Route: r.Route, Upstream: r.Upstream, Tally: r.value(), Hist: r.Hist}
	}
	return out, nil
}

const touchedSQL = `
select experiment, min(at) as from_at, max(at) + interval '1 minute' as to_at,
    sum(exchanges)::bigint as exchanges, sum(bad)::bigint as bad
from rollup_minute
where service = @service and env = @env and experiment <> '' and at >= @from and at < @to
group by experiment order by 2, 1`

type touchedRow struct {
	Experiment string
	FromAt     time.Time `db:"from_at"`
	ToAt       time.Time `db:"to_at"`
	Exchanges  int64
	Bad        int64
}

// Touched returns the experiments that touched a service within [from, to).
func (s *Store) Touched(ctx context.Context, service, env string, from, to time.Time) ([]slo.Touched, error) {
	rows, err := s.db.Query(ctx, touchedSQL, pgx.StrictNamedArgs{"service": service, "env": env, "from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("experiments on %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[touchedRow])
	if err != nil {
		return nil, fmt.Errorf("experiments on %s: %w", service, err)
	}
	out := make([]slo.Touched, len(found))
	for i, r := range found {
		out[i] = slo.Touched{Experiment: r.Experiment, From: r.FromAt.UTC(), To: r.ToAt.UTC(), Exchanges: r.Exchanges, Bad: r.Bad}
	}
	return out, nil
}
