package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/gateway/plan"
	"breakwater/injector"
)

const talliesSQL = `
select run, service, good, bad, attempts, injected, degraded from gateway_tally where gateway = @gateway and boot = @boot`

const forgetTalliesSQL = `delete from gateway_tally where gateway = @gateway and boot <> @boot`

const keepTallySQL = `
insert into gateway_tally (gateway, boot, run, service, good, bad, attempts, injected, degraded)
values (@gateway, @boot, @run, @service, @good, @bad, @attempts, @injected, @degraded)
on conflict (gateway, boot, run, service) do update set
    good = excluded.good, bad = excluded.bad, attempts = excluded.attempts, injected = excluded.injected,
    degraded = excluded.degraded`

const addTallySQL = `
insert into run_tally (service, run, at, good, bad, attempts, injected, degraded)
values (@service, @run, @at, @good, @bad, @attempts, @injected, @degraded)
on conflict (service, run, at) do update set good = run_tally.good + excluded.good, bad = run_tally.bad + excluded.bad,
    attempts = run_tally.attempts + excluded.attempts, injected = run_tally.injected + excluded.injected,
    degraded = run_tally.degraded + excluded.degraded`

// tally adds to the series what r's counts have gained. The first word of a
// process is where counting begins: nobody knows when its counts were made.
// The caller holds the lock on the gateway's row.
func tally(ctx context.Context, tx pgx.Tx, now time.Time, r plan.Receipt, known bool) error {
	if !known {
		if _, err := tx.Exec(ctx, forgetTalliesSQL, pgx.StrictNamedArgs{"gateway": r.Gateway, "boot": r.Boot}); err != nil {
			return fmt.Errorf("forget tallies: %w", err)
		}
	}
	rows, err := tx.Query(ctx, talliesSQL, pgx.StrictNamedArgs{"gateway": r.Gateway, "boot": r.Boot})
	if err != nil {
		return fmt.Errorf("read tallies: %w", err)
	}
	type key struct{ run, service string }
	kept := map[key]plan.Tally{}
	var t plan.Tally
	_, err = pgx.ForEachRow(rows, []any{&t.Run, &t.Service, &t.Good, &t.Bad, &t.Attempts, &t.Injected, &t.Degraded}, func() error {
		kept[key{t.Run, t.Service}] = t
		return nil
	})
	if err != nil {
		return fmt.Errorf("read tallies: %w", err)
	}
	var batch pgx.Batch
	for _, t := range r.Tallies {
		old := kept[key{t.Run, t.Service}]
		// An answer that comes late and tells less than is known changes nothing.
		gained := plan.Tally{
			Good: max(t.Good-old.Good, 0), Bad: max(t.Bad-old.Bad, 0),
			Attempts: max(t.Attempts-old.Attempts, 0), Injected: max(t.Injected-old.Injected, 0),
			Degraded: max(t.Degraded-old.Degraded, 0),
		}
		if gained == (plan.Tally{}) {
			continue
		}
		batch.Queue(keepTallySQL, pgx.StrictNamedArgs{
			"gateway": r.Gateway, "boot": r.Boot, "run": t.Run, "service": t.Service,
			"good": old.Good + gained.Good, "bad": old.Bad + gained.Bad,
			"attempts": old.Attempts + gained.Attempts, "injected": old.Injected + gained.Injected,
			"degraded": old.Degraded + gained.Degraded,
		})
		if known {
			batch.Queue(addTallySQL, pgx.StrictNamedArgs{
				"service": t.Service, "run": t.Run, "at": now.Truncate(time.Second),
				"good": gained.Good, "bad": gained.Bad, "attempts": gained.Attempts, "injected": gained.Injected, "degraded": gained.Degraded,
			})
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("add tallies: %w", err)
	}
	return nil
}

const seriesSQL = `
select at, good, bad, attempts, injected, degraded from run_tally
where service = @service and run = @run and at > @since and at <= @until order by at`

// Tallies returns what gateways counted over (since, until].
func (s *Store) Tallies(ctx context.Context, service, run string, since, until time.Time) ([]injector.Point, error) {
	rows, err := s.db.Query(ctx, seriesSQL, pgx.StrictNamedArgs{"service": service, "run": run, "since": since, "until": until})
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", service, err)
	}
	points, err := pgx.CollectRows(rows, pgx.RowToStructByName[injector.Point])
	if err != nil {
		return nil, fmt.Errorf("read the series of %s: %w", service, err)
	}
	for i := range points {
		points[i].At = points[i].At.UTC()
	}
	return points, nil
}

const latenciesSQL = `
select histogram_sum(hist) from rollup_minute where service = @service and at >= @since and at < @until`

// Latencies merges the bins of the whole minutes within [since, until): a minute
// that reaches over an edge of a phase would mix what must be told apart.
func (s *Store) Latencies(ctx context.Context, service string, since, until time.Time) ([]int64, error) {
	from, to := wholeMinutes(since, until)
	var bins []int64
	err := s.db.QueryRow(ctx, latenciesSQL, pgx.StrictNamedArgs{"service": service, "since": from, "until": to}).Scan(&bins)
	if err != nil {
		return nil, fmt.Errorf("read latencies of %s: %w", service, err)
	}
	return bins, nil
}

const triesSQL = `
select coalesce(sum(exchanges), 0)::bigint, coalesce(sum(attempts), 0)::bigint
from rollup_minute where service = @service and at >= @since and at < @until`

// Tries counts requests and their tries over the whole minutes within [since, until).
func (s *Store) Tries(ctx context.Context, service string, since, until time.Time) (exchanges, attempts int64, err error) {
	from, to := wholeMinutes(since, until)
	err = s.db.QueryRow(ctx, triesSQL, pgx.StrictNamedArgs{"service": service, "since": from, "until": to}).Scan(&exchanges, &attempts)
	if err != nil {
		return 0, 0, fmt.Errorf("count tries of %s: %w", service, err)
	}
	return exchanges, attempts, nil
}

func wholeMinutes(since, until time.Time) (from, to time.Time) {
	from = since.Truncate(time.Minute)
	if from.Before(since) {
		from = from.Add(time.Minute)
	}
	return from, until.Truncate(time.Minute)
}

// The course of a run stays; what surrounds no run goes after a day.
const pruneTalliesSQL = `
delete from run_tally t where t.at < @old or t.at < @day and t.run = '' and not exists (
    select 1 from run r where r.started_at - interval '2 minutes' <= t.at
      and t.at <= coalesce(r.ended_at, @now) + interval '2 minutes')`

// PruneTallies drops tallies that no page or decision reads any more.
func (s *Store) PruneTallies(ctx context.Context, now time.Time) error {
	_, err := s.db.Exec(ctx, pruneTalliesSQL, pgx.StrictNamedArgs{
		"now": now, "day": now.Add(-24 * time.Hour), "old": now.Add(-180 * 24 * time.Hour)})
	if err != nil {
		return fmt.Errorf("prune tallies: %w", err)
	}
	return nil
}
