package scenario

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/fault"
)

// everything says all that a scenario can say, in the forms of the specification.
const everything = `apiVersion: breakwater/v1
kind: Scenario
id: points-slow-5s                 # stable; findings hang on it
title: Points service answers after 5 s
tags: [weekly, non-core]
target: {service: points, routes: ["POST /v1/points/deduct"], match: {headers: {x-tenant-class: {in: [internal, bronze]}}}, exclude_tenants: [vip]}
sample: {percent: "100%", key: attempt, seed: auto}
phases: {baseline: 5m, inject: 10m, recover: 5m}
faults:
  - {id: lat, latency: {dist: fixed, value: 5s}, side: response, position: upstream, require: {min_ratio_to_timeout: 2}}
hypothesis:
  steady:  [{id: s1, sli: order.success, op: ">=", value: "99.5%", window: 5m, min_requests: 200}]
  during:
    - {id: d1, breaker: points, event: opened, within: 35s}
    - {id: d2, ratio: degraded/matched, while: "breaker(points)=open", op: ">=", value: "95%"}
    - {id: d3, sli: order.error_rate, op: "<=", value: "3%"}
    - {id: d4, amplification: points, op: "<=", value: 1.2}
    - {id: d5, alert: OrderErrorsHigh, expect: silent}
    - {id: d6, alert: PointsDependencySlow, expect: firing, within: 2m}
    - {id: d7, config: unchanged}
    - {id: d8, flaps: points, op: "<=", value: 1}
    - {id: d9, sli: points.error_rate, against: control, margin: "2%", optional: true}
  after:   [{id: a1, breaker: points, event: closed, within: 340s}, {id: a2, sli: order.p95, op: "<=", value: 300ms, within: 5m}]
stop: [{burn_rate: order, over: 240, windows: [1m, 5m]}, {sli: order.error_rate, op: ">", value: "8%", for: 45s}, {budget_spent: "5%"}, {amplification: points, op: ">", value: 1.5, for: 30s}]
limits: {max_affected_rps: 50, max_tenants: 20, ttl: 15s}
search: {knob: faults.lat.latency.value, from: 5s, to: 0s, resolution: 100ms, when: failed}
on_fail: {finding: {severity: high, owner: team-points, due: 14d}}
accept: [cannot_trip]
`

func one(t *testing.T, text string) Scenario {
	t.Helper()
	set, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return set.Scenarios[0]
}

func TestChaos_B9(t *testing.T) {
	s := one(t, everything)
	if want := (Target{Service: "points", Calls: []Call{{"POST", "/v1/points/deduct"}}, ExcludeTenants: []string{"vip"},
		Headers: []fault.HeaderIn{{Name: "x-tenant-class", Values: []string{"internal", "bronze"}}}}); !reflect.DeepEqual(s.Target, want) {
		t.Errorf("target %+v", s.Target)
	}
	if f := s.Faults[0]; f.Rule.Side != fault.ResponseSide || f.Rule.Position != "" || f.RatioMilli != 2000 {
		t.Errorf("fault %+v", f)
	}
	during := []Assertion{
		{ID: "d1", Measure: Breaker, Service: "points", Event: Opened, Within: 35 * time.Second, MinRequests: 1},
		{ID: "d2", Measure: Ratio, Part: Degraded, Whole: Matched, While: "points", Op: ">=", Limit: 950_000, MinRequests: 30},
		{ID: "d3", Measure: ErrorRate, Service: "order", Op: "<=", Limit: 30_000, MinRequests: 30},
		{ID: "d4", Measure: Amplification, Service: "points", Op: "<=", Limit: 1_200_000, MinRequests: 30},
		{ID: "d5", Measure: Alert, Service: "OrderErrorsHigh", Event: Silent, MinRequests: 1},
		{ID: "d6", Measure: Alert, Service: "PointsDependencySlow", Event: Firing, Within: 2 * time.Minute, MinRequests: 1},
		{ID: "d7", Measure: Config, Event: Unchanged, MinRequests: 1},
		{ID: "d8", Measure: Flaps, Service: "points", Op: "<=", Limit: 1, MinRequests: 30},
		{ID: "d9", Measure: ErrorRate, Service: "points", Against: AgainstControl, Cohort: Exposed, Limit: 20_000, MinRequests: 30, Optional: true},
	}
	if !reflect.DeepEqual(s.During, during) {
		t.Errorf("during %+v", s.During)
	}
	if a := s.After[0]; a.Event != Closed || a.Within != 340*time.Second {
		t.Errorf("after %+v", a)
	}
	if s.Limits != (Limits{TTL: 15 * time.Second, AffectedMilli: 50_000, Tenants: 20}) {
		t.Errorf("limits %+v", s.Limits)
	}
	if x := s.Stop[3]; x.Kind != StopAmplification || x.OverMilli != 1500 || x.For != 30*time.Second {
		t.Errorf("stop %+v", x)
	}
	if *s.Search != (Search{Fault: "lat", Knob: KnobLatency, From: 5000, Resolution: 100, When: "failed"}) {
		t.Errorf("search %+v", s.Search)
	}
	if *s.OnFail != (Finding{Severity: "high", Owner: "team-points", Due: 14 * 24 * time.Hour}) || len(s.Accept) != 1 {
		t.Errorf("on_fail %+v, accept %v", s.OnFail, s.Accept)
	}
	if got := strings.Join(s.Services(), " "); got != "points order" {
		t.Errorf("services %s", got)
	}
}

