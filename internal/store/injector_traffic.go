package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/retrylog"
)

// Endpoints have breakers of their own; a service's names none.
const breakerSQL = `
select at, gateway, body->'transition'->>'from' as "from", body->'transition'->>'to' as "to", body->'transition'->>'reason' as reason
from event
where service = @service and at > @since and at <= @until and kind = 'transition'
  and body->'transition'->>'policy' = 'breaker' and coalesce(body->'transition'->>'endpoint', '') = ''
order by at desc, gateway limit 10000`

// BreakerTurns lists what the breaker of a service did over (since, until].
func (s *Store) BreakerTurns(ctx context.Context, service string, since, until time.Time) ([]injector.Transition, error) {
	rows, err := s.db.Query(ctx, breakerSQL, pgx.StrictNamedArgs{"service": service, "since": since, "until": until})
	if err != nil {
		return nil, fmt.Errorf("read what the breaker of %s did: %w", service, err)
	}
	newest, err := pgx.CollectRows(rows, pgx.RowToStructByName[injector.Transition])
	if err != nil {
		return nil, fmt.Errorf("read what the breaker of %s did: %w", service, err)
	}
	out := make([]injector.Transition, len(newest))
	for i, t := range newest {
		t.At = t.At.UTC()
		out[len(newest)-1-i] = t
	}
	return out, nil
}

const heardSQL = `select gateway, max(until_at) from gateway group by gateway`

// Heard is how far the events of each gateway reach.
func (s *Store) Heard(ctx context.Context) (map[string]time.Time, error) {
	rows, err := s.db.Query(ctx, heardSQL)
	if err != nil {
		return nil, fmt.Errorf("read how far events reach: %w", err)
	}
	out := map[string]time.Time{}
	var gateway string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&gateway, &at}, func() error {
		out[gateway] = at.UTC()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how far events reach: %w", err)
	}
	return out, nil
}

const cohortPartsSQL = `
select coalesce(sum(good) filter (where @all or route = any(@routes)), 0)::bigint,
    coalesce(sum(bad) filter (where @all or route = any(@routes)), 0)::bigint,
    coalesce(sum(degraded) filter (where @all or route = any(@routes)), 0)::bigint,
    coalesce(sum(good) filter (where not (@all or route = any(@routes))), 0)::bigint,
    coalesce(sum(bad) filter (where not (@all or route = any(@routes))), 0)::bigint,
    coalesce(sum(degraded) filter (where not (@all or route = any(@routes))), 0)::bigint
from rollup_minute where service = @service and experiment = '' and at >= @since and at < @until`

// Parts counts what no fault touched, in the whole minutes within [since, until).
func (s *Store) Parts(ctx context.Context, service string, routes []string, since, until time.Time) (control, unmatched injector.Part, err error) {
	from, to := wholeMinutes(since, until)
	err = s.db.QueryRow(ctx, cohortPartsSQL, routeArgs(service, routes, from, to)).Scan(
		&control.Good, &control.Bad, &control.Degraded, &unmatched.Good, &unmatched.Bad, &unmatched.Degraded)
	if err != nil {
		return control, unmatched, fmt.Errorf("count the cohorts of %s: %w", service, err)
	}
	return control, unmatched, nil
}

func routeArgs(service string, routes []string, since, until time.Time) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"service": service, "all": len(routes) == 0, "routes": append([]string{}, routes...), "since": since, "until": until}
}

const trafficSQL = `
select coalesce(sum(good + bad), 0)::bigint, coalesce(sum(good + bad) filter (where @all or route = any(@routes)), 0)::bigint
from rollup_minute where service = @service and at >= @since and at < @until`

// Of tenants and callers, the dimension that tells more of them apart.
const usersSQL = `
select dimension, sum(total)::bigint from facet_minute
where service = @service and at >= @since and at < @until and dimension in ('tenant', 'caller') and value <> 'other'
group by dimension, value order by dimension, value`

