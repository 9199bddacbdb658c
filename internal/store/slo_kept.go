package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// keptSums are parts of windows that were summed before. Windows are weighed each
// second and move each minute, and of what they hold the last minutes alone change: a
// month of every service need not be added up for that. A part is kept while no hour
// of it is marked and no marks were taken since, both of the snapshot that it is used
// in, so that it is what would be read.
type keptSums struct {
	mu   sync.Mutex
	n    int64 // of slo_rolled
	sums map[ask]slo.Tally
}

const rolledSQL = `select n from slo_rolled`

const dirtyNowSQL = `select distinct service, env, at from slo_dirty`

// tallies is the function of this name for who asks again and again.
func (k *keptSums) tallies(ctx context.Context, tx pgx.Tx, a *asks) ([]slo.Tally, error) {
	p, of := share(a)
	var n int64
	if err := tx.QueryRow(ctx, rolledSQL).Scan(&n); err != nil {
		return nil, fmt.Errorf("read how often hours were summed: %w", err)
	}
	rows, err := tx.Query(ctx, dirtyNowSQL)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByName[hourKey])
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	marked := map[owner][]time.Time{}
	for _, m := range marks {
		o := owner{m.Service, m.Env}
		marked[o] = append(marked[o], m.At)
	}
	known := k.of(n)
	sums := make([]slo.Tally, len(p.service))
	fresh := make(map[ask]slo.Tally, len(sums))
	var missing asks
	var place []int
	var keep []ask
	for q, i := range p.index {
		moving := false
		for _, at := range marked[owner{q.service, q.env}] {
			moving = moving || at.Before(q.until) && at.Add(time.Hour).After(q.since)
		}
		if have, ok := known[q]; ok && !moving {
			sums[i], fresh[q] = have, have
			continue
		}
		missing.add(q)
		place = append(place, i)
		if !moving {
			keep = append(keep, q)
		}
	}
	found, err := sumEach(ctx, tx, &missing)
	if err != nil {
		return nil, err
	}
	for j, t := range found {
		sums[place[j]] = t
	}
	for _, q := range keep {
		fresh[q] = sums[p.index[q]]
	}
	k.keep(n, fresh)
	return added(sums, of), nil
}

func (k *keptSums) of(n int64) map[ask]slo.Tally {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n != n {
		return nil
	}
	return k.sums // never written again
}

// keep forgets what was not asked for this time, and does not let an older snapshot
// take the place of a newer one.
func (k *keptSums) keep(n int64, sums map[ask]slo.Tally) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n >= k.n {
		k.n, k.sums = n, sums
	}
}
