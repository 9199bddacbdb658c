package store

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

const (
	causesMovedSQL = `select n from slo_cause_moved`
	knownCausesSQL = `
select service, env, kind, ref, title, from_at, to_at, actor from slo_cause
where kind in ('deploy', 'incident') and outcome in ('', 'succeeded') and (from_at > @since or kind = 'incident' and to_at is null) order by from_at desc, ref limit 5000`
)

// keptCauses are the deploys and incidents that were read last. They are asked for each
// second, and seldom change.
type keptCauses struct {
	mu    sync.Mutex
	n     int64 // of slo_cause_moved
	since time.Time
	all   []slo.Cause // shared: never written again
}

// read returns the causes of tx's snapshot, of about 60 days before now.
func (k *keptCauses) read(ctx context.Context, tx pgx.Tx, now time.Time) ([]slo.Cause, error) {
	since := now.UTC().Truncate(time.Hour).Add(-60 * day)
	var n int64
	if err := tx.QueryRow(ctx, causesMovedSQL).Scan(&n); err != nil {
		return nil, err
	}
	if all, ok := k.of(n, since); ok {
		return all, nil
	}
	rows, err := tx.Query(ctx, knownCausesSQL, pgx.StrictNamedArgs{"since": since})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[causeRow])
	if err != nil {
		return nil, err
	}
	all := make([]slo.Cause, len(found))
	for i, r := range found {
		all[i] = slo.Cause{Kind: slo.CauseKind(r.Kind), Service: r.Service, Env: r.Env, Ref: r.Ref, Title: r.Title, From: r.FromAt.UTC(), To: timeOf(r.ToAt), Actor: r.Actor}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n, k.since, k.all = n, since, all
	return all, nil
}

func (k *keptCauses) of(n int64, since time.Time) ([]slo.Cause, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all, k.all != nil && k.n == n && k.since.Equal(since)
}
