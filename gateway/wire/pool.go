package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"breakwater/gateway/exchange"
)

// Pool holds the connections to the endpoints of one upstream. It outlives
// snapshots, and is safe for concurrent use.
type Pool struct {
	cfg    Config
	mu     sync.Mutex
	idle   map[string][]*conn // by endpoint, the last one used at the end
	closed bool

	buffers sync.Pool // *[]byte, of senders
}

// NewPool returns an empty pool. Close it, or let Run do so.
func NewPool(cfg Config) *Pool {
	p := &Pool{cfg: cfg.filled(), idle: map[string][]*conn{}}
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

// Tick closes what has been idle too long at now.
func (p *Pool) Tick(now time.Time) {
	var old []*conn
	p.mu.Lock()
	for endpoint, list := range p.idle {
		kept := list[:0]
		for _, c := range list {
			if now.Before(c.until) {
				kept = append(kept, c)
			} else {
				old = append(old, c)
			}
		}
		clear(list[len(kept):])
		if p.idle[endpoint] = kept; len(kept) == 0 {
			delete(p.idle, endpoint)
		}
	}
	p.mu.Unlock()
	closeAll(old)
}

// Close closes the idle connections; those in use are closed when they are
// given back.
func (p *Pool) Close() {
	p.mu.Lock()
	var all []*conn
	for _, list := range p.idle {
		all = append(all, list...)
	}
	p.idle, p.closed = map[string][]*conn{}, true
	p.mu.Unlock()
	closeAll(all)
}

func closeAll(list []*conn) {
	for _, c := range list {
		_ = c.nc.Close() // idle: nobody waits for it
	}
}

// Idle is the number of idle connections to endpoint.
func (p *Pool) Idle(endpoint string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle[endpoint])
}

// get returns an idle connection that still looks alive, or a new one.
func (p *Pool) get(x *exchange.Exchange, fresh bool) (*conn, error) {
	for !fresh {
		c := p.take(x.Endpoint)
		if c == nil {
			break
		}
		// An upstream that closed, or sent what nobody asked for, has made the
		// connection useless; to look costs one system call and saves a failed try.
		if !time.Now().Before(c.until) || !c.quiet() {
			_ = c.nc.Close()
			continue
		}
		c.reused = true
		return c, nil
	}
	return p.dial(x)
}

func (p *Pool) take(endpoint string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[endpoint]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	c := list[last]
	list[last] = nil
	p.idle[endpoint] = list[:last]
	return c
}

// put gives c back, unless the pool is full or closed.
func (p *Pool) put(c *conn, now time.Time) {
	c.until = now.Add(min(p.cfg.IdleTimeout, c.keepAlive))
	p.mu.Lock()
	list := p.idle[c.endpoint]
	full := p.closed || len(list) >= p.cfg.MaxIdle
	if !full {
		p.idle[c.endpoint] = append(list, c)
	}
	p.mu.Unlock()
	if full {
		_ = c.nc.Close()
	}
}

func (p *Pool) dial(x *exchange.Exchange) (*conn, error) {
	ctx, cancel := x.Detached()
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	defer stop()
	nc, err := p.cfg.Dial(ctx, "tcp", x.Endpoint)
	if err == nil {
		c := &conn{nc: nc, pool: p, endpoint: x.Endpoint, buf: make([]byte, readSize)}
		if sc, ok := nc.(syscall.Conn); ok {
			c.raw, _ = sc.SyscallConn() // nil: it cannot be looked at
		}
		return c, nil
	}
	if cause := x.Cause(); cause != nil {
		return nil, failed(x, exchange.Canceled, cause)
	}
	ue := failed(x, exchange.Dial, err)
	ue.Unprocessed = true
	if ctx.Err() != nil || isTimeout(err) {
		ue.Kind, ue.Err = exchange.ConnectTimeout, context.DeadlineExceeded
	}
	return nil, ue
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
