package gateway

import (
	"sync"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/mirror"
	"breakwater/gateway/policy/timeout"

	"github.com/prometheus/client_golang/prometheus"
)

// mirrors are the queues of copies, by the upstream they go to. They outlive
// snapshots.
type mirrors struct {
	counted *prometheus.CounterVec

	mu     sync.Mutex
	queues map[string]*mirror.Queue
}

func newMirrors(reg prometheus.Registerer) *mirrors {
	m := &mirrors{
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_mirror_requests_total", Help: "Requests that were to be mirrored, by what became of their copy.",
		}, []string{"upstream", "result"}),
		queues: map[string]*mirror.Queue{},
	}
	reg.MustRegister(m.counted)
	return m
}

// of returns the queue of upstream.
func (m *mirrors) of(upstream string) *mirror.Queue {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queues[upstream] == nil {
		counters := map[mirror.Result]prometheus.Counter{}
		for _, r := range mirror.Results() {
			counters[r] = m.counted.WithLabelValues(upstream, string(r))
		}
		m.queues[upstream] = mirror.NewQueue(mirror.Limits{}, func(r mirror.Result) { counters[r].Inc() })
	}
	return m.queues[upstream]
}

// keep closes the queues that s has no mirror for.
func (m *mirrors) keep(s *snapshot) {
	named := map[string]bool{}
	for _, r := range s.cfg.Routes {
		if r.Mirror != nil {
			named[r.Mirror.Upstream] = true
		}
	}
	m.close(func(upstream string) bool { return !named[upstream] })
}

func (m *mirrors) close(which func(upstream string) bool) {
	m.mu.Lock()
	var gone []*mirror.Queue
	for upstream, q := range m.queues {
		if which(upstream) {
			gone = append(gone, q)
			delete(m.queues, upstream)
		}
	}
	m.mu.Unlock()
	for _, q := range gone {
		q.Close()
	}
}

// stats is what each queue holds now.
func (m *mirrors) stats() map[string]mirror.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]mirror.Stats{}
	for upstream, q := range m.queues {
		out[upstream] = q.Stats()
	}
	return out
}

// mirror copies requests of r where it asks for that.
func (g *Gateway) mirror(s *snapshot, r config.Route) exchange.Layer {
	if r.Mirror == nil {
		return func(next exchange.Service) exchange.Service { return next }
	}
	up, _ := s.cfg.Upstream(r.Mirror.Upstream)
	shadow := exchange.Chain(g.state.wire(up),
		timeout.Total(r.Mirror.Timeout),
		g.balance(up),
	)
	return mirror.Layer(mirror.Config{PPM: r.Mirror.PPM, MaxBody: r.Mirror.MaxBody, Rand: g.cfg.Rand}, g.mirrors.of(up.Name), shadow)
}
