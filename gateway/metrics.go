package gateway

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"breakwater/internal/retrylog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics of the data plane. The ponytail names are those of its own text.
type metrics struct {
	duration *prometheus.HistogramVec
	active   atomic.Int64
	panics   prometheus.Counter
	reloads  *prometheus.CounterVec
	reloadOK prometheus.Gauge
	applies  prometheus.Gauge

	requests, triggered, succeeded, failed, sent *prometheus.CounterVec
	ratio                                        *prometheus.GaugeVec
	transitions, refusals, degraded, observed    *prometheus.CounterVec

	unmatched func() *observers // of requests that came to no route

	mu      sync.Mutex             // of what was retried
	outcome map[retryKey]*[2]int64 // triggered, succeeded
}

type retryKey struct {
	upstream string
	status   int
	reason   string
}

func (k retryKey) labels() []string { return []string{k.upstream, strconv.Itoa(k.status), k.reason} }

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	retryLabels := []string{"upstream", "status_code", "decision_reason"}
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "breakwater_http_server_request_duration_seconds",
			Help:    "Time from the request's head to the end of the answer's body.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"service", "route", "code"}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: "breakwater_http_server_panics_total", Help: "Panics rescued."}),
		reloads:  counter("breakwater_config_reloads_total", "Configurations applied or refused.", "result"),
		reloadOK: gauge("breakwater_config_last_reload_successful", "1 where the last configuration read was applied."),
		applies:  gauge("breakwater_config_last_applied_timestamp_seconds", "When the configuration that serves was applied."),

		requests:  counter("ponytail_request_total", "All requests; status_code and decision_reason are empty where none was retried.", retryLabels...),
		triggered: counter("ponytail_retry_triggered_total", "Requests that were retried.", retryLabels...),
		succeeded: counter("ponytail_retry_succeeded_total", "Retried requests that ended well.", retryLabels...),
		failed:    counter("ponytail_retry_failed_total", "Retried requests that failed all the same.", retryLabels...),
		sent:      counter("ponytail_retry_rate_total", "Retries sent.", retryLabels...),
		ratio: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ponytail_retry_succeed_ratio", Help: "Share of retried requests that ended well, since the start.",
		}, retryLabels),
		transitions: counter("breakwater_policy_transitions_total", "Changes of a policy's state, by the state it went to.", "policy", "service", "upstream", "to"),
		refusals:    counter("breakwater_refused_total", "Requests that a policy refused.", "service", "refusal"),
		degraded:    counter("breakwater_degraded_total", "Answers in the place of an upstream's own.", "service", "route", "action"),
		observed:    counter("breakwater_observed_total", "What policies that only observe would have done.", "service", "decision"),
		outcome:     map[retryKey]*[2]int64{},
	}
	m.unmatched = sync.OnceValue(func() *observers { return m.resolve("", unmatched, "") })
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "breakwater_http_server_active_requests", Help: "Requests under way.",
	}, func() float64 { return float64(m.active.Load()) })
	reg.MustRegister(m.duration, active, m.panics, m.reloads, m.reloadOK, m.applies,
		m.requests, m.triggered, m.succeeded, m.failed, m.sent, m.ratio, m.transitions, m.refusals, m.degraded, m.observed,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) applied(s *snapshot) {
	m.reloads.WithLabelValues("applied").Inc()
	m.reloadOK.Set(1)
	m.applies.Set(float64(s.appliedAt.UnixMilli()) / 1000)
}

func (m *metrics) refused() {
	m.reloads.WithLabelValues("refused").Inc()
	m.reloadOK.Set(0)
}

// observers are what requests of one route count into, looked up once per
// snapshot: a look-up by labels hashes them, under a lock that all share.
type observers struct {
	took  [6]prometheus.Observer // by class of status; "none" is for clients that left before there was one
	plain []plain                // of requests that were not retried, by upstream
}

type plain struct {
	upstream string
	requests prometheus.Counter
}

// observers of a route, whose requests go to one of upstreams.
func (m *metrics) observers(service, route string, upstreams ...string) *observers {
	if service == "" && route == unmatched {
		return m.unmatched()
	}
	return m.resolve(service, route, upstreams...)
}

func (m *metrics) resolve(service, route string, upstreams ...string) *observers {
	o := &observers{}
	for i, class := range []string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		o.took[i] = m.duration.WithLabelValues(service, route, class)
	}
	for _, up := range upstreams {
		o.plain = append(o.plain, plain{up, m.requests.WithLabelValues(up, "", "")})
	}
	return o
}

func (o *observers) observe(ev *retrylog.Exchange) {
	class := ev.Status / 100
	if class < 0 || class > 5 {
		class = 0
	}
	o.took[class].Observe(float64(ev.LatencyUS) / 1e6)
}

// decisions counts what policies did, or would have done, to ev: rare enough to
// look counters up by their labels.
func (m *metrics) decisions(ev *retrylog.Exchange) {
	if ev.Refusal != "" {
		m.refusals.WithLabelValues(ev.Service, ev.Refusal).Inc()
	}
	if ev.Degraded != "" {
		m.degraded.WithLabelValues(ev.Service, ev.Route, ev.Degraded).Inc()
	}
	if ev.Observed != "" {
		for what := range strings.SplitSeq(ev.Observed, ",") {
			m.observed.WithLabelValues(ev.Service, what).Inc()
		}
	}
}

// retries counts what ponytail counts.
func (m *metrics) retries(o *observers, ev *retrylog.Exchange) {
	n := len(ev.Tries) - 1
	if n < 1 {
		for i := range o.plain {
			if o.plain[i].upstream == ev.Upstream {
				o.plain[i].requests.Inc()
				return
			}
		}
		m.requests.WithLabelValues(ev.Upstream, "", "").Inc()
		return
	}
	key := retryKey{ev.Upstream, ev.FirstStatus, ev.Reason}
	labels := key.labels()
	m.requests.WithLabelValues(labels...).Inc()
	m.triggered.WithLabelValues(labels...).Inc()
	m.sent.WithLabelValues(labels...).Add(float64(n))
	won := int64(0)
	if ev.Outcome == retrylog.OK {
		won = 1
		m.succeeded.WithLabelValues(labels...).Inc()
	} else {
		m.failed.WithLabelValues(labels...).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.outcome[key]
	if counts == nil {
		counts = new([2]int64)
		m.outcome[key] = counts
	}
	counts[0]++
	counts[1] += won
	m.ratio.WithLabelValues(labels...).Set(float64(counts[1]) / float64(counts[0]))
}
