package store

import (
	"context"
	"fmt"
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

// Recompute adds the window of o up again from the rows it was made of, and says
// what would change: wrong sums, decisions that the figures of today would not
// repeat, the budget as it is. With dryRun it changes nothing; else wrong sums are
// put right. What was decided stays either way.
func (s *Store) Recompute(ctx context.Context, o slo.Objective, env string, until time.Time, dryRun bool, actor string, now time.Time) (slo.Recomputation, error) {
	out := slo.Recomputation{At: now, DryRun: dryRun}
	span := o.At(until).Frame(until).Running
	args := pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": span.From, "to": span.To}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		var oldest *time.Time
		if err := tx.QueryRow(ctx, minutesKeptSQL, args).Scan(&out.Minutes, &oldest); err != nil {
			return err
		}
		if oldest == nil {
			return nil
		}
		// Of an hour or a day whose first minutes are gone nothing can be said.
		for _, q := range []struct {
			sql  string
			unit time.Duration
		}{{wrongMinutesSQL, time.Minute}, {wrongHoursSQL, time.Hour}, {wrongDaysSQL, day}} {
			from := laterOf(span.From, oldest.UTC()).Add(q.unit - 1).Truncate(q.unit)
			rows, err := tx.Query(ctx, q.sql, pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": from, "to": span.To.Truncate(q.unit), "limit": maxWrong})
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, pgx.RowToStructByName[wrongRow])
			if err != nil {
				return err
			}
			for _, r := range found {
				out.Sums = append(out.Sums, slo.Difference{Span: r.Span, At: r.At.UTC(), StoredGood: r.StoredGood, Good: r.Good, StoredBad: r.StoredBad, Bad: r.Bad})
			}
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("recompute %s: %w", o.ID, err)
	}
	if !dryRun {
		if err := s.repair(ctx, o, env, span, out.Sums, actor, now); err != nil {
			return out, fmt.Errorf("recompute %s: %w", o.ID, err)
		}
	}
	if out.Decisions, err = s.redecide(ctx, o, env, span.From); err != nil {
		return out, err
	}
	out.Budget, err = s.BudgetAt(ctx, o, env, until)
	return out, err
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// redecide weighs the instants of o's transitions again.
func (s *Store) redecide(ctx context.Context, o slo.Objective, env string, since time.Time) ([]slo.Redecided, error) {
	moves, err := s.Transitions(ctx, o.Service, since, 1000)
	if err != nil {
		return nil, err
	}
	var out []slo.Redecided
	for _, m := range moves {
		if m.Objective != o.ID || m.Env != env || m.DataUntil.IsZero() {
			continue
		}
		b, err := s.BudgetAt(ctx, o, env, m.DataUntil)
		if err != nil {
			return nil, err
		}
		if b.Tally.Good == m.Good && b.Tally.Bad == m.Bad && m.Revision == o.Revision {
			continue
		}
		out = append(out, slo.Redecided{Transition: m, Good: b.Tally.Good, Bad: b.Tally.Bad, Measured: slo.LevelOf(o, b), Revision: o.Revision})
	}
	return out, nil
}

// repair puts wrong sums right, with a row in the audit.
func (s *Store) repair(ctx context.Context, o slo.Objective, env string, span slo.Period, wrong []slo.Difference, actor string, now time.Time) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var minutes []time.Time
		for _, d := range wrong {
			if d.Span == "minute" {
				minutes = append(minutes, d.At)
			}
		}
		if len(minutes) > 0 {
			if _, err := tx.Exec(ctx, fixMinutesSQL, pgx.StrictNamedArgs{"service": o.Service, "env": env, "at": minutes}); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, markSpanSQL, pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": span.From, "to": span.To}); err != nil {
			return err
		}
		return auditIn(ctx, tx, auth.Entry{At: now, Actor: actor, Action: "slo.recompute", Object: o.Service + "/" + o.ID + "/" + env,
			Detail: fmt.Sprintf("%s to %s, %d sums were wrong", span.From.Format(time.RFC3339), span.To.Format(time.RFC3339), len(wrong))})
	})
	if err != nil {
		return err
	}
	return s.RollUp(ctx)
}

const revisionsSQL = `
select id, service, '' as title, '' as owner, target_ppb, window_s, at as since, revision, text, terms, null::timestamptz as counted_at
from objective_revision where id = @id order by revision desc limit @limit`

// Revisions lists what an objective has promised, the latest first; Since is when
// each began.
func (s *Store) Revisions(ctx context.Context, id string, limit int) ([]slo.Objective, error) {
	rows, err := s.db.Query(ctx, revisionsSQL, pgx.StrictNamedArgs{"id": id, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("revisions of %s: %w", id, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[objectiveRow])
	if err != nil {
		return nil, fmt.Errorf("revisions of %s: %w", id, err)
	}
	out := make([]slo.Objective, len(found))
	for i, r := range found {
		if out[i], err = r.value(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Backtest runs o under p over what is kept: by minutes as far back as those are,
// else by hours. It says how fine it could look.
func (s *Store) Backtest(ctx context.Context, o slo.Objective, p slo.Policy, env string, from, to time.Time) (slo.Backtest, error) {
	if o.Spec().Indicator.Kind == slo.Composite {
		return slo.Backtest{}, fmt.Errorf("backtest %s: %w: composites are not replayed; replay their members", o.ID, slo.ErrTerms)
	}
	start, _, _ := o.At(from).Span(from)
	step := time.Minute
	if o.Sliced() {
		start = start.Add(-o.Spec().Indicator.Limit)
	}
	var oldest *time.Time
	err := s.db.QueryRow(ctx, `select min(at) from service_minute where service = @service and env = @env`,
		pgx.StrictNamedArgs{"service": o.Service, "env": env}).Scan(&oldest)
	if err != nil {
		return slo.Backtest{}, fmt.Errorf("backtest %s: %w", o.ID, err)
	}
	var firstHour *time.Time
	if err := s.db.QueryRow(ctx, `select min(at) from service_hour where service = @service and env = @env`,
		pgx.StrictNamedArgs{"service": o.Service, "env": env}).Scan(&firstHour); err != nil {
		return slo.Backtest{}, fmt.Errorf("backtest %s: %w", o.ID, err)
	}
	from, to = from.Truncate(time.Minute), to.Truncate(time.Minute)
	if oldest != nil && firstHour != nil && oldest.After(start) && firstHour.Before(oldest.Truncate(time.Hour)) {
		if o.Sliced() {
			return slo.Backtest{}, fmt.Errorf("backtest %s: %w: slices need minutes, which are kept from %s on only", o.ID, slo.ErrTerms, slo.Clock(*oldest))
		}
		step = time.Hour
		from, to, start = from.Truncate(time.Hour), to.Truncate(time.Hour), start.Truncate(time.Hour)
	}
	slots, err := series(ctx, s.db, o, env, start, to, step)
	if err != nil {
		return slo.Backtest{}, fmt.Errorf("backtest %s: %w", o.ID, err)
	}
	return slo.Try(o, p, slots, from, to, step), nil
}
