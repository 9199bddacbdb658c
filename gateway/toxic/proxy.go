package toxic

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// proxy is a port that forwards to an upstream.
type proxy struct {
	server *Server
	name   string

	mu       sync.Mutex
	listen   string // the real address, once there was one
	upstream string
	listener net.Listener // nil: disabled
	links    map[*link]struct{}
	running  sync.WaitGroup
	all      []*toxic
	next     atomic.Int64 // number of the last connection

	streams map[string]*atomic.Pointer[set] // by direction
}

// set is the toxics of one direction, in their order; never changed.
type set struct {
	toxics  []*toxic
	changed chan struct{} // closed when there is another one
}

func newProxy(s *Server, name, listen, to string) *proxy {
	p := &proxy{server: s, name: name, listen: cmp.Or(listen, "localhost:0"), upstream: to, links: map[*link]struct{}{}, streams: map[string]*atomic.Pointer[set]{}}
	for _, dir := range []string{upstream, downstream} {
		p.streams[dir] = new(atomic.Pointer[set])
		p.streams[dir].Store(&set{changed: make(chan struct{})})
	}
	return p
}

// view is a proxy as clients see it.
type view struct {
	Name     string   `json:"name"`
	Listen   string   `json:"listen"`
	Upstream string   `json:"upstream"`
	Enabled  bool     `json:"enabled"`
	Toxics   []*toxic `json:"toxics"`
}

func (p *proxy) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	return view{p.name, p.listen, p.upstream, p.listener != nil, append([]*toxic{}, p.all...)}
}

// enable opens the port.
func (p *proxy) enable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.listen)
	if err != nil {
		return &mistake{err.Error(), 500}
	}
	p.listener, p.listen = l, l.Addr().String()
	p.running.Go(func() { p.accept(l) })
	return nil
}

// disable closes the port and every connection through it, and waits until they
// are gone.
func (p *proxy) disable() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for want of files, most likely
			p.server.cfg.Log.Warn("connection not accepted", "proxy", p.name, "err", err)
			over, stop := p.server.cfg.Alarm.After(acceptPause)
			<-over
			stop()
			continue
		}
		p.mu.Lock()
		if p.listener != l || len(p.links) >= maxLinks {
			p.mu.Unlock()
			_ = c.Close()
			continue
		}
		k := &link{proxy: p, number: p.next.Add(1), client: c, done: make(chan struct{})}
		p.links[k] = struct{}{}
		to := p.upstream
		p.mu.Unlock()
		p.running.Go(func() {
			k.run(to)
			p.mu.Lock()
			delete(p.links, k)
			p.mu.Unlock()
		})
	}
}

const acceptPause = 50 * time.Millisecond

// maxLinks bounds the memory of one proxy: each connection may hold two queues.
const maxLinks = 1000

// change makes toxics, in their order, those of p.
func (p *proxy) change(toxics []*toxic) {
	p.all = toxics
	for dir, at := range p.streams {
		next := &set{changed: make(chan struct{})}
		for _, t := range toxics {
			if t.Stream == dir {
				next.toxics = append(next.toxics, t)
			}
		}
		if before := at.Load(); !slices.Equal(before.toxics, next.toxics) {
			at.Store(next)
			close(before.changed)
		}
	}
}

// find is called with the lock held.
func (p *proxy) find(name string) int {
	return slices.IndexFunc(p.all, func(t *toxic) bool { return t.Name == name })
}

// clear takes all toxics away, or those that have lived since before.
func (p *proxy) clear(before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(slices.DeleteFunc(slices.Clone(p.all), func(t *toxic) bool { return before.IsZero() || t.began.Before(before) }))
}

// link is one connection through a proxy.
type link struct {
	proxy          *proxy
	number         int64
	client, server net.Conn
	mu             sync.Mutex
	done           chan struct{}
	closed         bool
}

func (l *link) run(to string) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	})
	server, err := l.proxy.server.cfg.Dial(ctx, "tcp", to)
	cancel()
	watching.Wait()
	if err != nil {
		l.close()
		return
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		_ = server.Close()
		return
	}
	l.server = server
	l.mu.Unlock()
	var both sync.WaitGroup
	for dir, ends := range map[string][2]net.Conn{upstream: {l.client, server}, downstream: {server, l.client}} {
		p := &pump{link: l, at: l.proxy.streams[dir], dir: dir, src: ends[0], dst: ends[1], queue: make(chan chunk, queued), states: map[string]*state{}}
		both.Go(p.read)
		both.Go(p.write)
	}
	both.Wait()
	l.close()
}

const dialTime = 10 * time.Second

// close ends both halves.
func (l *link) close() { l.end(false) }

// end is close, or with reset a reset of both connections.
func (l *link) end(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	for _, c := range []net.Conn{l.client, l.server} {
		if c == nil {
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // an error: it is closed already
		}
		_ = c.Close()
	}
}
