package injector

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/injector/scenario"
)

// at is seconds after noon.
func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// ran is a run that was calm for a minute, injected from noon for ten and is over.
func ran() Run {
	return Run{
		State: Recovering, Service: "points", StartedAt: at(-70), BaselineAt: at(-60), InjectAt: noon, RecoverAt: at(600), EndedAt: at(960),
		Receipts: []Receipt{{Gateway: "gw", Fault: "lat", ArmedAt: at(-62), RemovedAt: at(602), Config: "aaaa1111"}},
	}
}

func turn(seconds int, gateway, from, to string) Transition {
	return Transition{At: at(seconds), Gateway: gateway, From: from, To: to, Reason: "test"}
}

func TestBreakerAssertions(t *testing.T) {
	opens := []Transition{turn(12, "gw", "closed", "open"), turn(42, "gw", "open", "half_open"), turn(50, "gw", "half_open", "open"),
		turn(80, "gw", "open", "half_open"), turn(640, "gw", "half_open", "closed")}
	flapping := append(opens[:0:0], opens[:4]...)
	for i := range 3 {
		flapping = append(flapping, turn(100+i*40, "gw", "half_open", "closed"), turn(110+i*40, "gw", "closed", "open"), turn(130+i*40, "gw", "open", "half_open"))
	}
	is := func(event string, within time.Duration) scenario.Assertion {
		return scenario.Assertion{ID: "x", Measure: scenario.Breaker, Service: "points", Event: event, Within: within}
	}
	flaps := scenario.Assertion{ID: "x", Measure: scenario.Flaps, Service: "points", Op: "<=", Limit: 1}
	tests := []struct {
		name  string
		phase string
		a     scenario.Assertion
		turns []Transition
		heard int
		want  Result
		seen  string
	}{
		{"opened in time", "during", is(scenario.Opened, 35*time.Second), opens, 960, Pass, "after 12 s at gw"},
		{"opened too late", "during", is(scenario.Opened, 10*time.Second), opens, 960, Fail, "did not within 10 s"},
		{"never opened", "during", is(scenario.Opened, 0), nil, 960, Fail, "did not"},
		{"events are behind", "during", is(scenario.Opened, 35*time.Second), nil, 34, NoData, "known only up to 12:00:34"},
		{"opened before the fault", "during", is(scenario.Opened, 35*time.Second), []Transition{turn(-5, "gw", "closed", "open")}, 960, Fail, "did not"},
		{"half open in time", "during", is(scenario.HalfOpened, time.Minute), opens, 960, Pass, "after 42 s"},
		{"stays closed", "during", is(scenario.StaysClosed, 0), nil, 960, Pass, "stayed closed"},
		{"does not stay closed", "during", is(scenario.StaysClosed, 0), opens, 960, Fail, "opened after 12 s"},
		{"nobody knows whether it stays closed", "during", is(scenario.StaysClosed, 0), nil, 599, NoData, "known only"},
		{"closed again", "after", is(scenario.Closed, 340*time.Second), opens, 960, Pass, "closed after 38 s"},
		{"closed too late", "after", is(scenario.Closed, 30*time.Second), opens, 960, Fail, "still gw half open"},
		{"another gateway's is still open", "after", is(scenario.Closed, 340*time.Second), append(opens[:5:5], turn(30, "gw2", "closed", "open")), 960, Fail, "still gw2 open"},
		{"never opened, so never closed", "after", is(scenario.Closed, 340*time.Second), nil, 960, NoData, "never opened"},
		{"closed, as far as is known", "after", is(scenario.Closed, 340*time.Second), opens[:4], 610, NoData, "known only"},
		{"one opening is no flap", "during", flaps, opens, 960, Pass, "0 flaps"},
		{"flaps", "during", flaps, flapping, 960, Fail, "3 flaps"},
		{"flaps are never fewer for what comes later", "during", flaps, flapping, 300, Fail, "3 flaps"},
		{"no flap yet", "during", flaps, opens, 300, NoData, "known only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Observations{Now: at(960), Heard: at(tt.heard), Breakers: map[string][]Transition{"points": tt.turns}}
			got := assess(ran(), tt.a, tt.phase, o)
			if got.Result != tt.want || !strings.Contains(got.Seen, tt.seen) {
				t.Errorf("got %s (%s), want %s with %q", got.Result, got.Seen, tt.want, tt.seen)
			}
			if late := tt.want == NoData && strings.Contains(tt.seen, "known only"); got.late != late {
				t.Errorf("late is %v, want %v: whether the verdict waits hangs on it", got.late, late)
			}
		})
	}
}