// Traffic is what came in over the minutes within [since, until).
func (s *Store) Traffic(ctx context.Context, service string, routes []string, since, until time.Time) (scenario.Traffic, error) {
	t := scenario.Traffic{Span: until.Sub(since)}
	err := s.db.QueryRow(ctx, trafficSQL, routeArgs(service, routes, since, until)).Scan(&t.Requests, &t.Matched)
	if err != nil {
		return t, fmt.Errorf("count the traffic of %s: %w", service, err)
	}
	rows, err := s.db.Query(ctx, usersSQL, pgx.StrictNamedArgs{"service": service, "since": since, "until": until})
	if err != nil {
		return t, fmt.Errorf("count the users of %s: %w", service, err)
	}
	by := map[string][]int64{}
	var dimension string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&dimension, &n}, func() error {
		by[dimension] = append(by[dimension], n)
		return nil
	})
	if err != nil {
		return t, fmt.Errorf("count the users of %s: %w", service, err)
	}
	if t.Users = by["tenant"]; len(t.Users) == 0 {
		t.Users = by["caller"]
	}
	return t, nil
}

// Hours are summed once they are over, and minutes hold the rest.
const matchedSQL = `
select (select coalesce(sum(good + bad + neutral), 0) from rollup_hour
        where service = @service and at >= @since and at < @until and (@all or route = any(@routes)))::bigint
     + (select coalesce(sum(good + bad + neutral), 0) from rollup_minute
        where service = @service and at >= @until and (@all or route = any(@routes)))::bigint`

// Matched counts requests to the routes of a service since then, within an hour at
// the beginning.
func (s *Store) Matched(ctx context.Context, service string, routes []string, since time.Time) (int64, error) {
	var n int64
	lately := since.Add(7*24*time.Hour - 3*time.Hour).Truncate(time.Hour)
	if err := s.db.QueryRow(ctx, matchedSQL, routeArgs(service, routes, since.Truncate(time.Hour), lately)).Scan(&n); err != nil {
		return 0, fmt.Errorf("count what matches of %s: %w", service, err)
	}
	return n, nil
}

const hitTenantsSQL = `
select count(distinct body->'exchange'->>'tenant') from event where experiment = @run and kind = 'exchange'`

// HitTenants counts the tenants in the events that are kept of a run: at least so
// many were hit.
func (s *Store) HitTenants(ctx context.Context, run string) (int64, error) {
	var n int64
	if err := s.db.QueryRow(ctx, hitTenantsSQL, pgx.StrictNamedArgs{"run": run}).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the tenants hit by %s: %w", run, err)
	}
	return n, nil
}

const hitRequestsSQL = `
select body from event where experiment = @run and kind = 'exchange' order by at desc, request_id limit @limit`

// HitRequests returns requests that a run touched, as far as they are kept.
func (s *Store) HitRequests(ctx context.Context, run string, limit int) ([]retrylog.Exchange, error) {
	rows, err := s.db.Query(ctx, hitRequestsSQL, pgx.StrictNamedArgs{"run": run, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("read what run %s touched: %w", run, err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read what run %s touched: %w", run, err)
	}
	out := make([]retrylog.Exchange, 0, len(bodies))
	for _, b := range bodies {
		var r retrylog.Record
		if err := json.Unmarshal(b, &r); err != nil || r.Exchange == nil {
			return nil, fmt.Errorf("an event of run %s is not an exchange: %w", run, errors.Join(err))
		}
		out = append(out, *r.Exchange)
	}
	return out, nil
}

const lockEndedSQL = `select ended_at is not null from run where id = @run for update`

// DeleteRun removes a run that has ended, with its receipts, log and series.
func (s *Store) DeleteRun(ctx context.Context, run string) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		args := pgx.StrictNamedArgs{"run": run}
		var ended bool
		switch err := tx.QueryRow(ctx, lockEndedSQL, args).Scan(&ended); {
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("run %s: %w", run, injector.ErrNotFound)
		case err != nil:
			return fmt.Errorf("delete run %s: %w", run, err)
		case !ended:
			return fmt.Errorf("run %s has not ended: %w", run, injector.ErrStep)
		}
		for _, statement := range []string{
			`delete from run_event where run = @run`, `delete from run_receipt where run = @run`,
			`delete from run_tally where run = @run and run <> ''`, `delete from run where id = @run`,
		} {
			if _, err := tx.Exec(ctx, statement, args); err != nil {
				return fmt.Errorf("delete run %s: %w", run, err)
			}
		}
		return hint(ctx, tx)
	})
}
