package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// rollLock lets one replica at a time roll up. Two could sum the same hour from
// different snapshots and the older sum be written last. "hour" in ASCII.
const rollLock = 0x686f7572

const (
	takeDirtySQL = `delete from slo_dirty returning service, env, at`
	rolledOnSQL  = `update slo_rolled set n = n + 1`
)

// overwrite is how a sum takes the place of the one before.
const overwrite = ` on conflict (service, env, at) do update set
    good = excluded.good, bad = excluded.bad, neutral = excluded.neutral, throttled = excluded.throttled, aborted = excluded.aborted,
    synthetic = excluded.synthetic, bad_local = excluded.bad_local, degraded = excluded.degraded, chaos_good = excluded.chaos_good,
    chaos_bad = excluded.chaos_bad, first_try_bad = excluded.first_try_bad, dep_timeouts = excluded.dep_timeouts,
    dep_timeout_calls = excluded.dep_timeout_calls, over_limit = excluded.over_limit, aborted_over = excluded.aborted_over,
    exchanges = excluded.exchanges, attempts = excluded.attempts, retried = excluded.retried, recovered = excluded.recovered,
    sampled = excluded.sampled, sample_var_good = excluded.sample_var_good, sample_var_bad = excluded.sample_var_bad`

// The sums are statements of their own after the marks are taken: at read
// committed they see every minute that was committed with a mark.
const rollHoursSQL = `
with dirty as (
    select service, env, at from unnest(@service::text[], @env::text[], @at::timestamptz[]) as d (service, env, at)
), scope as (
    insert into slo_scope (service, env) select distinct service, env from dirty on conflict do nothing
)
insert into service_hour (service, env, at, ` + counts + `)
select d.service, d.env, d.at, ` + counts + `
from dirty d cross join lateral (
    select count(*) as minutes, ` + sums + `
    from service_minute m where m.service = d.service and m.env = d.env and m.at >= d.at and m.at < d.at + interval '1 hour'
) x
where x.minutes > 0` + overwrite

const rollDaysSQL = `
insert into service_day (service, env, at, ` + counts + `)
select d.service, d.env, d.on_day, ` + counts + `
from (
    select distinct service, env, date_trunc('day', at, 'UTC') as on_day
    from unnest(@service::text[], @env::text[], @at::timestamptz[]) as d (service, env, at)
) d cross join lateral (
    select count(*) as hours, ` + sums + `
    from service_hour h where h.service = d.service and h.env = d.env and h.at >= d.on_day and h.at < d.on_day + interval '24 hours'
) x
where x.hours > 0` + overwrite

type hourKey struct {
	Service string
	Env     string
	At      time.Time
}

// hourKeys are hours, each once, as columns.
type hourKeys struct {
	service, env []string
	at           []time.Time
}

func (k hourKeys) args() pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"service": k.service, "env": k.env, "at": k.at}
}

// RollUp recomputes the hours and days whose minutes have changed, and the slices
// of objectives on time. Where another replica is at it, it does nothing.
func (s *Store) RollUp(ctx context.Context) error {
	return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `select pg_try_advisory_xact_lock(@key)`, pgx.StrictNamedArgs{"key": rollLock}).Scan(&mine); err != nil || !mine {
			return err
		}
		return sumMarked(ctx, tx)
	})
}

// sumMarked takes the marks and sums what they name. The caller holds rollLock.
func sumMarked(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, takeDirtySQL)
	if err != nil {
		return fmt.Errorf("take marks: %w", err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByName[hourKey])
	if err != nil || len(marks) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, rolledOnSQL); err != nil {
		return fmt.Errorf("count a roll-up: %w", err)
	}
	var keys hourKeys
	seen := map[hourKey]bool{}
	for _, m := range marks {
		m.At = m.At.UTC()
		if seen[m] {
			continue
		}
		seen[m] = true
		keys.service, keys.env, keys.at = append(keys.service, m.Service), append(keys.env, m.Env), append(keys.at, m.At)
	}
	if _, err := tx.Exec(ctx, rollHoursSQL, keys.args()); err != nil {
		return fmt.Errorf("sum hours: %w", err)
	}
	if _, err := tx.Exec(ctx, rollDaysSQL, keys.args()); err != nil {
		return fmt.Errorf("sum days: %w", err)
	}
	return rollSlices(ctx, tx, keys)
}

const pruneSumsSQL = `
with hours as (
    delete from service_hour where at < @now::timestamptz - interval '400 days' returning 1
), days as (
    delete from service_day where at < @now::timestamptz - interval '5 years' returning 1
), slices as (
    delete from slo_slice where at < @now::timestamptz - interval '400 days' returning 1
)
select (select count(*) from hours) + (select count(*) from days) + (select count(*) from slices)`

