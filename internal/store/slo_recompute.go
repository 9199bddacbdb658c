package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
)

// What is stored beside what its rows add up to; only where they differ. Marked
// hours are left out: that they lag is known, and nobody reads them.
const wrongMinutesSQL = `
select 'minute' as span, coalesce(s.at, x.at) as at, coalesce(s.good, 0) as stored_good, coalesce(x.good, 0) as good,
    coalesce(s.bad, 0) as stored_bad, coalesce(x.bad, 0) as bad
from (select at, good, bad from service_minute where service = @service and env = @env and at >= @from and at < @to) s
full join (
    select at, sum(good)::bigint as good, sum(bad)::bigint as bad
    from rollup_minute where service = @service and env = @env and at >= @from and at < @to group by at
) x on x.at = s.at
where (s.good, s.bad) is distinct from (x.good, x.bad) order by 2 limit @limit`

const wrongHoursSQL = `
select 'hour' as span, x.at, coalesce(s.good, 0) as stored_good, x.good, coalesce(s.bad, 0) as stored_bad, x.bad
from (
    select date_trunc('hour', at, 'UTC') as at, sum(good)::bigint as good, sum(bad)::bigint as bad
    from service_minute where service = @service and env = @env and at >= @from and at < @to group by 1
) x
left join service_hour s on s.service = @service and s.env = @env and s.at = x.at
where (s.good, s.bad) is distinct from (x.good, x.bad)
  and not exists (select from slo_dirty d where d.service = @service and d.env = @env and d.at = x.at)
order by 2 limit @limit`

const wrongDaysSQL = `
select 'day' as span, x.at, coalesce(s.good, 0) as stored_good, x.good, coalesce(s.bad, 0) as stored_bad, x.bad
from (
    select date_trunc('day', at, 'UTC') as at, sum(good)::bigint as good, sum(bad)::bigint as bad
    from service_hour where service = @service and env = @env and at >= @from and at < @to group by 1
) x
left join service_day s on s.service = @service and s.env = @env and s.at = x.at
where (s.good, s.bad) is distinct from (x.good, x.bad)
  and not exists (select from slo_dirty d where d.service = @service and d.env = @env and date_trunc('day', d.at, 'UTC') = x.at)
order by 2 limit @limit`

type wrongRow struct {
	Span       string
	At         time.Time
	StoredGood int64 `db:"stored_good"`
	Good       int64
	StoredBad  int64 `db:"stored_bad"`
	Bad        int64
}

const minutesKeptSQL = `
select count(*), min(at) from service_minute where service = @service and env = @env and at >= @from and at < @to`

const fixMinutesSQL = `
insert into service_minute as m (service, env, at, latency_us, ` + counts + `)
select service, env, at, sum(latency_us), ` + sums + `
from rollup_minute where service = @service and env = @env and at = any(@at::timestamptz[]) group by service, env, at
on conflict (service, env, at) do update set latency_us = excluded.latency_us,
    good = excluded.good, bad = excluded.bad, neutral = excluded.neutral, throttled = excluded.throttled, aborted = excluded.aborted,
    synthetic = excluded.synthetic, bad_local = excluded.bad_local, degraded = excluded.degraded, chaos_good = excluded.chaos_good,
    chaos_bad = excluded.chaos_bad, first_try_bad = excluded.first_try_bad, dep_timeouts = excluded.dep_timeouts,
    dep_timeout_calls = excluded.dep_timeout_calls, over_limit = excluded.over_limit, aborted_over = excluded.aborted_over,
    exchanges = excluded.exchanges, attempts = excluded.attempts, retried = excluded.retried, recovered = excluded.recovered,
    sampled = excluded.sampled, sample_var_good = excluded.sample_var_good, sample_var_bad = excluded.sample_var_bad`

const markSpanSQL = `
insert into slo_dirty (service, env, at)
select distinct service, env, date_trunc('hour', at, 'UTC') from service_minute where service = @service and env = @env and at >= @from and at < @to`

// maxWrong bounds a report; a ledger that is wrong in more places is wrong.
const maxWrong = 200

// errDry ends a dry run: all it did is taken back.
var errDry = errors.New("dry run")

