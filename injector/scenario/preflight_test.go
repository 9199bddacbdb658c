package scenario

import (
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/fault"
)

// drill is one on points at 60 % of tries for ten minutes.
func drill(change func(*Scenario)) Scenario {
	s := Scenario{
		Target: Target{Service: "points"}, Sample: Sample{PPM: 600_000, Key: fault.KeyAttempt}, Phases: Phases{Inject: 10 * time.Minute},
		Faults: []Fault{{ID: "err", Rule: fault.Fault{Kind: fault.Error, Status: 503}}},
		During: []Assertion{{ID: "d1", Measure: Breaker, Service: "points", Event: Opened}},
		Stop:   []Stop{{Kind: StopBudget, PPM: 50_000}},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// known are facts by which nothing is wrong with drill.
func known(change func(*Facts)) Facts {
	week := int64(1_000_000)
	f := Facts{
		PerTry: 2 * time.Second, Retries: 1, GatePPM: 50_000, TargetPPB: map[string]int64{"points": 999_000_000},
		Routes:  []Route{{Name: "deduct", Fallback: true}, {Name: "read", Fallback: true}},
		Breaker: &BreakerRule{ErrorPPM: 300_000, Window: 10 * time.Second, Windows: 1, MinRequests: 20, OpenFor: 30 * time.Second},
		Traffic: map[string]Traffic{"points": {Span: 10 * time.Minute, Requests: 12_000, Matched: 12_000, Users: []int64{11_000, 900, 100}}},
		Week:    &week, Budgets: map[string]Budget{"points": {Allowed: 100_000, RemainingPPM: 900_000}},
	}
	if change != nil {
		change(&f)
	}
	return f
}

func TestPreflightObjects(t *testing.T) {
	silent, fresh := 3*time.Minute, time.Minute
	none := int64(0)
	tests := []struct {
		name   string
		s      Scenario
		f      Facts
		code   string // "" is no objection at all
		inProd bool   // refused there, and only told elsewhere
		always bool
	}{
		{"nothing is wrong", drill(nil), known(nil), "", false, false},
		{"too little traffic for the breaker", drill(nil), known(func(f *Facts) { f.Breaker.MinRequests = 201 }), CannotTrip, true, false},
		{"just enough traffic", drill(nil), known(func(f *Facts) { f.Breaker.MinRequests = 200 }), "", false, false},
		{"the share is not reached", drill(func(s *Scenario) { s.Sample.PPM = 299_999 }), known(nil), CannotTrip, true, false},
		{"the share is just reached", drill(func(s *Scenario) { s.Sample.PPM = 300_000 }), known(nil), "", false, false},
		{"which is not more than it", drill(func(s *Scenario) { s.Sample.PPM = 300_000 }), known(func(f *Facts) { f.Breaker.Above = true }), CannotTrip, true, false},
		{"retries hide it from the breaker", drill(func(s *Scenario) { s.Sample.PPM = 500_000 }), known(func(f *Facts) { f.GatePPM = 0 }), CannotTrip, true, false},
		{"80 in a row at half of all", drill(func(s *Scenario) { s.Sample.PPM = 500_000 }), known(func(f *Facts) { f.Breaker.Row, f.Breaker.And = 80, true }), CannotTrip, true, false},
		{"80 in a row at all of them", drill(func(s *Scenario) { s.Sample.PPM = 1_000_000 }), known(func(f *Facts) { f.Breaker.Row, f.Breaker.And = 80, true }), "", false, false},
		{"80 in a row at half, or the share", drill(func(s *Scenario) { s.Sample.PPM = 500_000 }), known(func(f *Facts) { f.Breaker.Row = 80 }), "", false, false},
		{"switched off", drill(nil), known(func(f *Facts) { f.Breaker.Off = true }), CannotTrip, true, false},
		{"nobody expects it to open", drill(func(s *Scenario) { s.During[0].Event = StaysClosed }), known(func(f *Facts) { f.Breaker.Off = true }), CannotTrip, false, false},
		{"and the author knows", drill(func(s *Scenario) { s.Accept = []string{CannotTrip} }), known(func(f *Facts) { f.Breaker.Off = true }), CannotTrip, false, false},
		{"shorter than the breaker needs", drill(func(s *Scenario) { s.Phases.Inject = 39 * time.Second }), known(nil), TooShort, false, false},
		{"weaker than required", drill(func(s *Scenario) {
			s.Faults = []Fault{{ID: "lat", Rule: fault.Fault{Kind: fault.Latency, LatencyMS: 4999}, RatioMilli: 2500}}
		}), known(nil), TooWeak, true, true},
		{"as strong as required", drill(func(s *Scenario) {
			s.Faults = []Fault{{ID: "lat", Rule: fault.Fault{Kind: fault.Latency, LatencyMS: 5000}, RatioMilli: 2500}}
		}), known(nil), "", false, false},
		{"more than the budget's part", drill(nil), known(func(f *Facts) { f.Routes[0].Fallback = false; f.Budgets["points"] = Budget{100_000, 900_000} }), Cost, true, false},
		{"more users than allowed", drill(func(s *Scenario) { s.Limits.Tenants = 2 }), known(nil), Radius, true, true},
		{"as many users as allowed", drill(func(s *Scenario) { s.Limits.Tenants = 3 }), known(nil), "", false, false},
		{"more hits a second than allowed", drill(func(s *Scenario) { s.Limits.AffectedMilli = 11_999 }), known(nil), Radius, true, true},
		{"as many hits as allowed", drill(func(s *Scenario) { s.Limits.AffectedMilli = 12_000 }), known(nil), "", false, false},
		{"no fallback", drill(func(s *Scenario) { s.Target.Routes = []string{"deduct"} }), known(func(f *Facts) { f.Routes[0].Fallback = false; delete(f.Budgets, "points") }), NoFallback, true, false},
		{"of a route that is not hit", drill(func(s *Scenario) { s.Target.Routes = []string{"read"} }), known(func(f *Facts) { f.Routes[0].Fallback = false }), "", false, false},
		{"nothing matched for a week", drill(nil), known(func(f *Facts) { f.Week = &none }), NoMatch, true, false},
		{"a route that is not there", drill(func(s *Scenario) { s.Target.Routes = []string{"read", "write"} }), known(nil), NoMatch, true, false},
		{"a route that is never hit", drill(func(s *Scenario) { s.Target.Routes = []string{"deduct"} }), known(func(f *Facts) { f.Routes[0].NoFaults = true }), Exempt, true, true},
		{"all routes are never hit", drill(nil), known(func(f *Facts) { f.Routes[0].NoFaults, f.Routes[1].NoFaults = true, true }), Exempt, true, true},
		{"another run", drill(nil), known(func(f *Facts) { f.Overlaps = []Overlap{{"r-9", "points"}} }), OverlapCode, true, false},
		{"no word of alerts", drill(nil), known(func(f *Facts) { f.Alerts = &silent }), AlertsAway, true, false},
		{"a fresh word of alerts", drill(nil), known(func(f *Facts) { f.Alerts = &fresh }), "", false, false},
		{"something may be done twice", drill(func(s *Scenario) { s.Faults[0].Rule = fault.Fault{Kind: fault.Drop, Phase: fault.AfterUpstream} }), known(nil), Unsafe, true, false},
		{"which is safe to do", drill(func(s *Scenario) {
			s.Faults[0].Rule, s.Target.Methods = fault.Fault{Kind: fault.Duplicate}, []string{"GET"}
			s.During[0].Event = StaysClosed
		}), known(nil), "", false, false},
		{"a larger share than gateways allow", drill(nil), known(func(f *Facts) { f.MaxPPM = 599_999 }), Capped, true, true},
		{"the share that gateways allow", drill(nil), known(func(f *Facts) { f.MaxPPM = 600_000 }), "", false, false},
		{"a longer latency than gateways allow", drill(func(s *Scenario) {
			s.Faults = []Fault{{ID: "lat", Rule: fault.Fault{Kind: fault.Latency, LatencyMS: 5000}}}
		}), known(func(f *Facts) { f.MaxLatency = 4999 * time.Millisecond }), Capped, true, true},
		{"retries on every hop", drill(nil), known(func(f *Facts) { f.Layers = 3 }), Storm, false, false},
	}
	for _, tt := range tests {
		for _, prod := range []bool{false, true} {
			name := tt.name
			if prod {
				name += " in prod"
			}
			t.Run(name, func(t *testing.T) {
				f := tt.f
				f.Prod = prod
				var got []Warning
				for _, w := range tt.s.Preflight(f) {
					if tt.code == Cost && w.Code == NoFallback {
						continue // what makes it cost that much
					}
					got = append(got, w)
				}
				if tt.code == "" {
					if len(got) > 0 {
						t.Errorf("got %+v, want no objection", got)
					}
					return
				}
				if len(got) != 1 || got[0].Code != tt.code || got[0].Refuse != (tt.always || prod && tt.inProd) {
					t.Errorf("got %+v, want %s alone, refused: %v", got, tt.code, tt.always || prod && tt.inProd)
				}
			})
		}
	}
}

func TestForecast(t *testing.T) {
	ramp := drill(func(s *Scenario) { s.Sample.Ramp = 2 * time.Minute })
	request := drill(func(s *Scenario) { s.Sample.Key, s.Sample.PPM = fault.KeyRequest, 100_000 })
	half := drill(func(s *Scenario) { s.Target.Routes = []string{"read"} })
	bare := func(f *Facts) { f.GatePPM, f.Routes[0].Fallback = 0, false }
	tests := []struct {
		name string
		s    Scenario
		f    Facts
		want Forecast
	}{
		{"tries fail for good above the gate, and something stands in", drill(nil), known(nil),
			Forecast{Requests: 12_000, Hits: 7200, TryFailPPM: 600_000, FinalPPM: 600_000, AmplificationMilli: 1000, Users: 3}},
		{"without gate and fallback", drill(nil), known(bare),
			Forecast{Requests: 12_000, Hits: 11_520, TryFailPPM: 600_000, FinalPPM: 360_000, AmplificationMilli: 1600, UserFailPPM: 360_000, Failures: 4320, BudgetPPM: 43_200, Users: 3}},
		{"every try of a request alike", request, known(bare),
			Forecast{Requests: 12_000, Hits: 1320, TryFailPPM: 100_000, FinalPPM: 100_000, AmplificationMilli: 1100, UserFailPPM: 100_000, Failures: 1200, BudgetPPM: 12_000, Users: 3}},
		{"a ramp spares half of its time", ramp, known(nil),
			Forecast{Requests: 10_800, Hits: 6480, TryFailPPM: 600_000, FinalPPM: 600_000, AmplificationMilli: 1000, Users: 3}},
		{"half of the traffic is aimed at", half, known(func(f *Facts) {
			t := f.Traffic["points"]
			t.Matched = 6000
			f.Traffic["points"] = t
		}), Forecast{Requests: 6000, Hits: 3600, TryFailPPM: 600_000, FinalPPM: 600_000, AmplificationMilli: 1000, Users: 3}},
		{"nothing is known", drill(nil), Facts{}, Forecast{TryFailPPM: 600_000, FinalPPM: 600_000, AmplificationMilli: 1000, UserFailPPM: 600_000, Failures: -1, BudgetPPM: -1, Users: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.Forecast(tt.f); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
	// One hit in a hundred requests: of three users with 1,000, 10 and 1 requests
	// 1, 0.096 and 0.01 are hit.
	few := known(func(f *Facts) {
		f.Traffic["points"] = Traffic{Span: 10 * time.Minute, Requests: 1011, Matched: 1011, Users: []int64{1000, 10, 1}}
	})
	if got := drill(func(s *Scenario) { s.Sample.PPM = 10_000 }).Forecast(few).Users; got != 2 {
		t.Errorf("%d users, want 1.1, rounded up", got)
	}
}

func TestPreflightTellsWhy(t *testing.T) {
	w := drill(func(s *Scenario) { s.Sample.PPM = 500_000 }).Preflight(known(func(f *Facts) { f.Breaker.Row, f.Breaker.And = 80, true }))
	if len(w) != 1 || !strings.Contains(w[0].Text, "80 failures in a row among 12000 requests, of which 50 % fail, have a chance of 4.9e-21") {
		t.Errorf("%+v", w)
	}
}
