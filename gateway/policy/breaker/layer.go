package breaker

import (
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Layer stands before a service: it refuses requests while b is open, and counts
// what clients are told at last, all tries together.
func Layer(b *Breaker) exchange.Layer {
	return func(next exchange.Service) exchange.Service { return &guarded{b, next} }
}

type guarded struct {
	breaker *Breaker
	next    exchange.Service
}

// Serve implements exchange.Service.
func (g *guarded) Serve(x *exchange.Exchange) error {
	b := g.breaker
	c, refusal := b.enter(x, time.Time{})
	if c == nil {
		if refusal == nil {
			return g.next.Serve(x)
		}
		if !b.view.Load().cfg.Observe {
			return refusal
		}
		x.Observe("breaker:" + refusal.Reason)
		return g.next.Serve(x)
	}
	x.Probe = c.permit.Probe()
	x.OnEnd(c)
	err := g.next.Serve(x)
	outcome, status := exchange.Classify(err, 0), 0
	switch {
	case err != nil:
		if len(x.Event.Tries) == 0 && outcome != retrylog.ClientAbort {
			outcome = retrylog.LocalRefusal // the upstream was never asked
		}
	case x.Response.Local:
		// An answer of ours in the place of the upstream's: the last try knows.
		outcome, status = lastTry(x)
	default:
		outcome, status = retrylog.OK, x.Response.Judged()
	}
	c.answered(x, x.HeadAt, outcome, status)
	return err
}

// lastTry is how the last try went.
func lastTry(x *exchange.Exchange) (retrylog.Outcome, int) {
	t := x.Try()
	switch {
	case t == nil:
		return retrylog.LocalRefusal, 0
	case t.Status != 0:
		return retrylog.OK, t.Status
	case t.Kind == string(exchange.Canceled):
		return retrylog.ClientAbort, 0
	}
	return retrylog.UpstreamFailure, 0
}

// Gate is a Breaker before one endpoint, as a balancer asks it: it counts tries.
type Gate struct{ *Breaker }

// Wants reports whether the next try should come here: a probe is due, and nobody
// would send one to an endpoint that has just failed.
func (g Gate) Wants(now time.Time) bool {
	v := g.view.Load()
	return !v.closed && !v.cfg.Disabled && !v.cfg.Observe && !g.Shut(now)
}

// Shut is Breaker.Shut of a breaker that acts.
func (g Gate) Shut(now time.Time) bool {
	cfg := g.view.Load().cfg
	return !cfg.Disabled && !cfg.Observe && g.Breaker.Shut(now)
}

// Enter lets a try in at now, or says why not. Both are nil where the try may go
// and will not be counted.
func (g Gate) Enter(x *exchange.Exchange, now time.Time) (*Call, *exchange.Refusal) {
	c, refusal := g.enter(x, now)
	if refusal != nil && g.view.Load().cfg.Observe {
		x.Observe("breaker:" + refusal.Reason)
		refusal = nil
	}
	return c, refusal
}

// Call is a call under way. Whoever entered registers it with OnEnd.
type Call struct {
	breaker *Breaker
	shard   uint
	permit  Permit
	status  int
	open    bool // its result is not known yet
	end     Result
	at      time.Time // when the head came, where somebody said so
}

// enter asks for leave. The clock is read only where the start of the exchange,
// which lies a moment back, will not do.
func (b *Breaker) enter(x *exchange.Exchange, now time.Time) (*Call, *exchange.Refusal) {
	v := b.view.Load()
	if v.cfg.Disabled {
		return nil, nil
	}
	if now.IsZero() {
		if now = x.Event.Start; !v.closed || v.slow != nil || now.IsZero() {
			now = time.Now()
		}
	}
	c, _ := b.calls.Get().(*Call)
	if c == nil {
		c = &Call{breaker: b, shard: uint(b.made.Add(1))}
	}
	var ok bool
	if c.permit, ok = b.Allow(now, c.shard); ok {
		c.open, c.end, c.status, c.at = true, Ignored, 0, time.Time{}
		return c, nil
	}
	b.calls.Put(c)
	r := &exchange.Refusal{Policy: "breaker", Reason: string(Open), Status: 503, RetryAfter: b.Wait(now)}
	if b.view.Load().state == HalfOpen {
		r.Reason = string(HalfOpen)
	}
	return nil, r
}

// Answered takes in how the head of the answer came out: status where there is
// one, else 0 and what went wrong.
func (c *Call) Answered(x *exchange.Exchange, now time.Time, outcome retrylog.Outcome, status int) {
	c.answered(x, now, outcome, status)
}

// answered settles the call, unless the rest of the answer may still be cut.
func (c *Call) answered(x *exchange.Exchange, now time.Time, outcome retrylog.Outcome, status int) {
	b := c.breaker
	cfg := b.view.Load().cfg
	c.status, c.at = status, now
	c.end = judge(cfg, x, outcome, status)
	// A stream has no end by which it could be judged in time: it counts as it begins.
	whole := c.end != Success || status == 0 || x.Response.Tunnel != nil ||
		x.Response.Length < 0 && x.IsEvents()
	if !whole && c.permit.slow == nil {
		return
	}
	if now.IsZero() {
		now = time.Now()
	}
	b.Answered(now, c.shard, &c.permit)
	if whole {
		c.open = false
		b.Done(now, c.shard, c.permit, c.end)
	}
}

// judge is what an answer, or the lack of one, says.
func judge(cfg *Config, x *exchange.Exchange, outcome retrylog.Outcome, status int) Result {
	if status == 0 {
		switch outcome {
		case retrylog.UpstreamFailure, retrylog.Timeout:
			return Failure
		}
		return Ignored
	}
	if cfg.OutcomeHeader != "" && !x.Response.Local {
		switch x.Response.Head.Get(cfg.OutcomeHeader) {
		case "success":
			return Success
		case "failure":
			return Failure
		case "ignore":
			return Ignored
		}
	}
	return cfg.judge(status)
}

// End implements exchange.Ender: however the call ended, its permit goes back.
func (c *Call) End(x *exchange.Exchange, o retrylog.Outcome) {
	if c.open {
		c.open = false
		// A good call counts when its head came: that saves a reading of the clock.
		r, now := c.final(x, o), c.at
		if r != Success || c.permit.probe != 0 || now.IsZero() {
			now = time.Now()
		}
		c.breaker.Done(now, c.shard, c.permit, r)
	}
	c.permit = Permit{}
	c.breaker.calls.Put(c)
}

// final is the result of a call whose head was good, or that has none.
func (c *Call) final(x *exchange.Exchange, o retrylog.Outcome) Result {
	switch {
	case c.status == 0, o == retrylog.ClientAbort, o == retrylog.Panicked, o == retrylog.LocalRefusal:
		return Ignored
	case x.Event.BodyComplete && !x.Response.Local:
		if x.Response.Trailer.Len() == 0 {
			break
		}
		// The status of gRPC comes behind the body.
		if s := x.Response.Judged(); s != c.status {
			return c.breaker.view.Load().cfg.judge(s)
		}
	case o != exchange.Classify(nil, c.status) && o != retrylog.OK:
		return Failure // cut
	}
	return c.end
}
