package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/freeze"
)

const failuresSQL = `
select service, env, upstream, sum(bad)::bigint as bad, (sum(sum(bad)) over (partition by service, env))::bigint as total
from rollup_minute where service = any(@services) and at >= @since and bad > 0 group by 1, 2, 3 order by 1, 2, 3`

// FailuresByUpstream counts the failures of services since an instant, by upstream; ""
// is no upstream: a refusal of ours.
func (s *Store) FailuresByUpstream(ctx context.Context, services []string, since time.Time) ([]freeze.Failures, error) {
	rows, err := s.db.Query(ctx, failuresSQL, pgx.StrictNamedArgs{"services": services, "since": since})
	if err != nil {
		return nil, fmt.Errorf("failures by upstream: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[freeze.Failures])
	if err != nil {
		return nil, fmt.Errorf("failures by upstream: %w", err)
	}
	return out, nil
}
