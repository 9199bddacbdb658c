package concurrency

import (
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// queue is where a few critical requests wait for a place, first come, first
// served. Its lock is taken only when somebody waits.
type queue struct {
	limit *Limit
	n     atomic.Int64

	mu    sync.Mutex
	most  int64
	first *waiter
	last  *waiter
}

type waiter struct {
	granted chan struct{}
	has     bool // a place was given
	next    *waiter
}

func (q *queue) configure(most int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.most = most
}

// hand gives the place of who leaves to the first who waits, so that the count of
// those under way does not change.
func (q *queue) hand() bool {
	if q.n.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first == nil || q.limit.inFlight.Load() > q.limit.allowed.Load() {
		return false // the limit has fallen: the place is gone
	}
	q.grant()
	return true
}

// wake gives out places that are free.
func (q *queue) wake() {
	if q.n.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.first != nil {
		n := q.limit.inFlight.Load()
		if n >= q.limit.allowed.Load() {
			return
		}
		if q.limit.inFlight.CompareAndSwap(n, n+1) {
			q.limit.note(n + 1)
			q.grant()
		}
	}
}

// grant is called with the lock held and somebody waiting.
func (q *queue) grant() {
	w := q.first
	if q.first = w.next; q.first == nil {
		q.last = nil
	}
	q.n.Add(-1)
	w.has = true
	close(w.granted)
}

// acquire waits for a place for at most patience, or as long as x may. It reports
// whether there is one; an error is that nobody waits for the answer any more.
func (q *queue) acquire(x *exchange.Exchange, patience time.Duration) (bool, error) {
	q.mu.Lock()
	if q.n.Load() >= q.most {
		q.mu.Unlock()
		return false, nil
	}
	w := &waiter{granted: make(chan struct{})}
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.n.Add(1)
	q.mu.Unlock()
	q.wake() // a place may have become free before this one stood in line

	err := x.Wait(patience, w.granted)

	q.mu.Lock()
	has := w.has
	if !has {
		q.leave(w)
	}
	q.mu.Unlock()
	if cause := x.Cause(); cause != nil {
		if has {
			q.limit.Release()
		}
		return false, cause
	}
	if err != nil && has {
		return true, nil // at the last moment: the deadline is somebody else's to tell
	}
	return has, err
}

// leave takes w out of the line. The lock is held.
func (q *queue) leave(w *waiter) {
	q.n.Add(-1)
	var before *waiter
	for at := q.first; at != nil; before, at = at, at.next {
		if at != w {
			continue
		}
		if before == nil {
			q.first = w.next
		} else {
			before.next = w.next
		}
		if q.last == w {
			q.last = before
		}
		return
	}
}
