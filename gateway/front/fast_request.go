package front

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front/h1"
	"breakwater/internal/retrylog"
)

// read makes x's request of the head that ends at end. Only what net/http and the
// filter would both let in is taken.
func (s *fast) read(x *exchange.Exchange, end int) h1.Verdict {
	q, f := &x.Request, s.front
	if v := s.head.Parse(x.Text(s.buf[s.r:s.r+end]), &q.Head); v != h1.Take {
		return v
	}
	l := &f.cfg.Limits
	if len(s.head.Target) > l.Target || q.Head.Len()+1 > l.Fields || end > l.Head {
		return h1.HandOver
	}
	q.Method, q.Scheme, q.Proto, q.Peer, q.Connection = s.head.Method, "http", 11, s.c.peer, s.remote
	trusted, given := f.trusts(s.addr), ""
	if trusted {
		given = q.Head.Get("X-Request-Id")
	}
	f.name(x, given, trusted)
	if f.place(x, s.head.Target, s.head.Host) != nil {
		return h1.HandOver
	}
	if s.head.Length < 0 && s.head.Announced != "" && !announce(q, s.head.Announced) {
		return h1.HandOver
	}
	f.clean(x, s.head.Host, trusted)
	return h1.Take
}

// announce notes which fields will come behind the body. It reports false where one
// is named that has to stand before it: net/http refuses that.
func announce(q *exchange.Request, list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
		switch name {
		case "":
			continue
		case "Transfer-Encoding", "Content-Length", "Trailer":
			return false
		}
		if exchange.TrailerAllowed(name) {
			q.Announced = append(q.Announced, name)
		}
	}
	return true
}

// one answers the request whose head ends at end.
func (s *fast) one(end int) (then next) {
	f, c := s.front, s.c
	x := f.exchanges.Get().(*exchange.Exchange)
	x.Event.Start, x.Late, c.late = time.Now().Add(-c.late), c.late, 0 // what was read with it was not late
	if v := s.read(x, end); v != h1.Take {
		x.Reset()
		f.exchanges.Put(x)
		if v == h1.HandOver {
			return yield
		}
		return s.refuse(v)
	}
	f.stats.fast.Add(1)
	s.r += end
	s.posted = s.head.Method == http.MethodPost
	if s.in.begin(s, x); s.in.over.Load() {
		s.rest() // its fields are x's by now
	}
	x.Inform = s.inform
	c.waits.begin(x.Token(), c.sweeper.now.Load())
	defer func() {
		c.waits.end()
		if !f.settle(x, recover()) {
			then = leave
		}
	}()
	if err := f.cfg.Service.Serve(x); err != nil { // nobody waits, or shall have anything
		if cut, ok := errors.AsType[*exchange.Severed](err); ok && cut.Reset {
			c.reset()
		}
		x.End(exchange.Classify(err, 0))
		return leave
	}
	if status := x.Response.Status; status < 200 || status > 599 { // it would be no end of this exchange
		f.cfg.Log.Error("answer has no valid status", "request_id", x.Event.RequestID, "status_code", status)
		x.End(retrylog.Panicked)
		return leave
	}
	s.in.drain(x)
	// A body has to be read to its end, or the connection be closed (RFC 9112
	// section 9.3); an upstream may answer before it has all of it.
	unread := !s.in.over.Load()
	last := unread || s.head.Close || s.ending.Load()
	if f.timed() {
		c.since = time.Now()
	}
	err := f.write(x, c, last)
	if !f.ended(x, err) { // from here on nobody reads the body any more
		return leave
	}
	if !last {
		return goOn
	}
	if unread || s.r < s.w {
		s.linger()
	}
	return leave
}
