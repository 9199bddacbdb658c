package explain

import (
	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/fallback"
)

// degrade says what the route answers in the place of what the retries came to: the
// layer that serves is run over it. No good answer is taken to be kept.
func (a *Answer) degrade(r *config.Route, s *Sample, o outcome) {
	var x exchange.Exchange
	x.Reset()
	x.Request.Method, x.Request.Path, x.Request.Host = s.method(), s.Path, s.Host
	x.Request.Head = *s.Headers.Head()
	x.Request.Body.Set(nil, 0)
	x.Event.Skip = o.skip
	retried := exchange.Func(func(x *exchange.Exchange) error {
		if len(o.calls) == 0 {
			return exchange.ErrTotalTimeout
		}
		last := o.calls[len(o.calls)-1]
		if o.origin != "upstream" && o.degraded == "" {
			return &exchange.UpstreamError{Kind: last.facts.Kind}
		}
		x.Response.Status, x.Response.Local = o.status, o.degraded != ""
		x.Event.Degraded = o.degraded
		return nil
	})
	var store *fallback.Store // an empty one, and large: only where it is asked
	if r.Degrade.Action == fallback.LastGood {
		store = fallback.NewStore(r.Degrade.Keep, s.now())
	}
	if err := fallback.Layer(r.Degrade, store)(retried).Serve(&x); err != nil {
		return // the failure itself, whose status is known
	}
	if a.Degraded = x.Event.Degraded; x.Response.Local {
		a.Status, a.Origin = x.Response.Status, "gateway"
	}
	if r.Degrade.Action == fallback.LastGood && a.Degraded == string(fallback.FailFast) {
		a.note("where a good answer to the same request is kept, that is given instead (last_good)")
	}
}