func TestOpenBreakerIsNoSteadyState(t *testing.T) {
	sc := scenario.Scenario{Target: scenario.Target{Service: "points"}, Sample: scenario.Sample{PPM: 1}}
	run := ran()
	run.State, run.InjectAt = Baseline, time.Time{}
	o := Observations{Now: noon, Heard: noon, Breakers: map[string][]Transition{"points": {turn(-20, "gw", "closed", "open")}}}
	if v, why, _ := Judge(run, sc, o); v != Inconclusive || !strings.Contains(why, "steady_state_not_met: the breaker of points is not closed at gw") {
		t.Errorf("%s: %s", v, why)
	}
	o.Breakers["points"] = append(o.Breakers["points"], turn(-2, "gw", "half_open", "closed"))
	if why := openBefore(sc, o); why != "" {
		t.Errorf("closed again, and still %s", why)
	}
}

func TestAlertAssertions(t *testing.T) {
	is := func(expect string, within time.Duration) scenario.Assertion {
		return scenario.Assertion{ID: "x", Measure: scenario.Alert, Service: "PointsSlow", Event: expect, Within: within}
	}
	fired := []Alert{{Name: "PointsSlow", Service: "points", Level: "L2", From: at(90)}}
	tests := []struct {
		name   string
		a      scenario.Assertion
		alerts []Alert
		heard  int
		want   Result
	}{
		{"fires in time", is(scenario.Firing, 2*time.Minute), fired, 960, Pass},
		{"fires too late", is(scenario.Firing, time.Minute), fired, 960, Fail},
		{"another fires", is(scenario.Firing, 2*time.Minute), []Alert{{Name: "Other", From: at(90)}}, 960, Fail},
		{"none, and the feed is behind", is(scenario.Firing, 2*time.Minute), nil, 100, NoData},
		{"silent", is(scenario.Silent, 0), nil, 960, Pass},
		{"not silent", is(scenario.Silent, 0), fired, 960, Fail},
		{"was not silent before, and is not yet", is(scenario.Silent, 0), []Alert{{Name: "PointsSlow", From: at(-300)}}, 960, Fail},
		{"was over before", is(scenario.Silent, 0), []Alert{{Name: "PointsSlow", From: at(-300), To: at(-200)}}, 960, Pass},
		{"silent as far as is known", is(scenario.Silent, 0), nil, 599, NoData},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Observations{Now: at(960), Alerts: tt.alerts, AlertsHeard: at(tt.heard)}
			if got := assess(ran(), tt.a, "during", o); got.Result != tt.want {
				t.Errorf("got %s (%s), want %s", got.Result, got.Seen, tt.want)
			}
		})
	}
	if got := assess(ran(), is(scenario.Silent, 0), "during", Observations{Now: at(960)}); got.Result != NoData {
		t.Errorf("without a feed silence is %s, want no data", got.Result)
	}
}

func TestConfigAssertions(t *testing.T) {
	for _, tt := range []struct {
		name, event, hash string
		want              Result
	}{
		{"unchanged", scenario.Unchanged, "aaaa1111", Pass},
		{"changed", scenario.Unchanged, "bbbb2222", Fail},
		{"the one asked for", "aaaa11", "aaaa1111", Pass},
		{"another than was asked for", "cccc33", "aaaa1111", Fail},
		{"nobody said", scenario.Unchanged, "", NoData},
	} {
		o := Observations{Now: at(960), Served: []Gateway{{Name: "gw", ConfigHash: tt.hash}}}
		a := scenario.Assertion{ID: "x", Measure: scenario.Config, Event: tt.event}
		if got := assess(ran(), a, "during", o); got.Result != tt.want {
			t.Errorf("%s: got %s (%s), want %s", tt.name, got.Result, got.Seen, tt.want)
		}
	}
}

func TestNoWorseThan(t *testing.T) {
	a := scenario.Assertion{ID: "x", Measure: scenario.ErrorRate, Service: "points", Against: scenario.AgainstControl, Cohort: scenario.Exposed, Limit: 20_000, MinRequests: 30}
	for _, tt := range []struct {
		name string
		s    Seen
		want Result
	}{
		{"the same, over many", Seen{Good: 9900, Bad: 100, RefGood: 9900, RefBad: 100}, Pass},
		{"the same, over few: not proven", Seen{Good: 99, Bad: 1, RefGood: 99, RefBad: 1}, NoData},
		{"worse by a little less than the margin", Seen{Good: 9750, Bad: 250, RefGood: 9900, RefBad: 100}, Pass},
		{"worse by about the margin", Seen{Good: 9700, Bad: 300, RefGood: 9900, RefBad: 100}, NoData},
		{"worse by more", Seen{Good: 9500, Bad: 500, RefGood: 9900, RefBad: 100}, Fail},
		{"better", Seen{Good: 10_000, RefGood: 9000, RefBad: 1000}, Pass},
		{"nothing to compare with", Seen{Good: 10_000}, NoData},
		{"fewer than asked for", Seen{Good: 29, RefGood: 10_000}, NoData},
	} {
		got := assess(ran(), a, "during", Observations{Now: at(960), Seen: map[string]Seen{"x": tt.s}})
		if got.Result != tt.want {
			t.Errorf("%s: got %s (%s), want %s", tt.name, got.Result, got.Seen, tt.want)
		}
	}
}

