package store

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/ingest"
)

// One statement for all rows: what hangs on the table then runs once a batch.
// Histograms differ in length, which no array of arrays allows, so they come as one
// list, and each row says which part of it is its own. They are added as
// histogram_add does; calling it a thousand times would cost a third of the
// statement. A histogram that is long even when packed, of latencies all over the
// range, is packed every few times only.
const addMinutesSQL = `
insert into rollup_minute as m (service, env, route, upstream, experiment, at,
    good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
    dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered, latency_us,
    sampled, sample_var_good, sample_var_bad, limit_us, latency_max_us, hist)
select service, env, route, upstream, experiment, at,
    good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
    dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered, latency_us,
    sampled, sample_var_good, sample_var_bad, limit_us, latency_max_us, (@bins::bigint[])[first_bin:last_bin]
from unnest(@service::text[], @env::text[], @route::text[], @upstream::text[], @experiment::text[], @at::timestamptz[],
    @good::bigint[], @bad::bigint[], @neutral::bigint[], @throttled::bigint[], @aborted::bigint[],
    @synthetic::bigint[], @bad_local::bigint[], @degraded::bigint[], @chaos_good::bigint[], @chaos_bad::bigint[],
    @first_try_bad::bigint[], @dep_timeouts::bigint[], @dep_timeout_calls::bigint[], @over_limit::bigint[],
    @aborted_over::bigint[], @exchanges::bigint[], @attempts::bigint[], @retried::bigint[], @recovered::bigint[],
    @latency_us::bigint[], @sampled::bigint[], @sample_var_good::bigint[], @sample_var_bad::bigint[],
    @limit_us::bigint[], @latency_max_us::bigint[], @first_bin::bigint[], @last_bin::bigint[])
    as r (service, env, route, upstream, experiment, at,
    good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
    dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered, latency_us,
    sampled, sample_var_good, sample_var_bad, limit_us, latency_max_us, first_bin, last_bin)
on conflict (service, env, route, upstream, experiment, at) do update set
    good = m.good + excluded.good, bad = m.bad + excluded.bad, neutral = m.neutral + excluded.neutral,
    throttled = m.throttled + excluded.throttled, aborted = m.aborted + excluded.aborted,
    synthetic = m.synthetic + excluded.synthetic, bad_local = m.bad_local + excluded.bad_local,
    degraded = m.degraded + excluded.degraded, chaos_good = m.chaos_good + excluded.chaos_good,
    chaos_bad = m.chaos_bad + excluded.chaos_bad, first_try_bad = m.first_try_bad + excluded.first_try_bad,
    dep_timeouts = m.dep_timeouts + excluded.dep_timeouts,
    dep_timeout_calls = m.dep_timeout_calls + excluded.dep_timeout_calls,
    over_limit = m.over_limit + excluded.over_limit, aborted_over = m.aborted_over + excluded.aborted_over,
    exchanges = m.exchanges + excluded.exchanges, attempts = m.attempts + excluded.attempts,
    retried = m.retried + excluded.retried, recovered = m.recovered + excluded.recovered,
    latency_us = m.latency_us + excluded.latency_us, sampled = m.sampled + excluded.sampled,
    sample_var_good = m.sample_var_good + excluded.sample_var_good,
    sample_var_bad = m.sample_var_bad + excluded.sample_var_bad,
    limit_us = case when m.limit_us = excluded.limit_us then m.limit_us else -1 end,
    latency_max_us = greatest(m.latency_max_us, excluded.latency_max_us),
    hist = case when cardinality(m.hist) + cardinality(excluded.hist) > case when cardinality(m.hist) <= 144 then 144 else 288 end
        then histogram_pack(m.hist || excluded.hist) else m.hist || excluded.hist end,
    revision = m.revision + 1`

const addRetriesSQL = `
insert into retry_minute as m (service, env, upstream, status, reason, experiment, at, retried, retries, succeeded, failed)
select service, env, upstream, status, reason, experiment, at, retried, retries, succeeded, failed
from unnest(@service::text[], @env::text[], @upstream::text[], @status::bigint[], @reason::text[], @experiment::text[], @at::timestamptz[],
    @retried::bigint[], @retries::bigint[], @succeeded::bigint[], @failed::bigint[])
    as r (service, env, upstream, status, reason, experiment, at, retried, retries, succeeded, failed)
on conflict (service, env, upstream, status, reason, experiment, at) do update set
    retried = m.retried + excluded.retried, retries = m.retries + excluded.retries,
    succeeded = m.succeeded + excluded.succeeded, failed = m.failed + excluded.failed`

