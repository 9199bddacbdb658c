package front

import (
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// net/http sets a deadline five times a request, and has a goroutine read behind
// each request to learn that its client has gone: together a tenth of what a
// request costs. Of plain HTTP/1 connections deadlines are therefore only noted,
// and clients looked for, by a sweep over all connections; both are late by as
// much as a sweep.
const (
	sweepEvery = 100 * time.Millisecond
	// A client is looked for each sweep while its request is young, and less often
	// when it takes long: streams are many and last for hours.
	young  = time.Second
	seldom = 5
)

// sweeper looks at the connections of one listener while there are any.
type sweeper struct {
	base time.Time
	now  atomic.Int64 // since base, at the last sweep or first connection; never 0

	mu    sync.Mutex
	conns []*conn
	timer *time.Timer // nil: nobody is there, and it does not run
	turn  int
}

func (s *sweeper) read() int64 {
	now := int64(time.Since(s.base)) + 1
	s.now.Store(now)
	return now
}

func (s *sweeper) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.at = len(s.conns)
	s.conns = append(s.conns, c)
	if s.timer == nil {
		s.read()
		s.timer = time.AfterFunc(sweepEvery, s.sweep)
	}
}

func (s *sweeper) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.conns) - 1
	s.conns[c.at] = s.conns[last]
	s.conns[c.at].at = c.at
	s.conns[last] = nil
	s.conns = s.conns[:last]
	if last == 0 {
		s.timer.Stop() // a sweep that has begun sees that there is nothing to do
		s.timer, s.conns = nil, nil
	}
}

func (s *sweeper) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return
	}
	now := s.read()
	s.turn++
	for _, c := range s.conns {
		c.reads.sweep(now)
		c.writes.sweep(now)
		if c.fast.Load() || c.leaves.spied.Load() != nil {
			c.waits.look(c, now, (s.turn+c.at)%seldom == 0)
		}
	}
	s.timer.Reset(sweepEvery)
}

// forced says that a deadline is, or may be, set with the connection itself.
const forced = -1

// patience is the read or write deadline of a connection that the sweeper keeps.
type patience struct {
	by    atomic.Int64 // since the sweeper's base; 0: none
	mu    sync.Mutex   // of setting the connection's own
	force func(time.Time) error
}

// set makes t the deadline. One that has passed is in force at once: somebody is
// to be woken.
func (p *patience) set(s *sweeper, t time.Time) error {
	by := int64(0)
	if !t.IsZero() {
		if by = int64(t.Sub(s.base)); by <= s.now.Load() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.by.Store(forced)
			return p.force(t)
		}
	}
	return p.until(by)
}

// until makes by, on the sweeper's clock, the deadline.
func (p *patience) until(by int64) error {
	if p.by.Swap(by) != forced {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by.Load() == forced { // somebody was faster
		return nil
	}
	return p.force(time.Time{})
}

// sweep puts the deadline in force where its time has come.
func (p *patience) sweep(now int64) {
	by := p.by.Load()
	if by <= 0 || by > now {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by.CompareAndSwap(by, forced) {
		_ = p.force(time.Unix(1, 0)) // an error: it is closed already
	}
}

// leaves is how a client that leaves is told, where the sweeper can look for it.
//
// net/http reads one byte behind a request, into a byte that is the same for the
// whole life of a connection. Where the sweeper looks, that read is answered with
// nothing at once, which ends its goroutine and costs no system call. The byte is
// learned from requests without a body: while one is answered, nothing else is read.
type leaves struct {
	spied  atomic.Pointer[byte] // into which net/http reads behind a request; nil: not known
	single atomic.Pointer[byte] // into which a single byte was read last
	peek   func() (gone bool)   // nil: it cannot be looked for
}

// spies reports whether a read into p is the one behind a request.
func (l *leaves) spies(p []byte) bool {
	if len(p) != 1 || l.peek == nil {
		return false
	}
	if l.spied.Load() == &p[0] {
		return true
	}
	l.single.Store(&p[0])
	return false
}

// begin and learn stand around the answer of a request without a body.
func (l *leaves) begin() {
	if l.peek != nil && l.spied.Load() == nil {
		l.single.Store(nil)
	}
}

func (l *leaves) learn() {
	if l.peek != nil && l.spied.Load() == nil {
		l.spied.CompareAndSwap(nil, l.single.Load())
	}
}

// waits is the request of HTTP/1 that is being answered. A client that leaves
// shows in Read, since net/http reads on behind a request, or to the sweeper; to
// be told by the request's context costs five allocations a request.
type waits struct {
	mu    sync.Mutex
	token exchange.Token
	since int64 // by the sweeper's clock
	any   bool
	ended bool // nothing more comes from the client
}

// begin has t cancelled when the client goes, or at once where it has gone.
func (w *waits) begin(t exchange.Token, now int64) {
	w.mu.Lock()
	w.token, w.any, w.since = t, true, now
	ended := w.ended
	w.mu.Unlock()
	if ended {
		t.Cancel(exchange.ErrClientGone)
	}
}

// end forgets the request; a late cancel of its token would change nothing.
func (w *waits) end() {
	w.mu.Lock()
	w.any = false
	w.mu.Unlock()
}

func (w *waits) gone() {
	w.mu.Lock()
	w.ended = true
	t, any := w.token, w.any
	w.mu.Unlock()
	if any {
		t.Cancel(exchange.ErrClientGone)
	}
}

// look sees whether the client of a request that has waited from one sweep to the
// next is still
// there.
func (w *waits) look(c *conn, now int64, turn bool) {
	w.mu.Lock()
	waited := time.Duration(now - w.since)
	due := w.any && !w.ended && waited > sweepEvery*3/2 && (turn || waited < young)
	w.mu.Unlock()
	if due && c.leaves.peek() {
		w.gone()
	}
}
