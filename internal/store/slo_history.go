package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

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
	all, err := s.Backtests(ctx, []slo.Objective{o}, p, env, from, to)
	if err != nil {
		return slo.Backtest{}, err
	}
	return all[0], nil
}

// Backtests is Backtest of several that differ in target and window alone: what was
// counted is read once, so that they are compared over the same counts.
func (s *Store) Backtests(ctx context.Context, all []slo.Objective, p slo.Policy, env string, from, to time.Time) ([]slo.Backtest, error) {
	o := all[0]
	if o.Spec().Indicator.Kind == slo.Composite {
		return nil, fmt.Errorf("backtest %s: %w: composites are not replayed; replay their members", o.ID, slo.ErrTerms)
	}
	start := from
	for _, x := range all {
		if at, _, _ := x.At(from).Span(from); at.Before(start) {
			start = at
		}
	}
	step := time.Minute
	if o.Sliced() {
		start = start.Add(-o.Spec().Indicator.Limit)
	}
	var oldest, firstHour *time.Time
	err := s.db.QueryRow(ctx, `select (select min(at) from service_minute where service = @service and env = @env), (select min(at) from service_hour where service = @service and env = @env)`,
		pgx.StrictNamedArgs{"service": o.Service, "env": env}).Scan(&oldest, &firstHour)
	if err != nil {
		return nil, fmt.Errorf("backtest %s: %w", o.ID, err)
	}
	from, to = from.Truncate(time.Minute), to.Truncate(time.Minute)
	if oldest != nil && firstHour != nil && oldest.After(start) && firstHour.Before(oldest.Truncate(time.Hour)) {
		if o.Sliced() {
			return nil, fmt.Errorf("backtest %s: %w: slices need minutes, which are kept from %s on only", o.ID, slo.ErrTerms, slo.Clock(*oldest))
		}
		step = time.Hour
		from, to, start = from.Truncate(time.Hour), to.Truncate(time.Hour), start.Truncate(time.Hour)
	}
	slots, err := series(ctx, s.db, o, env, start, to, step)
	if err != nil {
		return nil, fmt.Errorf("backtest %s: %w", o.ID, err)
	}
	out := make([]slo.Backtest, len(all))
	var wg sync.WaitGroup
	for i, x := range all {
		wg.Go(func() { out[i] = slo.Try(x, p, slots, from, to, step) })
	}
	wg.Wait()
	return out, nil
}
