package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/histogram"
	"breakwater/internal/retrylog"
	"breakwater/slo"
)

// Requests of an upstream and what of them was retried, in windows of five minutes;
// clean requests have neither status nor reason. Probes are in neither.
const healthSQL = `
select service, env, upstream, date_bin('5 minutes', at, '2000-01-01'::timestamptz) as at, 0::bigint as status, '' as reason,
    sum(exchanges - synthetic)::bigint as requests, 0::bigint as retried, 0::bigint as retries, 0::bigint as recovered, 0::bigint as failed
from rollup_minute where at >= @from and at < @to and upstream <> '' and (@env = '' or env = @env) and (@upstream = '' or upstream = @upstream)
group by 1, 2, 3, 4
union all
select service, env, upstream, date_bin('5 minutes', at, '2000-01-01'::timestamptz), status, reason,
    0, sum(retried)::bigint, sum(retries)::bigint, sum(succeeded)::bigint, sum(failed)::bigint
from retry_minute where at >= @from and at < @to and upstream <> '' and (@env = '' or env = @env) and (@upstream = '' or upstream = @upstream)
group by 1, 2, 3, 4, 5, 6
order by 3, 2, 4, 1, 5, 6`

type healthRow struct {
	Service   string
	Env       string
	Upstream  string
	At        time.Time
	Status    int64
	Reason    string
	Requests  int64
	Retried   int64
	Retries   int64
	Recovered int64
	Failed    int64
}

// HealthRows are the counts that health scores are made of, over [from, to); env
// and upstream may be empty for all.
func (s *Store) HealthRows(ctx context.Context, env, upstream string, from, to time.Time) ([]slo.HealthRow, error) {
	rows, err := s.db.Query(ctx, healthSQL, pgx.StrictNamedArgs{"env": env, "upstream": upstream, "from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("counts of retries: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[healthRow])
	if err != nil {
		return nil, fmt.Errorf("counts of retries: %w", err)
	}
	out := make([]slo.HealthRow, len(found))
	for i, r := range found {
		out[i] = slo.HealthRow{Service: r.Service, Env: r.Env, Upstream: r.Upstream, At: r.At.UTC(), Status: r.Status, Reason: r.Reason,
			Counts: slo.HealthCounts{Requests: r.Requests, Retried: r.Retried, Retries: r.Retries, Recovered: r.Recovered, Failed: r.Failed}}
	}
	return out, nil
}

// Latency without what faults added: it is to size timeouts by.
const upstreamLatencySQL = `
select histogram_sum(hist) as hist, coalesce(max(latency_max_us), 0)::bigint as max_us
from rollup_minute where at >= @from and at < @to and env = @env and upstream = @upstream and experiment = ''
  and (@all or service = any(@services::text[]))`

// Exchanges that were retried, of those that were kept.
const retriedEventsSQL = `
select body from event
where at >= @from and at < @to and kind = 'exchange' and env = @env and (@all or service = any(@services::text[]))
  and body #>> '{exchange,upstream}' = @upstream and jsonb_array_length(coalesce(body #> '{exchange,tries}', '[]')) > 1
order by at desc limit 2000`

// What gateways find of an upstream's fields stands in notices, each as "upstream: text".
const headerNoticesSQL = `
select distinct body #>> '{notice,detail}' as detail from event
where kind = 'notice' and at >= @from and at < @to and env = @env and body #>> '{notice,kind}' = 'header_never_seen'
  and starts_with(body #>> '{notice,detail}', @upstream || ': ')
order by 1 limit 20`

// HealthFacts is what the ledger knows of an upstream beside its counts: latency,
// retries one by one, and fields that never came, of services (nil: all).
func (s *Store) HealthFacts(ctx context.Context, env, upstream string, services []string, from, to time.Time) (slo.HealthFacts, error) {
	var f slo.HealthFacts
	args := pgx.StrictNamedArgs{"env": env, "upstream": upstream, "from": from, "to": to, "all": services == nil, "services": services}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		var bins histogram.Bins
		var maxUS int64
		if err := tx.QueryRow(ctx, upstreamLatencySQL, args).Scan((*[]int64)(&bins), &maxUS); err != nil {
			return fmt.Errorf("latency: %w", err)
		}
		if q := bins.Quantile(0.95, maxUS); !q.Empty {
			f.P95, f.P95Of, f.Over = time.Duration(q.US*float64(time.Microsecond)), bins.Count(), q.Over
		}
		rows, err := tx.Query(ctx, retriedEventsSQL, args)
		if err != nil {
			return fmt.Errorf("retried exchanges: %w", err)
		}
		bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return fmt.Errorf("retried exchanges: %w", err)
		}
		for _, body := range bodies {
			var r retrylog.Record
			if err := json.Unmarshal(body, &r); err != nil || r.Exchange == nil {
				return fmt.Errorf("an event of %s is not an exchange: %w", upstream, err)
			}
			f.Tries = append(f.Tries, retriesOf(r.Exchange)...)
		}
		// A finding is told once in the life of a gateway: it is looked for further back.
		rows, err = tx.Query(ctx, headerNoticesSQL, pgx.StrictNamedArgs{"env": env, "upstream": upstream, "from": to.Add(-7 * 24 * time.Hour), "to": to})
		if err != nil {
			return fmt.Errorf("notices: %w", err)
		}
		f.Headers, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return f, fmt.Errorf("what is known of %s: %w", upstream, err)
	}
	return f, nil
}

// retriesOf are the retries of an exchange. One is good if it was answered, and not
// by a failure.
func retriesOf(x *retrylog.Exchange) []slo.HealthTry {
	var out []slo.HealthTry
	var since time.Duration
	for n, t := range x.Tries {
		if n > 0 {
			since += time.Duration(t.WaitMS) * time.Millisecond
			out = append(out, slo.HealthTry{N: n, Wait: since, Good: t.Kind == "" && t.Status > 0 && t.Status < 500 && t.Status != 429 && strings.TrimSpace(t.Reason) == ""})
			since += time.Duration(t.LatencyUS) * time.Microsecond
		}
	}
	return out
}
