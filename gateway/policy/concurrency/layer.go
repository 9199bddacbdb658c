package concurrency

import (
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Layer bounds the requests of a service by l, once a request. It stands above
// whatever waits or tries again, and below whatever may answer in its stead.
func Layer(cfg Config, l *Limit) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		if !cfg.Enabled() {
			return next
		}
		return &limited{cfg: cfg, limit: l, next: next,
			full: &exchange.Refusal{Policy: "concurrency", Reason: "full", Status: 503, RetryAfter: retryAfter}}
	}
}

// retryAfter is what a refused client is told: places come free all the time.
const retryAfter = time.Second

type limited struct {
	cfg   Config
	limit *Limit
	full  *exchange.Refusal // never changed
	next  exchange.Service
}

// Serve implements exchange.Service. Reading the clock is most of what it costs:
// a limit that does not move, and is not full, wants none.
func (s *limited) Serve(x *exchange.Exchange) error {
	if !s.limit.try() {
		if err := s.refused(x); err != nil {
			return err
		}
	}
	start := x.Event.Start
	if start.IsZero() && s.limit.adaptive.Load() {
		start = time.Now()
	}
	mark := x.Mark()
	x.OnEnd(place{s.limit}) // the one way back, for whatever end there is

	err := s.next.Serve(x)

	if s.limit.curious() {
		now := time.Now()
		s.limit.Observe(now, result(x, err, now.Sub(start)))
	}
	if err != nil {
		x.EndTo(mark, exchange.Classify(err, 0))
	}
	return err
}

// result is how the upstream did, as the last try tells it where there was one:
// back-off is no latency of the upstream's, and an answer of ours in the place of
// its own none of its answers.
func result(x *exchange.Exchange, err error, took time.Duration) Result {
	r := Result{Status: x.Response.Judged(), Took: took}
	try := x.Try()
	if try != nil {
		r.Took = min(took, time.Duration(try.LatencyUS)*time.Microsecond)
	}
	switch {
	case err == nil && !x.Response.Local:
	case err == nil && try == nil:
		r.Status, r.Outcome = 0, retrylog.LocalRefusal
		return r
	case err == nil && try.Kind != "":
		err = &exchange.UpstreamError{Kind: exchange.Kind(try.Kind)}
	case err == nil:
		r.Status = try.Status
	}
	r.Outcome = exchange.Classify(err, r.Status)
	return r
}

// refused says what becomes of a request for which there is no place; nil: it has
// one after all.
func (s *limited) refused(x *exchange.Exchange) error {
	if s.cfg.Observe {
		s.limit.refused.Add(1)
		s.limit.Take()
		x.Observe("concurrency:full")
		return nil
	}
	if s.cfg.Queue > 0 && x.Event.Tier == "critical" {
		got, err := s.limit.waiting.acquire(x, s.cfg.QueueWait)
		if got {
			return nil
		}
		if err == exchange.ErrClientGone {
			return err
		}
	}
	s.limit.refused.Add(1)
	return s.full
}

// place is a request's place under a limit, as an exchange.Ender.
type place struct{ *Limit }

// End implements exchange.Ender.
func (p place) End(*exchange.Exchange, retrylog.Outcome) { p.Release() }
