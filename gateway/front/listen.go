package front

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/internal/socket"
)

// Listening is how connections are taken. A change goes for new ones.
type Listening struct {
	TLS *tls.Config // nil: plain
	// HTTP1Only refuses HTTP/2, which is else spoken by ALPN, or without TLS by
	// those who know beforehand (h2c).
	HTTP1Only bool
	// Max connections at a time; 0: nearly half of the files the process may open,
	// since upstreams need as many.
	Max int
	// PerAddress is how many of them one client may have, where an IPv6 client is
	// a network of 64 bits; 0: any number, for all may come through one balancer.
	PerAddress int
	// Fast has the fast face take what it can.
	Fast bool
}

// Stats count what handlers never see.
type Stats struct {
	Open         int64 `json:"open"`          // connections
	TooMany      int64 `json:"too_many"`      // closed at once: Max
	TooManyOfOne int64 `json:"too_many_peer"` // closed at once: PerAddress
	Handshakes   int64 `json:"handshakes_failed"`
	Floods       int64 `json:"floods"` // closed for what the client sent
	// Requests by the face that served them. One that was begun by the fast face and
	// handed over counts as the other's.
	Fast     int64 `json:"requests_fast"`
	Standard int64 `json:"requests_standard"`
}

type stats struct {
	open, tooMany, tooManyOfOne, handshakes, floods atomic.Int64
	fast, standard                                  atomic.Int64
}

// Stats since the start.
func (f *Front) Stats() Stats {
	s := &f.stats
	return Stats{
		s.open.Load(), s.tooMany.Load(), s.tooManyOfOne.Load(), s.handshakes.Load(), s.floods.Load(),
		s.fast.Load(), s.standard.Load(),
	}
}

// Listen returns l with the limits that connections have; the Server is to serve
// it. A connection is accepted when its first head has come, and counts before.
func (f *Front) Listen(l net.Listener) net.Listener {
	return &listener{
		Listener: l, front: f, most: descriptors() * 45 / 100,
		ready: make(chan *conn), failed: make(chan error), done: make(chan struct{}),
		peers: map[netip.Addr]int{}, held: map[*conn]struct{}{},
		sweeper: &sweeper{base: time.Now()},
	}
}

type listener struct {
	net.Listener
	front   *Front
	most    int // connections, where nobody says
	sweeper *sweeper

	first  sync.Once
	all    sync.WaitGroup // accept, and a gatherer for each of held
	ready  chan *conn
	failed chan error
	done   chan struct{} // closed with the listener

	mu     sync.Mutex
	peers  map[netip.Addr]int
	held   map[*conn]struct{} // whose head has not come
	closed bool
	ending atomic.Bool // the same, for those who cannot wait for a lock
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.first.Do(func() { l.all.Go(l.accept) })
	select {
	case c := <-l.ready:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// take makes nc a connection of ours. What is too much is closed without a word,
// for which it returns nil: an answer would cost what is to be saved.
func (l *listener) take(nc net.Conn) *conn {
	how := Listening{}
	if l.front.cfg.Listening != nil {
		how = l.front.cfg.Listening()
	}
	peer, addr := splitAddr(nc.RemoteAddr().String())
	if !l.admit(how, addr) {
		_ = nc.Close()
		return nil
	}
	c := &conn{Conn: nc, front: l.front, peer: peer, http2: !how.HTTP1Only, sweeper: l.sweeper}
	if how.TLS != nil {
		c.Conn, c.secure = tls.Server(nc, how.TLS), true
	} else {
		c.leaves.peek = peeker(nc)
		c.quick = how.Fast && c.leaves.peek != nil // or nobody could tell that a client has gone
	}
	c.sock = socket.New(c.Conn)
	c.reads.force, c.writes.force = c.Conn.SetReadDeadline, c.Conn.SetWriteDeadline
	c.reads.by.Store(forced) // the first head has a deadline of its own
	c.free = func() {
		l.sweeper.remove(c)
		l.release(addr)
	}
	l.sweeper.add(c)
	return c
}

func (l *listener) admit(how Listening, addr netip.Addr) bool {
	if how.Max <= 0 {
		how.Max = l.most
	}
	s := &l.front.stats
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case how.Max > 0 && s.open.Load() >= int64(how.Max):
		s.tooMany.Add(1)
		return false
	case how.PerAddress > 0 && l.peers[network(addr)] >= how.PerAddress:
		s.tooManyOfOne.Add(1)
		return false
	}
	s.open.Add(1)
	l.peers[network(addr)]++
	return true
}

func (l *listener) release(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.front.stats.open.Add(-1)
	if l.peers[network(addr)]--; l.peers[network(addr)] <= 0 {
		delete(l.peers, network(addr))
	}
}

// network is what one client has: an address, or 64 bits of IPv6.
func network(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}