// A value that is new to a minute which has fifty goes under 'other': callers and
// tenants are chosen by clients. Two transactions at a time may pass the fifty by
// what each of them brings.
const addFacetsSQL = `
with fresh as (
    select service, env, dimension, value, at, good, bad, chaos_bad, total, throttled
    from unnest(@service::text[], @env::text[], @dimension::text[], @value::text[], @at::timestamptz[],
        @good::bigint[], @bad::bigint[], @chaos_bad::bigint[], @total::bigint[], @throttled::bigint[])
        as f (service, env, dimension, value, at, good, bad, chaos_bad, total, throttled)
), room as (
    select d.service, d.env, d.dimension, d.at, (
        select count(*) from facet_minute f where f.service = d.service and f.env = d.env and f.at = d.at and f.dimension = d.dimension
    ) as have from (select distinct service, env, dimension, at from fresh) d
), placed as (
    select f.service, f.env, f.dimension, f.at, f.good, f.bad, f.chaos_bad, f.total, f.throttled,
        case when r.have < 50 or exists (select from facet_minute o where o.service = f.service and o.env = f.env
            and o.dimension = f.dimension and o.value = f.value and o.at = f.at) then f.value else 'other' end as value
    from fresh f join room r using (service, env, dimension, at)
)
insert into facet_minute as m (service, env, dimension, value, at, good, bad, chaos_bad, total, throttled)
select service, env, dimension, value, at, sum(good), sum(bad), sum(chaos_bad), sum(total), sum(throttled)
from placed group by service, env, dimension, value, at order by service, env, dimension, value, at
on conflict (service, env, dimension, value, at) do update set
    good = m.good + excluded.good, bad = m.bad + excluded.bad, chaos_bad = m.chaos_bad + excluded.chaos_bad, total = m.total + excluded.total,
    throttled = m.throttled + excluded.throttled`

const keepEventsSQL = `
insert into event (service, env, at, kind, gateway, experiment, request_id, body)
select service, env, at, kind, gateway, experiment, request_id, body
from unnest(@service::text[], @env::text[], @at::timestamptz[], @kind::text[], @gateway::text[],
    @experiment::text[], @request_id::text[], @body::jsonb[])
    as e (service, env, at, kind, gateway, experiment, request_id, body)`