// withFault is the small document with one fault, as written.
func withFault(text string) string {
	const old = "  - {id: lat, latency: {dist: fixed, value: 5s}}\n  - {id: err, error: {status: 503, body: \"no\"}}\n"
	return strings.Replace(whole, old, "  - {id: f, "+text+"}\n", 1)
}

func TestFaultKinds(t *testing.T) {
	delay := func(d fault.Delay) fault.Fault { return fault.Fault{Kind: fault.Latency, Delay: &d} }
	tests := []struct {
		text string
		want fault.Fault
	}{
		{"latency: {dist: uniform, value: 300ms, jitter: 100ms, cap: 350ms}", delay(fault.Delay{Dist: "uniform", MS: 300, JitterMS: 100, CapMS: 350})},
		{"latency: {dist: normal, mean: 300ms, sd: 50ms}", delay(fault.Delay{Dist: "normal", MS: 300, JitterMS: 50})},
		{"latency: {dist: pareto, scale: 20ms, alpha: 1.5, cap: 10s}", delay(fault.Delay{Dist: "pareto", MS: 20, Alpha: 1500, CapMS: 10_000})},
		{"latency: {dist: table, percentiles: {p50: 20ms, p99.9: 2s, p100: 5s}}", delay(fault.Delay{Dist: "table", Table: []fault.Percentile{{PPM: 500_000, MS: 20}, {PPM: 999_000, MS: 2000}, {PPM: 1_000_000, MS: 5000}}})},
		{"error: {status: 429, headers: {Retry-After: \"2\"}}", fault.Fault{Kind: fault.Error, Status: 429, Headers: map[string]string{"Retry-After": "2"}}},
		{"grpc: {status: UNAVAILABLE, message: away}", fault.Fault{Kind: fault.GRPC, Status: 14, Body: "away"}},
		{"grpc: {status: 8}", fault.Fault{Kind: fault.GRPC, Status: 8}},
		{"drop: {phase: after_upstream}", fault.Fault{Kind: fault.Drop, Phase: fault.AfterUpstream}},
		{"reset: {phase: before_upstream}", fault.Fault{Kind: fault.Reset, Phase: fault.BeforeUpstream}},
		{"refuse: {}", fault.Fault{Kind: fault.Refuse}},
		{"blackhole: {}", fault.Fault{Kind: fault.Blackhole}},
		{"header: {set: {X-A: b}, remove: [X-C]}, side: request", fault.Fault{Kind: fault.Header, Headers: map[string]string{"X-A": "b"}, Remove: []string{"X-C"}, Side: fault.RequestSide}},
		{"truncate: {at: 100B, mode: dirty}", fault.Fault{Kind: fault.Truncate, Bytes: 100}},
		{"truncate: {at: 0B, mode: clean}", fault.Fault{Kind: fault.Truncate, Clean: true}},
		{"truncate: {at: \"50%\", mode: clean}", fault.Fault{Kind: fault.Truncate, PPMOfBody: 500_000, Clean: true}},
		{"corrupt: {percent: \"0.1%\"}", fault.Fault{Kind: fault.Corrupt, PPMOfBody: 1000}},
		{"body: {value: \"{}\"}", fault.Fault{Kind: fault.Body, Body: "{}"}},
		{"drip: {rate: 1kB}", fault.Fault{Kind: fault.Drip, BytesPerSecond: 1000}},
		{"duplicate: {}", fault.Fault{Kind: fault.Duplicate}},
		{"error: {status: 500}, pulse: {every: 30s, for: 4s}", fault.Fault{Kind: fault.Error, Status: 500, EveryMS: 30_000, ForMS: 4000}},
		{"error: {status: 500}, position: edge", fault.Fault{Kind: fault.Error, Status: 500, Position: fault.AtEdge}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			s := one(t, withFault(tt.text))
			tt.want.ID = "f"
			if !reflect.DeepEqual(s.Faults[0].Rule, tt.want) {
				t.Errorf("got %+v, want %+v", s.Faults[0].Rule, tt.want)
			}
		})
	}
}

