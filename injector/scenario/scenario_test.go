package scenario

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/internal/conf"
)

const whole = `apiVersion: breakwater/v1
kind: Scenario
id: points-slow
title: Points answers after 5 s
tags: [weekly]
target: {service: points, routes: [points-deduct], callers: [web]}
sample: {percent: "30%", key: request, seed: fixed}
phases: {baseline: 5m, inject: 10m, recover: 5m}
faults:
  - {id: lat, latency: {dist: fixed, value: 5s}}
  - {id: err, error: {status: 503, body: "no"}}
hypothesis:
  steady: [{id: s1, sli: order.success, op: ">=", value: "99.5%", window: 5m, min_requests: 200}]
  during:
    - {id: d1, sli: order.error_rate, op: "<=", value: "3%"}
    - {id: d2, amplification: points, op: "<=", value: 1.2}
    - {id: d3, retries: points, op: "<=", value: "20%"}
  after: [{id: a1, sli: order.p95, op: "<=", value: 300ms, within: 5m}]
stop: [{burn_rate: order, over: 240, windows: [1m, 5m]}, {sli: order.error_rate, op: ">", value: "8%", for: 45s}, {budget_spent: "5%"}]
limits: {ttl: 15s}
`

func parse(text string) (Set, error) {
	set, _, err := Parse(conf.File{Name: "s.yaml", Data: []byte(text)})
	return set, err
}

func TestParse(t *testing.T) {
	set, err := parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	s := set.Scenarios[0]
	if s.ID != "points-slow" || s.Target.Service != "points" || s.Target.Callers[0] != "web" || s.Text != whole {
		t.Errorf("%+v", s)
	}
	if s.Sample != (Sample{PPM: 300_000, Key: "request", Seed: "fixed"}) || s.Phases.Total() != 20*time.Minute {
		t.Errorf("%+v %+v", s.Sample, s.Phases)
	}
	if !reflect.DeepEqual(s.Faults, []Fault{
		{ID: "lat", Rule: fault.Fault{ID: "lat", Kind: fault.Latency, LatencyMS: 5000}},
		{ID: "err", Rule: fault.Fault{ID: "err", Kind: fault.Error, Status: 503, Body: "no"}},
	}) {
		t.Errorf("%+v", s.Faults)
	}
	if a := s.Steady[0]; a != (Assertion{ID: "s1", Measure: Success, Service: "order", Op: ">=", Limit: 995_000, Window: 5 * time.Minute, MinRequests: 200}) {
		t.Errorf("%+v", a)
	}
	if s.During[1].Limit != 1_200_000 || s.During[2].Limit != 200_000 || s.After[0].Limit != 300_000 || s.After[0].MinRequests != 30 {
		t.Errorf("%+v %+v", s.During, s.After)
	}
	if b := s.Stop[0]; b.OverMilli != 240_000 || len(b.Windows) != 2 || b.MinBad != 10 {
		t.Errorf("%+v", b)
	}
	if got := strings.Join(s.Services(), " "); got != "points order" {
		t.Errorf("services %s", got)
	}
}

// TestMistakes changes one thing of a good document at a time; each must be told
// at its own field.
func TestMistakes(t *testing.T) {
	tests := []struct{ name, from, to, want string }{
		{"unknown key", "tags:", "tag:", "tag: must be a known field"},
		{"unknown key deep inside", "min_requests: 200", "min_request: 200", "hypothesis.steady[0].min_request: must be a known field"},
		{"more than all", `percent: "30%"`, `percent: "130%"`, "sample.percent: must be 0% to 100%"},
		{"TestReliability_X162: no service", "service: points, ", "", "target.service: must be given"},
		{"TestReliability_X162: any service", "service: points,", `service: "*",`, "target.service: must be a name"},
		{"TestReliability_X162: any route", "routes: [points-deduct]", `routes: ["*"]`, "target.routes[0]: must be a name, got a pattern"},
		{"no routes at all", "routes: [points-deduct]", "routes: []", "target.routes: must name some"},
		{"no end", "inject: 10m, ", "", "phases.inject: must be given"},
		{"no unit", "inject: 10m", "inject: 10", "phases.inject: must be a span"},
		{"error that is none", "status: 503", "status: 200", "faults[1].error.status: must be 400 to 599"},
		{"two kinds in one fault", "latency: {dist: fixed, value: 5s}", "latency: {dist: fixed, value: 5s}, error: {status: 500}", "faults[0].error: must stand alone"},
		{"same fault twice", "id: err", "id: lat", "faults[1].id: must be unique"},
		{"same assertion in two phases", "id: a1", "id: s1", "hypothesis.after[0].id: must be unique"},
		{"a measure nobody takes", "order.success", "order.happiness", "hypothesis.steady[0].sli: must be <service>.success"},
		{"an assertion of nothing", "retries: points, ", "", "hypothesis.during[2]: must have sli"},
		{"one burn window", "windows: [1m, 5m]", "windows: [1m]", "stop[0].windows: must be two windows"},
		{"long window first", "windows: [1m, 5m]", "windows: [5m, 1m]", "stop[0].windows: must be the shorter window first"},
		{"a stop on getting better", `op: ">", value: "8%"`, `op: "<", value: "8%"`, "stop[1].op: must be >"},
		{"no brake", "stop: [", "stop: []\nx: [", "stop: must hold at least one condition"},
		{"a lease longer than the gateway gives", "ttl: 15s", "ttl: 60s", "limits.ttl: must be 10s to 15s"},
		{"other version", "breakwater/v1", "breakwater/v2", "apiVersion: must be breakwater/v1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(whole, tt.from) {
				t.Fatalf("%q is not in the document", tt.from)
			}
			_, err := parse(strings.Replace(whole, tt.from, tt.to, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "s.yaml:") {
				t.Errorf("got %v, want %q at its place", err, tt.want)
			}
		})
	}
}

