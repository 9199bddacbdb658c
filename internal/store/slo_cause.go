package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
)

const addCauseSQL = `
insert into slo_cause (service, env, kind, ref, title, from_at, to_at, actor, at)
values (@service, @env, @kind, @ref, @title, @from, @to, @actor, @at)
on conflict (service, env, kind, ref, from_at) do update set title = excluded.title, to_at = excluded.to_at`

// AddCause notes a deploy or an incident; noting it again, with its end or another
// title, changes it. A deploy that is noted is done, so it is under way no more.
func (s *Store) AddCause(ctx context.Context, c slo.Cause, at time.Time) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		told, err := endedBy(ctx, tx, c, at)
		if err != nil || told {
			return err
		}
		if _, err := tx.Exec(ctx, addCauseSQL, pgx.StrictNamedArgs{"service": c.Service, "env": c.Env, "kind": string(c.Kind), "ref": c.Ref,
			"title": c.Title, "from": c.From, "to": timeOrNull(c.To), "actor": c.Actor, "at": at}); err != nil {
			return err
		}
		return auditIn(ctx, tx, auth.Entry{At: at, Actor: c.Actor, Action: string(c.Kind) + ".note", Object: c.Service + "/" + c.Ref, Detail: c.Title})
	})
	if err != nil {
		return fmt.Errorf("note %s %s: %w", c.Kind, c.Ref, err)
	}
	return nil
}

// A configuration is a cause from the swap that first served it: events are kept
// for a week, what they say of failures as long as those. Of several gateways that
// swap one after the other, the first says when.
const noteConfigsSQL = `
with known as (
    select env, ref, from_at from slo_cause where kind = 'config'
), fresh as (
    select env, at, body #>> '{config,revision}' as revision from (
        select env, at, body from event e
        where kind = 'config' and at > coalesce((select max(from_at) from known k where k.env = e.env), '-infinity')
        offset 0 -- or the bodies of all, which are long, would be unpacked first
    ) e
    where coalesce(body #>> '{config,error}', '') = '' and body #>> '{config,revision}' <> ''
), changed as (
    select env, at, revision, lag(revision) over (partition by env order by at, revision) as before from fresh
)
insert into slo_cause (service, env, kind, ref, title, from_at, to_at, actor, at)
select '', env, 'config', revision, 'configuration ' || revision, at, null, 'gateway', at
from changed c
where revision <> coalesce(before, (select ref from known k where k.env = c.env order by from_at desc limit 1), '')
on conflict do nothing`

const causesSQL = `
select service, env, kind, ref, title, from_at, to_at, actor
from slo_cause
where (service = '' or service = @service) and (env = '' or env = @env) and from_at < @until
  and (case when kind = 'incident' then coalesce(to_at, 'infinity') else coalesce(to_at, from_at) + @suspect::interval end) > @since
order by from_at, ref`

type causeRow struct {
	Service string
	Env     string
	Kind    string
	Ref     string
	Title   string
	FromAt  time.Time  `db:"from_at"`
	ToAt    *time.Time `db:"to_at"`
	Actor   string
}

// Minutes with failures are told by the sums of the service; only those an
// experiment touched are looked for among its routes.
const failedByExperimentSQL = `
select 0::bigint as n, m.at, m.experiment, ` + sums + `
from (
    select at from service_minute where service = @service and env = @env and at >= @from and at < @to and chaos_good + chaos_bad > 0
) d
join rollup_minute m on m.service = @service and m.env = @env and m.at = d.at and m.experiment <> ''
group by m.at, m.experiment order by m.at, m.experiment`

type failedRow struct {
	tallyRow
	At         time.Time
	Experiment string
}

// Attribution puts every bad event of o within [from, to) down to one cause. It
// reaches as far back as minutes are kept, and tells how many events were bad.
func (s *Store) Attribution(ctx context.Context, o slo.Objective, env string, from, to time.Time) ([]slo.Portion, error) {
	if o.Sliced() || o.Spec().Indicator.Kind == slo.Composite {
		return nil, fmt.Errorf("attribution of %s: %w: only of an objective on requests", o.ID, slo.ErrTerms)
	}
	var failed []slo.Failed
	var causes []slo.Cause
	if _, err := s.db.Exec(ctx, noteConfigsSQL); err != nil {
		return nil, fmt.Errorf("note configurations: %w", err)
	}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		minutes, err := series(ctx, tx, o, env, from, to, time.Minute)
		if err != nil {
			return err
		}
		left := map[time.Time]int64{}
		for _, m := range minutes {
			if m.Bad > 0 {
				left[m.At] = m.Bad
			}
		}
		rows, err := tx.Query(ctx, failedByExperimentSQL, pgx.StrictNamedArgs{"service": o.Service, "env": env, "from": from, "to": to})
		if err != nil {
			return err
		}
		tagged, err := pgx.CollectRows(rows, pgx.RowToStructByName[failedRow])
		if err != nil {
			return err
		}
		_, bad, _ := o.Forms()
		for _, r := range tagged {
			n := min(bad.Of(r.value()), left[r.At.UTC()])
			failed = append(failed, slo.Failed{At: r.At.UTC(), Experiment: r.Experiment, Bad: n})
			left[r.At.UTC()] -= n
		}
		for at, n := range left {
			failed = append(failed, slo.Failed{At: at, Bad: n})
		}
		rows, err = tx.Query(ctx, causesSQL, pgx.StrictNamedArgs{"service": o.Service, "env": env, "since": from, "until": to, "suspect": slo.Suspect})
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[causeRow])
		if err != nil {
			return err
		}
		for _, r := range found {
			causes = append(causes, slo.Cause{Kind: slo.CauseKind(r.Kind), Service: r.Service, Env: r.Env, Ref: r.Ref, Title: r.Title,
				From: r.FromAt.UTC(), To: timeOf(r.ToAt), Actor: r.Actor})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("attribution of %s: %w", o.ID, err)
	}
	return slo.Attribute(failed, causes), nil
}
