package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/ingest"
)

// limitSQL makes a write give up before whoever waits for it does: a statement
// left behind would hold the locks that its second sending needs.
const limitSQL = `
select set_config('statement_timeout', '4s', true), set_config('lock_timeout', '3s', true),
       set_config('idle_in_transaction_session_timeout', '5s', true)`

// batchSQL is the first row of the transaction. A second sender of the same key
// waits here for the first to end, and then inserts nothing, or everything.
const batchSQL = `
insert into batch (gateway, boot, seq, env, from_at, until_at, exchanges, lost, bad_lines, future, too_late, unkept, received_at)
values (@gateway, @boot, @seq, @env, @from, @until, @exchanges, @lost, @bad_lines, @future, @too_late, @unkept, @received)
on conflict (gateway, boot, seq) do nothing`

// One statement for all rows: what hangs on the table then runs once a batch.
// Histograms differ in length, which no array of arrays allows, so they come as text.
const addMinutesSQL = `
insert into rollup_minute as m (service, env, route, upstream, experiment, at,
    good, bad, neutral, throttled, aborted, chaos_bad, first_try_bad, exchanges, attempts,
    retried, recovered, over_limit, dep_timeouts, degraded, latency_us, hist)
select service, env, route, upstream, experiment, at,
    good, bad, neutral, throttled, aborted, chaos_bad, first_try_bad, exchanges, attempts,
    retried, recovered, over_limit, dep_timeouts, degraded, latency_us, hist::bigint[]
from unnest(@service::text[], @env::text[], @route::text[], @upstream::text[], @experiment::text[], @at::timestamptz[],
    @good::bigint[], @bad::bigint[], @neutral::bigint[], @throttled::bigint[], @aborted::bigint[], @chaos_bad::bigint[],
    @first_try_bad::bigint[], @exchanges::bigint[], @attempts::bigint[], @retried::bigint[], @recovered::bigint[],
    @over_limit::bigint[], @dep_timeouts::bigint[], @degraded::bigint[], @latency_us::bigint[], @hist::text[])
    as r (service, env, route, upstream, experiment, at,
    good, bad, neutral, throttled, aborted, chaos_bad, first_try_bad, exchanges, attempts,
    retried, recovered, over_limit, dep_timeouts, degraded, latency_us, hist)
on conflict (service, env, route, upstream, experiment, at) do update set
    good = m.good + excluded.good,
    bad = m.bad + excluded.bad,
    neutral = m.neutral + excluded.neutral,
    throttled = m.throttled + excluded.throttled,
    aborted = m.aborted + excluded.aborted,
    chaos_bad = m.chaos_bad + excluded.chaos_bad,
    first_try_bad = m.first_try_bad + excluded.first_try_bad,
    exchanges = m.exchanges + excluded.exchanges,
    attempts = m.attempts + excluded.attempts,
    retried = m.retried + excluded.retried,
    recovered = m.recovered + excluded.recovered,
    over_limit = m.over_limit + excluded.over_limit,
    dep_timeouts = m.dep_timeouts + excluded.dep_timeouts,
    degraded = m.degraded + excluded.degraded,
    latency_us = m.latency_us + excluded.latency_us,
    hist = histogram_add(m.hist, excluded.hist),
    revision = m.revision + 1`

const keepEventsSQL = `
insert into event (service, env, at, kind, gateway, experiment, request_id, body)
select service, env, at, kind, gateway, experiment, request_id, body
from unnest(@service::text[], @env::text[], @at::timestamptz[], @kind::text[], @gateway::text[],
    @experiment::text[], @request_id::text[], @body::jsonb[])
    as e (service, env, at, kind, gateway, experiment, request_id, body)`

// Two boots of one name at a time would cover a minute twice.
const coverMinuteSQL = `
insert into gateway_minute as m (env, gateway, at, covered_us, lost)
values (@env, @gateway, @at, @covered_us, @lost)
on conflict (env, gateway, at) do update set
    covered_us = least(m.covered_us + excluded.covered_us, 60000000),
    lost = m.lost + excluded.lost`

// What a former boot left in the spool arrives late, and must not turn the
// gateway's report back to it.
const reportSQL = `
insert into gateway as g (env, gateway, boot, seq, until_at, stopped, last_ack)
values (@env, @gateway, @boot, @seq, @until, @stopped, @received)
on conflict (env, gateway) do update set
    boot = case when excluded.until_at >= g.until_at then excluded.boot else g.boot end,
    seq = case when excluded.until_at >= g.until_at then excluded.seq else g.seq end,
    stopped = case when excluded.until_at >= g.until_at then excluded.stopped else g.stopped end,
    until_at = greatest(g.until_at, excluded.until_at),
    last_ack = greatest(g.last_ack, excluded.last_ack)`

const bootSQL = `
insert into gateway_boot as b (env, gateway, boot, from_at, until_at, seq, batches, stopped)
values (@env, @gateway, @boot, @from, @until, @seq, 1, @stopped)
on conflict (env, gateway, boot) do update set
    from_at = least(b.from_at, excluded.from_at),
    until_at = greatest(b.until_at, excluded.until_at),
    seq = greatest(b.seq, excluded.seq),
    batches = b.batches + 1,
    stopped = b.stopped or excluded.stopped`

// Ingest adds a batch to the ledger in one transaction, unless its key is there
// already. After an error the batch may have been added all the same, where the
// answer to the commit was lost; sending it again is then the way to know.
func (s *Store) Ingest(ctx context.Context, b *ingest.Batch) (already bool, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		already, err = insertBatch(ctx, tx, b)
		if err != nil || already {
			return err
		}
		return tx.SendBatch(ctx, ledgerRows(b)).Close()
	})
	if err != nil {
		return false, fmt.Errorf("ingest batch %s/%s/%d: %w", b.Key.Gateway, b.Key.Boot, b.Key.Seq, err)
	}
	return already, nil
}

