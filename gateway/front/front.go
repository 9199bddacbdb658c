// Package front is the client side of HTTP: it filters what comes in, fills an
// exchange, has it served, and writes the answer so that a client can always
// tell a whole one from a cut one.
package front

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/internal/socket"
	"breakwater/internal/retrylog"
)

// Config of a Front.
type Config struct {
	// Service answers what passed the filter. It returns nil with an answer in x,
	// or an error where nobody waits for one.
	Service exchange.Service
	// Refuse answers, and records, what did not pass.
	Refuse func(x *exchange.Exchange, why *exchange.Refusal) error
	// Trusted reports whether a peer's forwarded and control fields are believed;
	// nil: nobody's are.
	Trusted func(peer netip.Addr) bool
	// Unparsed is told of a message that net/http itself refused, with the status
	// it gave; nil: nobody is.
	Unparsed func(peer string, status int)
	// Listening says how the next connection is taken; nil: by the standard.
	Listening func() Listening
	// Timed reports whether somebody wants to know how late requests are taken up
	// (Exchange.Late), which costs a little; nil: nobody does.
	Timed func() bool
	// Limits of a request; zero fields take the standard ones.
	Limits Limits
	Log    *slog.Logger // nil: slog.Default
}

// Limits bound a request before it is routed.
type Limits struct {
	Head   int // bytes of the head; 0: 64 KiB
	Fields int // 0: 128
	Target int // bytes of path and query; 0: 16 KiB
	Params int // of the query; 0: 1000
	// HeadTime is how long a head may take; 0: 5 s.
	HeadTime time.Duration
	// BodyGrace is how long a body may take beyond what its bytes allow at
	// BodyRate a second; 0: 10 s and 1 KiB.
	BodyGrace time.Duration
	BodyRate  int
	// WriteTime is how long the client may take to read what was written; 0: 30 s.
	WriteTime time.Duration
}

func (l Limits) filled() Limits {
	l.Head, l.Fields = or(l.Head, 64<<10), or(l.Fields, 128)
	l.Target, l.Params = or(l.Target, 16<<10), or(l.Params, 1000)
	l.HeadTime = or(l.HeadTime, 5*time.Second)
	l.BodyGrace, l.BodyRate = or(l.BodyGrace, 10*time.Second), or(l.BodyRate, 1<<10)
	l.WriteTime = or(l.WriteTime, 30*time.Second)
	return l
}

func or[T int | time.Duration](v, standard T) T {
	if v <= 0 {
		return standard
	}
	return v
}

// Front is the two faces of a Service: the fast one, and that of net/http for what
// the fast one does not take. It is safe for concurrent use.
type Front struct {
	cfg       Config
	exchanges sync.Pool
	buffers   sync.Pool       // *[]byte
	small     sync.Pool       // *[]byte, for answers that fit in
	heads     *socket.Buffers // for requests
	tunnels   group           // *pipe
	quick     group           // *fast
	stats     stats
	date      date
	closing   atomic.Bool // a server of ours ends its connections
}

// New returns a Front.
func New(cfg Config) *Front {
	cfg.Limits = cfg.Limits.filled()
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	f := &Front{cfg: cfg}
	f.exchanges.New = func() any { x := new(exchange.Exchange); x.Reset(); return x }
	f.buffers.New = func() any { b := make([]byte, 32<<10); return &b }
	f.heads = socket.NewBuffers(gatherFirst)
	f.small.New = func() any { b := make([]byte, 4<<10); return &b }
	return f
}

// idleTime is how long a client's connection may rest between two requests: more
// than the 90 s of common clients, so that they close and not we.
const idleTime = 120 * time.Second

// maxStreams is how many requests one HTTP/2 connection may have under way.
const maxStreams = 100

// Server returns an http.Server with the limits that the handler alone cannot
// enforce. The caller serves and shuts it down.
func (f *Front) Server() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	// By prior knowledge, or under TLS that the Listener has taken off.
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Handler:           f,
		Protocols:         protocols,
		ReadHeaderTimeout: f.cfg.Limits.HeadTime,
		IdleTimeout:       idleTime,
		// net/http reads 4 KiB more than it is told.
		MaxHeaderBytes:               f.cfg.Limits.Head - 4<<10,
		ErrorLog:                     slog.NewLogLogger(f.cfg.Log.Handler(), slog.LevelDebug),
		DisableGeneralOptionsHandler: true, // OPTIONS * is filtered like everything
		ConnContext:                  connContext,
		HTTP2: &http.HTTP2Config{
			// One connection's share: what was reset counts until its handler is done.
			MaxConcurrentStreams: maxStreams,
			MaxReadFrameSize:     16 << 10,
			// Windows that let an upload of a good line through, and cap what a
			// client can make us hold.
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     256 << 10,
			WriteByteTimeout:              f.cfg.Limits.WriteTime,
		},
	}
	s.RegisterOnShutdown(func() { f.closing.Store(true) })
	return s
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.serve(w, r) {
		panic(http.ErrAbortHandler) // the one way to let the client see a cut
	}
}

