package scenario

import (
	"strings"
	"testing"
	"time"

	"breakwater/internal/conf"
)

const named = `apiVersion: breakwater/v1
kind: Scenario
id: points-drill
title: Points
target: {service: points}
sample: {percent: "100%", key: attempt, seed: auto}
phases: {baseline: 1m, inject: 2m, recover: 1m}
faults: [{id: f, FAULT}]
hypothesis:
  steady: [{id: s1, sli: points.success, op: ">=", value: "98%"}]
  PHASE: [{id: x, ASSERTION}]
stop: [{sli: points.error_rate, op: ">", value: "90%", for: 45s}]
`

func drillOf(t *testing.T, fault, phase, assertion string) Scenario {
	t.Helper()
	text := strings.NewReplacer("FAULT", fault, "PHASE", phase, "ASSERTION", assertion).Replace(named)
	set, _, err := Parse(conf.File{Name: "s.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set.Scenarios[0]
}

// Whatever is broken has a name, and what is right stands beside it.
func TestWeakness(t *testing.T) {
	const bad, late, lost = "error: {status: 500}", "latency: {dist: fixed, value: 600ms}, toothless: allowed", "drop: {phase: after_upstream}"
	tests := []struct{ fault, phase, assertion, want string }{
		{bad, "during", "breaker: points, event: opened", BreakerShut},
		{late, "during", "breaker: points, event: opened", SlowUnseen},
		{"error: {status: 429}", "during", "breaker: points, event: stays_closed", TripsWrongly},
		{bad, "during", `flaps: points, op: "<=", value: 1`, Flapping},
		{bad, "after", "breaker: points, event: closed", SlowRecovery},
		{bad, "after", `sli: points.success, op: ">=", value: "98%"`, NoRecovery},
		{lost, "during", `retries: points, op: "<=", value: "0%"`, RetryUnsafe},
		{"error: {status: 503}", "during", `retries: points, op: "<=", value: "1%"`, RetryHopeless},
		{bad, "during", `amplification: points, op: "<=", value: 1.2`, RetryStorm},
		{bad, "during", `retries: points, op: ">", value: "1%"`, RetryMissing},
		{bad, "during", `ratio: degraded/matched, op: ">=", value: "95%"`, Unmarked},
		{bad, "during", "alert: PointsBurn, expect: silent", AlertWrong},
		{bad, "during", "alert: PointsBurn, expect: firing", AlertSilent},
		{bad, "during", "config: unchanged", ConfigMoved},
		{bad, "during", `sli: points.p95, op: "<", value: 100ms`, SlowFailure},
		{bad, "during", `sli: order.error_rate, op: "<=", value: "3%"`, Spreads},
		{bad, "during", `sli: points.error_rate, op: "<=", value: "3%"`, BareFailure},
	}
	for _, tt := range tests {
		s := drillOf(t, tt.fault, tt.phase, tt.assertion)
		list := append(s.During, s.After...)
		code, right := s.Weakness(tt.phase, list[0])
		if code != tt.want || right == "" {
			t.Errorf("%s %s: got %q, %q; want %s", tt.phase, tt.assertion, code, right, tt.want)
		}
		if code, _ := s.Weakness("steady", s.Steady[0]); code != "" {
			t.Errorf("what was so before a fault is called %s", code)
		}
	}
}

// A breaker that counts failures alone does not see calls that are only late.
func TestPreflightSeesBlindBreakers(t *testing.T) {
	s := drillOf(t, "latency: {dist: fixed, value: 600ms}, toothless: allowed", "during", "breaker: points, event: opened")
	facts := Facts{PerTry: 800 * time.Millisecond, RPSMilli: 50_000, Routes: []Route{{Name: "any", Fallback: true}},
		Breaker: &BreakerRule{ErrorPPM: 300_000, Window: 10 * time.Second, Windows: 1, MinRequests: 20, OpenFor: 10 * time.Second}}
	for _, tt := range []struct {
		after time.Duration
		ppm   int64
		want  string
	}{
		{0, 0, "it counts what fails"}, {700 * time.Millisecond, 500_000, "after 700ms"}, {300 * time.Millisecond, 500_000, ""},
	} {
		facts.Breaker.SlowAfter, facts.Breaker.SlowPPM = tt.after, tt.ppm
		got := ""
		for _, w := range s.Preflight(facts) {
			if w.Code == SlowBlind {
				got = w.Text
			}
			if w.Code == CannotTrip {
				t.Errorf("also called %s: %s", w.Code, w.Text)
			}
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("slow after %v at %d ppm: got %q, want %q", tt.after, tt.ppm, got, tt.want)
		}
	}
}