func TestFaultMistakes(t *testing.T) {
	tests := []struct{ text, want string }{
		{"drop: {}", "faults[0].drop.phase: must be given"},
		{"reset: {phase: later}", "faults[0].reset.phase: must be before_upstream or after_upstream"},
		{"latency: {dist: pareto, scale: 20ms, alpha: 1.5}", "faults[0].latency.cap: must be given"},
		{"latency: {dist: pareto, scale: 20ms, alpha: 1.5, cap: 10ms}", "faults[0].latency.cap: must be at least 20 ms"},
		{"latency: {dist: fixed, value: 5s, jitter: 1s}", "faults[0].latency.jitter: must be a known field"},
		{"latency: {dist: table, percentiles: {p99: 2s, p50: 20ms}}", "faults[0].latency.percentiles.p50: must rise"},
		{"latency: {dist: table, percentiles: {p50: 2s, p99: 20ms}}", "faults[0].latency.percentiles.p99: must rise"},
		{"latency: {dist: table, percentiles: {p101: 2s}}", "percentiles.p101: must be called like p50"},
		{"latency: {dist: table, percentiles: {}}", "must hold at least one percentile"},
		{"latency: {dist: gamma, value: 5s}", "faults[0].latency.dist: must be fixed, uniform, normal, pareto or table"},
		{"truncate: {at: 100, mode: dirty}", "faults[0].truncate.at: must be a string"},
		{"truncate: {at: 100B}", "faults[0].truncate.mode: must be given"},
		{"truncate: {at: \"100%\", mode: dirty}", "faults[0].truncate.at: must be below 100%"},
		{"truncate: {at: -1B, mode: dirty}", "faults[0].truncate.at: must be an amount"},
		{"corrupt: {percent: 5}", "faults[0].corrupt.percent: must be a share"},
		{"drip: {rate: 0B}", "faults[0].drip.rate: must be 1 B"},
		{"error: {status: 503, headers: {Content-Length: \"5\"}}", "framing"},
		{"header: {}", "faults[0].header: must set or remove"},
		{"blackhole: {}, side: request", "faults[0].side: must be response"},
		{"truncate: {at: 1B, mode: dirty}, position: edge", "at the edge the kind must be"},
		{"error: {status: 500}, require: {min_ratio_to_timeout: 2}", "faults[0].require: must go with a latency"},
		{"error: {status: 500}, pulse: {every: 30s}", "faults[0].pulse.for: must be given"},
		{"error: {status: 500}, pulse: {every: 30s, for: 30s}", "faults[0].pulse: must be there for less than it repeats after"},
		{"title: x", "faults[0]: must have one of latency, error"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			_, err := parse(withFault(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "s.yaml:") {
				t.Errorf("got %v, want %q at its place", err, tt.want)
			}
		})
	}
	edge := strings.Replace(withFault("error: {status: 500}, position: edge"), "key: request", "key: attempt", 1)
	if _, err := parse(edge); err == nil || !strings.Contains(err.Error(), "at the edge the key must be another than attempt") {
		t.Errorf("at the edge by attempt: %v", err)
	}
}

