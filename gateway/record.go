package gateway

import (
	"cmp"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// recorded is the outermost service of a route: it rescues panics, is the only
// place where an error becomes a status, and seals the event when the body has
// ended.
type recorded struct {
	g         *Gateway
	snapshot  *snapshot
	route     config.Route
	observers *observers
	traffic   *traffic
	next      exchange.Service
	stands    *substitute // nil: the route's fallback could not be known again
	records   sync.Pool   // of *retrylog.Record: one allocation a request less
}

func (g *Gateway) record(s *snapshot, r config.Route) exchange.Layer {
	branches, _, err := s.cfg.Branches(r)
	if err != nil {
		branches = nil // build says so; nothing will be counted
	}
	names := make([]string, len(branches))
	for i, up := range branches {
		names[i] = up.Name
	}
	stands := g.substitutes.route(r)
	observers, traffic := g.metrics.observers(r.Service, r.Name, names...), g.tallies.of("", r.Service)
	return func(next exchange.Service) exchange.Service {
		return &recorded{g: g, snapshot: s, route: r, observers: observers, traffic: traffic, stands: stands, next: next}
	}
}

// errPanic stands for a panic in a policy.
var errPanic = errors.New("internal error")

// Serve implements exchange.Service. An error means that nobody waits for an
// answer, or shall have one.
func (r *recorded) Serve(x *exchange.Exchange) error {
	ev := &x.Event
	ev.Service, ev.Route, ev.Upstream, ev.Method = r.route.Service, r.route.Name, r.route.Upstream, x.Request.Method
	ev.Gateway, ev.Env, ev.Revision = r.snapshot.name, r.snapshot.env, r.snapshot.cfg.Revision
	if header := r.snapshot.cfg.Gateway.CallerHeader; header != "" {
		ev.Caller = label(x.Request.Head.Get(header))
	}
	if header := r.snapshot.cfg.Gateway.TenantHeader; header != "" {
		ev.Tenant = label(x.Request.Head.Get(header))
	}
	r.g.cfg.Recorder.Begin()
	r.g.metrics.active.Add(1)
	x.OnEnd(r)
	mark := x.Mark()
	err := r.rescue(x, mark)
	if err != nil {
		x.EndTo(mark, ev.Outcome)
		if ev.Outcome == retrylog.ClientAbort {
			return exchange.ErrClientGone
		}
		if cut, ok := errors.AsType[*exchange.Severed](err); ok {
			return cut
		}
		r.problem(x, err)
	}
	r.dress(x)
	return nil
}

// rescue serves x and turns a panic into an error.
func (r *recorded) rescue(x *exchange.Exchange, mark int) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
			if err != nil {
				x.Event.Outcome = exchange.Classify(err, 0)
			}
		case http.ErrAbortHandler: // somebody wants the connection cut
			panic(v)
		default:
			r.g.metrics.panics.Inc()
			r.g.log.Error("panic in a policy", "request_id", x.Event.RequestID, "route", r.route.Name,
				"err", v, "stack", string(debug.Stack()))
			x.EndTo(mark, retrylog.Panicked)
			x.Event.Outcome = retrylog.Panicked
			err = errPanic
		}
	}()
	return r.next.Serve(x)
}

// dress puts our own fields on an answer.
func (r *recorded) dress(x *exchange.Exchange) {
	head := &x.Response.Head
	head.Set("X-Request-Id", x.Event.RequestID)
	if x.Response.Local && x.Response.Body == nil && x.Response.Status >= 400 {
		p := problem{Code: x.Event.Degraded}
		if p.Code != "" {
			p.Detail = "The upstream failed, and this answer takes the place of its own."
		}
		problemBody(x, p, false)
	}
	if x.Event.Degraded != "" {
		// What was refused below says more than that it was not retried.
		reason := cmp.Or(x.Event.Refusal, x.Event.Skip, "upstream_failure")
		head.Set(degradedField, x.Event.Degraded+";reason="+reason)
	} else if !x.Response.Local {
		// What the upstream degraded it has marked, and the mark goes on to the client; or
		// it has not, and then only the answer itself can tell.
		if head.Has(degradedField) {
			x.Event.Degraded = byUpstream
		} else if r.stands != nil {
			r.stands.watch(x)
		}
	}
	if r.route.FaultVisible && x.Event.Experiment != "" {
		head.Set("X-Breakwater-Fault", x.Event.Experiment)
	}
}

// End implements exchange.Ender, and runs after all others: it seals the event.
func (r *recorded) End(x *exchange.Exchange, o retrylog.Outcome) {
	ev := &x.Event
	ev.Count, ev.Outcome, ev.Status = 1, o, x.Response.Status
	ev.Start, ev.End = ev.Start.UTC(), time.Now()
	ev.LatencyUS = ev.End.Sub(ev.Start).Microseconds()
	ev.End = ev.End.UTC()
	ev.Origin = "upstream"
	if x.Response.Local || ev.Status == 0 || len(ev.Tries) == 0 {
		ev.Origin = "gateway"
	}
	for i := range ev.Tries {
		switch exchange.Kind(ev.Tries[i].Kind) {
		case exchange.ConnectTimeout, exchange.HeaderTimeout, exchange.TryTimeout:
			ev.DepTimeouts++
		}
	}
	if n := len(ev.Tries); n > 0 {
		if ev.FirstStatus == 0 {
			ev.FirstStatus = statusOf(&ev.Tries[0])
		}
		if ev.Timeout == "" && o == retrylog.Timeout && ev.Tries[n-1].Kind != "" {
			ev.Timeout = "try"
		}
	}
	r.write(ev)
	r.g.metrics.active.Add(-1)
	r.observers.observe(ev)
	r.g.metrics.retries(r.observers, ev)
	r.g.metrics.decisions(ev)
	r.g.tallies.count(r.traffic, ev)
}

// write hands ev to the recorder, which takes it by copy.
func (r *recorded) write(ev *retrylog.Exchange) {
	rec, _ := r.records.Get().(*retrylog.Record)
	if rec == nil {
		rec = &retrylog.Record{}
	}
	rec.Exchange = ev
	if rec.Fold = 0; !r.route.Core {
		rec.Fold = alike(ev.LatencyUS)
	}
	r.g.cfg.Recorder.Record(rec)
	rec.Exchange = nil
	r.records.Put(rec)
}

// statusOf is a try's status, or the one that stands for its failure.
func statusOf(t *retrylog.Try) int {
	if t.Status != 0 || t.Kind == "" {
		return t.Status
	}
	return (&exchange.UpstreamError{Kind: exchange.Kind(t.Kind)}).Status()
}

// label makes a client's word fit to be a key of counters.
func label(v string) string {
	if len(v) > 64 {
		v = v[:64]
	}
	for i := range len(v) {
		if b := v[i]; b <= ' ' || b >= 0x7f || b == '"' || b == '\\' {
			return "invalid"
		}
	}
	return v
}

// retryAfter writes d in whole seconds, rounded up: never sooner than meant.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
