package wire

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/internal/arrival"
	"breakwater/gateway/internal/socket"
)

// readSize is the first size of a connection's read buffer; a longer head makes
// it grow.
const readSize = 4 << 10

// conn is one connection, used by one exchange at a time.
type conn struct {
	nc       net.Conn
	quick    *socket.Conn // nc, for bytes
	raw      syscall.RawConn
	pool     *Pool
	shelf    *shelf
	endpoint string
	since    time.Time // when it came to rest
	until    time.Time // idle no longer than this
	begun    time.Time // when the exchange under way took it
	reused   bool
	written  uint64 // bytes, in all

	// To set a deadline costs 0.3 us; one in force that is too early costs nothing
	// until it comes, and is put off then. So it is set once in a while, and not
	// for every exchange.
	rules   time.Time // the exchange's deadline; zero: none
	inForce time.Time // what nc was told, never later than rules; zero: another, or nothing
	patient bool      // nc goes on after a deadline that came too early: TLS does not

	look    func(fd uintptr) bool // peek
	peeked  [1]byte
	isQuiet bool

	stamps *arrival.Reader // nil until somebody wants to know how late a read was
	timed  bool            // somebody wants to know it of the read under way
	late   time.Duration   // the last one was

	buf  []byte // nil: nothing of an answer has come, and one is lent when something does
	r, w int    // buf[r:w] is read and not yet used
	out  []byte // the head, and a kept body

	// Of the exchange under way.
	send      *sender
	gotBytes  bool // something of the answer came
	keep      bool // may serve again after this answer
	keepAlive time.Duration
	cancelled atomic.Bool

	// Of the wait for the head; the sender takes part in it.
	head struct {
		mu    sync.Mutex
		until time.Time // by HeaderTimeout; zero: not counted yet, or not at all
		came  bool
	}
}

// awaitHead starts HeaderTimeout: the request is out, its answer is to begin.
func (c *conn) awaitHead(x *exchange.Exchange) {
	most := c.pool.cfg.HeaderTimeout
	if most <= 0 {
		return
	}
	c.head.mu.Lock()
	defer c.head.mu.Unlock()
	if c.head.came {
		return // before the last byte of the request was out
	}
	until := time.Now().Add(most)
	if deadline, ok := x.Deadline(); ok && !until.Before(deadline) {
		return
	}
	c.head.until = until
	c.setReadDeadline(until)
}

// headCame ends HeaderTimeout: what follows has other limits.
func (c *conn) headCame() {
	if c.pool.cfg.HeaderTimeout <= 0 {
		return
	}
	c.head.mu.Lock()
	c.head.came = true
	c.head.mu.Unlock()
}

// Interrupt implements exchange.Interrupter.
func (c *conn) Interrupt() {
	c.cancelled.Store(true)
	_ = c.nc.SetDeadline(past()) // an error means it is closed already
}

// past is a deadline that has passed on any clock.
func past() time.Time { return time.Unix(1, 0) }

// allow makes t the deadline of reads and writes, as early and put off where
// another is in force at now. Nobody may be sending.
func (c *conn) allow(t, now time.Time) {
	c.rules = t
	if c.inForce.After(now) && (t.IsZero() || !t.Before(c.inForce)) {
		return
	}
	c.setDeadline(t)
	if c.patient {
		c.inForce = t
	}
}

// exact puts what allow said in force, for those who cannot put a deadline off.
func (c *conn) exact() {
	if !c.inForce.IsZero() && !c.inForce.Equal(c.rules) {
		c.setDeadline(c.rules)
	}
	c.noted()
}

// early reports that err is a deadline which came too early, and puts it off.
func (c *conn) early(err error) bool {
	if err == nil || c.inForce.IsZero() || !timeout(err) || c.cancelled.Load() {
		return false
	}
	if !c.rules.IsZero() && !time.Now().Before(c.rules) {
		return false
	}
	c.setDeadline(c.rules)
	c.inForce = c.rules
	return true
}

