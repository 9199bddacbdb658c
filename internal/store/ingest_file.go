package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/retrylog"
	"breakwater/slo/ingest"
)

const cursorSQL = `
select seq, content from batch where gateway = @gateway and boot = @boot and content is not null order by seq desc limit 1`

// FileCursor is how far the file of k was read in.
func (s *Store) FileCursor(ctx context.Context, k retrylog.Batch) (ingest.Cursor, error) {
	c, err := cursor(ctx, s.db, k)
	if err != nil {
		return c, fmt.Errorf("how far %s/%s was read: %w", k.Gateway, k.Boot, err)
	}
	return c, nil
}

func cursor(ctx context.Context, q querier, k retrylog.Batch) (ingest.Cursor, error) {
	rows, err := q.Query(ctx, cursorSQL, pgx.StrictNamedArgs{"gateway": k.Gateway, "boot": k.Boot})
	if err != nil {
		return ingest.Cursor{}, err
	}
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[ingest.Cursor])
	if errors.Is(err, pgx.ErrNoRows) {
		return ingest.Cursor{}, nil
	}
	return c, err
}

// lockFileSQL lets one reader of a file at a time look and add.
const lockFileSQL = `select pg_advisory_xact_lock(hashtextextended(@boot, @seed))`

const reportedSQL = `
select boot, greatest(from_at, @from) as from_at, least(until_at, @to) as to_at from gateway_boot
where env = @env and gateway = @gateway and from_at <= @to and until_at > @from order by from_at limit 1`

const closedSQL = `
select d.service, d.at from unnest(@service::text[], @env::text[], @day::timestamptz[]) as d (service, env, at)
where exists (select from retry_day r where r.service = d.service and r.env = d.env and r.at = d.at)
  and not exists (select from retry_minute m where m.service = d.service and m.env = d.env and m.at >= d.at and m.at < d.at + interval '1 day')
limit 1`

// checkFile refuses a part of a file that was read already, that does not join on
// to what was, or whose lines the ledger has from elsewhere.
func checkFile(ctx context.Context, tx pgx.Tx, b *ingest.Batch) error {
	if _, err := tx.Exec(ctx, lockFileSQL, pgx.StrictNamedArgs{"boot": b.Key.Boot, "seed": int64(0x66696c65)}); err != nil { // "file" in ASCII
		return err
	}
	at, err := cursor(ctx, tx, b.Key)
	if err != nil {
		return err
	}
	again := at.Line == b.Key.Seq && at.Hash == b.File.After
	if !again && (at.Line != b.File.From || at.Hash != b.File.Before) {
		return &ingest.ErrElsewhere{Cursor: at}
	}
	for _, g := range b.File.Gateways {
		e := ingest.ErrReported{GatewaySpan: g}
		err := tx.QueryRow(ctx, reportedSQL, pgx.StrictNamedArgs{"env": g.Env, "gateway": g.Gateway, "from": g.From, "to": g.To}).Scan(&e.Boot, &e.From, &e.To)
		if err == nil {
			return &e
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	var old []ingest.Retry
	for _, r := range b.Retries {
		if r.At.Before(b.File.Oldest) {
			old = append(old, r)
		}
	}
	if len(old) == 0 {
		return nil
	}
	var e ingest.ErrClosed
	err = tx.QueryRow(ctx, closedSQL, pgx.StrictNamedArgs{
		"service": column(old, func(r *ingest.Retry) string { return r.Service }),
		"env":     column(old, func(r *ingest.Retry) string { return r.Env }),
		"day":     column(old, func(r *ingest.Retry) time.Time { return r.At.Truncate(24 * time.Hour) }),
	}).Scan(&e.Service, &e.Day)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &e
}

// content is what a file held up to the end of b; null for a gateway's batch.
func content(b *ingest.Batch) *string {
	if b.File == nil {
		return nil
	}
	return &b.File.After
}
