package mirror

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Header marks a copy, and names the request's route, so that the other side can
// leave out what must not happen twice.
const Header = "X-Breakwater-Mirror"

// Layer copies a share of what it passes on to shadow, through q. It belongs
// above retry: a request is copied once, however many tries it takes.
func Layer(cfg Config, q *Queue, shadow exchange.Service) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		return exchange.Func(func(x *exchange.Exchange) error {
			if cfg.Rand()*1_000_000 < float64(cfg.PPM) {
				mirror(cfg, q, shadow, x)
			}
			return next.Serve(x)
		})
	}
}

func mirror(cfg Config, q *Queue, shadow exchange.Service, x *exchange.Exchange) {
	body := &x.Request.Body
	kept, whole := body.Kept()
	switch {
	case x.Request.Upgrade != "":
		q.count(Upgrade)
	case body.Empty():
		q.put(duplicateOf(x, shadow))
	case body.Length > cfg.MaxBody, whole && int64(len(kept)) > cfg.MaxBody:
		q.count(TooBig)
	case whole:
		if !q.reserve(int64(len(kept))) {
			q.count(Full)
			return
		}
		d := duplicateOf(x, shadow)
		d.hasBody, d.body = true, bytes.Clone(kept)
		q.put(d)
	default:
		t := &tap{q: q, max: cfg.MaxBody, duplicate: duplicateOf(x, shadow)}
		t.hasBody = true
		body.Watch(t.see)
		x.OnEnd(t)
	}
}

// tap gathers a body on its way to the upstream. It has a memory of its own: what
// retry keeps has another cap, and is gone when the request has ended.
type tap struct {
	q   *Queue
	max int64

	mu sync.Mutex // the body is read on the goroutine that sends it
	*duplicate
	whole bool
	why   Result // it is not to be sent after all
}

// see never fails: the request must not notice.
func (t *tap) see(p []byte, end bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.whole = t.whole || end
	switch n := int64(len(p)); {
	case t.why != "":
	case int64(len(t.body))+n > t.max:
		t.giveUp(TooBig)
	case !t.q.reserve(n):
		t.giveUp(Full)
	default:
		t.body = append(t.body, p...)
	}
	return nil
}

func (t *tap) giveUp(why Result) {
	t.q.release(int64(len(t.body)))
	t.body, t.why = nil, why
}

// End implements exchange.Ender.
func (t *tap) End(*exchange.Exchange, retrylog.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.why != "":
		t.q.count(t.why)
	case !t.whole:
		t.q.drop(t.duplicate, Incomplete)
	default:
		t.q.put(t.duplicate)
	}
}

// duplicate is a request that owns its memory.
type duplicate struct {
	to      exchange.Service
	request exchange.Request // without a body
	hasBody bool
	body    []byte
	id      string
}

func duplicateOf(x *exchange.Exchange, to exchange.Service) *duplicate {
	q := &x.Request
	clone := strings.Clone
	d := &duplicate{to: to, id: clone(x.Event.RequestID)}
	d.request = exchange.Request{
		Method: clone(q.Method), Scheme: clone(q.Scheme), Host: clone(q.Host), Path: clone(q.Path), Query: clone(q.Query),
		Proto: q.Proto, Peer: clone(q.Peer),
	}
	for _, f := range q.Head.Fields() {
		d.request.Head.Add(clone(f.Name), clone(f.Value))
	}
	d.request.Head.Set(Header, clone(x.Event.Route))
	return d
}

// send has d answered, by x, which has been reset; "" is a panic.
func (q *Queue) send(x *exchange.Exchange, d *duplicate) (r Result) {
	defer func() {
		if recover() != nil { // whatever it was, it must not cost the process
			x.End(retrylog.Panicked)
			r = ""
		}
	}()
	x.Request = d.request
	x.Event.RequestID, x.Event.Start = d.id, time.Now()
	if d.hasBody {
		x.Request.Body.Set(bytes.NewReader(d.body), int64(len(d.body)))
		x.Request.Body.Keep(len(d.body))
		_, _ = io.Copy(io.Discard, &x.Request.Body) // memory to memory: it is then sent in one write
		_ = x.Request.Body.Rewind()
	} else {
		x.Request.Body.Set(nil, 0)
	}
	if err := d.to.Serve(x); err != nil {
		x.End(exchange.Classify(err, 0))
		return Failed
	}
	if _, ok := x.Deadline(); !ok { // a stream left it at its head
		x.SetDeadline(time.Now().Add(answerTime))
	}
	if body := x.Response.Body; body != nil {
		_, _ = io.CopyN(io.Discard, body, drainMax) // what is longer is cut: nobody reads it
	}
	x.End(exchange.Classify(nil, x.Response.Status))
	return Answered
}

// drainMax is how much of an answer is read to save its connection.
const drainMax = 1 << 20
