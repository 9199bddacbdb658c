package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
	"breakwater/slo/now"
)

const nowMinutesSQL = `
select at, good, bad, throttled, exchanges, attempts, retried, recovered, first_try_bad, degraded, dep_timeouts, over_limit as slower
from service_minute where service = @service and env = @env and at >= @from and at < @to order by at`

const nowUntilSQL = `select max(until_at) from gateway where env = @env and last_ack > @alive`

// Failures that were kept one by one, by the second they ended in: when it began is
// told by them, how many by minutes.
const nowSecondsSQL = `
select date_trunc('second', at, 'UTC') as at, count(*)::bigint as failures
from event where service = @service and env = @env and kind = 'exchange' and at >= @from and at < @to
  and (body #>> '{exchange,outcome}' in ('upstream_failure', 'timeout', 'panic') or (body #>> '{exchange,status}')::int >= 500
       or (body #>> '{exchange,status}')::int in (0, 429))
group by 1 order by 1`

// Since the onset and before it, from the same rows; of tries also by what their
// endpoint is called.
const nowFacetsSQL = `
with facet as (
    select dimension, value,
        coalesce(sum(bad + throttled) filter (where at >= @onset), 0)::bigint as hits,
        coalesce(sum(case when dimension in ('kind', 'skip', 'try') then total else good + bad + throttled end) filter (where at >= @onset), 0)::bigint as total,
        coalesce(sum(bad + throttled) filter (where at < @onset), 0)::bigint as was_hits,
        coalesce(sum(case when dimension in ('kind', 'skip', 'try') then total else good + bad + throttled end) filter (where at < @onset), 0)::bigint as was_total
    from facet_minute where service = @service and env = @env and at >= @from and at < @to
      and dimension in ('code', 'caller', 'tenant', 'gateway', 'kind', 'skip', 'try')
    group by 1, 2
), named as (
    select coalesce(nullif(l.instance, ''), f.value) as instance, coalesce(l.rack, '') as rack, coalesce(l.zone, '') as zone,
        f.hits, f.total, f.was_hits, f.was_total
    from facet f left join endpoint_label l on l.env = @env and l.address = f.value where f.dimension = 'try'
)
select dimension, value, hits, total, was_hits, was_total, 0::bigint as degraded, 0::bigint as attempts, 0::bigint as was_tries
from facet where dimension <> 'try'
union all
select d.dimension, d.value, sum(hits)::bigint, sum(total)::bigint, sum(was_hits)::bigint, sum(was_total)::bigint, 0, 0, 0
from named n, lateral (values ('instance', n.instance), ('rack', n.rack), ('zone', n.zone)) as d (dimension, value)
where d.value <> '' group by 1, 2
union all
select d.dimension, d.value, coalesce(sum(bad + throttled) filter (where at >= @onset), 0)::bigint,
    coalesce(sum(good + bad + throttled) filter (where at >= @onset), 0)::bigint,
    coalesce(sum(bad + throttled) filter (where at < @onset), 0)::bigint,
    coalesce(sum(good + bad + throttled) filter (where at < @onset), 0)::bigint,
    coalesce(sum(degraded) filter (where at >= @onset), 0)::bigint,
    coalesce(sum(attempts) filter (where at >= @onset), 0)::bigint, coalesce(sum(attempts) filter (where at < @onset), 0)::bigint
from rollup_minute m, lateral (values ('route', m.route), ('upstream', m.upstream)) as d (dimension, value)
where service = @service and env = @env and at >= @from and at < @to and d.value <> '' group by 1, 2
order by 1, 2`

// Runs that touched requests since the onset, and those that inject now.
const nowExperimentsSQL = `
with touched as (
    select experiment as run, sum(bad + throttled)::bigint as hits, sum(good + bad + throttled)::bigint as touched
    from rollup_minute where service = @service and env = @env and at >= @onset and at < @to and experiment <> '' group by 1
)
select coalesce(t.run, r.id) as run, coalesce(r.title, '') as title, coalesce(r.service, '') as service, coalesce(t.hits, 0) as hits,
    coalesce(t.touched, 0) as touched, coalesce(r.state = 'injecting', false) as live, r.inject_at as since
from touched t full join (select id, title, service, state, inject_at from run where state = 'injecting' or id in (select run from touched)) r on r.id = t.run
order by 1`

