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

// Serve implements exchange.Service.
func (s *limited) Serve(x *exchange.Exchange) error {
	start := time.Now()
	if !s.limit.TryAcquire(start) {
		if err := s.refused(x); err != nil {
			return err
		}
		start = time.Now()
	}
	mark := x.Mark()
	x.OnEnd(place{s.limit}) // the one way back, for whatever end there is

	err := s.next.Serve(x)

	now := time.Now()
	status := x.Response.Judged()
	r := Result{Outcome: exchange.Classify(err, status), Status: status, Took: now.Sub(start)}
	if n := len(x.Event.Tries); n > 0 && err == nil {
		// The last try alone: back-off is no latency of the upstream's.
		r.Took = min(r.Took, time.Duration(x.Event.Tries[n-1].LatencyUS)*time.Microsecond)
	}
	if err == nil && x.Response.Local {
		r.Outcome = retrylog.LocalRefusal // no answer of the upstream's
		r.Status = 0
	}
	s.limit.Observe(now, r)
	if err != nil {
		x.EndTo(mark, r.Outcome)
	}
	return err
}

// refused says what becomes of a request for which there is no place; nil: it has
// one after all.
func (s *limited) refused(x *exchange.Exchange) error {
	if s.cfg.Observe {
		s.limit.Take()
		x.Observe("concurrency:full")
		return nil
	}
	if s.cfg.Queue > 0 && x.Event.Tier == "critical" {
		got, err := s.limit.waiting.acquire(x, s.cfg.QueueWait)
		if got {
			s.limit.refused.Add(-1)
			return nil
		}
		if err == exchange.ErrClientGone {
			return err
		}
	}
	return s.full
}

// place is a request's place under a limit, as an exchange.Ender.
type place struct{ *Limit }

// End implements exchange.Ender.
func (p place) End(*exchange.Exchange, retrylog.Outcome) { p.Release() }
