package limiter

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"breakwater/gateway/exchange"
)

// Deps are what a Layer needs beside its Config and state.
type Deps struct {
	Route  string
	Shared *Shared // the quota that cfg names; nil: none
	// Trusted reports whether a peer is believed about costs and addresses; nil: nobody is.
	Trusted func(netip.Addr) bool
}

// Layer refuses what goes beyond cfg with 429: first by the buckets of l, then by
// the quota. What the quota refuses goes back into its bucket.
func Layer(cfg Config, l *Limiter, d Deps) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		if !cfg.Active() {
			return next
		}
		return &limit{cfg: cfg, key: cfg.Key.reader(cfg.Missing, d), local: l, deps: d, next: next}
	}
}

type limit struct {
	cfg   Config
	key   reader
	local *Limiter
	deps  Deps
	next  exchange.Service
}

// Serve implements exchange.Service.
func (l *limit) Serve(x *exchange.Exchange) error {
	// The instant the request came is as good as this one, and is known already: to
	// ask the clock costs as much as to decide.
	now := x.Event.Start
	if now.IsZero() {
		now = time.Now()
	}
	if why, after := l.judge(x, now); why >= 0 {
		l.local.refused[why].Add(1)
		if !l.cfg.Observe {
			return &exchange.Refusal{Policy: "limiter", Reason: why.String(), Status: http.StatusTooManyRequests, RetryAfter: after}
		}
		x.Observe("limiter:" + why.String())
	}
	return l.next.Serve(x)
}

const passes reason = -1

// judge decides about x, and says when it may come again; 0: never as it is.
func (l *limit) judge(x *exchange.Exchange, now time.Time) (why reason, after time.Duration) {
	cost := l.cost(x)
	var taken Verdict
	var k KeyValue
	if l.cfg.Rate.Tokens > 0 {
		ok := false
		if k, ok = l.key.of(x); !ok {
			return byMissingKey, 0
		}
		if taken = l.local.Take(k, cost, now); !taken.OK {
			return byRate, wholeSeconds(taken.Retry)
		}
	}
	if l.deps.Shared == nil {
		return passes, 0
	}
	why, after = l.ask(x, cost, now)
	if why != passes && taken.OK {
		l.local.Give(k, cost, taken)
	}
	return why, after
}

func (l *limit) ask(x *exchange.Exchange, cost int64, now time.Time) (reason, time.Duration) {
	k, ok := l.deps.Shared.read(x, l.deps)
	if !ok {
		return byMissingKey, 0
	}
	wait := MaxWait
	if left, bound := x.Remaining(now); bound {
		wait = min(wait, left)
	}
	switch v, away := l.deps.Shared.Take(k, cost, now, wait); {
	case v.OK:
		return passes, 0
	case away:
		return byQuotaAway, wholeSeconds(v.Retry)
	default:
		return byQuota, wholeSeconds(v.Retry)
	}
}

// cost is what x takes.
func (l *limit) cost(x *exchange.Exchange) int64 {
	c := &l.cfg.Cost
	cost := max(c.Tokens, 1)
	if c.Header == "" || l.deps.Trusted == nil {
		return cost
	}
	told := x.Request.Head.Get(c.Header)
	if told == "" || !l.deps.Trusted(address(x.Request.Peer)) {
		return cost
	}
	n, err := strconv.ParseInt(told, 10, 64)
	if err != nil || n < 1 {
		return cost
	}
	return min(n, max(c.Max, cost))
}

// wholeSeconds rounds up, as Retry-After counts in seconds and nobody should come
// too early (RFC 9110 section 10.2.3).
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1) / time.Second * time.Second
}
