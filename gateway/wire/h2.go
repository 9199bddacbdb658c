package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"breakwater/gateway/exchange"
)

// H2 is the upstream side of HTTP/2: it holds the connections to the endpoints of
// one upstream, each shared by many exchanges, and makes one attempt on one of
// them. The frames are net/http's; which connection is used, and that nothing is
// sent twice, is decided here. It outlives snapshots, and is safe for concurrent use.
type H2 struct {
	cfg       Config
	scheme    string
	transport *http.Transport

	mu     sync.Mutex
	conns  map[string][]*h2conn  // by endpoint, the newest at the end
	dials  map[string]*h2dialing // one at a time for an endpoint
	closed bool
}

type h2conn struct {
	cc    *http.ClientConn
	since time.Time // idle since
	// doubtful: a try got no answer in time. It may be the line, so new exchanges
	// take another connection.
	doubtful bool
}

// h2dialing is a connection on its way; gone closes when it is there, or not.
type h2dialing struct {
	gone chan struct{}
	err  error
}

// NewH2 returns an H2 without connections: over TLS where secure is set, else in
// the clear, by prior knowledge. cfg.Dial opens connections in the clear. Close it.
func NewH2(cfg Config, secure *tls.Config) *H2 {
	cfg = cfg.filled()
	h := &H2{cfg: cfg, scheme: "http", conns: map[string][]*h2conn{}, dials: map[string]*h2dialing{}}
	protocols := new(http.Protocols)
	h.transport = &http.Transport{
		DialContext: cfg.Dial, Protocols: protocols, DisableCompression: true, // what comes is passed on as it is
		MaxResponseHeaderBytes: int64(cfg.MaxHead),
		HTTP2:                  &http.HTTP2Config{WriteByteTimeout: 30 * time.Second},
	}
	if secure == nil {
		protocols.SetUnencryptedHTTP2(true)
		return h
	}
	h.scheme = "https"
	protocols.SetHTTP2(true)
	shake := tlsDial(cfg.Dial, secure, "h2")
	h.transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := shake(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if c.ConnectionState().NegotiatedProtocol != "h2" {
			_ = c.Close()
			return nil, &handshakeError{errors.New("the upstream does not speak HTTP/2")}
		}
		return c, nil
	}
	return h
}

// Serve makes one attempt at x.Endpoint. It is the innermost exchange.Service.
func (h *H2) Serve(x *exchange.Exchange) error {
	if x.Request.Upgrade != "" { // HTTP/2 has no Upgrade, and its CONNECT is not for everybody
		return &exchange.Refusal{Policy: "wire", Reason: "upgrade", Status: http.StatusNotImplemented}
	}
	for again := 0; ; again++ {
		if cause := x.Cause(); cause != nil {
			return failed(x, exchange.Canceled, cause)
		}
		c, err := h.get(x)
		if err != nil {
			return err
		}
		unsent, err := h.roundTrip(x, c)
		// The connection went away before the stream was opened: nobody saw anything.
		if unsent && again < 3 && x.Request.Body.Rewind() == nil {
			continue
		}
		return err
	}
}

// get returns a connection with room for one more exchange, which it reserves.
func (h *H2) get(x *exchange.Exchange) (*h2conn, error) {
	for {
		h.mu.Lock()
		list := h.conns[x.Endpoint]
		for i := len(list) - 1; i >= 0; i-- {
			if !list[i].doubtful && list[i].cc.Reserve() == nil {
				c := list[i]
				h.mu.Unlock()
				return c, nil
			}
		}
		d := h.dials[x.Endpoint]
		if d == nil {
			d = &h2dialing{gone: make(chan struct{})}
			h.dials[x.Endpoint] = d
			go h.dial(x.Endpoint, d) // ends after ConnectTimeout at the latest
		}
		h.mu.Unlock()
		if err := x.Wait(2*h.cfg.ConnectTimeout, d.gone); err != nil {
			return nil, failed(x, exchange.Canceled, err)
		}
		if d.err != nil {
			return nil, dialFailure(x, d.err)
		}
	}
}

// dial opens a connection for whoever waits. It is nobody's in particular, and
// goes on when the first who wanted it has gone.
func (h *H2) dial(endpoint string, d *h2dialing) {
	ctx, cancel := context.WithTimeout(context.Background(), h.cfg.ConnectTimeout)
	defer cancel()
	cc, err := h.transport.NewClientConn(ctx, h.scheme, endpoint)
	if err != nil && ctx.Err() != nil {
		err = context.DeadlineExceeded
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.dials, endpoint)
	d.err = err
	if err == nil {
		h.conns[endpoint] = append(h.conns[endpoint], &h2conn{cc: cc, since: time.Now()})
	}
	close(d.gone)
}

// dialFailure gives an error of connecting its kind; nothing was sent.
func dialFailure(x *exchange.Exchange, err error) error {
	ue := failed(x, exchange.Dial, err)
	ue.Unprocessed = true
	if _, shaking := errors.AsType[*handshakeError](err); shaking {
		ue.Kind = exchange.TLS
	} else if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		ue.Kind, ue.Err = exchange.ConnectTimeout, context.DeadlineExceeded
	}
	return ue
}

// doubt lets new exchanges take another connection than c.
func (h *H2) doubt(c *h2conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.doubtful = true
}

// Idle is the number of connections to endpoint that nobody uses.
func (h *H2) Idle(endpoint string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns[endpoint] {
		if c.cc.Err() == nil && c.cc.InFlight() == 0 {
			n++
		}
	}
	return n
}

// Tick closes what has been idle too long at now, and forgets what is closed.
func (h *H2) Tick(now time.Time) {
	var old []*h2conn
	h.mu.Lock()
	for endpoint, list := range h.conns {
		kept := list[:0]
		for _, c := range list {
			switch {
			case c.cc.Err() != nil: // closed already
			case c.cc.InFlight() > 0:
				c.since = now
				kept = append(kept, c)
			case h.closed || c.doubtful || now.Sub(c.since) >= h.cfg.IdleTimeout:
				old = append(old, c)
			default:
				kept = append(kept, c)
			}
		}
		clear(list[len(kept):])
		if h.conns[endpoint] = kept; len(kept) == 0 {
			delete(h.conns, endpoint)
		}
	}
	h.mu.Unlock()
	for _, c := range old {
		_ = c.cc.Close() // nobody waits for it
	}
}

// Close closes the idle connections; Tick those in use, once they are idle. An
// exchange of an older snapshot may still come and dial.
func (h *H2) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.Tick(time.Now())
}
