package injector

import (
	"strings"
	"testing"
	"time"

	"breakwater/injector/scenario"
	"breakwater/internal/histogram"
)

var noon = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

func TestWilson(t *testing.T) {
	tests := []struct {
		k, n  int64
		lower bool
		want  float64
	}{
		{0, 0, true, 0}, {0, 0, false, 1},
		{0, 30, false, 0.0827}, {1, 100, true, 0.00232}, {50, 100, true, 0.4188}, {50, 100, false, 0.5812},
	}
	for _, tt := range tests {
		if got := wilson(tt.k, tt.n, tt.lower); got < tt.want-0.0005 || got > tt.want+0.0005 {
			t.Errorf("bound of %d of %d (lower %v) is %.5f, want %.5f", tt.k, tt.n, tt.lower, got, tt.want)
		}
	}
}

func TestAssess(t *testing.T) {
	errors3 := scenario.Assertion{ID: "d1", Measure: scenario.ErrorRate, Service: "order", Op: "<=", Limit: 30_000, MinRequests: 30}
	success := scenario.Assertion{ID: "s1", Measure: scenario.Success, Service: "order", Op: ">=", Limit: 995_000, MinRequests: 200}
	p95 := scenario.Assertion{ID: "p", Measure: scenario.P95, Service: "order", Op: "<=", Limit: 300_000, MinRequests: 30}
	amplification := scenario.Assertion{ID: "a", Measure: scenario.Amplification, Service: "points", Op: "<=", Limit: 1_200_000, MinRequests: 30}
	retries := scenario.Assertion{ID: "r", Measure: scenario.Retries, Service: "points", Op: "<=", Limit: 200_000, MinRequests: 30}
	bins := func(us ...int64) histogram.Bins {
		var b histogram.Bins
		for _, v := range us {
			b.Add(v, 50)
		}
		return b
	}
	tests := []struct {
		name string
		a    scenario.Assertion
		seen Seen
		want Result
	}{
		{"nothing seen", errors3, Seen{}, NoData},
		{"too few requests, all good", errors3, Seen{Good: 29}, NoData},
		{"just enough, all good", errors3, Seen{Good: 30}, Pass},
		{"exactly at the limit", errors3, Seen{Good: 97, Bad: 3}, Pass},
		{"above it by chance: too few to tell", errors3, Seen{Good: 96, Bad: 4}, NoData},
		{"above it beyond doubt", errors3, Seen{Good: 900, Bad: 100}, Fail},
		{"success at the limit", success, Seen{Good: 199, Bad: 1}, Pass},
		{"success below it by chance", success, Seen{Good: 198, Bad: 2}, NoData},
		{"success far below", success, Seen{Good: 900, Bad: 100}, Fail},
		{"no latencies", p95, Seen{}, NoData},
		{"fast enough", p95, Seen{Hist: bins(1000, 2000, 3000)}, Pass},
		{"far too slow", p95, Seen{Hist: bins(1000, 2_000_000, 3_000_000)}, Fail},
		{"beyond the range", p95, Seen{Hist: bins(400_000_000)}, Fail},
		{"few extra tries", amplification, Seen{Good: 100, Attempts: 120}, Pass},
		{"a storm", amplification, Seen{Good: 100, Attempts: 160}, Fail},
		{"tries not counted", amplification, Seen{Good: 100}, NoData},
		{"retries at the limit", retries, Seen{Good: 100, Attempts: 120}, Pass},
		{"retries above it", retries, Seen{Good: 100, Attempts: 121}, Fail},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Observations{Seen: map[string]Seen{tt.a.ID: tt.seen}}
			if got := assess(Run{InjectAt: noon, BaselineAt: noon}, tt.a, "during", o); got.Result != tt.want {
				t.Errorf("got %s (%s), want %s", got.Result, got.Seen, tt.want)
			}
		})
	}
	if got := assess(Run{InjectAt: noon}, errors3, "during", Observations{Error: "ledger away"}); got.Result != Errored {
		t.Errorf("an error of reading gave %s, want error", got.Result)
	}
}

