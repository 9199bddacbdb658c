package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/internal/socket"
)

// Pool holds the connections to the endpoints of one upstream. It outlives
// snapshots, and is safe for concurrent use.
type Pool struct {
	cfg Config
	// shelves by endpoint: a map that never changes, but is replaced, so that no
	// two requests to different endpoints meet at a lock.
	shelves atomic.Pointer[map[string]*shelf]
	mu      sync.Mutex // of replacing the map
	closed  atomic.Bool

	buffers sync.Pool       // *[]byte, of senders
	rooms   *socket.Buffers // of answers
}

// shelf holds the idle connections to one endpoint.
type shelf struct {
	mu   sync.Mutex
	idle []*conn // the last one used at the end
	used bool    // since the last Tick
	gone bool    // taken out of the map: it keeps nothing any more
}

// NewPool returns an empty pool. Close it, or let Run do so.
func NewPool(cfg Config) *Pool {
	p := &Pool{cfg: cfg.filled(), rooms: socket.NewBuffers(readSize)}
	p.shelves.Store(&map[string]*shelf{})
	p.buffers.New = func() any { b := make([]byte, chunkFront+32<<10+chunkBack); return &b }
	return p
}

// sweepEvery is how often idle connections are looked at.
const sweepEvery = 10 * time.Second

// Run closes connections that were idle too long, until ctx ends; then all.
func (p *Pool) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	defer p.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			p.Tick(now)
		}
	}
}

// Tick closes what has been idle too long at now, and forgets endpoints that
// nobody asked for since the last Tick.
func (p *Pool) Tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := map[string]*shelf{}
	for endpoint, s := range *p.shelves.Load() {
		if s.sweep(now) {
			kept[endpoint] = s
		}
	}
	p.shelves.Store(&kept)
}

// sweep reports whether the shelf is of any use.
func (s *shelf) sweep(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = slices.DeleteFunc(s.idle, func(c *conn) bool {
		old := !now.Before(c.until)
		if old {
			_ = c.nc.Close() // idle: nobody waits for it
		}
		return old
	})
	s.gone = len(s.idle) == 0 && !s.used
	s.used = false
	return !s.gone
}

// Close closes the idle connections; those in use are closed when they are
// given back.
func (p *Pool) Close() {
	p.closed.Store(true)
	for _, s := range *p.shelves.Load() {
		s.mu.Lock()
		for _, c := range s.idle {
			_ = c.nc.Close()
		}
		s.idle = nil
		s.mu.Unlock()
	}
}

// Idle is the number of idle connections to endpoint.
func (p *Pool) Idle(endpoint string) int {
	s := (*p.shelves.Load())[endpoint]
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.idle)
}

// shelf returns the shelf of endpoint, made where there is none yet.
func (p *Pool) shelf(endpoint string) *shelf {
	if s := (*p.shelves.Load())[endpoint]; s != nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.shelves.Load()
	if s := old[endpoint]; s != nil {
		return s
	}
	next := maps.Clone(old)
	s := new(shelf)
	next[strings.Clone(endpoint)] = s
	p.shelves.Store(&next)
	return s
}

// get returns an idle connection that still looks alive, or a new one.
func (p *Pool) get(x *exchange.Exchange, fresh bool) (*conn, error) {
	s := p.shelf(x.Endpoint)
	for !fresh {
		c := s.take()
		if c == nil {
			break
		}
		now := time.Now()
		deadline, _ := x.Deadline()
		c.allow(deadline, now) // the one before may have passed, and then nothing can be read
		// An upstream that closed, or sent what nobody asked for, has made the
		// connection useless; to look costs one system call and saves a failed try.
		// After a rest of milliseconds there is hardly ever something to see, and
		// a request that may be sent twice needs no such care.
		hot := now.Sub(c.since) < lookAfter && safe(x.Request.Method)
		if !now.Before(c.until) || !hot && !c.quiet() {
			_ = c.nc.Close()
			continue
		}
		c.reused, c.begun = true, now
		return c, nil
	}
	return p.dial(x, s)
}

// lookAfter is the rest after which a kept connection is looked at before it
// carries a request that changes nothing.
const lookAfter = 5 * time.Millisecond

func safe(method string) bool { return method == "GET" || method == "HEAD" }

func (s *shelf) take() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
	last := len(s.idle) - 1
	if last < 0 {
		return nil
	}
	c := s.idle[last]
	s.idle[last] = nil
	s.idle = s.idle[:last]
	return c
}

// put gives c back, unless the pool is full or closed.
func (p *Pool) put(c *conn, now time.Time) {
	c.since, c.until = now, now.Add(min(p.cfg.IdleTimeout, c.keepAlive))
	s := c.shelf
	s.mu.Lock()
	full := p.closed.Load() || s.gone || len(s.idle) >= p.cfg.MaxIdle
	if !full {
		s.idle = append(s.idle, c)
	}
	s.mu.Unlock()
	if full {
		_ = c.nc.Close()
	}
}

func (p *Pool) dial(x *exchange.Exchange, s *shelf) (*conn, error) {
	ctx, cancel := x.Detached()
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer stop()
	nc, err := p.cfg.Dial(ctx, "tcp", x.Endpoint)
	if err == nil {
		c := &conn{nc: nc, quick: socket.New(nc), pool: p, shelf: s, endpoint: x.Endpoint}
		if sc, ok := nc.(syscall.Conn); ok {
			c.raw, _ = sc.SyscallConn() // nil: it cannot be looked at
			c.look = c.peek
		}
		_, c.patient = nc.(*net.TCPConn)
		c.begun = time.Now()
		deadline, _ := x.Deadline()
		c.allow(deadline, c.begun)
		return c, nil
	}
	if cause := x.Cause(); cause != nil {
		return nil, failed(x, exchange.Canceled, cause)
	}
	ue := failed(x, exchange.Dial, err)
	ue.Unprocessed = true
	if ctx.Err() != nil || isTimeout(err) {
		ue.Kind, ue.Err = exchange.ConnectTimeout, context.DeadlineExceeded
		if dns, ok := errors.AsType[*net.DNSError](err); ok { // it is the name that was waited for
			ue.Err = fmt.Errorf("%w: %w", context.DeadlineExceeded, dns)
		}
	}
	return nil, ue
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