// A service that this one calls is one that has it for a caller.
const nowDependenciesSQL = `
with calls as (
    select service,
        coalesce(sum(bad + throttled) filter (where at >= @onset), 0)::bigint as hits, coalesce(sum(good + bad + throttled) filter (where at >= @onset), 0)::bigint as total,
        coalesce(sum(bad + throttled) filter (where at < @onset), 0)::bigint as was_hits, coalesce(sum(good + bad + throttled) filter (where at < @onset), 0)::bigint as was_total
    from facet_minute where env = @env and dimension = 'caller' and value = @service and service <> @service and service <> '' and at >= @from and at < @to group by 1
)
select c.service, c.hits, c.total, c.was_hits, c.was_total, coalesce(m.hits, 0) as all_hits, coalesce(m.total, 0) as all_total,
    coalesce(m.was_hits, 0) as all_was_hits, coalesce(m.was_total, 0) as all_was_total
from calls c left join (
    select service, sum(bad + throttled) filter (where at >= @onset)::bigint as hits, sum(good + bad + throttled) filter (where at >= @onset)::bigint as total,
        sum(bad + throttled) filter (where at < @onset)::bigint as was_hits, sum(good + bad + throttled) filter (where at < @onset)::bigint as was_total
    from service_minute where env = @env and at >= @from and at < @to and service in (select service from calls) group by 1
) m on m.service = c.service
order by 1`

const nowKindsSQL = `
select service, value, sum(bad + throttled)::bigint as hits
from facet_minute where service = any(@services::text[]) and env = @env and dimension = 'kind' and at >= @onset and at < @to
group by 1, 2 order by 1, 2`

const nowMarksSQL = `
select service, env, kind, ref, title, from_at, to_at, actor from slo_cause
where (service = '' or service = @service or service = any(@services::text[])) and (env = '' or env = @env) and from_at <= @now
  and (case when kind = 'incident' then coalesce(to_at, 'infinity') else from_at end) > @since
order by from_at desc, kind, ref limit 50`

// The revisions served since an instant, and the one before each.
const nowRevisionsSQL = `
with served as (
    select at, body #>> '{config,revision}' as name, body #>> '{config,effective}' as document, gateway
    from event where kind = 'config' and env = @env and at <= @now and at > @week and coalesce(body #>> '{config,error}', '') = ''
      and body #>> '{config,revision}' <> ''
), first as (
    select distinct on (name) at, name, document from served where document like '{%' order by name, at
)
(select at, name, document from first where at > @since order by at desc limit 8)
union all
(select at, name, document from first where at <= @since order by at desc limit 1)
order by 1`

const nowTurnsSQL = `
with mine as (
    select distinct upstream from rollup_minute where service = @service and env = @env and at >= @from and at < @to and upstream <> ''
), turn as (
    select at, body #>> '{transition,policy}' as policy, coalesce(body #>> '{transition,upstream}', '') as upstream,
        coalesce(body #>> '{transition,endpoint}', '') as endpoint, coalesce(body #>> '{transition,from}', '') as from_state,
        body #>> '{transition,to}' as to_state, coalesce(body #>> '{transition,reason}', '') as reason
    from event where kind = 'transition' and env = @env and at > @since and at <= @now
      and (service = @service or service = '' and body #>> '{transition,upstream}' in (select upstream from mine))
)
select at, policy, upstream, endpoint, from_state, to_state, reason,
    row_number() over (partition by policy, upstream, endpoint order by at desc) = 1 as last
from turn order by at desc limit 200`

const nowToldSQL = `select text from alert_fact where service = @service and (env = '' or env = @env) and until_at > @now order by at desc, key limit 10`

type nowExperimentRow struct {
	Run, Title, Service string
	Hits, Touched       int64
	Live                bool
	Since               *time.Time
}

type nowDependencyRow struct {
	Service     string
	Hits        int64
	Total       int64
	WasHits     int64 `db:"was_hits"`
	WasTotal    int64 `db:"was_total"`
	AllHits     int64 `db:"all_hits"`
	AllTotal    int64 `db:"all_total"`
	AllWasHits  int64 `db:"all_was_hits"`
	AllWasTotal int64 `db:"all_was_total"`
}

type nowKindRow struct {
	Service, Value string
	Hits           int64
}

type nowTurnRow struct {
	At                         time.Time
	Policy, Upstream, Endpoint string
	FromState                  string `db:"from_state"`
	ToState                    string `db:"to_state"`
	Reason                     string
	Last                       bool
}

// NowEvidence gathers what is known of a service, all of it from one snapshot.
func (s *Store) NowEvidence(ctx context.Context, service, env string, at time.Time) (now.Evidence, error) {
	e := now.Evidence{Service: service, Env: env, At: at}
	if _, err := s.db.Exec(ctx, noteConfigsSQL); err != nil {
		return e, fmt.Errorf("note configurations: %w", err)
	}
	if err := s.snapshot(ctx, func(tx pgx.Tx) error { return gatherNow(ctx, tx, &e) }); err != nil {
		return now.Evidence{}, fmt.Errorf("what is known of %s: %w", service, err)
	}
	return e, nil
}

// list runs a query and collects its rows by name.
func list[T any](ctx context.Context, tx pgx.Tx, sql string, args pgx.StrictNamedArgs) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
}