const pruneSQL = `select ledger_prune(@now)`

// Prune removes what no decision reads any more, and returns how many rows went.
func (s *Store) Prune(ctx context.Context, now time.Time) (int64, error) {
	var gone int64
	if err := s.db.QueryRow(ctx, pruneSQL, pgx.StrictNamedArgs{"now": now}).Scan(&gone); err != nil {
		return 0, fmt.Errorf("prune the ledger: %w", err)
	}
	return gone, nil
}

func insertBatch(ctx context.Context, tx pgx.Tx, b *ingest.Batch) (already bool, err error) {
	var q pgx.Batch
	q.Queue(limitSQL)
	q.Queue(batchSQL, pgx.StrictNamedArgs{
		"gateway": b.Key.Gateway, "boot": b.Key.Boot, "seq": b.Key.Seq, "env": b.Key.Env,
		"from": b.Key.From, "until": b.Key.Until, "exchanges": b.Exchanges, "lost": b.Key.Lost,
		"bad_lines": b.BadLines, "future": b.Future, "too_late": b.TooLate, "unkept": b.Unkept,
		"received": b.Received,
	})
	res := tx.SendBatch(ctx, &q)
	if _, err := res.Exec(); err != nil {
		_ = res.Close() // says the same
		return false, err
	}
	tag, err := res.Exec()
	if err != nil {
		_ = res.Close()
		return false, err
	}
	return tag.RowsAffected() == 0, res.Close()
}

// ledgerRows queues the rows of a batch, in the order in which every batch
// takes its locks.
func ledgerRows(b *ingest.Batch) *pgx.Batch {
	q := &pgx.Batch{}
	if len(b.Rows) > 0 {
		q.Queue(addMinutesSQL, minuteArgs(b.Rows))
	}
	if len(b.Events) > 0 {
		q.Queue(keepEventsSQL, eventArgs(b.Events))
	}
	for _, m := range b.Minutes {
		q.Queue(coverMinuteSQL, pgx.StrictNamedArgs{
			"env": b.Key.Env, "gateway": b.Key.Gateway, "at": m.At, "covered_us": m.CoveredUS, "lost": m.Lost,
		})
	}
	q.Queue(reportSQL, pgx.StrictNamedArgs{
		"env": b.Key.Env, "gateway": b.Key.Gateway, "boot": b.Key.Boot, "seq": b.Key.Seq,
		"until": b.Key.Until, "stopped": b.Key.Last, "received": b.Received,
	})
	q.Queue(bootSQL, pgx.StrictNamedArgs{
		"env": b.Key.Env, "gateway": b.Key.Gateway, "boot": b.Key.Boot, "seq": b.Key.Seq,
		"from": b.Key.From, "until": b.Key.Until, "stopped": b.Key.Last,
	})
	return q
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
	return pgx.StrictNamedArgs{
		"service":       text(func(r *ingest.Row) string { return r.Service }),
		"env":           text(func(r *ingest.Row) string { return r.Env }),
		"route":         text(func(r *ingest.Row) string { return r.Route }),
		"upstream":      text(func(r *ingest.Row) string { return r.Upstream }),
		"experiment":    text(func(r *ingest.Row) string { return r.Experiment }),
		"at":            column(rows, func(r *ingest.Row) time.Time { return r.At }),
		"good":          sum(func(r *ingest.Row) int64 { return r.Good }),
		"bad":           sum(func(r *ingest.Row) int64 { return r.Bad }),
		"neutral":       sum(func(r *ingest.Row) int64 { return r.Neutral }),
		"throttled":     sum(func(r *ingest.Row) int64 { return r.Throttled }),
		"aborted":       sum(func(r *ingest.Row) int64 { return r.Aborted }),
		"chaos_bad":     sum(func(r *ingest.Row) int64 { return r.ChaosBad }),
		"first_try_bad": sum(func(r *ingest.Row) int64 { return r.FirstTryBad }),
		"exchanges":     sum(func(r *ingest.Row) int64 { return r.Exchanges }),
		"attempts":      sum(func(r *ingest.Row) int64 { return r.Attempts }),
		"retried":       sum(func(r *ingest.Row) int64 { return r.Retried }),
		"recovered":     sum(func(r *ingest.Row) int64 { return r.Recovered }),
		"over_limit":    sum(func(r *ingest.Row) int64 { return r.OverLimit }),
		"dep_timeouts":  sum(func(r *ingest.Row) int64 { return r.DepTimeouts }),
		"degraded":      sum(func(r *ingest.Row) int64 { return r.Degraded }),
		"latency_us":    sum(func(r *ingest.Row) int64 { return r.LatencyUS }),
		"hist":          text(func(r *ingest.Row) string { return arrayText(r.Hist) }),
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

// arrayText writes {1,2,3}.
func arrayText(bins []int64) string {
	b := make([]byte, 0, 2+2*len(bins))
	b = append(b, '{')
	for i, n := range bins {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, '}'))
}

const gatewayStoppedSQL = `
select exists (select 1 from gateway where env = @env and gateway = @gateway and stopped)`

// GatewayStopped reports whether the ledger knows a gateway that said its last
// word in good order.
func (s *Store) GatewayStopped(ctx context.Context, env, gateway string) (bool, error) {
	var stopped bool
	err := s.db.QueryRow(ctx, gatewayStoppedSQL, pgx.StrictNamedArgs{"env": env, "gateway": gateway}).Scan(&stopped)
	if err != nil {
		return false, fmt.Errorf("look for gateway %s: %w", gateway, err)
	}
	return stopped, nil
}