// Newcombe's own example, 56 of 70 beside 48 of 80: 0.0524 to 0.3339 at 1.96
// standard deviations, and with the 1.645 of one side as here.
func TestWorse(t *testing.T) {
	least, most := worse(56, 70, 48, 80)
	if math.Abs(least-0.07655) > 1e-4 || math.Abs(most-0.31365) > 1e-4 {
		t.Errorf("%.4f to %.4f", least, most)
	}
	back, forth := worse(48, 80, 56, 70)
	if math.Abs(back+most) > 1e-12 || math.Abs(forth+least) > 1e-12 {
		t.Errorf("the other way round %.4f to %.4f", back, forth)
	}
}

// A drill whose routes have no names yet must not become one on all routes.
func TestUnnamedRoutesMakeNoRule(t *testing.T) {
	sc := scenario.Scenario{Target: scenario.Target{Service: "points", Calls: []scenario.Call{{Method: "GET", Path: "/"}}},
		Sample: scenario.Sample{PPM: 1}, Faults: []scenario.Fault{{ID: "f", Rule: fault.Fault{Kind: fault.Refuse}}}}
	if got := Faults(Run{ID: "r", State: Injecting}, sc); got != nil {
		t.Errorf("%+v", got)
	}
	sc.Target.Calls = nil
	if got := Faults(Run{ID: "r", State: Injecting}, sc); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// Beside the baseline, and beside those that the share has spared.
func TestWhatIsComparedWith(t *testing.T) {
	r := &replay{counts: map[string]map[time.Time]*Point{}, now: at(600)}
	r.count("points", at(-30), Point{Good: 90, Bad: 10})
	r.count("points", at(30), Point{Good: 60, Bad: 40})
	d := drive{Engine: New(Config{Ledger: r}), run: ran(), now: at(960)}
	o := Observations{Parts: []Part{{Phase: "during", Cohort: scenario.Control, Good: 7, Bad: 3}, {Phase: "during", Cohort: scenario.Exposed, Good: 1, Bad: 2}, {Phase: "steady", Cohort: scenario.Control, Good: 5}}}
	for _, tt := range []struct {
		a    scenario.Assertion
		want [4]int64
	}{
		{scenario.Assertion{Measure: scenario.ErrorRate, Service: "points", Against: scenario.AgainstBaseline}, [4]int64{60, 40, 90, 10}},
		{scenario.Assertion{Measure: scenario.ErrorRate, Service: "points", Against: scenario.AgainstControl, Cohort: scenario.Exposed}, [4]int64{1, 2, 7, 3}},
		{scenario.Assertion{Measure: scenario.ErrorRate, Service: "points", Cohort: scenario.Control}, [4]int64{7, 3, 0, 0}},
	} {
		s, err := d.seen(t.Context(), "during", tt.a, o)
		if got := [4]int64{s.Good, s.Bad, s.RefGood, s.RefBad}; err != nil || got != tt.want {
			t.Errorf("%+v: %v, %v, want %v", tt.a, got, err, tt.want)
		}
	}
}

// The whole-number decision is that of the bound which is shown.
func TestBeyondIsTheWilsonBound(t *testing.T) {
	for _, n := range []int64{1, 29, 30, 1000, 1_000_000_000_000} {
		for k := int64(0); k <= n; k += max(n/57, 1) {
			for _, ppm := range []int64{0, 1, 500, 30_000, 500_000, 995_000, 1_000_000} {
				for _, op := range []string{"<=", "<", ">=", ">"} {
					bound := wilson(k, n, upper(op))
					if math.Abs(bound-float64(ppm)/1_000_000) < 1e-9 {
						continue // where a fraction rounds either way, the whole numbers rule
					}
					want := !metShare(op, k, n, ppm) && !met(op, bound, float64(ppm)/1_000_000)
					if got := beyond(op, k, n, ppm); got != want {
						t.Fatalf("%d of %d %s %d ppm: %v, and the bound is %g", k, n, op, ppm, got, bound)
					}
				}
			}
		}
	}
}

func TestOptionalAssertionsFailNoRun(t *testing.T) {
	sc := scenario.Scenario{Sample: scenario.Sample{PPM: 300_000}, During: []scenario.Assertion{
		{ID: "d1", Measure: scenario.ErrorRate, Service: "order", Op: "<=", Limit: 30_000, MinRequests: 30},
		{ID: "d2", Measure: scenario.ErrorRate, Service: "order", Op: "<=", Limit: 1, MinRequests: 30, Optional: true},
	}}
	s := Seen{Good: 990, Bad: 10}
	o := Observations{Seen: map[string]Seen{"d1": s, "d2": s}, Attempts: 1000, Injected: 300, Armed: true, Now: at(960)}
	v, why, all := Judge(ran(), sc, o)
	if v != Passed || all[1].Result != Fail {
		t.Errorf("%s: %s, %+v", v, why, all)
	}
	sc.During[1].Optional = false
	if v, _, _ = Judge(ran(), sc, o); v != Failed {
		t.Errorf("%s with the same one mandatory", v)
	}
}

func TestOpenSpans(t *testing.T) {
	turns := []Transition{turn(-5, "a", "closed", "open"), turn(10, "b", "closed", "open"), turn(40, "a", "open", "half_open"), turn(50, "a", "half_open", "open"), turn(60, "b", "open", "half_open")}
	got := openSpans(turns, []string{"a", "b"}, noon, at(600))
	if len(got) != 2 || !got[0].From.Equal(at(10)) || !got[0].Until.Equal(at(40)) || !got[1].From.Equal(at(50)) || !got[1].Until.Equal(at(60)) {
		t.Errorf("both are open in %v", got)
	}
	if got := openSpans(turns[:1], []string{"a"}, noon, at(600)); len(got) != 1 || !got[0].From.Equal(noon) || !got[0].Until.Equal(at(600)) {
		t.Errorf("open all the time: %v", got)
	}
	if got := openSpans(turns, []string{"a", "b", "c"}, noon, at(600)); got != nil {
		t.Errorf("c never opened, and all are open in %v", got)
	}
}

// C19: what was done to tries stands beside what users saw of it.
func TestChaos_C19_injectedAndVisible(t *testing.T) {
	got := showRun(Run{Attempts: 17_500, Injected: 8750, Good: 8750, Bad: 1250})
	if got.InjectedPPM != 500_000 || got.VisiblePPM != 125_000 {
		t.Errorf("injected %d ppm, visible %d ppm, want half of tries and an eighth of requests", got.InjectedPPM, got.VisiblePPM)
	}
}

func TestChaos_C35_scoreIsAtMostAHundred(t *testing.T) {
	pair := func(phase string) []Assertion {
		return []Assertion{{ID: phase + "1", Phase: phase, Result: Pass}, {ID: phase + "2", Phase: phase, Result: Fail}}
	}
	all := append(append(pair("steady"), pair("during")...), pair("after")...)
	if got := Score(all); got != 50 {
		t.Errorf("one of two in every phase scores %d, want 50", got)
	}
	// The same judged once more is not counted once more.
	if got := Score(append(all, all...)); got != 50 {
		t.Errorf("judged twice: %d", got)
	}
	for i := range all {
		all[i].Result = Pass
	}
	if got := Score(append(all, all...)); got != 100 {
		t.Errorf("all of them: %d", got)
	}
	if Score(nil) != 0 {
		t.Error("nothing scores more than nothing")
	}
}

// C48: who is hit depends on the request and the run's seed, and on nothing else.
func TestChaos_C48_sameIdsSameDecisions(t *testing.T) {
	sc := scenario.Scenario{Target: scenario.Target{Service: "points"}, Sample: scenario.Sample{PPM: 500_000, Key: "request", Seed: "auto"},
		Faults: []scenario.Fault{{ID: "f", Rule: fault.Fault{Kind: fault.Error, Status: 503}}}}
	const runs, requests = 10, 10_000
	hit, alike := 0, 0
	var first fault.Fault
	for run := range runs {
		rule := Faults(Run{ID: fmt.Sprintf("r-%d", run), State: Injecting}, sc)[0].Fault
		if run == 0 {
			first = rule
		}
		again := Faults(Run{ID: fmt.Sprintf("r-%d", run), State: Injecting}, sc)[0].Fault
		for i := range requests {
			id := fmt.Sprintf("req-%d", i)
			is := fault.Hit(rule.Seed, id, rule.PPM)
			if is != fault.Hit(again.Seed, id, again.PPM) {
				t.Fatalf("request %s was decided twice, and differently", id)
			}
			if is {
				hit++
			}
			if is == fault.Hit(first.Seed, id, first.PPM) {
				alike++
			}
		}
	}
	const n = runs * requests
	// 2.576 standard deviations of a share of a half: 99 %.
	if slack := 2.576 * math.Sqrt(n) / 2; math.Abs(float64(hit)-n/2) > slack {
		t.Errorf("%d of %d were hit, want half of them within %g", hit, n, slack)
	}
	// Runs are independent of one another: the first agrees with itself, and with
	// each other one on half of all requests.
	if want := requests + (runs-1)*requests/2; math.Abs(float64(alike-want)) > n/100 {
		t.Errorf("runs hit the same requests: %d decisions alike, want about %d", alike, want)
	}
}
