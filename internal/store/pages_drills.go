package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
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
