package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/retrylog"
	"breakwater/slo/traffic"
)

// Changes of policies over a range, and the last one of each before it, as far back as
// a day: a breaker that has been open for longer tells so by probing. The newest ones
// count where there are more than can be drawn.
const policyTurnsSQL = `
with turn as (
    select at, gateway, env, service, t.policy, coalesce(t.upstream, '') as upstream, coalesce(t.endpoint, '') as endpoint,
        coalesce(t."from", '') as from_state, coalesce(t."to", '') as to_state, coalesce(t.reason, '') as reason
    from event cross join lateral jsonb_to_record(body -> 'transition') as t (policy text, upstream text, endpoint text, "from" text, "to" text, reason text)
    where kind = 'transition' and at >= @from::timestamptz - interval '1 day' and at < @to
), before as (
    select distinct on (policy, env, gateway, service, upstream, endpoint) * from turn where at < @from
    order by policy, env, gateway, service, upstream, endpoint, at desc
), within as (
    select * from turn where at >= @from order by at desc limit 5000
)
select * from before union all select * from within order by at`

type policyTurnRow struct {
	At                                                time.Time
	Gateway, Env, Service, Policy, Upstream, Endpoint string
	FromState                                         string `db:"from_state"`
	ToState                                           string `db:"to_state"`
	Reason                                            string
}

