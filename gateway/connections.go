package gateway

import (
	"breakwater/gateway/front"

	"github.com/prometheus/client_golang/prometheus"
)

// observeConnections registers what the front counts of clients' connections.
func observeConnections(reg prometheus.Registerer, stats func() front.Stats) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "breakwater_gateway_connections", Help: "Connections that clients hold.",
	}, func() float64 { return float64(stats().Open) }))
	for reason, of := range map[string]func(front.Stats) int64{
		"max":         func(s front.Stats) int64 { return s.TooMany },
		"per_address": func(s front.Stats) int64 { return s.TooManyOfOne },
		"handshake":   func(s front.Stats) int64 { return s.Handshakes },
		"flood":       func(s front.Stats) int64 { return s.Floods },
	} {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "breakwater_gateway_connections_refused_total", Help: "Connections closed before, or for what, their client sent.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 { return float64(of(stats())) }))
	}
	for face, of := range map[string]func(front.Stats) int64{
		"fast":     func(s front.Stats) int64 { return s.Fast },
		"standard": func(s front.Stats) int64 { return s.Standard },
	} {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "breakwater_gateway_front_requests_total", Help: "Requests by the face of the listener that served them.",
			ConstLabels: prometheus.Labels{"face": face},
		}, func() float64 { return float64(of(stats())) }))
	}
}
