package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/traffic"
)

const heatSQL = `
select date_bin(@step::interval, at, '2000-01-01'::timestamptz) as at, histogram_sum(hist) as hist, max(latency_max_us)::bigint as max_us
from rollup_minute where service = @service and env = @env and at >= @from and at < @to group by 1 order by 1`

type heatRow struct {
	At    time.Time
	Hist  []int64
	MaxUS int64 `db:"max_us"`
}

// Heat counts the latencies of a service's valid requests by steps of [from, to).
func (s *Store) Heat(ctx context.Context, service, env string, from, to time.Time, step time.Duration) ([]traffic.HeatStep, error) {
	rows, err := s.db.Query(ctx, heatSQL, pgx.StrictNamedArgs{"service": service, "env": env, "from": from, "to": to, "step": step})
	if err != nil {
		return nil, fmt.Errorf("latencies of %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[heatRow])
	if err != nil {
		return nil, fmt.Errorf("latencies of %s: %w", service, err)
	}
	out := make([]traffic.HeatStep, len(found))
	for i, r := range found {
		out[i] = traffic.HeatStep{At: r.At.UTC(), Hist: r.Hist, MaxUS: r.MaxUS}
	}
	return out, nil
}

// Who calls a service, whom it calls, and by which codes it fails. A call names the
// service that makes it as its caller.
const aroundSQL = `
(select 'caller' as side, value as name, sum(bad)::bigint as bad, sum(total)::bigint as total
 from facet_minute where service = @service and env = @env and dimension = 'caller' and at >= @from and at < @to group by value order by 4 desc, 2 limit 8)
union all
(select 'calls', service, sum(bad)::bigint, sum(total)::bigint
 from facet_minute where dimension = 'caller' and value = @service and service <> @service and service <> '' and env = @env and at >= @from and at < @to group by service order by 4 desc, 2 limit 8)
union all
(select dimension, value, sum(bad)::bigint, sum(total)::bigint
 from facet_minute where service = @service and env = @env and dimension in ('code', 'kind') and at >= @from and at < @to group by dimension, value having sum(bad) > 0 order by 3 desc, 2 limit 12)`

// Around is what stands around a service over [from, to).
func (s *Store) Around(ctx context.Context, service, env string, from, to time.Time) ([]traffic.Beside, error) {
	rows, err := s.db.Query(ctx, aroundSQL, pgx.StrictNamedArgs{"service": service, "env": env, "from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("what stands around %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[traffic.Beside])
	if err != nil {
		return nil, fmt.Errorf("what stands around %s: %w", service, err)
	}
	return found, nil
}
