package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
	"breakwater/slo/alert"
)

// Only configurations that are newer than what is known are looked into.
const noteLabelsSQL = `
insert into endpoint_label (env, address, upstream, instance, rack, zone, at)
select distinct on (c.env, endpoint ->> 'address') c.env, endpoint ->> 'address', upstream ->> 'name',
    coalesce(endpoint ->> 'instance', ''), coalesce(endpoint ->> 'rack', ''), coalesce(endpoint ->> 'zone', ''), c.at
from (
    select env, at, (body #>> '{config,effective}')::jsonb as effective from (
        select env, at, body from event e
        where kind = 'config' and at > coalesce((select max(at) from endpoint_label l where l.env = e.env), '-infinity')
        offset 0 -- or the bodies of all, which are long, would be unpacked first
    ) e
    where body #>> '{config,effective}' like '{%'
) c, jsonb_path_query(c.effective, '$.upstreams[*]') upstream, jsonb_path_query(upstream, '$.endpoints[*]') endpoint
where endpoint ->> 'address' is not null
order by c.env, endpoint ->> 'address', c.at desc
on conflict (env, address) do update set upstream = excluded.upstream, instance = excluded.instance, rack = excluded.rack, zone = excluded.zone,
    at = excluded.at`

const (
	evidenceTotalSQL = `
select coalesce(sum(bad), 0)::bigint as bad, coalesce(sum(good + bad), 0)::bigint as total
from service_minute where service = @service and env = @env and at >= @from and at < @to`
	evidenceFacetsSQL = `
with facet as (
    select dimension, value, sum(bad)::bigint as bad, sum(good + bad)::bigint as total
    from facet_minute where service = @service and env = @env and at >= @from and at < @to
      and dimension in ('code', 'endpoint', 'caller', 'tenant', 'gateway')
    group by 1, 2
)
select dimension, value, bad, total from facet where dimension <> 'endpoint' and bad > 0
union all
select 'instance', case when coalesce(l.instance, '') = '' then f.value else l.instance end, sum(f.bad)::bigint, sum(f.total)::bigint
from facet f left join endpoint_label l on l.env = @env and l.address = f.value where f.dimension = 'endpoint' group by 2 having sum(f.bad) > 0
union all
select 'rack', l.rack, sum(f.bad)::bigint, sum(f.total)::bigint
from facet f join endpoint_label l on l.env = @env and l.address = f.value where f.dimension = 'endpoint' and l.rack <> '' group by 2 having sum(f.bad) > 0
union all
select 'route', route, sum(bad)::bigint, sum(good + bad)::bigint
from rollup_minute where service = @service and env = @env and at >= @from and at < @to group by 2 having sum(bad) > 0
order by 1, 2`
	evidenceUpstreamsSQL = `
select upstream as name,
    coalesce(sum(bad) filter (where at >= @from), 0)::bigint as bad, coalesce(sum(good + bad) filter (where at >= @from), 0)::bigint as total,
    coalesce(sum(bad) filter (where at < @from), 0)::bigint as was_bad, coalesce(sum(good + bad) filter (where at < @from), 0)::bigint as was_total
from rollup_minute where service = @service and env = @env and at >= @before and at < @to and upstream <> '' group by 1 order by 1`
	evidenceExperimentsSQL = `
select distinct experiment from rollup_minute where service = @service and env = @env and at >= @from and at < @to and experiment <> '' order by 1`
	evidenceCausesSQL = `
select distinct on (kind) service, env, kind, ref, title, from_at, to_at, actor from slo_cause
where kind in ('deploy', 'config') and (service = '' or service = @service) and (env = '' or env = @env) and from_at < @to
order by kind, from_at desc`
	// The last word on each thing that can turn. Of an upstream that several
	// services use, each has it; who uses what is read once, however many turned.
	turnsSQL = `
with turn as (
    select distinct on (t.env, t.service, t.policy, t.upstream, t.endpoint) t.* from (
        select env, at, service, body #>> '{transition,policy}' as policy, coalesce(body #>> '{transition,upstream}', '') as upstream,
            coalesce(body #>> '{transition,endpoint}', '') as endpoint, body #>> '{transition,to}' as to_state, body #>> '{transition,reason}' as reason
        from event where kind = 'transition' and at > @since and at <= @now
    ) t order by t.env, t.service, t.policy, t.upstream, t.endpoint, t.at desc
), uses as materialized (
    select distinct env, upstream, service from rollup_minute
    where at > @since and at <= @now and service <> '' and exists (select from turn where service = '' and upstream <> '')
)
select t.env, t.at, coalesce(nullif(t.service, ''), u.service, '') as service, t.policy, t.upstream, t.endpoint, t.to_state, t.reason
from turn t left join uses u on t.service = '' and t.upstream <> '' and u.env = t.env and u.upstream = t.upstream
order by 3, 1, 4, 5, 6`
)

// turnsFor is how far back a turn is looked for: what has been open for longer,
// without a probe that failed, stands in no event.
const turnsFor = 30 * time.Minute

