package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/traffic"
)

const (
	// What each gateway that reported since an instant said of its configurations; the
	// documents themselves stay packed.
	saidSQL = `
select g.env, g.gateway, count(e.at)::bigint as n, max(e.at) as newest
from gateway g left join event e on e.env = g.env and e.gateway = g.gateway and e.kind = 'config'
where g.until_at > @since
group by g.env, g.gateway order by g.env, g.gateway`
	// Of each the newest record of one that it took, since a document is long and to
	// unpack a week of them slow.
	servedSQL = `
select g.env, g.gateway, c.at, c.revision, c.document
from unnest(@env::text[], @gateway::text[]) as g (env, gateway) cross join lateral (
    select at, coalesce(body #>> '{config,revision}', '') as revision, body #>> '{config,effective}' as document
    from event
    where env = g.env and gateway = g.gateway and kind = 'config' and coalesce(body #>> '{config,error}', '') = ''
      and body #>> '{config,effective}' like '{%'
    order by at desc limit 1
) as c`
)

// keptServed are the configurations in force that were read last, by gateway. They hold
// until the gateway says more of configurations, or what it said falls out of the log.
type keptServed struct {
	mu  sync.Mutex
	all map[gatewayKey]saidServed
}

type gatewayKey struct{ env, gateway string }

type saidServed struct {
	said   said
	served traffic.Served // Revision and Document empty: none
}

type said struct {
	n      int64
	newest time.Time
}

type saidRow struct {
	Env, Gateway string
	N            int64
	Newest       *time.Time
}

// Served is the configuration in force at each gateway that reported since an instant.
func (s *Store) Served(ctx context.Context, since time.Time) (out []traffic.Served, err error) {
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		out, err = s.served.read(ctx, tx, since)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("configurations that are served: %w", err)
	}
	return out, nil
}

func (k *keptServed) read(ctx context.Context, tx pgx.Tx, since time.Time) ([]traffic.Served, error) {
	rows, err := tx.Query(ctx, saidSQL, pgx.StrictNamedArgs{"since": since})
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[saidRow])
	if err != nil {
		return nil, err
	}
	fresh := make(map[gatewayKey]saidServed, len(list))
	var env, gateway []string
	for _, r := range list {
		key, now := gatewayKey{r.Env, r.Gateway}, said{r.N, timeOf(r.Newest)}
		if have, ok := k.of(key); ok && have.said.n == now.n && have.said.newest.Equal(now.newest) {
			fresh[key] = have
			continue
		}
		fresh[key] = saidServed{said: now}
		env, gateway = append(env, r.Env), append(gateway, r.Gateway)
	}
	if len(env) > 0 {
		if rows, err = tx.Query(ctx, servedSQL, pgx.StrictNamedArgs{"env": env, "gateway": gateway}); err != nil {
			return nil, err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[traffic.Served])
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			c.At = c.At.UTC()
			key := gatewayKey{c.Env, c.Gateway}
			fresh[key] = saidServed{fresh[key].said, c.Read()}
		}
	}
	var out []traffic.Served
	for _, r := range list {
		if c := fresh[gatewayKey{r.Env, r.Gateway}].served; c.Document != "" {
			out = append(out, c)
		}
	}
	k.keep(fresh)
	return out, nil
}

func (k *keptServed) of(key gatewayKey) (saidServed, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, ok := k.all[key]
	return have, ok
}

func (k *keptServed) keep(fresh map[gatewayKey]saidServed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = fresh
}