// Recompute adds the window of o up again from the rows it was made of, and says
// what changes: wrong sums, decisions that the figures of today would not repeat,
// the budget as it is. A dry run does the same and takes it back, so that it tells
// exactly what would happen. What was decided stays either way.
func (s *Store) Recompute(ctx context.Context, o slo.Objective, env string, until time.Time, dryRun bool, actor string, now time.Time) (slo.Recomputation, error) {
	out := slo.Recomputation{At: now, DryRun: dryRun}
	span := o.At(until).Frame(until).Running
	moves, err := s.Transitions(ctx, o.Service, span.From, 1000)
	if err != nil {
		return out, err
	}
	err = pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// What others are summing at the moment is wrong for as long as that takes.
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(@key)`, pgx.StrictNamedArgs{"key": rollLock}); err != nil {
			return err
		}
		var err error
		if out.Minutes, out.Sums, err = wrongSums(ctx, tx, o, env, span); err != nil {
			return err
		}
		if err := repair(ctx, tx, o, env, span, out.Sums, actor, now); err != nil {
			return err
		}
		list := []slo.Measured{{Objective: o.At(ceilMinute(until)), Env: env, Seen: true, DataUntil: until}}
		if _, err := foldAll(ctx, tx, list, nil); err != nil {
			return err
		}
		out.Budget = slo.Fold(list[0])
		if out.Decisions, err = redecide(ctx, tx, o, env, moves); err != nil {
			return err
		}
		if dryRun {
			return errDry
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDry) {
		return out, fmt.Errorf("recompute %s: %w", o.ID, err)
	}
	return out, nil
}

// wrongSums compares what is stored with what its rows add up to.
func wrongSums(ctx context.Context, tx pgx.Tx, o slo.Objective, env string, span slo.Period) (minutes int64, wrong []slo.Difference, err error) {
	var oldest *time.Time
	args := pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": span.From, "to": span.To}
	if err := tx.QueryRow(ctx, minutesKeptSQL, args).Scan(&minutes, &oldest); err != nil || oldest == nil {
		return 0, nil, err
	}
	for _, q := range []struct {
		sql  string
		unit time.Duration
	}{{wrongMinutesSQL, time.Minute}, {wrongHoursSQL, time.Hour}, {wrongDaysSQL, day}} {
		// Of an hour or a day whose first minutes are gone nothing can be said.
		from := laterOf(span.From, oldest.UTC()).Add(q.unit - 1).Truncate(q.unit)
		rows, err := tx.Query(ctx, q.sql, pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": from, "to": span.To.Truncate(q.unit), "limit": maxWrong})
		if err != nil {
			return 0, nil, err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[wrongRow])
		if err != nil {
			return 0, nil, err
		}
		for _, r := range found {
			wrong = append(wrong, slo.Difference{Span: r.Span, At: r.At.UTC(), StoredGood: r.StoredGood, Good: r.Good, StoredBad: r.StoredBad, Bad: r.Bad})
		}
	}
	return minutes, wrong, nil
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// redecide weighs the instants of o's transitions again.
func redecide(ctx context.Context, tx pgx.Tx, o slo.Objective, env string, moves []slo.Transition) ([]slo.Redecided, error) {
	mine := slices.DeleteFunc(moves, func(m slo.Transition) bool { return m.Objective != o.ID || m.Env != env || m.DataUntil.IsZero() })
	list := make([]slo.Measured, len(mine))
	for i, m := range mine {
		list[i] = slo.Measured{Objective: o.At(ceilMinute(m.DataUntil)), Env: env, Seen: true, DataUntil: m.DataUntil}
	}
	slices.Reverse(list) // oldest first, as foldAll reads slices
	if _, err := foldAll(ctx, tx, list, nil); err != nil {
		return nil, err
	}
	slices.Reverse(list)
	var out []slo.Redecided
	for i, m := range mine {
		b := slo.Fold(list[i])
		if b.Tally.Good != m.Good || b.Tally.Bad != m.Bad || m.Revision != o.Revision {
			out = append(out, slo.Redecided{Transition: m, Good: b.Tally.Good, Bad: b.Tally.Bad, Measured: slo.LevelOf(o, b), Revision: o.Revision})
		}
	}
	return out, nil
}

// repair puts wrong sums right, with a row in the audit.
func repair(ctx context.Context, tx pgx.Tx, o slo.Objective, env string, span slo.Period, wrong []slo.Difference, actor string, now time.Time) error {
	var minutes []time.Time
	for _, d := range wrong {
		if d.Span == "minute" {
			minutes = append(minutes, d.At)
		}
	}
	if len(minutes) > 0 {
		if _, err := tx.Exec(ctx, fixMinutesSQL, pgx.StrictNamedArgs{"service": o.Service, "env": env, "at": minutes}); err != nil {
			return fmt.Errorf("put minutes right: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, markSpanSQL, pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": span.From, "to": span.To}); err != nil {
		return fmt.Errorf("mark hours: %w", err)
	}
	if err := sumMarked(ctx, tx); err != nil {
		return err
	}
	return auditIn(ctx, tx, auth.Entry{At: now, Actor: actor, Action: "slo.recompute", Object: o.Service + "/" + o.ID + "/" + env,
		Detail: fmt.Sprintf("%s to %s, %d sums were wrong", span.From.Format(time.RFC3339), span.To.Format(time.RFC3339), len(wrong))})
}
