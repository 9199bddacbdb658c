// Package mirror sends copies of requests to another upstream and throws its
// answers away, so that a new version can be tried on real traffic that nobody
// waits for.
package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"breakwater/gateway/exchange"
)

// Config of a Layer.
type Config struct {
	PPM int64 // of requests, in parts per million
	// MaxBody is up to how many bytes a body is copied; a request with a longer
	// one is not mirrored, and counted.
	MaxBody int64
	// Rand draws from [0, 1) and is safe for concurrent use.
	Rand func() float64
}

// Result is what became of a request that was to be mirrored.
type Result string

// The results. Each such request has exactly one.
const (
	Answered   Result = "answered"           // whatever the answer was
	Failed     Result = "failed"             // there was none
	TooBig     Result = "skipped_body"       // over MaxBody
	Full       Result = "skipped_queue"      // no room among the copies that wait
	Upgrade    Result = "skipped_upgrade"    // a tunnel cannot be had twice
	Incomplete Result = "skipped_incomplete" // the body never came to its end
	Closed     Result = "skipped_closed"     // the gateway stops
)

// Results lists all of them.
func Results() []Result {
	return []Result{Answered, Failed, TooBig, Full, Upgrade, Incomplete, Closed}
}

// Limits of a Queue; zero fields take the standard ones.
type Limits struct {
	Length  int   // copies that wait; 0: 256
	Bytes   int64 // of the bodies that wait, are on their way, or are being gathered; 0: 8 MiB
	Workers int   // copies on their way at a time; 0: 16
}

func (l Limits) filled() Limits {
	if l.Length <= 0 {
		l.Length = 256
	}
	if l.Bytes <= 0 {
		l.Bytes = 8 << 20
	}
	if l.Workers <= 0 {
		l.Workers = 16
	}
	return l
}

// Queue holds the copies that wait for one upstream. It outlives snapshots, and is
// safe for concurrent use. It never blocks: what does not fit is counted and gone.
type Queue struct {
	limits Limits
	count  func(Result)
	room   chan struct{} // one token for each worker that may run

	mu      sync.Mutex
	waiting []*duplicate
	bytes   int64
	running map[*exchange.Exchange]exchange.Token
	closed  bool
	workers sync.WaitGroup
}

// NewQueue returns an empty queue. count is told each result, from any goroutine.
func NewQueue(l Limits, count func(Result)) *Queue {
	l = l.filled()
	return &Queue{limits: l, count: count, room: make(chan struct{}, l.Workers), running: map[*exchange.Exchange]exchange.Token{}}
}

// reserve takes n bytes of the room for bodies, or reports that there is none.
func (q *Queue) reserve(n int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+n > q.limits.Bytes {
		return false
	}
	q.bytes += n
	return true
}

func (q *Queue) release(n int64) {
	q.mu.Lock()
	q.bytes -= n
	q.mu.Unlock()
}

// put queues d, whose bytes are reserved.
func (q *Queue) put(d *duplicate) {
	switch err := q.offer(d); {
	case errors.Is(err, errClosed):
		q.drop(d, Closed)
	case err != nil:
		q.drop(d, Full)
	}
}

var (
	errClosed = errors.New("queue is closed")
	errFull   = errors.New("queue is full")
)

func (q *Queue) offer(d *duplicate) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errClosed
	case len(q.waiting) >= q.limits.Length:
		return errFull
	}
	q.waiting = append(q.waiting, d)
	select {
	case q.room <- struct{}{}:
		q.workers.Go(q.work)
	default: // one of those at work takes it
	}
	return nil
}

func (q *Queue) drop(d *duplicate, r Result) {
	q.release(int64(len(d.body)))
	q.count(r)
}

// work sends copies until none waits. That there is none and that the worker's
// place is free is one step, so that no copy is left without a worker.
func (q *Queue) work() {
	x := new(exchange.Exchange)
	for {
		d := q.next(x)
		if d == nil {
			return
		}
		r := q.send(x, d)
		if r == "" { // a panic, and nobody knows in which state it left x
			q.forget(x)
			x, r = new(exchange.Exchange), Failed
		}
		q.drop(d, r)
	}
}

func (q *Queue) forget(x *exchange.Exchange) {
	q.mu.Lock()
	delete(q.running, x)
	q.mu.Unlock()
}

func (q *Queue) next(x *exchange.Exchange) *duplicate {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, x)
	if len(q.waiting) == 0 || q.closed {
		<-q.room
		return nil
	}
	d := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	x.Reset()
	q.running[x] = x.Token()
	return d
}

// Close ends the copies under way and waits for them; those that wait are
// counted as such.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	left := q.waiting
	q.waiting = nil
	for _, token := range q.running {
		token.Cancel(context.Canceled)
	}
	q.mu.Unlock()
	for _, d := range left {
		q.drop(d, Closed)
	}
	q.workers.Wait()
}

// Stats is what a queue holds now.
type Stats struct {
	Waiting int   `json:"waiting"`
	Sending int   `json:"sending"`
	Bytes   int64 `json:"bytes"`
}

// Stats returns what the queue holds now.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{len(q.waiting), len(q.running), q.bytes}
}

// answerTime bounds how long an answer that nobody reads may take to be drained,
// where no deadline of its own does.
const answerTime = 10 * time.Second
