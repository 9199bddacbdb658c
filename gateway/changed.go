package gateway

import (
	"time"

	"breakwater/internal/retrylog"
)

// changed makes a policy's change of state known to all who ask for it: an event,
// a line of the log, a metric.
func (g *Gateway) changed(t retrylog.Transition) {
	g.log.Warn(t.Policy+" changed", "service", t.Service, "upstream", t.Upstream, "endpoint", t.Endpoint,
		"from", t.From, "to", t.To, "reason", t.Reason)
	g.metrics.transitions.WithLabelValues(t.Policy, t.Service, t.Upstream, t.To).Inc()
	if t.At.IsZero() { // else it is when the change was due, which may lie back
		t.At = time.Now()
	}
	t.At, t.Gateway, t.Env = t.At.UTC(), g.cfg.Name, g.cfg.Env
	if s := g.now.Load(); s != nil {
		t.Gateway, t.Env = s.name, s.env
	}
	g.cfg.Recorder.Record(&retrylog.Record{Transition: &t})
}