// TestWholeMistakes changes one thing of the large document at a time.
func TestWholeMistakes(t *testing.T) {
	tests := []struct{ from, to, want string }{
		{`"POST /v1/points/deduct"`, `"POST v1/points"`, "target.routes[0]: must be a route's name, or a method and a path"},
		{"{in: [internal, bronze]}", "{in: []}", "target.match.headers.x-tenant-class.in: must name some"},
		{"{in: [internal, bronze]}", "{present: false}", "present: must be true"},
		{"{in: [internal, bronze]}", "{oneof: [a]}", "in: must be given"},
		{"match: {", "callers: [a], match: {callers: [b], ", "target.match.callers: must be given once"},
		{"exclude_tenants: [vip]", "exclude_tenants: []", "target.exclude_tenants: must name some"},
		{"key: attempt", "key: user", "sample.key: must be attempt, request, trace, tenant or connection"},
		{"event: opened", "event: tripped", "event: must be opened, closed, half_open or stays_closed"},
		{"event: opened", "event: stays_closed", "within: must not be given"},
		{"degraded/matched", "degraded/all", "ratio: must be degraded/matched or"},
		{"breaker(points)=open", "breaker(points)=closed", "while: must be such as"},
		{"expect: silent", "expect: quiet", "expect: must be silent or firing"},
		{"config: unchanged", "config: same", "config: must be unchanged, or a revision"},
		{"against: control", "against: control, cohort: unmatched", "against: must compare the cohort exposed"},
		{"{id: a2, sli: order.p95, op: \"<=\", value: 300ms, within: 5m}", "{id: a2, sli: points.error_rate, against: control, margin: \"1%\"}", "against: must be baseline after the injection"},
		{"sli: points.error_rate, against: control", "sli: order.error_rate, against: control", "hypothesis.during[8]: must be of the target points where a cohort is looked at, got order"},
		{`margin: "2%"`, `margin: "0%"`, "margin: must be above 0%"},
		{"steady:  [{id: s1, sli: order.success, op: \">=\", value: \"99.5%\"", "steady:  [{id: s1, sli: order.success, against: baseline, margin: \"1%\"", "against: must stand in during or after"},
		{"flaps: points", "flaps: points, retries: points", "flaps: must stand alone, got retries beside it"},
		{"over: 240", "over: 0", "stop[0].over: must be 0.001"},
		{"value: 1.5, for: 30s", "value: 0.5, for: 30s", "stop[3].value: must be 1"},
		{"max_tenants: 20", "max_tenants: 0", "limits.max_tenants: must be 1"},
		{"faults.lat.latency.value", "faults.slow.latency.value", "search.knob: must be sample.percent or faults"},
		{"faults.lat.latency.value", "faults.lat.error.status", "search.knob: must be a number of fault lat"},
		{"to: 0s", "to: 5s", "search.to: must differ"},
		{"to: 0s", "to: 50%", "search.to: must be a duration"},
		{"severity: high", "severity: bad", "on_fail.finding.severity: must be low, medium, high or critical"},
		{"accept: [cannot_trip]", "accept: [toothless]", "accept[0]: must be cannot_trip"},
	}
	for _, tt := range tests {
		t.Run(tt.to, func(t *testing.T) {
			if !strings.Contains(everything, tt.from) {
				t.Fatalf("%q is not in the document", tt.from)
			}
			_, err := parse(strings.Replace(everything, tt.from, tt.to, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "s.yaml:") {
				t.Errorf("got %v, want %q at its place", err, tt.want)
			}
		})
	}
}

func TestChaos_C7_jitterBeyondLatency(t *testing.T) {
	_, err := parse(withFault("latency: {dist: uniform, value: 100ms, jitter: 300ms}"))
	if err == nil || !strings.Contains(err.Error(), "faults[0].latency.jitter: must be at most the value (100 ms), got 300 ms") {
		t.Errorf("got %v", err)
	}
}

func TestChaos_C9_sideIsNamed(t *testing.T) {
	for side, want := range map[string]fault.Side{"response": fault.ResponseSide, "both": fault.BothSides, "request": fault.RequestSide} {
		s := one(t, withFault("latency: {dist: fixed, value: 25ms}, toothless: allowed, side: "+side))
		if s.Faults[0].Rule.Side != want {
			t.Errorf("side %s is %q", side, s.Faults[0].Rule.Side)
		}
	}
	// Both sides make one round trip longer by both.
	s := one(t, withFault("latency: {dist: fixed, value: 25ms}, side: both"))
	if got := longest(s.Faults[0].Rule); got != 50*time.Millisecond {
		t.Errorf("both sides are %v together, want 50ms", got)
	}
}

func TestChaos_C17_missingPercent(t *testing.T) {
	_, err := parse(strings.Replace(whole, `percent: "30%", `, "", 1))
	if err == nil || !strings.Contains(err.Error(), "sample.percent: must be given") {
		t.Errorf("got %v", err)
	}
}

func TestChaos_C18_bareShareIsRefused(t *testing.T) {
	for text, want := range map[string]int64{`"0.25%"`: 2500, `"25%"`: 250_000, "25%": 250_000, "0.25": -1, "25": -1, "1": -1, `"0.25"`: -1} {
		set, err := parse(strings.Replace(whole, `"30%"`, text, 1))
		switch {
		case want < 0 && (err == nil || !strings.Contains(err.Error(), "sample.percent: must be a share")):
			t.Errorf("percent %s gave %v", text, err)
		case want >= 0 && (err != nil || set.Scenarios[0].Sample.PPM != want):
			t.Errorf("percent %s gave %v, want %d ppm", text, err, want)
		}
	}
}

func TestChaos_C20_zeroPercentIsAControlRun(t *testing.T) {
	s := one(t, strings.Replace(whole, `"30%"`, `"0%"`, 1))
	if w := s.Preflight(Facts{}); s.Sample.PPM != 0 || len(w) != 1 || w[0].Code != ControlRun || w[0].Refuse {
		t.Errorf("%+v, want one remark", w)
	}
}

func TestChaos_C22_gRPCStatusOK(t *testing.T) {
	for _, status := range []string{"0", "OK", "17", "-1", "FINE"} {
		_, err := parse(withFault("grpc: {status: " + status + "}"))
		if err == nil || !strings.Contains(err.Error(), "faults[0].grpc.status: must be 1 to 16") {
			t.Errorf("status %s gave %v", status, err)
		}
	}
}

func TestChaos_B3_rowChance(t *testing.T) {
	tests := []struct {
		p    float64
		k, n int64
		want float64
	}{
		{1, 80, 12_000, 1}, {0.9, 80, 12_000, 0.23}, {0.5, 80, 12_000, 5e-21}, {0.36, 80, 12_000, 2.4e-32},
		{0.5, 1, 1, 0.5}, {0.5, 2, 2, 0.25}, {0.5, 2, 3, 0.375}, {0.5, 2, 4, 0.5}, {0.5, 3, 2, 0}, {0, 1, 10, 0}, {0.3, 0, 10, 1},
	}
	for _, tt := range tests {
		if got := RowChance(tt.p, tt.k, tt.n); got < tt.want*0.97 || got > tt.want*1.03 {
			t.Errorf("p %g, %d in a row of %d: %.4g, want %.4g", tt.p, tt.k, tt.n, got, tt.want)
		}
	}
	// Against counting: every sequence of 12 calls.
	for k := int64(1); k <= 5; k++ {
		hold := 0
		for bits := range 1 << 12 {
			if strings.Contains(fmt.Sprintf("%012b", bits), strings.Repeat("1", int(k))) {
				hold++
			}
		}
		if got, want := RowChance(0.5, k, 12), float64(hold)/4096; got < want-1e-12 || got > want+1e-12 {
			t.Errorf("%d in a row of 12: %.6f, counted %.6f", k, got, want)
		}
	}
}
