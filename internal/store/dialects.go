package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/gate/dialect"
)

// pendingLease is for how long whoever claims a run has it alone; pendingKept how
// long one that is over is known, so that the same message starts nothing anew.
const (
	pendingLease = time.Minute
	pendingKept  = 60 * 24 * time.Hour
)

const addPendingSQL = `
insert into gate_pending (key, body, created_at, due_at) values (@key, @body, @now, @now) on conflict (key) do nothing`

// AddPending keeps a run that waits at GitHub; false: it is known.
func (s *Store) AddPending(ctx context.Context, p dialect.Pending, now time.Time) (bool, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return false, fmt.Errorf("keep %s: %w", p.Key, err)
	}
	tag, err := s.db.Exec(ctx, addPendingSQL, pgx.StrictNamedArgs{"key": p.Key, "body": body, "now": now})
	if err != nil {
		return false, fmt.Errorf("keep %s: %w", p.Key, err)
	}
	return tag.RowsAffected() == 1, nil
}

const (
	claimPendingSQL = `
update gate_pending set lease = @until where key in (
    select key from gate_pending where done_at is null and due_at <= @now and (lease is null or lease <= @now)
    order by due_at, key limit @limit for update skip locked)
returning body`
	prunePendingSQL = `delete from gate_pending where done_at < @before`
)

// ClaimPending takes what is due, for a minute.
func (s *Store) ClaimPending(ctx context.Context, now time.Time, limit int) ([]dialect.Pending, error) {
	if _, err := s.db.Exec(ctx, prunePendingSQL, pgx.StrictNamedArgs{"before": now.Add(-pendingKept)}); err != nil {
		return nil, fmt.Errorf("forget what waited: %w", err)
	}
	rows, err := s.db.Query(ctx, claimPendingSQL, pgx.StrictNamedArgs{"now": now, "until": now.Add(pendingLease), "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("claim what waits: %w", err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("claim what waits: %w", err)
	}
	out := make([]dialect.Pending, len(bodies))
	for i, body := range bodies {
		if err := json.Unmarshal(body, &out[i]); err != nil {
			return nil, fmt.Errorf("read what waits: %w", err)
		}
	}
	return out, nil
}

const deferPendingSQL = `update gate_pending set body = @body, due_at = @due, lease = null where key = @key and done_at is null`

// DeferPending puts a claimed run back until due.
func (s *Store) DeferPending(ctx context.Context, p dialect.Pending, due time.Time) error {
	return s.putPending(ctx, deferPendingSQL, p, pgx.StrictNamedArgs{"due": due})
}

const closePendingSQL = `update gate_pending set body = @body, outcome = @outcome, done_at = @now, lease = null where key = @key and done_at is null`

// ClosePending ends the waiting of a run.
func (s *Store) ClosePending(ctx context.Context, p dialect.Pending, outcome string, now time.Time) error {
	return s.putPending(ctx, closePendingSQL, p, pgx.StrictNamedArgs{"outcome": outcome, "now": now})
}

func (s *Store) putPending(ctx context.Context, sql string, p dialect.Pending, args pgx.StrictNamedArgs) error {
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("keep %s: %w", p.Key, err)
	}
	args["key"], args["body"] = p.Key, body
	if _, err := s.db.Exec(ctx, sql, args); err != nil {
		return fmt.Errorf("keep %s: %w", p.Key, err)
	}
	return nil
}