func gatherNow(ctx context.Context, tx pgx.Tx, e *now.Evidence) (err error) {
	to := e.At.Add(time.Minute).Truncate(time.Minute)
	from := to.Add(-now.Looked)
	base := func(more pgx.StrictNamedArgs) pgx.StrictNamedArgs {
		all := pgx.StrictNamedArgs{"service": e.Service, "env": e.Env}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	if e.Minutes, err = list[now.Minute](ctx, tx, nowMinutesSQL, base(pgx.StrictNamedArgs{"from": from, "to": to})); err != nil {
		return err
	}
	for i := range e.Minutes {
		e.Minutes[i].At = e.Minutes[i].At.UTC()
	}
	var until *time.Time
	if err := tx.QueryRow(ctx, nowUntilSQL, pgx.StrictNamedArgs{"env": e.Env, "alive": e.At.Add(-silence)}).Scan(&until); err != nil {
		return err
	}
	e.Until = timeOf(until)
	span := now.Find(e.Minutes, e.At)
	window := pgx.StrictNamedArgs{"from": span.Before, "onset": span.Onset, "to": to}
	if e.Facets, err = list[now.Facet](ctx, tx, nowFacetsSQL, base(window)); err != nil {
		return err
	}
	if e.Seconds, err = list[now.Second](ctx, tx, nowSecondsSQL, base(pgx.StrictNamedArgs{"from": span.Onset.Add(-time.Minute), "to": span.Onset.Add(2 * time.Minute)})); err != nil {
		return err
	}
	for i := range e.Seconds {
		e.Seconds[i].At = e.Seconds[i].At.UTC()
	}
	runs, err := list[nowExperimentRow](ctx, tx, nowExperimentsSQL, base(pgx.StrictNamedArgs{"onset": span.Onset, "to": to}))
	if err != nil {
		return err
	}
	for _, r := range runs {
		e.Experiments = append(e.Experiments, now.Experiment{Run: r.Run, Title: r.Title, Service: r.Service, Hits: r.Hits, Touched: r.Touched, Live: r.Live, Since: timeOf(r.Since)})
	}
	services, err := gatherDependencies(ctx, tx, e, base(window), span)
	if err != nil {
		return err
	}
	since := span.Onset.Add(-slo.Suspect - time.Minute)
	marks, err := list[causeRow](ctx, tx, nowMarksSQL, base(pgx.StrictNamedArgs{"services": services, "now": e.At.Add(time.Minute), "since": since}))
	if err != nil {
		return err
	}
	for _, r := range marks {
		e.Marks = append(e.Marks, slo.Cause{Kind: slo.CauseKind(r.Kind), Service: r.Service, Env: r.Env, Ref: r.Ref, Title: r.Title, From: r.FromAt.UTC(), To: timeOf(r.ToAt), Actor: r.Actor})
	}
	if e.Revisions, err = list[now.Revision](ctx, tx, nowRevisionsSQL, pgx.StrictNamedArgs{"env": e.Env, "now": e.At.Add(time.Minute), "since": since, "week": e.At.Add(-7 * 24 * time.Hour)}); err != nil {
		return err
	}
	turns, err := list[nowTurnRow](ctx, tx, nowTurnsSQL, base(pgx.StrictNamedArgs{"from": span.Before, "to": to, "since": e.At.Add(-turnsFor), "now": e.At.Add(time.Minute)}))
	if err != nil {
		return err
	}
	for i := len(turns) - 1; i >= 0; i-- {
		t := turns[i]
		standing := turnRow{Policy: t.Policy, ToState: t.ToState}.standing()
		e.Turns = append(e.Turns, now.Turn{At: t.At.UTC(), Policy: t.Policy, Upstream: t.Upstream, Endpoint: t.Endpoint, From: t.FromState, To: t.ToState, Reason: t.Reason, Standing: t.Last && standing})
	}
	rows, err := tx.Query(ctx, nowToldSQL, base(pgx.StrictNamedArgs{"now": e.At}))
	if err != nil {
		return err
	}
	e.Told, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return err
}

func gatherDependencies(ctx context.Context, tx pgx.Tx, e *now.Evidence, args pgx.StrictNamedArgs, span now.Span) (services []string, err error) {
	services = []string{}
	rows, err := list[nowDependencyRow](ctx, tx, nowDependenciesSQL, args)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		services = append(services, r.Service)
		e.Dependencies = append(e.Dependencies, now.Dependency{Service: r.Service, Hits: r.Hits, Total: r.Total, WasHits: r.WasHits, WasTotal: r.WasTotal,
			AllHits: r.AllHits, AllTotal: r.AllTotal, AllWasHits: r.AllWasHits, AllWasTotal: r.AllWasTotal})
	}
	kinds, err := list[nowKindRow](ctx, tx, nowKindsSQL, pgx.StrictNamedArgs{"services": services, "env": e.Env, "onset": span.Onset, "to": args["to"]})
	if err != nil {
		return nil, err
	}
	for _, k := range kinds {
		for i := range e.Dependencies {
			if d := &e.Dependencies[i]; d.Service == k.Service {
				d.Kinds = append(d.Kinds, now.Facet{Dimension: now.ByKind, Value: k.Value, Hits: k.Hits, Total: k.Hits})
			}
		}
	}
	return services, nil
}
