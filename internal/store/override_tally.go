package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/freeze"
)

// The rows of the chain name the override alone; whose it is stands beside them. What
// somebody was refused names a service or an override, and is no override.
const overrideMovesSQL = `
select a.action, a.actor, a.at, o.service, o.env, o.asked_by
from audit a join freeze_override o on o.id = a.object
where a.action in ('override.ask', 'override.grant', 'override.use', 'override.revoke') and a.at >= @since and a.at < @until
order by a.seq`

type overrideMoveRow struct {
	Action  string
	Actor   string
	At      time.Time
	Service string
	Env     string
	AskedBy string `db:"asked_by"`
}

// OverrideMoves reads what the audit says of overrides in [since, until).
func (s *Store) OverrideMoves(ctx context.Context, since, until time.Time) ([]freeze.OverrideMove, error) {
	rows, err := s.db.Query(ctx, overrideMovesSQL, pgx.StrictNamedArgs{"since": since, "until": until})
	if err != nil {
		return nil, fmt.Errorf("overrides in the audit: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[overrideMoveRow])
	if err != nil {
		return nil, fmt.Errorf("overrides in the audit: %w", err)
	}
	out := make([]freeze.OverrideMove, len(found))
	for i, r := range found {
		out[i] = freeze.OverrideMove(r)
		out[i].At = r.At.UTC()
	}
	return out, nil
}