type turnRow struct {
	Env      string
	At       time.Time
	Service  string
	Policy   string
	Upstream string
	Endpoint string
	ToState  string `db:"to_state"`
	Reason   string
}

// standing reports whether the thing is still turned away from what is normal.
func (t turnRow) standing() bool {
	return t.ToState == "open" || t.ToState == "half_open" || t.ToState == "full" || t.ToState == "ejected" || t.ToState == "shedding" ||
		t.Policy == "shed" && t.ToState != "none" && t.ToState != "normal" || t.Policy == "quota" && t.ToState != "shared"
}

// byMeasure reports whether it is the work of a protective measure of ours, which is
// no cause, and is told of by itself.
func (t turnRow) byMeasure() bool { return t.Policy == "shed" && t.Reason == "a measure" }

func (t turnRow) text() string {
	of := strings.Trim(t.Upstream+" "+t.Endpoint, " ")
	if of == "" {
		of = t.Service
	}
	return fmt.Sprintf("%s of %s is %s since %s: %s", t.Policy, of, strings.ReplaceAll(t.ToState, "_", "-"), slo.Clock(t.At), t.Reason)
}

type totalRow struct{ Bad, Total int64 }

type facetRow struct {
	Dimension, Value string
	Bad, Total       int64
}

type movedRow struct {
	Name       string
	Bad, Total int64
	WasBad     int64 `db:"was_bad"`
	WasTotal   int64 `db:"was_total"`
}

// Evidence is what was counted of a scope in the five minutes up to an instant, all
// of it from one snapshot, so that shares are of the same whole.
func (s *Store) Evidence(ctx context.Context, service, env string, until time.Time) (alert.Evidence, error) {
	to := until.Add(time.Minute - 1).Truncate(time.Minute)
	e := alert.Evidence{From: to.Add(-5 * time.Minute), To: to}
	args := func(more pgx.StrictNamedArgs) pgx.StrictNamedArgs {
		all := pgx.StrictNamedArgs{"service": service, "env": env, "to": to}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	from := pgx.StrictNamedArgs{"from": e.From}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, evidenceTotalSQL, args(from))
		if err != nil {
			return err
		}
		total, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[totalRow])
		if err != nil {
			return err
		}
		e.Bad, e.Total = total.Bad, total.Total
		if rows, err = tx.Query(ctx, evidenceFacetsSQL, args(from)); err != nil {
			return err
		}
		facets, err := pgx.CollectRows(rows, pgx.RowToStructByName[facetRow])
		if err != nil {
			return err
		}
		for _, f := range facets {
			e.Facets = append(e.Facets, alert.Facet(f))
		}
		if rows, err = tx.Query(ctx, evidenceUpstreamsSQL, args(pgx.StrictNamedArgs{"from": e.From, "before": e.From.Add(-time.Hour)})); err != nil {
			return err
		}
		moved, err := pgx.CollectRows(rows, pgx.RowToStructByName[movedRow])
		if err != nil {
			return err
		}
		for _, m := range moved {
			e.Upstreams = append(e.Upstreams, alert.Moved(m))
		}
		if rows, err = tx.Query(ctx, evidenceExperimentsSQL, args(from)); err != nil {
			return err
		}
		if e.Experiments, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, evidenceCausesSQL, args(nil)); err != nil {
			return err
		}
		causes, err := pgx.CollectRows(rows, pgx.RowToStructByName[causeRow])
		if err != nil {
			return err
		}
		for _, r := range causes {
			c := slo.Cause{Kind: slo.CauseKind(r.Kind), Service: r.Service, Env: r.Env, Ref: r.Ref, Title: r.Title, From: r.FromAt.UTC(), To: timeOf(r.ToAt), Actor: r.Actor}
			if c.Kind == slo.ByDeploy {
				e.Deploy = &c
			} else {
				e.Config = &c
			}
		}
		if rows, err = tx.Query(ctx, turnsSQL, pgx.StrictNamedArgs{"since": until.Add(-turnsFor), "now": until.Add(time.Minute)}); err != nil {
			return err
		}
		turns, err := pgx.CollectRows(rows, pgx.RowToStructByName[turnRow])
		if err != nil {
			return err
		}
		for _, t := range turns {
			if t.Service == service && t.Env == env && t.standing() && !t.byMeasure() {
				e.Protecting = append(e.Protecting, t.text())
			}
		}
		if rows, err = tx.Query(ctx, measuresLiveSQL); err != nil {
			return err
		}
		measures, err := measuresOf(rows)
		if err != nil {
			return err
		}
		for _, m := range measures {
			if m.Service == service && m.Env == env && !m.DryRun {
				e.Protecting = append(e.Protecting, fmt.Sprintf("%s since %s", m.Text(), slo.Clock(m.From)))
			}
		}
		return nil
	})
	if err != nil {
		return alert.Evidence{}, fmt.Errorf("evidence of %s: %w", service, err)
	}
	return e, nil
}
