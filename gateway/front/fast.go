package front

import (
	"bytes"
	"io"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front/h1"
)

// The fast face serves plain HTTP/1.1 without net/http: the goroutine that gathered
// a connection's first head reads, serves and answers one request after the other,
// and allocates nothing for them. What is rare, or to be refused by the filter, goes
// to net/http with all bytes that were read of it, so there is one way to answer it.

// fast is a client's connection on the fast face.
type fast struct {
	c       *conn
	front   *Front
	ending  *atomic.Bool // of the listener: the request under way is the last
	addr    netip.Addr
	remote  string
	buf     []byte      // nil while nothing has come
	r, w    int         // buf[r:w] has come and was not read
	served  bool        // there were requests before
	posted  bool        // the last of them was a POST
	resting atomic.Bool // waits for a request
	head    h1.Request
	in      intake
	inform  func(status int, head *exchange.Head)
}

// next is what becomes of a connection.
type next int

const (
	goOn  next = iota
	leave      // it is closed
	yield      // net/http goes on with it
)

// fastest is how much of a buffer a connection keeps between its requests.
const fastest = 16 << 10

// newFast takes c, of which the first head was gathered.
func newFast(c *conn, ending *atomic.Bool) *fast {
	s := &fast{c: c, front: c.front, ending: ending, remote: c.RemoteAddr().String()}
	_, s.addr = splitAddr(s.remote)
	s.buf, s.w = c.early[:cap(c.early)], len(c.early)
	s.inform = func(status int, head *exchange.Head) {
		_ = c.say(h1.AppendInformation(nil, status, head)) // an error: the answer will meet it too
	}
	c.early = nil
	c.kind.Store(http1)
	c.fast.Store(true)
	return s
}

// cut ends the connection in the middle of whatever it does.
func (s *fast) cut() {
	s.c.waits.gone()
	_ = s.c.Close()
}

// serve answers c's requests, and reports whether net/http is to go on with it.
func (s *fast) serve() (handOver bool) {
	for {
		end, verdict, err := s.await()
		then := yield
		switch {
		case err == io.EOF && s.r < s.w: // half a head: net/http has an answer to that
		case err != nil:
			then = leave
		case verdict == h1.Take:
			then = s.one(end)
		case verdict != h1.HandOver:
			then = s.refuse(verdict)
		}
		if then != goOn {
			return then == yield && s.yield()
		}
		s.served = true
	}
}

// await reads until there is a whole head, or surely none that can be taken. A head
// has its time from its first byte on, and before that the connection its rest.
func (s *fast) await() (end int, v h1.Verdict, err error) {
	c, line, begun := s.c, 0, false
	s.rest()
	for {
		if line == 0 && s.posted && s.w-s.r >= 2 && s.buf[s.r] == '\r' && s.buf[s.r+1] == '\n' {
			// Clients used to send a line end behind a form (RFC 9112 section 2.2).
			s.r, s.posted = s.r+2, false
		}
		if line, v = h1.Scan(s.buf[s.r:s.w], line); v != h1.More {
			return line, v, nil
		}
		if s.w-s.r > s.front.cfg.Limits.Head {
			return 0, h1.HandOver, nil // which refuses it
		}
		s.room()
		empty := s.r == s.w
		switch {
		case empty: // by the sweeper's clock, which may be a sweep behind
			_ = c.reads.until(c.sweeper.now.Load() + int64(idleTime))
		case !begun && s.served:
			s.patience(s.front.cfg.Limits.HeadTime)
		case !begun: // on a new connection the time of the head began at its accept
			_ = c.reads.until(int64(c.due.Sub(c.sweeper.base)))
		}
		begun = !empty
		if empty {
			if s.resting.Store(true); s.ending.Load() {
				return 0, h1.More, io.EOF
			}
		}
		n, err := s.receive()
		if empty {
			s.resting.Store(false)
		}
		if s.w += n; n == 0 && err != nil {
			return 0, h1.More, err
		}
	}
}

// rest gives the buffer back where nothing is in it. One that has grown stays, since
// the next head will be as long, unless that would cost memory for ever.
func (s *fast) rest() {
	if s.r == s.w && (len(s.buf) == gatherFirst || len(s.buf) > fastest) {
		s.front.heads.Back(s.buf)
		s.buf, s.r, s.w = nil, 0, 0
	}
}

// receive reads more of a head. Who has nothing of one yet is lent a buffer when
// something comes.
func (s *fast) receive() (n int, err error) {
	switch {
	case s.buf != nil:
	case s.c.timed():
		s.buf = s.front.heads.Lend()
	default:
		s.buf, n, err = s.c.sock.Take(s.front.heads)
		return n, err
	}
	return s.c.receive(s.buf[s.w:])
}

// patience gives the client d for what is read next.
func (s *fast) patience(d time.Duration) {
	_ = s.c.reads.until(s.c.sweeper.read() + int64(d)) // an error: it is closed, which Read says too
}

// room makes room behind what has come.
func (s *fast) room() {
	switch {
	case s.r == s.w:
		s.r, s.w = 0, 0
	case s.w < len(s.buf):
	case s.r > 0:
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	default:
		s.buf = append(make([]byte, 0, 2*len(s.buf)), s.buf...)[:2*len(s.buf)]
	}
}

// yield puts the connection into the state in which net/http expects one: new, with
// what has come and was not read to be read first. A preface of HTTP/2 may stand at
// the very beginning of a connection only (RFC 9113 section 3.4).
func (s *fast) yield() bool {
	c := s.c
	if s.served {
		c.http2, c.due = false, time.Now().Add(s.front.cfg.Limits.HeadTime)
	}
	_ = c.reads.until(0)
	c.reads.by.Store(forced) // as on a new one: net/http says what goes
	c.kind.Store(unknown)
	c.fast.Store(false)
	c.early = s.buf[s.r:s.w]
	return true
}

// refuse answers a message that could mean two things, in the words of net/http.
// Nothing behind it is looked at (RFC 9112 section 6.3, rule 4).
func (s *fast) refuse(v h1.Verdict) next {
	if tell := s.front.cfg.Unparsed; tell != nil {
		tell(s.c.peer, v.Status())
	}
	line := h1.AppendStatus(nil, v.Status())
	out := append(slices.Clone(line), "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"...)
	if s.c.say(append(out, bytes.TrimSpace(line[len("HTTP/1.1 "):])...)) == nil {
		s.linger()
	}
	return leave
}

// How long, and how much, a client may go on sending what nobody will read.
const (
	lingerTime = 500 * time.Millisecond
	lingerMost = 256 << 10
)

// linger closes our half and lets the client read what it was told: to close with
// bytes unread would reset the connection, and take the answer with it (RFC 9112
// section 9.6).
func (s *fast) linger() {
	if s.c.CloseWrite() != nil {
		return
	}
	s.patience(lingerTime)
	if s.buf == nil {
		s.buf = s.front.heads.Lend()
	}
	for left := lingerMost; left > 0; {
		n, err := s.c.sock.Read(s.buf)
		if left -= n; err != nil {
			return
		}
	}
}
