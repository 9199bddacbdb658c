package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
	"breakwater/slo"
)

const dayDecisionsSQL = `
select o.schedule, o.scheduled_for, o.decided_at, o.skipped, o.detail,
    coalesce((select array_agg(r.id order by r.seq) from run r where r.schedule = o.schedule and r.planned_at = o.scheduled_for), '{}') as runs
from schedule s cross join lateral (
    select schedule, scheduled_for, decided_at, skipped, detail from occurrence
    where schedule = s.id and scheduled_for >= @since and scheduled_for < @until order by scheduled_for desc limit @each
) o order by o.scheduled_for desc, o.schedule`

// dayDecisionsEach bounds what one schedule of every minute brings to a calendar.
const dayDecisionsEach = 800

// DayDecisions lists what was decided about the due instants of all schedules in [since,
// until), newest first; of each schedule the newest ones.
func (s *Store) DayDecisions(ctx context.Context, since, until time.Time) ([]injector.Occurrence, error) {
	rows, err := s.db.Query(ctx, dayDecisionsSQL, pgx.StrictNamedArgs{"since": since, "until": until, "each": dayDecisionsEach})
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[occurrenceRow])
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	out := make([]injector.Occurrence, len(found))
	for i, o := range found {
		out[i] = o.occurrence()
	}
	return out, nil
}

const dayMarksSQL = `
select service, env, kind, ref, title, from_at, to_at, actor
from slo_cause
where kind in ('deploy', 'incident') and from_at < @until and from_at >= @since
order by from_at desc, service, ref limit 200`

// DayMarks lists the deploys and incidents of all services that began in [since,
// until), newest first.
func (s *Store) DayMarks(ctx context.Context, since, until time.Time) ([]slo.Cause, error) {
	rows, err := s.db.Query(ctx, dayMarksSQL, pgx.StrictNamedArgs{"since": since, "until": until})
	if err != nil {
		return nil, fmt.Errorf("list deploys and incidents: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[causeRow])
	if err != nil {
		return nil, fmt.Errorf("list deploys and incidents: %w", err)
	}
	out := make([]slo.Cause, len(found))
	for i, r := range found {
		out[i] = slo.Cause{Kind: slo.CauseKind(r.Kind), Service: r.Service, Env: r.Env, Ref: r.Ref, Title: r.Title, From: r.FromAt.UTC(), To: timeOf(r.ToAt), Actor: r.Actor}
	}
	return out, nil
}
