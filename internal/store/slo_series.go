package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// A month of minutes is read for a forecast: no arithmetic on each row.
const minutesSQL = `
select 0::bigint as n, at, sum(good + bad)::bigint as valid, sum(bad)::bigint as bad, sum(chaos_bad)::bigint as chaos_bad
from rollup_minute where service = @service and env = @env and at >= @from and at < @to
group by at having sum(good + bad) > 0 order by at`

const spansSQL = `
select 0::bigint as n, date_bin(@step::interval, at, @from::timestamptz) as at,
    sum(good + bad)::bigint as valid, sum(bad)::bigint as bad, sum(chaos_bad)::bigint as chaos_bad
from rollup_minute where service = @service and env = @env and at >= @from and at < @to
group by 2 having sum(good + bad) > 0 order by 2`

// Spans of whole hours are read from the hours, but for the dirty ones.
const hourSpansSQL = `
select 0::bigint as n, date_bin(@step::interval, at, @from::timestamptz) as at,
    sum(good + bad)::bigint as valid, sum(bad)::bigint as bad, sum(chaos_bad)::bigint as chaos_bad
from (
    select h.at, h.good, h.bad, h.chaos_bad from slo_hour h
    where h.service = @service and h.env = @env and h.at >= @from and h.at < @to
      and not exists (select from slo_dirty d where d.service = h.service and d.env = h.env and d.at = h.at)
    union all
    select m.at, m.good, m.bad, m.chaos_bad
    from (select distinct at from slo_dirty where service = @service and env = @env and at >= @from and at < @to) d
    join rollup_minute m on m.service = @service and m.env = @env and m.at >= d.at and m.at < d.at + interval '1 hour'
) part
group by 2 having sum(good + bad) > 0 order by 2`

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func series(ctx context.Context, q querier, service, env string, from, to time.Time, step time.Duration) ([]slo.Slot, error) {
	sql, args := spansSQL, pgx.StrictNamedArgs{"service": service, "env": env, "from": from, "to": to, "step": step}
	if step == time.Minute {
		sql = minutesSQL
		delete(args, "step")
	} else if step%time.Hour == 0 && from.Truncate(time.Hour).Equal(from) && to.Truncate(time.Hour).Equal(to) {
		sql = hourSpansSQL
	}
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[slotRow])
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", service, err)
	}
	out := make([]slo.Slot, len(found))
	for i, r := range found {
		out[i] = slo.Slot{At: r.At.UTC(), For: step, Valid: r.Valid, Bad: r.Bad, ChaosBad: r.ChaosBad}
	}
	return out, nil
}

// Series returns the counts of [from, to) in steps from from, those with traffic
// only. step is in whole minutes.
func (s *Store) Series(ctx context.Context, service, env string, from, to time.Time, step time.Duration) ([]slo.Slot, error) {
	return series(ctx, s.db, service, env, from, to, max(step.Truncate(time.Minute), time.Minute))
}

// ReadMinutes is Series minute by minute.
func (s *Store) ReadMinutes(ctx context.Context, service, env string, from, to time.Time) ([]slo.Slot, error) {
	return series(ctx, s.db, service, env, from, to, time.Minute)
}

// Points returns the burn-down of o in env: the budget left at the end of each
// step of [from, to), the last one at to. Each point is the exact budget of the
// window that ends there, the same that an evaluation at that instant has seen.
// Steps of hours end on the hour, so that months are read from hours, and the
// last one is what is left over.
func (s *Store) Points(ctx context.Context, o slo.Objective, env string, from, to time.Time, step time.Duration) ([]slo.Point, error) {
	step = max(step.Truncate(time.Minute), time.Minute)
	end := ceilMinute(to)
	grid := end
	if step >= time.Hour {
		step = step.Truncate(time.Hour)
		grid = end.Truncate(time.Hour)
	}
	n := max(int((grid.Sub(from)+step-1)/step), 0)
	from = grid.Add(-time.Duration(n) * step)
	var base []slo.Tally
	var entering, leaving []slo.Slot
	err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		var a asks
		a.add(ask{o.Service, env, from.Add(-o.Window), from})
		a.add(ask{o.Service, env, end.Add(-o.Window), end})
		a.add(ask{o.Service, env, grid, end})
		if base, err = tallies(ctx, tx, &a); err != nil {
			return err
		}
		if entering, err = series(ctx, tx, o.Service, env, from, grid, step); err != nil {
			return err
		}
		leaving, err = series(ctx, tx, o.Service, env, from.Add(-o.Window), grid.Add(-o.Window), step)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("burn-down of %s: %w", o.ID, err)
	}
	good, bad := base[0].Good, base[0].Bad
	points := make([]slo.Point, n, n+1)
	for i := range points {
		begin := from.Add(time.Duration(i) * step)
		p := slo.Point{At: begin.Add(step)}
		if len(entering) > 0 && entering[0].At.Equal(begin) {
			e := entering[0]
			p.Valid, p.Bad, p.ChaosBad = e.Valid, e.Bad, e.ChaosBad
			good, bad = good+e.Valid-e.Bad, bad+e.Bad
			entering = entering[1:]
		}
		if len(leaving) > 0 && leaving[0].At.Equal(begin.Add(-o.Window)) {
			l := leaving[0]
			good, bad = good-(l.Valid-l.Bad), bad-l.Bad
			leaving = leaving[1:]
		}
		b := slo.Weigh(o, slo.Tally{Good: good, Bad: bad})
		p.RemainingPPM, p.NoData = b.RemainingPPM, b.NoData
		points[i] = p
	}
	if grid.Before(end) {
		b, rest := slo.Weigh(o, base[1]), base[2]
		points = append(points, slo.Point{At: end, RemainingPPM: b.RemainingPPM, NoData: b.NoData,
			Valid: rest.Good + rest.Bad, Bad: rest.Bad, ChaosBad: rest.ChaosBad})
	}
	return points, nil
}

// BudgetAt is o's budget in env as it stood at an instant, minute edges.
func (s *Store) BudgetAt(ctx context.Context, o slo.Objective, env string, at time.Time) (slo.Budget, error) {
	var sum []slo.Tally
	err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		var a asks
		until := ceilMinute(at)
		a.add(ask{o.Service, env, until.Add(-o.Window), until})
		sum, err = tallies(ctx, tx, &a)
		return err
	})
	if err != nil {
		return slo.Budget{}, fmt.Errorf("budget of %s: %w", o.ID, err)
	}
	return slo.Weigh(o, sum[0]), nil
}

const topRoutesSQL = `
select 0::bigint as n, route, upstream,
    sum(good)::bigint as good, sum(bad)::bigint as bad, sum(neutral)::bigint as neutral,
    sum(throttled)::bigint as throttled, sum(aborted)::bigint as aborted, sum(chaos_bad)::bigint as chaos_bad,
    sum(first_try_bad)::bigint as first_try_bad, sum(exchanges)::bigint as exchanges, sum(attempts)::bigint as attempts,
    sum(retried)::bigint as retried, sum(recovered)::bigint as recovered, sum(over_limit)::bigint as over_limit,
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
