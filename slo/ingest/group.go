package ingest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// group commits batches that wait at the same time in one transaction: a flush of
// the disk, and a row of the running minute, are then paid for once and not once
// a gateway. A batch that comes alone goes at once; under pressure the next
// transaction waits a moment for those whose last batch was just answered.
type group struct {
	store   Store
	turn    chan struct{} // one transaction at a time; whoever holds it commits for all
	arrived chan struct{}

	mu      sync.Mutex
	queue   []*waiting
	senders int // of the last transaction and of what waited meanwhile: so many may come
	ended   time.Time
}

// gather is how long a transaction waits for others, a part of what it takes.
const gather = 8 * time.Millisecond

type waiting struct {
	batch   *Batch
	done    chan struct{}
	already bool
	err     error
}

func newGroup(s Store) *group {
	return &group{store: s, turn: make(chan struct{}, 1), arrived: make(chan struct{}, 1)}
}

// ingest is Store.Ingest for one batch. Once a batch is part of a transaction its
// end is awaited even if ctx ends.
func (g *group) ingest(ctx context.Context, b *Batch) (already bool, err error) {
	w := &waiting{batch: b, done: make(chan struct{})}
	g.mu.Lock()
	g.queue = append(g.queue, w)
	g.mu.Unlock()
	select {
	case g.arrived <- struct{}{}:
	default:
	}
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
	all := g.take()
	if len(all) == 0 {
		return
	}
	defer func() {
		g.mu.Lock()
		g.senders, g.ended = len(all)+len(g.queue), time.Now()
		g.mu.Unlock()
		for _, w := range all {
			close(w.done)
		}
	}()
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
}

// take empties the queue, when as many wait as came the last time, or soon.
func (g *group) take() (all []*waiting) {
	var late <-chan time.Time
	for {
		g.mu.Lock()
		n := len(g.queue)
		if n == 0 || n >= g.senders || late == nil && time.Since(g.ended) > gather {
			all, g.queue = g.queue, nil
			g.mu.Unlock()
			return all
		}
		g.mu.Unlock()
		if late == nil {
			late = time.After(gather)
		}
		select {
		case <-g.arrived:
		case <-late:
			g.mu.Lock()
			all, g.queue = g.queue, nil
			g.mu.Unlock()
			return all
		}
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
