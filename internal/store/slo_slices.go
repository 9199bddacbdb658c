package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// sliceAsk asks for the slices of one part from an hour on, up to an instant.
type sliceAsk struct {
	part      *slo.Counted
	env       string
	from, end time.Time
}

const slicesSQL = `
select a.n, s.at, s.measured, s.bad, s.bad_us
from unnest(@service::text[], @objective::text[], @env::text[], @from::timestamptz[], @until::timestamptz[])
    with ordinality as a (service, objective, env, lo, hi, n)
cross join lateral (
    select at, measured, bad, bad_us from slo_slice s
    where s.service = a.service and s.objective = a.objective and s.env = a.env and s.at >= a.lo and s.at < a.hi
    offset 0
) s
order by a.n, s.at`

type sliceRow struct {
	N        int64
	At       time.Time
	Measured int64
	Bad      int64
	BadUS    []int64 `db:"bad_us"`
}

const dirtyHoursSQL = `
select distinct d.service, d.env, d.at from slo_dirty d
join unnest(@service::text[], @env::text[], @from::timestamptz[], @until::timestamptz[]) as a (service, env, lo, hi)
    on d.service = a.service and d.env = a.env and d.at >= a.lo and d.at < a.hi`

// readSlices fills in the slices of objectives on time: kept ones, and those of
// marked hours, made here from their minutes.
func readSlices(ctx context.Context, tx pgx.Tx, list []sliceAsk) error {
	if len(list) == 0 {
		return nil
	}
	var service, objective, env []string
	var from, until []time.Time
	for _, a := range list {
		service, objective, env = append(service, a.part.Objective.Service), append(objective, a.part.Objective.ID), append(env, a.env)
		from, until = append(from, a.from), append(until, a.end)
	}
	rows, err := tx.Query(ctx, dirtyHoursSQL, pgx.StrictNamedArgs{"service": service, "env": env, "from": from, "until": until})
	if err != nil {
		return fmt.Errorf("read marks: %w", err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByName[hourKey])
	if err != nil {
		return fmt.Errorf("read marks: %w", err)
	}
	var keys hourKeys
	dirty := map[hourKey]bool{}
	for _, m := range marks {
		m.At = m.At.UTC()
		dirty[m] = true
		keys.service, keys.env, keys.at = append(keys.service, m.Service), append(keys.env, m.Env), append(keys.at, m.At)
	}
	minutes, err := minutesOf(ctx, tx, keys)
	if err != nil {
		return err
	}
	rows, err = tx.Query(ctx, slicesSQL, pgx.StrictNamedArgs{"service": service, "objective": objective, "env": env, "from": from, "until": until})
	if err != nil {
		return fmt.Errorf("read slices: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[sliceRow])
	if err != nil {
		return fmt.Errorf("read slices: %w", err)
	}
	kept := make([][]slo.SliceHour, len(list))
	for _, r := range found {
		a := list[r.N-1]
		if at := r.At.UTC(); !dirty[hourKey{a.part.Objective.Service, a.env, at}] {
			kept[r.N-1] = append(kept[r.N-1], slo.SliceHour{At: at, Measured: uint64(r.Measured), Bad: uint64(r.Bad), BadUS: r.BadUS})
		}
	}
	for i, a := range list {
		fresh := map[time.Time]slo.SliceHour{}
		for k, list := range minutes {
			if k.Service != a.part.Objective.Service || k.Env != a.env || k.At.Before(a.from) || !k.At.Before(a.end) {
				continue
			}
			for _, h := range sliceOf(a.part.Objective, list) {
				fresh[h.At] = h
			}
		}
		a.part.Slices = mergeSlices(kept[i], fresh)
	}
	return nil
}

// mergeSlices puts hours made anew among kept ones, ascending.
func mergeSlices(kept []slo.SliceHour, fresh map[time.Time]slo.SliceHour) []slo.SliceHour {
	for _, h := range fresh {
		kept = append(kept, h)
	}
	slo.SortSlices(kept)
	return kept
}

// Groups are summed from the sums of single routes, cut as those of a service. An
// hour that its own marks say has changed is read from its minutes, and so is one
// that is not over yet: it stays marked until then.
const groupsSQL = `
with dirty as materialized (
    select distinct at, date_trunc('day', at, 'UTC') as on_day from rollup_dirty where service = @service and env = @env
), hour_mark as (
    select d.at from dirty d where d.at >= @first_hour and d.at < @last_hour
), part as (
    select route, ` + counts + ` from rollup_day d
    where service = @service and env = @env and at >= @first_day and at < @last_day and not exists (select from dirty x where x.on_day = d.at)
    union all
    select route, ` + counts + ` from rollup_hour h
    where service = @service and env = @env and at >= @first_hour and at < @last_hour
      and (at < @first_day or at >= @last_day or exists (select from dirty x where x.on_day = date_trunc('day', h.at, 'UTC')))
      and not exists (select from dirty x where x.at = h.at)
    union all
    select m.route, ` + countsOfM + ` from hour_mark d
    join rollup_minute m on m.service = @service and m.env = @env and m.at >= d.at and m.at < d.at + interval '1 hour'
    union all
    select route, ` + counts + ` from rollup_minute
    where service = @service and env = @env and (at >= @since and at < @first_hour or at >= @last_hour and at < @until)
)
select 0::bigint as n, route, ` + sums + ` from part group by route order by route`

const countsOfM = `m.good, m.bad, m.neutral, m.throttled, m.aborted, m.synthetic, m.bad_local, m.degraded, m.chaos_good, m.chaos_bad, m.first_try_bad,
        m.dep_timeouts, m.dep_timeout_calls, m.over_limit, m.aborted_over, m.exchanges, m.attempts, m.retried, m.recovered,
        m.sampled, m.sample_var_good, m.sample_var_bad`

type groupRow struct {
	tallyRow
	Route string
}

// maxGroups bounds what a grouped objective shows: the routes with most traffic;
// the rest is one group, so that all of them still add up.
const maxGroups = 50

// groups fills in the parts of a grouped objective. Corrections leave them alone:
// they say where traffic went, and the whole says what is left.
func groups(ctx context.Context, tx pgx.Tx, m *slo.Measured) error {
	if m.Objective.Spec().GroupBy != "route" || !m.Seen {
		return nil
	}
	span := m.Objective.Frame(m.DataUntil).Running
	var a asks
	a.add(ask{m.Objective.Service, m.Env, span.From, span.To})
	rows, err := tx.Query(ctx, groupsSQL, pgx.StrictNamedArgs{"service": m.Objective.Service, "env": m.Env, "since": a.since[0],
		"first_hour": a.firstHour[0], "first_day": a.firstDay[0], "last_day": a.lastDay[0], "last_hour": a.lastHour[0], "until": a.end[0]})
	if err != nil {
		return fmt.Errorf("groups of %s: %w", m.Objective.ID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[groupRow])
	if err != nil {
		return fmt.Errorf("groups of %s: %w", m.Objective.ID, err)
	}
	for _, r := range found {
		m.Groups = append(m.Groups, slo.GroupSums{Name: r.Route, Sums: slo.Sums{All: r.value()}})
	}
	m.Groups = slo.TopGroups(m.Groups, maxGroups)
	return nil
}
