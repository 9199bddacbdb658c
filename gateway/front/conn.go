package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/internal/arrival"
	"breakwater/gateway/internal/socket"
)

// What a connection was found to speak.
const (
	unknown int32 = iota
	http1
	http2
)

// net/http waits for the first bytes of a preface, were it clear from the first
// that none will come, and a message of HTTP/0.9 may be shorter than that. It gives
// up after so many reads in a row that yield nothing; an error would end more.
const (
	peeked    = len("PRI * HTTP/2.0")
	fruitless = 100
)

// conn is a client's connection as net/http sees it. It shakes hands where TLS is
// spoken, looks at the frames of HTTP/2, since net/http bounds few of them, and
// tells of the messages that net/http refuses by itself. For HTTP/1 it costs two
// atomic loads a message.
type conn struct {
	net.Conn              // a *tls.Conn where secure
	sock     *socket.Conn // the same, for bytes of the fast face
	front    *Front
	peer     string
	secure   bool
	http2    bool // may be spoken
	free     func()
	sweeper  *sweeper
	at       int  // in the sweeper's list, and of its lock
	quick    bool // the fast face may have it
	reads    patience
	writes   patience
	leaves   leaves
	closed   sync.Once

	kind atomic.Int32
	fast atomic.Bool  // the fast face has it
	busy atomic.Int32 // handlers that run

	// Of the goroutine that reads.
	early  []byte          // gathered, and not yet read
	stamps *arrival.Reader // nil until somebody wants to know how late a read was
	late   time.Duration   // the last one was
	since  time.Time       // when the last answer went out: what came before waited for that
	due    time.Time       // until when the first head has to come; zero once net/http knows
	seen   int             // bytes of the preface
	empty  int             // reads that are to yield nothing
	in     frames
	client client
	armed  bool // a deadline for the rest of a head is in force

	waits waits // who is to be told that the client has gone

	// Of the goroutine that answers.
	answered bool                // by us: what net/http writes next is not sent
	w        http.ResponseWriter // of the request under way
	inform   func(status int, head *exchange.Head)

	worked atomic.Bool // an answer's frame went out
	mu     sync.Mutex  // of HTTP/2's writes
	out    frames
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.leaves.spies(p) {
		return 0, nil
	}
	if c.empty > 0 {
		c.empty--
		return 0, nil
	}
	n, err := c.take(p)
	if n > 0 && c.kind.Load() != http1 {
		if bad := c.look(p[:n]); bad != nil {
			c.sayGoodbye(bad)
			return 0, bad
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.waits.gone()
	}
	return n, err
}

// shake is the server's part of the TLS handshake; the deadline for a head is in
// force.
func (c *conn) shake() error {
	secure := c.Conn.(*tls.Conn)
	if err := secure.Handshake(); err != nil {
		c.front.stats.handshakes.Add(1)
		return err
	}
	c.http2 = c.http2 && secure.ConnectionState().NegotiatedProtocol == "h2"
	return nil
}

// look judges what came in.
func (c *conn) look(p []byte) error {
	for c.kind.Load() == unknown {
		if len(p) == 0 {
			return nil
		}
		if p[0] != preface[c.seen] {
			if c.secure && c.http2 {
				return errPreface // it was agreed upon
			}
			c.kind.Store(http1)
			if c.seen+len(p) < peeked {
				c.empty = fruitless
			}
			return nil
		}
		p = p[1:]
		if c.seen++; c.seen < len(preface) {
			continue
		}
		if !c.http2 {
			return errNoHTTP2
		}
		c.kind.Store(http2)
	}
	if c.kind.Load() == http1 {
		return nil
	}
	now := time.Now()
	err := c.in.scan(p, func(kind, flags byte, length int, stream uint32) error {
		return c.client.frame(now, c.front.cfg.Limits.Head, kind, flags, length, stream, c.worked.Swap(false))
	})
	if err != nil {
		return err
	}
	// net/http waits for the rest of a head for as long as it takes.
	if c.client.open != c.armed {
		c.armed = c.client.open
		until := time.Time{}
		if c.armed {
			until = now.Add(c.front.cfg.Limits.HeadTime)
		}
		_ = c.Conn.SetReadDeadline(until)
	}
	return nil
}

// sayGoodbye tells an HTTP/2 client why the connection ends, where that does not
// fall into the middle of a frame.
func (c *conn) sayGoodbye(why error) {
	c.front.stats.floods.Add(1)
	c.front.cfg.Log.Warn("connection closed", "peer", c.peer, "err", why)
	if c.kind.Load() != http2 {
		_ = c.Conn.Close() // or net/http answers it in HTTP/1
		return
	}
	if !c.mu.TryLock() { // or a write waits for a client that does not read
		return
	}
	defer c.mu.Unlock()
	if c.out.between() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.Conn.Write(goAway(c.client.last)) // a courtesy
	}
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.answered {
		c.answered = false
		return swallow(p)
	}
	if c.kind.Load() != http2 {
		if c.busy.Load() == 0 {
			c.unparsed(p)
		}
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.scan(p, func(kind, _ byte, _ int, _ uint32) error {
		if kind == frameData || kind == frameHeaders {
			c.worked.Store(true)
		}
		return nil
	})
	return c.Conn.Write(p)
}

// unparsed tells of an answer that no handler gave: net/http refused a message
// before anybody saw it.
func (c *conn) unparsed(p []byte) {
	const start = "HTTP/1.1 "
	if len(p) < len(start)+3 || !bytes.HasPrefix(p, []byte(start)) || p[len(start)] != '4' && p[len(start)] != '5' {
		return
	}
	status := 0
	for _, d := range p[len(start) : len(start)+3] {
		status = status*10 + int(d-'0')
	}
	if tell := c.front.cfg.Unparsed; tell != nil && status >= 400 && status <= 599 {
		tell(c.peer, status)
	}
}

// ReadFrom lets the kernel copy, where it can and nobody has to look.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if rf, ok := c.Conn.(io.ReaderFrom); ok && c.kind.Load() == http1 {
		return rf.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c}, r)
}

// CloseWrite ends our half: net/http does so before it closes, and a tunnel when
// the upstream has no more to say.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.closed.Do(c.free)
	return c.Conn.Close()
}

// reset ends the connection as a peer that has crashed does, below TLS and its
// farewell. net/http closes it once more.
func (c *conn) reset() {
	under := c.Conn
	if secure, ok := under.(*tls.Conn); ok {
		under = secure.NetConn()
	}
	if l, ok := under.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0) // an error: it is closed already
	}
	_ = under.Close()
}

type connKey struct{}

// connContext lets handlers find their connection.
func connContext(ctx context.Context, nc net.Conn) context.Context {
	if c, ok := nc.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}