func (c *conn) read(p []byte) (n int, err error) {
	for {
		if c.timed {
			n, c.late, err = c.stamps.Read(p, c.begun)
		} else {
			n, err = c.quick.Read(p)
		}
		if n > 0 || !c.early(err) {
			return n, err
		}
	}
}

// begin reads what comes first of an answer into a buffer that it is lent when there
// is something to read: most connections wait, and need none.
func (c *conn) begin() (n int, err error) {
	if c.timed {
		c.buf = c.pool.rooms.Lend()
		return c.read(c.buf)
	}
	for {
		c.buf, n, err = c.quick.Take(c.pool.rooms)
		if n > 0 || !c.early(err) {
			return n, err
		}
	}
}

func (c *conn) write(p []byte) (n int, err error) {
	for {
		m, err := c.quick.Write(p[n:])
		if n += m; !c.early(err) {
			return n, err
		}
	}
}

// setDeadline bounds reads and writes; a cancel that came before wins.
func (c *conn) setDeadline(t time.Time) {
	c.noted()
	_ = c.nc.SetDeadline(t) // an error means it is closed, which the next call says too
	if c.cancelled.Load() {
		_ = c.nc.SetDeadline(past())
	}
}

// setReadDeadline is setDeadline for reads alone: the sender may be writing.
func (c *conn) setReadDeadline(t time.Time) {
	c.noted()
	_ = c.nc.SetReadDeadline(t)
	if c.cancelled.Load() {
		_ = c.nc.SetDeadline(past())
	}
}

// noted forgets what was in force. It writes nothing while a sender is at work,
// which has begun with an exact deadline.
func (c *conn) noted() {
	if !c.inForce.IsZero() {
		c.inForce = time.Time{}
	}
}

// fill reads more into the buffer, which has to have room.
func (c *conn) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	} else if c.w == len(c.buf) && c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	var n int
	var err error
	if c.buf == nil {
		n, err = c.begin()
	} else {
		n, err = c.read(c.buf[c.w:])
	}
	c.w += n
	if n > 0 {
		c.gotBytes = true
		return nil
	}
	return err
}

// fillHead is fill, and notes how late it was where somebody wants to know.
func (c *conn) fillHead() error {
	c.late, c.timed = 0, c.pool.cfg.Timed != nil && c.pool.cfg.Timed()
	switch {
	case c.timed && c.stamps == nil:
		c.stamps = arrival.New(c.nc)
	case !c.timed && c.stamps != nil:
		c.stamps.Stop()
	}
	err := c.fill()
	c.timed = false
	return err
}

// drop ends the exchange's use of c by closing it.
func (c *conn) drop(x *exchange.Exchange) {
	x.Unwait(c)
	_ = c.nc.Close() // it is of no use any more, whatever close says
	if c.send != nil {
		c.send.join(c, x, 0)
	}
}

// settle is how long a sender may need to notice that all is sent, after an
// answer that came to its end.
const settle = 50 * time.Millisecond

// release ends the exchange's use of c after a whole answer: it may serve again
// if everything went by the book.
func (c *conn) release(x *exchange.Exchange) {
	x.Unwait(c)
	sent := c.send == nil || c.send.join(c, x, settle)
	if !sent || !c.keep || c.r != c.w || c.cancelled.Load() {
		_ = c.nc.Close()
		return
	}
	// The deadline stays as it is: nobody reads or writes before get sets another.
	c.send, c.gotBytes = nil, false
	c.head.came, c.head.until = false, time.Time{}
	if len(c.buf) == readSize || len(c.buf) > 16<<10 { // one that has grown stays, unless it would cost memory for ever
		c.pool.rooms.Back(c.buf)
		c.buf = nil
	}
	c.r, c.w = 0, 0
	if cap(c.out) > 64<<10 {
		c.out = nil
	}
	c.pool.put(c, time.Now())
}
