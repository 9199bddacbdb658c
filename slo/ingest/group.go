package ingest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// group commits batches that wait at the same time in one transaction: a flush of
// the disk, and a row of the running minute, are then paid for once and not once
// a gateway. Nobody waits for others to come: what is there goes.
type group struct {
	store Store
	turn  chan struct{} // one transaction at a time; whoever holds it commits for all
	mu    sync.Mutex
	queue []*waiting
}

type waiting struct {
	batch   *Batch
	done    chan struct{}
	already bool
	err     error
}

func newGroup(s Store) *group { return &group{store: s, turn: make(chan struct{}, 1)} }

// ingest is Store.Ingest for one batch. Once a batch is part of a transaction its
// end is awaited even if ctx ends.
func (g *group) ingest(ctx context.Context, b *Batch) (already bool, err error) {
	w := &waiting{batch: b, done: make(chan struct{})}
	g.mu.Lock()
	g.queue = append(g.queue, w)
	g.mu.Unlock()
	select {
	case <-w.done:
		return w.already, w.err
	case <-ctx.Done():
		if g.leave(w) {
			return false, ctx.Err()
		}
		<-w.done
		return w.already, w.err
	case g.turn <- struct{}{}:
	}
	g.commit()
	<-g.turn
	<-w.done
	return w.already, w.err
}

// leave takes w out of the queue, unless somebody already commits it.
func (g *group) leave(w *waiting) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, q := range g.queue {
		if q == w {
			g.queue = append(g.queue[:i:i], g.queue[i+1:]...)
			return true
		}
	}
	return false
}

// commit stores all that wait. It does not end with the request it runs in: the
// others' batches are in it.
func (g *group) commit() {
	g.mu.Lock()
	all := g.queue
	g.queue = nil
	g.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	err := g.storeAll(ctx, all)
	if err != nil && len(all) > 1 {
		// One of them may be what the store refuses: the others must not wait for ever
		// because of it.
		for _, w := range all {
			if ctx.Err() != nil {
				w.err = errors.Join(err, ctx.Err())
			} else if w.err = g.storeAll(ctx, []*waiting{w}); w.err != nil && time.Until(deadline(ctx)) < storeWait/2 {
				cancel() // the store is ill, not the batch
			}
		}
	}
	for _, w := range all {
		close(w.done)
	}
}

func (g *group) storeAll(ctx context.Context, all []*waiting) error {
	batches := make([]*Batch, len(all))
	for i, w := range all {
		batches[i] = w.batch
	}
	already, err := g.store.Ingest(ctx, batches...)
	for i, w := range all {
		w.err = err
		if err == nil {
			w.already = already[i]
		}
	}
	return err
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}
