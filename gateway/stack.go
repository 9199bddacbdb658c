package gateway

import (
	"io"
	"net/http"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/policy/shed"
	"breakwater/gateway/policy/timeout"
)

// stack is what a request of r passes through, the outermost first.
func (g *Gateway) stack(s *snapshot, r config.Route) (exchange.Service, error) {
	branches, err := g.branches(s, r)
	if err != nil {
		return nil, err
	}
	guards := g.policies.service(s.service(r.Service))
	shared, err := g.policies.shared(s.cfg, r.Limit.Quota)
	if err != nil {
		return nil, err
	}
	replay := r.Retry.ReplayCap
	if replay <= 0 || replay > smallBody {
		replay = smallBody
	}
	return exchange.Chain(branches,
		// Outside record, so that answers of ours name the trace too.
		g.trace,
		// Refusals are events too, and only here an error becomes a status.
		g.record(s, r),
		// What was made of each answer, against what was agreed of it.
		g.deals.terms().reactions(r.Name),
		// Drills of our own callers: outside every policy, inside the record.
		fault.Layer(g.cfg.Faults, fault.Site{Service: r.Service, Route: r.Name, Exempt: r.NoFaults, Edge: true}),
		// What is refused anyway costs as little as can be: the lowest tier first,
		// then whoever is over the rate.
		shed.Layer(r.Tier, guards.shed),
		limiter.Layer(r.Limit, g.policies.limiter(r), limiter.Deps{Route: r.Name, Shared: shared, Trusted: g.trusts}),
		// Before a byte of the body is read, or kept.
		bodyLimit(r.MaxBody),
		// Above the clocks: how fast a client sends is not the upstream's fault.
		upload(replay),
		// Answers in the place of whatever below refuses or fails.
		fallback.Layer(r.Degrade, g.policies.answers(r)),
		// What clients are told at last, all tries together: one bad endpoint that
		// retries hide does not close a service.
		breaker.Layer(guards.breaker),
		concurrency.Layer(s.service(r.Service).Concurrency, guards.limit),
		// Streams leave the total at their head, and have bounds of their own.
		timeout.Streams(r.IdleTimeout, r.MaxStream),
		// All tries and waits and the body together.
		timeout.Total(r.Timeout),
		// Above retry: once per request, never per try.
		g.mirror(s, r),
	), nil
}

// tries is what the tries of one branch pass through; it ends at the wire.
func (g *Gateway) tries(r config.Route, up config.Upstream) exchange.Service {
	site := fault.Site{Service: r.Service, Route: r.Name, Exempt: r.NoFaults}
	return exchange.Chain(g.state.wire(up),
		// Skips the endpoints already tried, and opens the try's entry in the event.
		g.balance(up),
		// The total that is left, before the try makes less of it.
		tellGRPC,
		// Below the pick, so that a slow endpoint is charged for it.
		timeout.PerTry(r.Retry.PerTry),
		g.asked(r, site),
		// Endpoint known, wire untouched: everything above reacts as if the
		// upstream had done it.
		fault.Layer(g.cfg.Faults, site),
		// How long the connection is held: what a limit for a pool is computed from.
		g.policies.holds.upstream(up.Name).layer,
		// Under the faults: what the upstream really sends, and had agreed to send.
		g.headers.census(up.Name).layer,
		g.deals.terms().answers(up.Name, r.Name),
	)
}

// asked has trusted peers ask for faults by Envoy's fields, where the route lets them.
func (g *Gateway) asked(r config.Route, site fault.Site) exchange.Layer {
	if !r.EnvoyFaultHeaders {
		return func(next exchange.Service) exchange.Service { return next }
	}
	return fault.EnvoyHeaders(g.cfg.Faults, site, g.trusts)
}

// balance picks an endpoint of up.
func (g *Gateway) balance(up config.Upstream) exchange.Layer {
	cfg := balance.Config{
		Endpoints: addresses(up), Rand: g.cfg.Rand, SlowStart: slowStart, PanicPPM: up.PanicPPM,
		Changed: func(c balance.Change) { g.endpointChanged(up.Name, c) },
	}
	if e := up.Ejection; e != nil {
		cfg.Ejection = balance.Ejection{After: e.After, For: e.For, MaxPPM: e.MaxPPM}
	}
	pool := g.state.pool(up.Name)
	cfg.Gates = g.policies.endpoints(up, pool)
	return balance.Layer(cfg, pool)
}

// slowStart is how long a new endpoint is spared a full share.
const slowStart = 10 * time.Second

// smallBody is up to which size a body is read before anything waits for it.
const smallBody = 64 << 10

// bodyLimit refuses a body of more than most bytes: at its head where the length
// is told, else at the byte that is too many.
func bodyLimit(most int64) exchange.Layer {
	tooBig := &exchange.Refusal{Policy: "route", Reason: "body_size", Status: http.StatusRequestEntityTooLarge}
	return func(next exchange.Service) exchange.Service {
		if most <= 0 {
			return next
		}
		return exchange.Func(func(x *exchange.Exchange) error {
			body := &x.Request.Body
			if body.Length > most {
				return tooBig
			}
			if body.Length < 0 {
				left := most
				body.Watch(func(p []byte, _ bool) error {
					if left -= int64(len(p)); left < 0 {
						return tooBig
					}
					return nil
				})
			}
			return next.Serve(x)
		})
	}
}

// upload reads a body of a known small length before the request goes on: it can
// then be sent in one write, and sent again. An upload that waits for 100
// Continue is left alone: the upstream may answer without wanting it.
func upload(most int) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		return exchange.Func(func(x *exchange.Exchange) error {
			body := &x.Request.Body
			if body.Length > 0 && body.Length <= int64(most) && !x.Request.Head.Has("Expect") {
				body.Keep(most)
				if _, err := io.Copy(io.Discard, body); err != nil {
					return err // the client's: cut, too slow, or nonsense
				}
				if err := body.Rewind(); err != nil {
					return err
				}
			}
			return next.Serve(x)
		})
	}
}
