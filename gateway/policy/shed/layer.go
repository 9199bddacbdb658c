package shed

import (
	"time"

	"breakwater/gateway/exchange"
)

// Header is where a trusted peer says how much a request matters. Those of other
// clients never come as far as here.
const Header = "X-Breakwater-Tier"

// Layer gives each request of a route its tier, and refuses those that s sheds. It
// stands outside everything that costs.
func Layer(route Tier, s *Shedder) exchange.Layer {
	var refusals [critical][spread]*exchange.Refusal
	var measures [critical]*exchange.Refusal
	var observed [critical]string
	for i := range refusals {
		reason := "tier_" + string(tierOf(i))
		for after := range refusals[i] {
			refusals[i][after] = &exchange.Refusal{Policy: "shed", Reason: reason, Status: 503, RetryAfter: time.Duration(after+1) * time.Second}
		}
		measures[i] = &exchange.Refusal{Policy: "shed", Reason: "measure_" + string(tierOf(i)), Status: 503, RetryAfter: measureAfter}
		observed[i] = "shed:" + reason
	}
	return func(next exchange.Service) exchange.Service {
		return exchange.Func(func(x *exchange.Exchange) error {
			t := Effective(route, x.Request.Head.Get(Header), x.InboundRetries)
			if x.Event.Tier = ""; t != Default {
				x.Event.Tier = string(t)
			}
			caller := x.Event.Caller
			if caller == "" {
				caller = x.Request.Peer
			}
			if !s.busy() {
				return next.Serve(x)
			}
			switch v := s.admit(time.Now(), t, caller, x.Event.RequestID, route == Critical); {
			case v == Admitted:
			case s.observe.Load() && v != Measure:
				x.Observe(observed[t.rank()])
			case v == Measure:
				return measures[t.rank()]
			default:
				return refusals[t.rank()][hash(caller)%spread]
			}
			return next.Serve(x)
		})
	}
}

// Shed clients come back after one to three seconds, each at its own time.
const spread = 3

// measureAfter is what they are told while a measure lasts.
const measureAfter = 10 * time.Second