// serviceLocks are the keys of advisory locks for the services of rows, ascending.
// A few dozen locks for any number of services: the server's table of locks is small.
func serviceLocks(rows []ingest.Row) []int64 {
	const ledger, buckets = 0x6c656467 << 32, 64 // "ledg" in ASCII
	var keys []int64
	for i := range rows {
		if i > 0 && rows[i].Service == rows[i-1].Service {
			continue
		}
		h := int64(0)
		for _, c := range []byte(rows[i].Service) {
			h = (h*31 + int64(c)) % buckets
		}
		keys = append(keys, ledger+h)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// column takes one field of every row.
func column[R, V any](rows []R, field func(*R) V) []V {
	out := make([]V, len(rows))
	for i := range rows {
		out[i] = field(&rows[i])
	}
	return out
}

func minuteArgs(rows []ingest.Row) pgx.StrictNamedArgs {
	text := func(f func(*ingest.Row) string) []string { return column(rows, f) }
	sum := func(f func(*ingest.Row) int64) []int64 { return column(rows, f) }
	bins := []int64{} // nil would be null
	first, last := make([]int64, len(rows)), make([]int64, len(rows))
	for i := range rows { // a part that ends before it begins is empty
		first[i] = int64(len(bins) + 1)
		bins = append(bins, rows[i].Hist...)
		last[i] = int64(len(bins))
	}
	return pgx.StrictNamedArgs{
		"service":           text(func(r *ingest.Row) string { return r.Service }),
		"env":               text(func(r *ingest.Row) string { return r.Env }),
		"route":             text(func(r *ingest.Row) string { return r.Route }),
		"upstream":          text(func(r *ingest.Row) string { return r.Upstream }),
		"experiment":        text(func(r *ingest.Row) string { return r.Experiment }),
		"at":                column(rows, func(r *ingest.Row) time.Time { return r.At }),
		"good":              sum(func(r *ingest.Row) int64 { return r.Good }),
		"bad":               sum(func(r *ingest.Row) int64 { return r.Bad }),
		"neutral":           sum(func(r *ingest.Row) int64 { return r.Neutral }),
		"throttled":         sum(func(r *ingest.Row) int64 { return r.Throttled }),
		"aborted":           sum(func(r *ingest.Row) int64 { return r.Aborted }),
		"synthetic":         sum(func(r *ingest.Row) int64 { return r.Synthetic }),
		"bad_local":         sum(func(r *ingest.Row) int64 { return r.BadLocal }),
		"degraded":          sum(func(r *ingest.Row) int64 { return r.Degraded }),
		"chaos_good":        sum(func(r *ingest.Row) int64 { return r.ChaosGood }),
		"chaos_bad":         sum(func(r *ingest.Row) int64 { return r.ChaosBad }),
		"first_try_bad":     sum(func(r *ingest.Row) int64 { return r.FirstTryBad }),
		"dep_timeouts":      sum(func(r *ingest.Row) int64 { return r.DepTimeouts }),
		"dep_timeout_calls": sum(func(r *ingest.Row) int64 { return r.DepTimeoutCalls }),
		"over_limit":        sum(func(r *ingest.Row) int64 { return r.OverLimit }),
		"aborted_over":      sum(func(r *ingest.Row) int64 { return r.AbortedOver }),
		"exchanges":         sum(func(r *ingest.Row) int64 { return r.Exchanges }),
		"attempts":          sum(func(r *ingest.Row) int64 { return r.Attempts }),
		"retried":           sum(func(r *ingest.Row) int64 { return r.Retried }),
		"recovered":         sum(func(r *ingest.Row) int64 { return r.Recovered }),
		"latency_us":        sum(func(r *ingest.Row) int64 { return r.LatencyUS }),
		"sampled":           sum(func(r *ingest.Row) int64 { return r.Sampled }),
		"sample_var_good":   sum(func(r *ingest.Row) int64 { return r.VarGood }),
		"sample_var_bad":    sum(func(r *ingest.Row) int64 { return r.VarBad }),
		"limit_us":          sum(func(r *ingest.Row) int64 { return r.LimitUS }),
		"latency_max_us":    sum(func(r *ingest.Row) int64 { return r.LatencyMaxUS }),
		"bins":              bins, "first_bin": first, "last_bin": last,
	}
}

func retryArgs(rows []ingest.Retry) pgx.StrictNamedArgs {
	text := func(f func(*ingest.Retry) string) []string { return column(rows, f) }
	sum := func(f func(*ingest.Retry) int64) []int64 { return column(rows, f) }
	return pgx.StrictNamedArgs{
		"service":    text(func(r *ingest.Retry) string { return r.Service }),
		"env":        text(func(r *ingest.Retry) string { return r.Env }),
		"upstream":   text(func(r *ingest.Retry) string { return r.Upstream }),
		"status":     sum(func(r *ingest.Retry) int64 { return r.Status }),
		"reason":     text(func(r *ingest.Retry) string { return r.Reason }),
		"experiment": text(func(r *ingest.Retry) string { return r.Experiment }),
		"at":         column(rows, func(r *ingest.Retry) time.Time { return r.At }),
		"retried":    sum(func(r *ingest.Retry) int64 { return r.Retried }),
		"retries":    sum(func(r *ingest.Retry) int64 { return r.Retries }),
		"succeeded":  sum(func(r *ingest.Retry) int64 { return r.Succeeded }),
		"failed":     sum(func(r *ingest.Retry) int64 { return r.Failed }),
	}
}

func facetArgs(rows []ingest.Facet) pgx.StrictNamedArgs {
	text := func(f func(*ingest.Facet) string) []string { return column(rows, f) }
	sum := func(f func(*ingest.Facet) int64) []int64 { return column(rows, f) }
	return pgx.StrictNamedArgs{
		"service":   text(func(r *ingest.Facet) string { return r.Service }),
		"env":       text(func(r *ingest.Facet) string { return r.Env }),
		"dimension": text(func(r *ingest.Facet) string { return r.Dimension }),
		"value":     text(func(r *ingest.Facet) string { return r.Value }),
		"at":        column(rows, func(r *ingest.Facet) time.Time { return r.At }),
		"good":      sum(func(r *ingest.Facet) int64 { return r.Good }),
		"bad":       sum(func(r *ingest.Facet) int64 { return r.Bad }),
		"chaos_bad": sum(func(r *ingest.Facet) int64 { return r.ChaosBad }),
		"total":     sum(func(r *ingest.Facet) int64 { return r.Total }),
		"throttled": sum(func(r *ingest.Facet) int64 { return r.Throttled }),
	}
}

func eventArgs(events []ingest.Event) pgx.StrictNamedArgs {
	text := func(f func(*ingest.Event) string) []string { return column(events, f) }
	return pgx.StrictNamedArgs{
		"service":    text(func(e *ingest.Event) string { return e.Service }),
		"env":        text(func(e *ingest.Event) string { return e.Env }),
		"at":         column(events, func(e *ingest.Event) time.Time { return e.At }),
		"kind":       text(func(e *ingest.Event) string { return e.Kind }),
		"gateway":    text(func(e *ingest.Event) string { return e.Gateway }),
		"experiment": text(func(e *ingest.Event) string { return e.Experiment }),
		"request_id": text(func(e *ingest.Event) string { return e.RequestID }),
		"body":       column(events, func(e *ingest.Event) json.RawMessage { return e.Body }),
	}
}
