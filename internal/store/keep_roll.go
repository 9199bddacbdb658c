package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// settle is how long after an hour its sum is made: gateways report every second,
// and what comes later is summed again.
const settle = time.Minute

// The sums are statements of their own after the marks are taken: at read
// committed they see every row that was committed with a mark. Each marked hour is a
// range of time of its own; joined with the marks, a month of minutes would be hashed.
const takeMarksSQL = `
with taken as (
    delete from rollup_dirty where span = @span and at <= @last returning service, env, at
)
select distinct service, env, at from taken order by service, env, at`

const rollupHoursSQL = `
with dirty as (
    select service, env, at from unnest(@service::text[], @env::text[], @at::timestamptz[]) as d (service, env, at)
), days as (
    insert into rollup_dirty (service, env, span, at)
    select distinct service, env, 'day', date_trunc('day', at, 'UTC') from dirty
)
insert into rollup_hour ` + rolled + `
from (select distinct at from dirty) d cross join lateral (
    select * from rollup_minute m where m.at >= d.at and m.at < d.at + interval '1 hour'
      and (m.service, m.env, date_trunc('hour', m.at, 'UTC')) in (select service, env, at from dirty)
    offset 0
) m` + rolledOver

const rollupDaysSQL = `
with dirty as (
    select service, env, at from unnest(@service::text[], @env::text[], @at::timestamptz[]) as d (service, env, at)
)
insert into rollup_day ` + rolled + `
from (select distinct at from dirty) d cross join lateral (
    select * from rollup_hour m where m.at >= d.at and m.at < d.at + interval '1 day'
      and (m.service, m.env, date_trunc('day', m.at, 'UTC')) in (select service, env, at from dirty)
    offset 0
) m` + rolledOver

// What a longer span has of the shorter ones, m, that begin in it, and how it takes
// the place of what stood there.
const (
	rolled = `(service, env, route, upstream, experiment, at,
    good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
    dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered, latency_us,
    sampled, sample_var_good, sample_var_bad, limit_us, latency_max_us, hist)
select m.service, m.env, m.route, m.upstream, m.experiment, d.at,
    sum(m.good), sum(m.bad), sum(m.neutral), sum(m.throttled), sum(m.aborted), sum(m.synthetic), sum(m.bad_local),
    sum(m.degraded), sum(m.chaos_good), sum(m.chaos_bad), sum(m.first_try_bad), sum(m.dep_timeouts),
    sum(m.dep_timeout_calls), sum(m.over_limit), sum(m.aborted_over), sum(m.exchanges), sum(m.attempts),
    sum(m.retried), sum(m.recovered), sum(m.latency_us), sum(m.sampled), sum(m.sample_var_good),
    sum(m.sample_var_bad), case when min(m.limit_us) = max(m.limit_us) then min(m.limit_us) else -1 end,
    max(m.latency_max_us), histogram_merge(m.hist)`
	rolledOver = `
group by m.service, m.env, m.route, m.upstream, m.experiment, d.at
order by 1, 2, 3, 4, 5, 6
on conflict (service, env, route, upstream, experiment, at) do update set
    good = excluded.good, bad = excluded.bad, neutral = excluded.neutral, throttled = excluded.throttled,
    aborted = excluded.aborted, synthetic = excluded.synthetic, bad_local = excluded.bad_local,
    degraded = excluded.degraded, chaos_good = excluded.chaos_good, chaos_bad = excluded.chaos_bad,
    first_try_bad = excluded.first_try_bad, dep_timeouts = excluded.dep_timeouts,
    dep_timeout_calls = excluded.dep_timeout_calls, over_limit = excluded.over_limit,
    aborted_over = excluded.aborted_over, exchanges = excluded.exchanges, attempts = excluded.attempts,
    retried = excluded.retried, recovered = excluded.recovered, latency_us = excluded.latency_us,
    sampled = excluded.sampled, sample_var_good = excluded.sample_var_good, sample_var_bad = excluded.sample_var_bad,
    limit_us = excluded.limit_us, latency_max_us = excluded.latency_max_us, hist = excluded.hist`
)

const rollupRetriesSQL = `
with dirty as (
    select service, env, at from unnest(@service::text[], @env::text[], @at::timestamptz[]) as d (service, env, at)
)
insert into retry_day (service, env, upstream, status, reason, experiment, at, retried, retries, succeeded, failed)
select m.service, m.env, m.upstream, m.status, m.reason, m.experiment, d.at, sum(m.retried), sum(m.retries), sum(m.succeeded), sum(m.failed)
from (select distinct at from dirty) d cross join lateral (
    select * from retry_minute m where m.at >= d.at and m.at < d.at + interval '1 day'
      and (m.service, m.env, date_trunc('day', m.at, 'UTC')) in (select service, env, at from dirty)
    offset 0
) m
group by m.service, m.env, m.upstream, m.status, m.reason, m.experiment, d.at
order by 1, 2, 3, 4, 5, 6, 7
on conflict (service, env, upstream, status, reason, experiment, at) do update set
    retried = excluded.retried, retries = excluded.retries, succeeded = excluded.succeeded, failed = excluded.failed`

type dirtyRow struct {
	Service string
	Env     string
	At      time.Time
}

// roll sums hours that are over, and then days, where their rows have changed.
// Sums are made anew and never added to, so that any number of them, in any
// order, comes to the same.
func (s *Store) roll(ctx context.Context, now time.Time, k *Kept) error {
	now = now.UTC().Add(-settle)
	steps := []struct {
		span string
		last time.Time
		sums []string
		rows *int64
	}{
		{"hour", now.Add(-time.Hour), []string{rollupHoursSQL}, &k.Hours},
		{"day", now.AddDate(0, 0, -1), []string{rollupDaysSQL, rollupRetriesSQL}, &k.Days},
	}
	for _, step := range steps {
		err := s.alone(ctx, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, takeMarksSQL, pgx.StrictNamedArgs{"span": step.span, "last": step.last})
			if err != nil {
				return err
			}
			marks, err := pgx.CollectRows(rows, pgx.RowToStructByName[dirtyRow])
			if err != nil || len(marks) == 0 {
				return err
			}
			args := pgx.StrictNamedArgs{
				"service": column(marks, func(m *dirtyRow) string { return m.Service }),
				"env":     column(marks, func(m *dirtyRow) string { return m.Env }),
				"at":      column(marks, func(m *dirtyRow) time.Time { return m.At }),
			}
			for _, sql := range step.sums {
				tag, err := tx.Exec(ctx, sql, args)
				if err != nil {
					return err
				}
				*step.rows += tag.RowsAffected()
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("sum by %s: %w", step.span, err)
		}
	}
	return nil
}