// serve reports whether the client got a whole answer.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) (whole bool) {
	f.stats.standard.Add(1)
	x := f.exchanges.Get().(*exchange.Exchange)
	x.Event.Start = time.Now()
	c, ok := r.Context().Value(connKey{}).(*conn)
	if ok {
		c.busy.Add(1)
		defer c.busy.Add(-1)
		x.Request.Scheme = scheme(c.secure)
	} else {
		x.Request.Scheme = scheme(r.TLS != nil)
	}
	var rc *http.ResponseController // made only for those who need it
	refusal := f.fill(x, r)
	bodiless := r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody
	if bodiless {
		x.Request.Body.Set(nil, 0)
	} else {
		rc = http.NewResponseController(w)
		x.Request.Body.Set(&upload{
			limits: &f.cfg.Limits, x: x, r: r, rc: rc, start: x.Event.Start, stream: exchange.IsGRPC(&x.Request.Head),
		}, r.ContentLength)
	}
	token := x.Token()
	watched := ok && r.ProtoMajor == 1
	if watched {
		c.waits.begin(token, c.sweeper.now.Load())
		defer c.waits.end()
		if bodiless {
			c.leaves.begin()
		}
	} else {
		stop := context.AfterFunc(r.Context(), func() { token.Cancel(exchange.ErrClientGone) })
		defer stop()
	}
	if r.ProtoAtLeast(1, 1) {
		x.Inform = f.informer(w, c, watched)
	}
	defer func() {
		if !f.settle(x, recover()) {
			whole = false
		}
	}()

	var err error
	if refusal != nil {
		err = f.cfg.Refuse(x, refusal)
	} else {
		err = f.cfg.Service.Serve(x)
	}
	if err != nil { // nobody waits, or shall have anything
		if cut, ok := errors.AsType[*exchange.Severed](err); ok && cut.Reset && watched {
			c.reset()
		}
		x.End(exchange.Classify(err, 0))
		return false
	}
	if rc == nil && x.Response.Tunnel != nil {
		rc = http.NewResponseController(w)
	}
	if x.Response.Tunnel != nil {
		if watched { // either side may have said its last word and go on listening
			c.waits.end()
		}
		return f.tunnel(x, rc)
	}
	if watched && bodiless {
		defer c.leaves.learn()
	}
	// A chunked upload and HTTP/1.0 end their connection: net/http takes some
	// framings for good that others read in another way, and what follows on
	// the connection could be a smuggled request (RFC 9112 section 6.1).
	switch {
	case r.ProtoMajor > 1:
	case refusal != nil || len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1):
		w.Header().Set("Connection", "close")
	case watched && f.plain(x, c, r):
		c.answered = true
		return f.ended(x, f.write(x, c, false))
	}
	return f.answer(x, w, rc)
}

// settle puts x back, which has ended. It reports false where a panic came first:
// nobody knows in which state x is then, so it is ended, and not used again.
func (f *Front) settle(x *exchange.Exchange, panicked any) bool {
	if panicked == nil {
		x.Reset()
		f.exchanges.Put(x)
		return true
	}
	if panicked != http.ErrAbortHandler {
		f.cfg.Log.Error("panic while answering", "request_id", x.Event.RequestID, "err", panicked)
	}
	x.End(retrylog.Panicked)
	return false
}

// informer returns what passes a 1xx on: one for all requests of a connection
// that has them one by one.
func (f *Front) informer(w http.ResponseWriter, c *conn, one bool) func(int, *exchange.Head) {
	if !one {
		return func(status int, head *exchange.Head) { inform(w, status, head) }
	}
	if c.w = w; c.inform == nil {
		c.inform = func(status int, head *exchange.Head) { inform(c.w, status, head) }
	}
	return c.inform
}

// peerOf is the address of the connection's other end.
func peerOf(r *http.Request) (text string, addr netip.Addr) {
	return splitAddr(r.RemoteAddr)
}

func splitAddr(address string) (text string, addr netip.Addr) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	addr, _ = netip.ParseAddr(host) // the zero Addr is in no prefix
	return host, addr.Unmap()
}

func scheme(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}
