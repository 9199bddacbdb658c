package fallback

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Layer puts the route's action in the place of answers that cannot be had. store
// is where last_good keeps what it has seen; nil with every other action.
func Layer(cfg Config, store *Store) exchange.Layer {
	cfg.Keep = cfg.Keep.filled()
	if cfg.Action == "" {
		cfg.OnOpen = true
	}
	if cfg.Default.Status == 0 {
		cfg.Default.Status = 200
	}
	if cfg.Action != LastGood {
		store = nil
	}
	return func(next exchange.Service) exchange.Service {
		if cfg.Action == PassThrough {
			return next
		}
		return &layer{cfg: cfg, store: store, next: next, body: []byte(cfg.Default.Body)}
	}
}

type layer struct {
	cfg   Config
	store *Store
	next  exchange.Service
	body  []byte // of the default
}

// Serve implements exchange.Service.
func (l *layer) Serve(x *exchange.Exchange) error {
	mark := x.Mark()
	var start time.Time
	if l.store != nil {
		start = time.Now()
	}
	err := l.next.Serve(x)
	why := l.cfg.why(x, err)
	if why == none {
		if err == nil && l.store != nil {
			l.watch(x, start)
		}
		return err
	}
	var kept *entry
	if l.store != nil {
		kept = l.find(x)
	}
	action := l.cfg.Action
	if action == "" || action == LastGood && kept == nil || !answerable(x) {
		action = FailFast
	}
	if l.cfg.Observe {
		x.Observe("fallback:" + string(action))
		return err
	}
	return l.degrade(x, mark, err, action, kept)
}

// answerable reports whether a whole answer of ours is one the client can read: a
// gRPC client and one that asked for another protocol read errors only.
func answerable(x *exchange.Exchange) bool {
	return x.Request.Upgrade == "" && !exchange.IsGRPC(&x.Request.Head)
}

// degrade ends what was had of the upstream, as what it was, and answers.
func (l *layer) degrade(x *exchange.Exchange, mark int, err error, action Action, kept *entry) error {
	x.Event.Degraded = string(action)
	refusal, refused := errors.AsType[*exchange.Refusal](err)
	if refused && action == FailFast {
		if refusal.Status == 503 && refusal.RetryAfter >= time.Second {
			return err
		}
		return &exchange.Refusal{Policy: refusal.Policy, Reason: refusal.Reason, Status: 503, RetryAfter: max(refusal.RetryAfter, time.Second)}
	}
	if refused {
		x.Event.Refusal = refusal.Policy + ":" + refusal.Reason
	}
	outcome := exchange.Classify(err, x.Response.Judged())
	after := "1"
	if v := x.Response.Head.Get("Retry-After"); v != "" {
		after = strings.Clone(v)
	}
	spent := strings.Clone(x.Response.Head.Get("Retry-Count"))
	x.EndTo(mark, outcome)

	res := &x.Response
	res.Local = true
	if spent != "" {
		res.Head.Set("Retry-Count", spent) // what the path has spent already
	}
	switch action {
	case ReturnDefault:
		res.Status = l.cfg.Default.Status
		for _, f := range l.cfg.Default.Head {
			res.Head.Add(f.Name, f.Value)
		}
		res.Body, res.Length = io.NopCloser(bytes.NewReader(l.body)), int64(len(l.body))
	case LastGood:
		kept.fill(res, l.store.age(kept, time.Now()))
	default:
		res.Status = 503
		res.Head.Set("Retry-After", after)
	}
	// Whoever caches below us must not take it for the upstream's.
	res.Head.Set("Cache-Control", "no-store")
	if res.Status >= 400 {
		x.Event.Outcome = outcome
	}
	return nil
}

// fill makes a kept answer x's.
func (e *entry) fill(res *exchange.Response, age time.Duration) {
	res.Status, res.Length = 200, e.length
	for _, f := range e.head {
		res.Head.Add(f.Name, f.Value)
	}
	res.Head.Set("Age", strconv.FormatInt(int64(age/time.Second), 10))
	if e.body != nil {
		res.Body = io.NopCloser(bytes.NewReader(e.body))
	}
}

// find looks for an answer that may be given again.
func (l *layer) find(x *exchange.Exchange) *entry {
	if x.Request.Method != "GET" && x.Request.Method != "HEAD" {
		return nil
	}
	var buf [keySize]byte
	return l.store.find(l.store.appendKey(buf[:0], x, l.cfg.Keep.Shared), &x.Request.Head, time.Now())
}

// watch keeps a good answer while it goes by, where there is none yet or an old one.
func (l *layer) watch(x *exchange.Exchange, start time.Time) {
	res := &x.Response
	if res.Local || res.Status >= 400 {
		return
	}
	switch x.Request.Method {
	case "GET", "HEAD":
	case "OPTIONS", "TRACE":
		return
	default:
		// RFC 9111 section 4.4: what was known of the resource may be so no more.
		l.store.forget(resource(&x.Request), time.Now())
		return
	}
	size := res.Length
	if res.Body == nil { // of a HEAD: the length of what was not sent
		size = 0
	}
	if res.Status != 200 || x.Event.Experiment != "" || size > l.cfg.Keep.MaxBody || x.IsStream() {
		return
	}
	now := time.Now()
	life, age, ok := usable(&x.Request.Head, &res.Head, l.cfg.Keep.MaxAge, now.Sub(start))
	if !ok {
		return
	}
	var buf [keySize]byte
	key := l.store.appendKey(buf[:0], x, l.cfg.Keep.Shared)
	if !l.store.due(key, &x.Request.Head, now) {
		return
	}
	c := l.store.capture(&l.cfg.Keep, size)
	if c == nil {
		return
	}
	c.entry = newEntry(string(key), resource(&x.Request), &x.Request.Head, res)
	c.entry.asked, c.entry.got, c.entry.age, c.entry.until = l.store.at(start), l.store.at(now), age, l.store.at(now)+int64(life)
	c.body, c.length = res.Body, res.Length
	if res.Body != nil {
		res.Body = c
	}
	x.OnEnd(c)
}

// End implements exchange.Ender: a body that came whole is kept.
func (c *capture) End(x *exchange.Exchange, o retrylog.Outcome) {
	c.store.capturing.Add(-c.reserved)
	if o != retrylog.OK || !c.whole() || x.Response.Trailer.Len() > 0 {
		return
	}
	c.store.put(c.done())
}