// PruneSums notes which configurations have served, before the events that say so
// go, and drops sums that nobody reads any more: hours after 13 months, days after
// five years.
func (s *Store) PruneSums(ctx context.Context, now time.Time) (int64, error) {
	if _, err := s.db.Exec(ctx, noteConfigsSQL); err != nil {
		return 0, fmt.Errorf("note configurations: %w", err)
	}
	var gone int64
	if err := s.db.QueryRow(ctx, pruneSumsSQL, pgx.StrictNamedArgs{"now": now}).Scan(&gone); err != nil {
		return 0, fmt.Errorf("prune sums: %w", err)
	}
	return gone, nil
}

const hourMinutesSQL = `
select d.n, m.at, ` + counts + `
from unnest(@service::text[], @env::text[], @at::timestamptz[]) with ordinality as d (service, env, at, n)
cross join lateral (
    select at, ` + counts + ` from service_minute s
    where s.service = d.service and s.env = d.env and s.at >= d.at and s.at < d.at + interval '1 hour'
    offset 0
) m
order by d.n, m.at`

// minutesOf reads the minutes of hours, by hour.
func minutesOf(ctx context.Context, tx pgx.Tx, keys hourKeys) (map[hourKey][]hour, error) {
	out := map[hourKey][]hour{}
	if len(keys.at) == 0 {
		return out, nil
	}
	rows, err := tx.Query(ctx, hourMinutesSQL, keys.args())
	if err != nil {
		return nil, fmt.Errorf("read minutes: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[hourRow])
	if err != nil {
		return nil, fmt.Errorf("read minutes: %w", err)
	}
	for _, r := range found {
		k := hourKey{keys.service[r.N-1], keys.env[r.N-1], keys.at[r.N-1]}
		out[k] = append(out[k], hour{r.At.UTC(), r.value()})
	}
	return out, nil
}

// sliceOf cuts minutes of one service into o's slices.
func sliceOf(o slo.Objective, minutes []hour) []slo.SliceHour {
	valid, bad, _ := o.Forms()
	list := make([]slo.MinuteCount, len(minutes))
	for i, m := range minutes {
		list[i] = slo.MinuteCount{At: m.at, Valid: valid.Of(m.tally), Bad: bad.Of(m.tally), Good: m.tally.Good}
	}
	return slo.SliceOf(o, list)
}

const writeSliceSQL = `
insert into slo_slice (service, objective, env, at, measured, bad, bad_us)
values (@service, @objective, @env, @at, @measured, @bad, @bad_us)
on conflict (service, objective, env, at) do update set measured = excluded.measured, bad = excluded.bad, bad_us = excluded.bad_us`

func rollSlices(ctx context.Context, tx pgx.Tx, keys hourKeys) error {
	objectives, err := slicedObjectives(ctx, tx, keys.service)
	if err != nil || len(objectives) == 0 {
		return err
	}
	var mine hourKeys
	for i, service := range keys.service {
		if len(objectives[service]) > 0 {
			mine.service, mine.env, mine.at = append(mine.service, service), append(mine.env, keys.env[i]), append(mine.at, keys.at[i])
		}
	}
	minutes, err := minutesOf(ctx, tx, mine)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	for k, list := range minutes {
		for _, o := range objectives[k.Service] {
			for _, h := range sliceOf(o, list) {
				batch.Queue(writeSliceSQL, pgx.StrictNamedArgs{"service": k.Service, "objective": o.ID, "env": k.Env, "at": h.At,
					"measured": int64(h.Measured), "bad": int64(h.Bad), "bad_us": notNil(h.BadUS)})
			}
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("write slices: %w", err)
	}
	return nil
}

func notNil(list []int64) []int64 {
	if list == nil {
		return []int64{}
	}
	return list
}

const slicedSQL = objectiveColumns + `
from objective o where o.retired_at is null and o.terms is not null and o.service = any(@services::text[])`

// slicedObjectives are the objectives on time, by service.
func slicedObjectives(ctx context.Context, tx pgx.Tx, services []string) (map[string][]slo.Objective, error) {
	rows, err := tx.Query(ctx, slicedSQL, pgx.StrictNamedArgs{"services": services})
	if err != nil {
		return nil, fmt.Errorf("list objectives on time: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[objectiveRow])
	if err != nil {
		return nil, fmt.Errorf("list objectives on time: %w", err)
	}
	out := map[string][]slo.Objective{}
	for _, r := range found {
		o, err := r.value()
		if err != nil {
			return nil, err
		}
		if o.Sliced() && o.Spec().Indicator.Kind != slo.Composite {
			out[o.Service] = append(out[o.Service], o)
		}
	}
	return out, nil
}

func termsOf(text []byte) (*slo.Terms, error) {
	if text == nil {
		return nil, nil
	}
	var t slo.Terms
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("read terms: %w", err)
	}
	return &t, nil
}