// PolicyTurns lists what policies did over [from, to), and the last thing that each did
// before, ascending.
func (s *Store) PolicyTurns(ctx context.Context, from, to time.Time) ([]retrylog.Transition, error) {
	rows, err := s.db.Query(ctx, policyTurnsSQL, pgx.StrictNamedArgs{"from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("changes of policies: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[policyTurnRow])
	if err != nil {
		return nil, fmt.Errorf("changes of policies: %w", err)
	}
	out := make([]retrylog.Transition, len(found))
	for i, r := range found {
		out[i] = retrylog.Transition{At: r.At.UTC(), Gateway: r.Gateway, Env: r.Env, Policy: r.Policy, Service: r.Service, Upstream: r.Upstream, Endpoint: r.Endpoint,
			From: r.FromState, To: r.ToState, Reason: r.Reason}
	}
	return out, nil
}

const livesSQL = `
select env, gateway, from_at, until_at from gateway_boot where until_at > @from and from_at < @to order by from_at`

type lifeRow struct {
	Env, Gateway string
	FromAt       time.Time `db:"from_at"`
	UntilAt      time.Time `db:"until_at"`
}

// Lives are the stretches of [from, to) over which gateways reported, one a process.
func (s *Store) Lives(ctx context.Context, from, to time.Time) ([]traffic.Life, error) {
	rows, err := s.db.Query(ctx, livesSQL, pgx.StrictNamedArgs{"from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("lives of gateways: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[lifeRow])
	if err != nil {
		return nil, fmt.Errorf("lives of gateways: %w", err)
	}
	out := make([]traffic.Life, len(found))
	for i, r := range found {
		out[i] = traffic.Life{Env: r.Env, Gateway: r.Gateway, From: r.FromAt.UTC(), To: r.UntilAt.UTC()}
	}
	return out, nil
}

// What the page of retries counts, of all that is counted: a sum for each row of six
// hours of every route.
const (
	tries    = `good, bad, neutral, first_try_bad, exchanges, attempts, retried, recovered`
	triesSum = `sum(good)::bigint as good, sum(bad)::bigint as bad, sum(neutral)::bigint as neutral, sum(first_try_bad)::bigint as first_try_bad,
    sum(exchanges)::bigint as exchanges, sum(attempts)::bigint as attempts, sum(retried)::bigint as retried, sum(recovered)::bigint as recovered`
)

// Whole hours from their sums, but for those that are to be summed anew; the minutes
// of these and of both edges.
const retryRoutesSQL = `
with dirty as (
    select distinct service, env, at from rollup_dirty where span = 'hour' and at >= @first and at < @last
)
select 0::bigint as n, service, env, route, upstream, ` + triesSum + `
from (
    select service, env, route, upstream, ` + tries + ` from rollup_minute where at >= @from and at < @first and route <> ''
    union all
    select service, env, route, upstream, ` + tries + ` from rollup_hour h where at >= @first and at < @last and route <> ''
      and (h.service, h.env, h.at) not in (select service, env, at from dirty)
    union all
    select service, env, route, upstream, ` + tries + ` from rollup_minute where at >= @last and at < @to and route <> ''
    union all
    select m.* from (select distinct at from dirty) d cross join lateral (
        select service, env, route, upstream, ` + tries + ` from rollup_minute
        where at >= d.at and at < d.at + interval '1 hour' and route <> ''
          and (service, env, date_trunc('hour', at, 'UTC')) in (select service, env, at from dirty)
        offset 0 -- a range of time for each hour; joined with the marks, a month would be hashed
    ) m
) as part
group by service, env, route, upstream order by service, route, upstream, env`

type retryRouteRow struct {
	tallyRow
	Service, Env, Route, Upstream string
}

// RetryRoutes counts every route over [from, to).
func (s *Store) RetryRoutes(ctx context.Context, from, to time.Time) ([]traffic.Route, error) {
	first, last := from.Add(time.Hour-1).Truncate(time.Hour), to.Truncate(time.Hour)
	if !first.Before(last) { // no whole hour in it
		first, last = to, to
	}
	rows, err := s.db.Query(ctx, retryRoutesSQL, pgx.StrictNamedArgs{"from": from, "to": to, "first": first, "last": last})
	if err != nil {
		return nil, fmt.Errorf("tries of routes: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[retryRouteRow])
	if err != nil {
		return nil, fmt.Errorf("tries of routes: %w", err)
	}
	out := make([]traffic.Route, len(found))
	for i, r := range found {
		out[i] = traffic.Route{Service: r.Service, Env: r.Env, Route: r.Route, Upstream: r.Upstream, Tally: r.value()}
	}
	return out, nil
}

const retryStepsSQL = `
select 0::bigint as n, date_bin(@step::interval, at, '2000-01-01'::timestamptz) as at, ` + triesSum + `
from service_minute where at >= @from and at < @to and (@service = '' or service = @service)
group by 2 order by 2`

type retryStepRow struct {
	tallyRow
	At time.Time
}

// RetrySteps counts the tries of a service, or of all where service is "", by steps of
// [from, to), ascending; a step without a request is not there.
func (s *Store) RetrySteps(ctx context.Context, service string, from, to time.Time, step time.Duration) ([]traffic.Minute, error) {
	rows, err := s.db.Query(ctx, retryStepsSQL, pgx.StrictNamedArgs{"service": service, "from": from, "to": to, "step": step})
	if err != nil {
		return nil, fmt.Errorf("tries over time: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[retryStepRow])
	if err != nil {
		return nil, fmt.Errorf("tries over time: %w", err)
	}
	out := make([]traffic.Minute, len(found))
	for i, r := range found {
		out[i] = traffic.Minute{At: r.At.UTC(), Tally: r.value()}
	}
	return out, nil
}

// What was retried stands by its reason; what was not, under the first reason why not.
const fatesSQL = `
select reason, true as retried, sum(retried)::bigint as count, sum(retries)::bigint as retries, sum(succeeded)::bigint as recovered, sum(failed)::bigint as failed
from retry_minute where at >= @from and at < @to and (@service = '' or service = @service) group by reason
union all
select value, false, sum(total)::bigint, 0, 0, 0
from facet_minute where dimension = 'skip' and at >= @from and at < @to and (@service = '' or service = @service) group by value
order by 2 desc, 3 desc, 1`

type fateRow struct {
	Reason                            string
	Retried                           bool
	Count, Retries, Recovered, Failed int64
}

// Fates tells what became of requests whose first try failed over [from, to).
func (s *Store) Fates(ctx context.Context, service string, from, to time.Time) ([]traffic.Fate, error) {
	rows, err := s.db.Query(ctx, fatesSQL, pgx.StrictNamedArgs{"service": service, "from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("fates of retries: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[fateRow])
	if err != nil {
		return nil, fmt.Errorf("fates of retries: %w", err)
	}
	out := make([]traffic.Fate, len(found))
	for i, r := range found {
		out[i] = traffic.Fate{Reason: r.Reason, Retried: r.Retried, Count: r.Count, Retries: r.Retries, Recovered: r.Recovered, Failed: r.Failed}
	}
	return traffic.Fates(out), nil
}

// A refusal names its policy before a colon; failures of upstreams have none.
const refusalsSQL = `
select service, env, split_part(value, ':', 1) as policy, substr(value, strpos(value, ':') + 1) as reason, sum(total)::bigint as count
from facet_minute where dimension = 'kind' and value like '%:%' and at >= @from and at < @to
group by 1, 2, 3, 4 order by 5 desc, 1, 3, 4 limit 200`

// Refusals counts what policies of gateways refused over [from, to), the most first.
func (s *Store) Refusals(ctx context.Context, from, to time.Time) ([]traffic.Refusal, error) {
	rows, err := s.db.Query(ctx, refusalsSQL, pgx.StrictNamedArgs{"from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("refusals: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[traffic.Refusal])
	if err != nil {
		return nil, fmt.Errorf("refusals: %w", err)
	}
	return found, nil
}