func TestChaos_C29_C44_C45_verdicts(t *testing.T) {
	sc := scenario.Scenario{
		Sample: scenario.Sample{PPM: 300_000},
		Steady: []scenario.Assertion{{ID: "s1", Measure: scenario.Success, Service: "order", Op: ">=", Limit: 990_000, MinRequests: 30}},
		During: []scenario.Assertion{{ID: "d1", Measure: scenario.ErrorRate, Service: "order", Op: "<=", Limit: 30_000, MinRequests: 30}},
		After:  []scenario.Assertion{{ID: "a1", Measure: scenario.Success, Service: "order", Op: ">=", Limit: 990_000, MinRequests: 30}},
	}
	control := sc
	control.Sample.PPM = 0
	good, bad, few := Seen{Good: 1000}, Seen{Good: 700, Bad: 300}, Seen{Good: 5}
	seen := func(s, d, a Seen) map[string]Seen { return map[string]Seen{"s1": s, "d1": d, "a1": a} }
	run := func(state State, reason Reason) Run {
		return Run{State: state, Reason: string(reason), BaselineAt: noon, InjectAt: noon.Add(time.Minute), RecoverAt: noon.Add(2 * time.Minute)}
	}
	early := Run{State: Aborting, Reason: string(ByUser), BaselineAt: noon}
	shaky := Run{State: Baseline, BaselineAt: noon}
	tests := []struct {
		name string
		sc   scenario.Scenario
		run  Run
		o    Observations
		want Verdict
		why  string
	}{
		{"all held", sc, run(Recovering, ""), Observations{Seen: seen(good, good, good), Attempts: 1000, Injected: 300, Armed: true}, Passed, "held"},
		{"nobody was hit", sc, run(Recovering, ""), Observations{Seen: seen(good, good, good), Attempts: 1000, Armed: true}, Inconclusive, "no_effect"},
		{"nobody came by", sc, run(Recovering, ""), Observations{Seen: seen(good, good, good), Armed: true}, Inconclusive, "no_effect"},
		{"a receipt is missing", sc, run(Recovering, ""), Observations{Seen: seen(good, good, good), Attempts: 1000, Injected: 300}, Inconclusive, "no_effect"},
		{"hit far less often than asked", sc, run(Recovering, ""), Observations{Seen: seen(good, good, good), Attempts: 1000, Injected: 100, Armed: true}, Inconclusive, "no_effect"},
		{"hit fewer than 30 times", sc, run(Recovering, ""), Observations{Seen: seen(good, good, good), Attempts: 90, Injected: 29, Armed: true}, Inconclusive, "no_effect"},
		{"expectation broken", sc, run(Recovering, ""), Observations{Seen: seen(good, bad, good), Attempts: 1000, Injected: 300, Armed: true}, Failed, "d1"},
		{"not recovered", sc, run(Recovering, ""), Observations{Seen: seen(good, good, bad), Attempts: 1000, Injected: 300, Armed: true}, Failed, "a1"},
		{"no data is no pass", sc, run(Recovering, ""), Observations{Seen: seen(good, few, good), Attempts: 1000, Injected: 300, Armed: true}, Inconclusive, "no_data"},
		{"unreadable is no pass", sc, run(Recovering, ""), Observations{Error: "away", Attempts: 1000, Injected: 300, Armed: true}, Inconclusive, "no_data"},
		{"stop condition", sc, run(Aborting, ByCondition), Observations{Seen: seen(good, good, few), Attempts: 100, Injected: 20, Armed: true}, Failed, "stop_condition"},
		{"budget cap", sc, run(Aborting, ByBudget), Observations{Seen: seen(good, good, few), Attempts: 100, Injected: 20, Armed: true}, Failed, "budget_cap"},
		{"stopped by a condition that the fault cannot have caused", sc, run(Aborting, ByCondition), Observations{Armed: true}, Inconclusive, "no_effect"},
		{"user", sc, run(Aborting, ByUser), Observations{Seen: seen(good, bad, good), Attempts: 100, Injected: 30, Armed: true}, Inconclusive, "user"},
		{"engine lost", sc, run(Aborting, ByEngine), Observations{Seen: seen(good, good, good), Attempts: 1000, Injected: 300, Armed: true}, Inconclusive, "engine_lost"},
		{"silence", sc, run(Aborting, BySilence), Observations{}, Inconclusive, "feed_silent"},
		{"stopped before injection", sc, early, Observations{Seen: seen(good, Seen{}, Seen{})}, Inconclusive, "user"},
		{"steady state not met", sc, shaky, Observations{Seen: seen(bad, Seen{}, Seen{})}, Inconclusive, "steady_state_not_met"},
		{"control run", control, run(Recovering, ""), Observations{Seen: seen(good, good, good), Attempts: 1000}, Passed, "nothing was injected"},
		{"control run that injected", control, run(Recovering, ""), Observations{Seen: seen(good, good, good), Attempts: 1000, Injected: 1}, Failed, "control run"},
		{"control run that changed something", control, run(Recovering, ""), Observations{Seen: seen(good, bad, good), Attempts: 1000}, Failed, "d1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, why, all := Judge(tt.run, tt.sc, tt.o)
			if v != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("got %s: %s, want %s with %q", v, why, tt.want, tt.why)
			}
			if len(all) != 3 {
				t.Errorf("%d assertions, want all 3", len(all))
			}
		})
	}
}
