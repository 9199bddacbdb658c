package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/request"
)

// A gateway reports its configuration at each start and swap, and why it refused a
// newer one; rows are kept for a week. The texts stay where they are: they are long.
const (
	configsSQL = `
select at, env, gateway, coalesce(body #>> '{config,revision}', '') as revision, coalesce(body #>> '{config,hash}', '') as hash,
    coalesce(body #>> '{config,error}', '') as error, coalesce(body #>> '{config,effective}', '') like '{%' as whole
from event where kind = 'config' and at > @since order by at desc, env, gateway limit @limit`
	configSQL = `
select body #>> '{config,effective}' from event
where kind = 'config' and at > @since and body #>> '{config,revision}' = @revision and body #>> '{config,effective}' like '{%'
order by at desc limit 1`
)

// Configs lists what gateways reported of their configurations since an instant, the
// newest first.
func (s *Store) Configs(ctx context.Context, since time.Time, limit int) ([]request.Config, error) {
	rows, err := s.db.Query(ctx, configsSQL, pgx.StrictNamedArgs{"since": since, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("configurations: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[request.Config])
	if err != nil {
		return nil, fmt.Errorf("configurations: %w", err)
	}
	for i := range found {
		found[i].At = found[i].At.UTC()
	}
	return found, nil
}

// Config returns the effective values of a revision as JSON, as a gateway reported
// them since an instant; nil: none did.
func (s *Store) Config(ctx context.Context, revision string, since time.Time) ([]byte, error) {
	var text string
	err := s.db.QueryRow(ctx, configSQL, pgx.StrictNamedArgs{"revision": revision, "since": since}).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", revision, err)
	}
	return []byte(text), nil
}
