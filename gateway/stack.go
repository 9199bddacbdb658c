package gateway

import (
	"io"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/policy/timeout"
)

// stack is what a request of r passes through, the outermost first.
func (g *Gateway) stack(s *snapshot, r config.Route, up config.Upstream) exchange.Service {
	addresses := make([]string, len(up.Endpoints))
	for i, e := range up.Endpoints {
		addresses[i] = e.Address
	}
	replay := r.Retry.ReplayCap
	if replay <= 0 || replay > smallBody {
		replay = smallBody
	}
	site := fault.Site{Service: r.Service, Route: r.Name, Exempt: r.NoFaults}
	return exchange.Chain(g.state.wire(up),
		// Outermost: refusals are events too, and only here an error becomes a status.
		g.record(s, r),
		// Above the clocks: how fast a client sends is not the upstream's fault.
		upload(replay),
		// All tries and waits and the body together.
		timeout.Total(r.Timeout),
		// Outside balance: every try is judged, budgeted and placed anew.
		retry.Layer(r.Retry, retry.Deps{
			Upstream: up.Name, Endpoints: len(addresses), Budget: g.state.budget(up.Name),
			Log: g.cfg.Lines, Rand: g.cfg.Rand,
		}),
		// Skips the endpoints already tried, and opens the try's entry in the event.
		balance.Layer(balance.Config{Endpoints: addresses, Rand: g.cfg.Rand, SlowStart: slowStart}, g.state.pool(up.Name)),
		// Below the pick, so that a slow endpoint is charged for it.
		timeout.PerTry(r.Retry.PerTry),
		// Endpoint known, wire untouched: everything above reacts as if the
		// upstream had done it.
		fault.Layer(g.cfg.Faults, site),
	)
}

// slowStart is how long a new endpoint is spared a full share.
const slowStart = 10 * time.Second

// smallBody is up to which size a body is read before anything waits for it.
const smallBody = 64 << 10

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
