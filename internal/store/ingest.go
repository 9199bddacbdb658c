package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"breakwater/slo/ingest"
)

// limitSQL makes a write give up before whoever waits for it does: a statement
// left behind would hold the locks that its second sending needs.
const limitSQL = `
select set_config('statement_timeout', '4s', true), set_config('lock_timeout', '3s', true),
       set_config('idle_in_transaction_session_timeout', '5s', true)`

// Two transactions that add to the same service would wait for each other in any
// of a thousand rows, and could do so crosswise. They wait here instead, once.
const lockServicesSQL = `
select count(pg_advisory_xact_lock(key)) from unnest(@keys::bigint[]) as key`

// batchSQL is the first row of the transaction. A second sender of the same key
// waits here for the first to end, and then inserts nothing, or everything.
const batchSQL = `
insert into batch (gateway, boot, seq, env, from_at, until_at, exchanges, lost, bad_lines, future, too_late, unkept, received_at, content)
values (@gateway, @boot, @seq, @env, @from, @until, @exchanges, @lost, @bad_lines, @future, @too_late, @unkept, @received, @content)
on conflict (gateway, boot, seq) do nothing`

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

// Ingest adds batches to the ledger in one transaction, except those whose keys are
// there already. After an error they may have been added all the same, where the
// answer to the commit was lost; sending them again is then the way to know.
func (s *Store) Ingest(ctx context.Context, batches ...*ingest.Batch) (already []bool, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for _, b := range batches {
			if b.File != nil {
				if err := checkFile(ctx, tx, b); err != nil {
					return err
				}
			}
		}
		already, err = insertBatches(ctx, tx, batches)
		if err != nil {
			return err
		}
		var fresh []*ingest.Batch
		var parts []ingest.Folded
		for i, b := range batches {
			if !already[i] {
				fresh, parts = append(fresh, b), append(parts, b.Folded)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		return tx.SendBatch(ctx, ledgerRows(fresh, ingest.Sum(parts...))).Close()
	})
	if err != nil {
		k := batches[0].Key
		return nil, fmt.Errorf("ingest %d batches from %s/%s/%d on: %w", len(batches), k.Gateway, k.Boot, k.Seq, err)
	}
	return already, nil
}

// insertBatches enters the keys, in one order for everybody, and says which of
// them were there.
func insertBatches(ctx context.Context, tx pgx.Tx, batches []*ingest.Batch) (already []bool, err error) {
	order := make([]int, len(batches))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := batches[i].Key, batches[j].Key
		return cmp.Or(cmp.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.Seq, b.Seq))
	})
	var q pgx.Batch
	q.Queue(limitSQL)
	for _, i := range order {
		b := batches[i]
		q.Queue(batchSQL, pgx.StrictNamedArgs{
			"gateway": b.Key.Gateway, "boot": b.Key.Boot, "seq": b.Key.Seq, "env": b.Key.Env,
			"from": b.Key.From, "until": b.Key.Until, "exchanges": b.Exchanges, "lost": b.Key.Lost,
			"bad_lines": b.BadLines, "future": b.Future, "too_late": b.TooLate, "unkept": b.Unkept,
			"received": b.Received, "content": content(b),
		})
	}
	res := tx.SendBatch(ctx, &q)
	already = make([]bool, len(batches))
	_, err = res.Exec()
	for _, i := range order {
		if err != nil {
			break
		}
		var tag pgconn.CommandTag
		tag, err = res.Exec()
		already[i] = tag.RowsAffected() == 0
	}
	// After an error, closing says the same.
	return already, cmp.Or(err, res.Close())
}

// ledgerRows queues what batches add, in the order in which every transaction
// takes its locks.
func ledgerRows(batches []*ingest.Batch, sum ingest.Folded) *pgx.Batch {
	q := &pgx.Batch{}
	if len(sum.Rows) > 0 {
		q.Queue(lockServicesSQL, pgx.StrictNamedArgs{"keys": serviceLocks(sum.Rows)})
		q.Queue(addMinutesSQL, minuteArgs(sum.Rows))
	}
	if len(sum.Retries) > 0 {
		q.Queue(addRetriesSQL, retryArgs(sum.Retries))
	}
	if len(sum.Facets) > 0 {
		q.Queue(addFacetsSQL, facetArgs(sum.Facets))
	}
	if len(sum.Events) > 0 {
		q.Queue(keepEventsSQL, eventArgs(sum.Events))
	}
	// By gateway, then in time: a gateway's rows are locked in one order.
	batches = slices.Clone(batches)
	slices.SortStableFunc(batches, func(a, b *ingest.Batch) int {
		return cmp.Or(cmp.Compare(a.Key.Env, b.Key.Env), cmp.Compare(a.Key.Gateway, b.Key.Gateway), a.Key.From.Compare(b.Key.From))
	})
	for _, b := range batches {
		if b.File != nil { // a file is no gateway: it covers no time, and nothing is expected of it
			continue
		}
		reports(q, b)
	}
	return q
}

// reports queues what a batch says of its gateway.
func reports(q *pgx.Batch, b *ingest.Batch) {
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