func TestGameDay(t *testing.T) {
	const day = `apiVersion: breakwater/v1
kind: GameDay
name: weekly
title: Weekly small drill
scenarios: [points-slow]
schedule: {cron: "0 10 * * 2", zone: Europe/Berlin}
auto_approve: {budget_spent: "5%"}
`
	set, err := parse(whole + "---\n" + day)
	if err != nil {
		t.Fatal(err)
	}
	g := set.GameDays[0]
	if g.GrantPPM != 50_000 || g.Schedule.Zone != "Europe/Berlin" || g.Text != day || set.Scenarios[0].Text != whole {
		t.Errorf("%+v", g)
	}
	tests := []struct{ name, from, to, want string }{
		{"TestChaos_C51: zone in the text", `"0 10 * * 2"`, `"TZ=UTC 0 10 * * 2"`, "schedule.cron: must have no time zone"},
		{"TestChaos_C53: both days", `"0 10 * * 2"`, `"0 10 1-7 * 2"`, "write nth"},
		{"never", `"0 10 * * 2"`, `"0 10 30 2 *"`, "schedule.cron: must happen within 8 years"},
		{"no such zone", "Europe/Berlin", "Europe/Berln", "schedule.zone: must be a zone name"},
		{"unknown scenario", "[points-slow]", "[points-fast]", "scenarios: must be known, got points-fast"},
		{"blackout that ends before it begins", "zone: Europe/Berlin", "zone: UTC, blackout: [{from: 2026-02-02, to: 2026-02-01}]", "must end on or after"},
		{"bare grant", `"5%"`, "5", "auto_approve.budget_spent: must be a share"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(whole + "---\n" + strings.Replace(day, tt.from, tt.to, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := parse(whole + "---\n" + day + "---\n" + day); err == nil || !strings.Contains(err.Error(), "must have a name of its own") {
		t.Errorf("the same game day twice gave %v", err)
	}
}

func TestPreflight(t *testing.T) {
	set, err := parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	s := set.Scenarios[0]
	allowed := s
	allowed.Faults = []Fault{{ID: "lat", Rule: fault.Fault{Kind: fault.Latency, LatencyMS: 1000}, Toothless: true}}
	tests := []struct {
		name   string
		s      Scenario
		facts  Facts
		code   string
		refuse bool
	}{
		{"nothing is known", s, Facts{}, "", false},
		{"long enough", s, Facts{PerTry: 2 * time.Second, RPSMilli: 20_000}, "", false},
		{"shorter than a try may take", s, Facts{PerTry: 6 * time.Second}, "toothless", true},
		{"just as long", s, Facts{PerTry: 5 * time.Second}, "toothless", true},
		{"and meant so", allowed, Facts{PerTry: 2 * time.Second}, "", false},
		{"less than twice", s, Facts{PerTry: 3 * time.Second}, "weak", false},
		{"hardly any traffic", s, Facts{RPSMilli: 100}, "few-hits", false},
		{"many retries", s, Facts{Retries: 3}, "storm", false},
		{"a brake out of reach", s, Facts{TargetPPB: map[string]int64{"order": 990_000_000}}, "dead-brake", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.s.Preflight(tt.facts)
			if tt.code == "" {
				for _, w := range got {
					if w.Code != "no-during" {
						t.Errorf("got %+v, want no warning", w)
					}
				}
				return
			}
			if len(got) != 1 || got[0].Code != tt.code || got[0].Refuse != tt.refuse {
				t.Errorf("got %+v, want %s, refused %v", got, tt.code, tt.refuse)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text string) {
		set, err := parse(text)
		if err != nil {
			return
		}
		for _, s := range set.Scenarios {
			// What is accepted has an end, a brake and an aim, and reads the same alone.
			again, err := parse(s.Text)
			if err != nil || len(again.Scenarios) != 1 || again.Scenarios[0].ID != s.ID {
				t.Fatalf("its own text reads as %+v, %v", again, err)
			}
			if s.Phases.Inject <= 0 || len(s.Stop) == 0 || s.Target.Service == "" {
				t.Fatalf("accepted %+v", s)
			}
		}
	})
}
