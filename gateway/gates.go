package gateway

import (
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/concurrency"
	"breakwater/internal/retrylog"
)

// Policies do not know one another: here a breaker and a limit become what a
// balancer asks of whatever stands before an endpoint.

type breakerGate struct{ breaker.Gate }

// Enter implements balance.Gate.
func (g breakerGate) Enter(x *exchange.Exchange, now time.Time) (balance.Pass, *exchange.Refusal) {
	call, refusal := g.Gate.Enter(x, now)
	if call == nil {
		return nil, refusal
	}
	return breakerPass{call}, nil
}

type breakerPass struct{ *breaker.Call }

// Answered implements balance.Pass.
func (p breakerPass) Answered(x *exchange.Exchange, now time.Time, r balance.Result) {
	p.Call.Answered(x, now, r.Outcome, r.Status)
}

type limitGate struct {
	*concurrency.Limit
	observe bool
}

// Shut implements balance.Gate.
func (g limitGate) Shut(time.Time) bool { return !g.observe && !g.Ready() }

// Wants implements balance.Gate: a limit is never in want of tries.
func (g limitGate) Wants(time.Time) bool { return false }

// Enter implements balance.Gate.
func (g limitGate) Enter(x *exchange.Exchange, now time.Time) (balance.Pass, *exchange.Refusal) {
	if !g.TryAcquire(now) {
		if !g.observe {
			return nil, fullEndpoint
		}
		g.Take()
		x.Observe("concurrency:full")
	}
	return limitPass{g.Limit}, nil
}

var fullEndpoint = &exchange.Refusal{Policy: "concurrency", Reason: "full", Status: 503, RetryAfter: time.Second} // never changed

type limitPass struct{ *concurrency.Limit }

// Answered implements balance.Pass.
func (p limitPass) Answered(_ *exchange.Exchange, now time.Time, r balance.Result) {
	p.Observe(now, concurrency.Result{Outcome: r.Outcome, Status: r.Status, Took: r.Took})
}

// End implements exchange.Ender.
func (p limitPass) End(*exchange.Exchange, retrylog.Outcome) { p.Release() }
