package report

import (
	"github.com/prometheus/client_golang/prometheus"

	"breakwater/slo"
)

// Metrics shows the last evaluation to Prometheus. Each scrape reads the very
// statuses that pages show; what was not measured has no sample, since a zero
// would be a claim.
type Metrics struct {
	source    Source
	remaining *prometheus.Desc
	burn      *prometheus.Desc
	errors    *prometheus.Desc
	state     *prometheus.Desc
	coverage  *prometheus.Desc
	evaluated *prometheus.Desc
	dataUntil *prometheus.Desc
}

// NewMetrics returns a collector over source.
func NewMetrics(source Source) *Metrics {
	labels := []string{"slo", "service", "env"}
	return &Metrics{source,
		prometheus.NewDesc("breakwater_slo_budget_remaining_ratio", "Share of the error budget that is left; below 0 the promise is broken.", labels, nil),
		prometheus.NewDesc("breakwater_slo_burn_rate", "Burn rate; 1 spends exactly the budget in the objective's window.", append(labels[:3:3], "window"), nil),
		prometheus.NewDesc("breakwater_slo_error_ratio", "Share of valid events that were bad, which is no burn rate.", append(labels[:3:3], "window"), nil),
		prometheus.NewDesc("breakwater_slo_state", "1 for the state in force, 0 for the others.", append(labels[:3:3], "state"), nil),
		prometheus.NewDesc("breakwater_slo_coverage_ratio", "Share of gateway time that was reported.", labels, nil),
		prometheus.NewDesc("breakwater_slo_evaluated_timestamp_seconds", "When budgets were last evaluated.", nil, nil),
		prometheus.NewDesc("breakwater_slo_data_timestamp_seconds", "Until when the counted data reaches.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.remaining, m.burn, m.errors, m.state, m.coverage, m.evaluated, m.dataUntil} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if at := m.source.Health().LastAt; !at.IsZero() {
		gauge(m.evaluated, float64(at.UnixMilli())/1000)
	}
	for _, s := range m.source.Statuses() {
		labels := []string{s.Objective.ID, s.Objective.Service, s.Env}
		if !s.Budget.NoData {
			gauge(m.remaining, float64(s.Budget.RemainingPPM)/1e6, labels...)
		}
		for _, b := range s.Burns {
			if !b.NoData {
				gauge(m.burn, float64(b.RateMilli)/1e3, append(labels[:3:3], slo.Window(b.Window))...)
				gauge(m.errors, float64(b.Bad)/float64(b.Valid), append(labels[:3:3], slo.Window(b.Window))...)
			}
		}
		for _, l := range []slo.Level{slo.Normal, slo.Warn, slo.Emergency, slo.Frozen, slo.Unknown} {
			v := 0.0
			if s.Level == l {
				v = 1
			}
			gauge(m.state, v, append(labels[:3:3], string(l))...)
		}
		gauge(m.coverage, float64(s.CoveragePPM)/1e6, labels...)
		if !s.DataUntil.IsZero() {
			gauge(m.dataUntil, float64(s.DataUntil.UnixMilli())/1000, labels...)
		}
	}
}
