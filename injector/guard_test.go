package injector

import (
	"testing"
	"time"

	"breakwater/injector/scenario"
)

// course makes a point every five seconds, the newest at noon.
func course(n int, good, bad int64) []Point {
	out := make([]Point, n)
	for i := range out {
		out[i] = Point{At: noon.Add(time.Duration(i-n+1) * 5 * time.Second), Good: good, Bad: bad}
	}
	return out
}

func TestGuard(t *testing.T) {
	burn := scenario.Stop{Kind: scenario.StopBurn, Service: "order", OverMilli: 240_000, Windows: []time.Duration{time.Minute, 5 * time.Minute}, MinBad: 10}
	rate := scenario.Stop{Kind: scenario.StopErrors, Service: "order", PPM: 80_000, For: 45 * time.Second, MinBad: 10}
	spent := scenario.Stop{Kind: scenario.StopBudget, PPM: 50_000}
	known := Budget{Known: true, TargetPPB: 999_500_000, Allowed: 1000, RemainingPPM: 900_000}
	frozen := known
	frozen.Frozen = true
	spike := course(72, 100, 0)
	for i := range spike {
		if spike[i].At.After(noon.Add(-30 * time.Second)) {
			spike[i] = Point{At: spike[i].At, Good: 60, Bad: 40}
		}
	}
	tests := []struct {
		name   string
		stop   scenario.Stop
		budget Budget
		points []Point
		fresh  time.Duration
		cap    int64
		inject time.Duration // ago
		want   Reason
	}{
		{"calm", burn, known, course(72, 100, 0), 0, 0, time.Minute, ""},
		{"12 % errors are just 240 times the allowed 0.05 %", burn, known, course(72, 88, 12), 0, 0, time.Minute, ""},
		{"13 % are more, on both windows", burn, known, course(72, 87, 13), 0, 0, time.Minute, ByCondition},
		{"a spike passes the short window alone", burn, known, spike, 0, 0, time.Minute, ""},
		{"few failures never stop a run", burn, known, course(72, 0, 0)[:1], 0, 0, time.Minute, ""},
		{"nine failures of nine are below the floor", burn, known, []Point{{At: noon, Bad: 9}}, 0, 0, time.Minute, ""},
		{"ten of ten are not", burn, known, []Point{{At: noon, Bad: 10}}, 0, 0, time.Minute, ByCondition},
		{"without an objective there is no burn", burn, Budget{}, course(72, 0, 100), 0, 0, time.Minute, ""},
		{"errors above the share", rate, known, course(72, 91, 9), 0, 0, time.Minute, ByCondition},
		{"errors at the share", rate, known, course(72, 92, 8), 0, 0, time.Minute, ""},
		{"not for long enough", rate, known, course(72, 50, 50), 0, 0, 44 * time.Second, ""},
		{"budget spent", spent, known, course(12, 80, 20), 0, 0, 30 * time.Second, ByBudget},
		{"budget not yet spent", spent, known, course(12, 99, 1), 0, 0, 30 * time.Second, ""},
		{"the grant caps what the scenario does not", rate, known, course(12, 96, 4), 0, 10_000, 30 * time.Second, ByBudget},
		{"silent for 14 s", rate, known, nil, 14 * time.Second, 0, time.Minute, ""},
		{"silent for 15 s", rate, known, nil, 15 * time.Second, 0, time.Minute, BySilence},
		{"frozen meanwhile", rate, frozen, nil, 0, 0, time.Minute, ByFreeze},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := scenario.Scenario{Target: scenario.Target{Service: "order"}, Stop: []scenario.Stop{tt.stop}}
			v := View{
				Now: noon, Fresh: noon.Add(-tt.fresh), Series: map[string][]Point{"order": tt.points},
				Budgets: map[string]Budget{"order": tt.budget},
				Run:     Run{CapPPM: tt.cap, InjectAt: noon.Add(-tt.inject), BaselineAt: noon.Add(-tt.inject)},
			}
			got, hit := Guard(sc, v)
			if got.Reason != tt.want || hit != (tt.want != "") {
				t.Errorf("got %q %s, want %q", got.Reason, got.Text, tt.want)
			}
		})
	}
}

func TestGuardOnTriesAndRadius(t *testing.T) {
	course := func(tries, hits int64) []Point {
		out := course(24, 100, 0)
		for i := range out {
			out[i].Attempts, out[i].Injected = tries, hits
		}
		return out
	}
	storm := scenario.Stop{Kind: scenario.StopAmplification, Service: "points", OverMilli: 1500, For: 30 * time.Second, MinBad: 10}
	reached := storm
	reached.Reached = true
	floor := storm
	floor.MinBad = 10_000
	never := scenario.Stop{Kind: scenario.StopErrors, Service: "points", PPM: 1_000_000, For: 5 * time.Second, MinBad: 1_000_000}
	narrow := scenario.Limits{AffectedMilli: 6000, Tenants: 3}
	tests := []struct {
		name    string
		stop    scenario.Stop
		limits  scenario.Limits
		tries   int64
		hits    int64
		tenants int64
		inject  time.Duration
		want    Reason
	}{
		{"1.5 tries are not more than 1.5", storm, scenario.Limits{}, 150, 0, 0, time.Minute, ""},
		{"and are at least 1.5", reached, scenario.Limits{}, 150, 0, 0, time.Minute, ByCondition},
		{"1.51 are more", storm, scenario.Limits{}, 151, 0, 0, time.Minute, ByCondition},
		{"not for long enough", storm, scenario.Limits{}, 300, 0, 0, 29 * time.Second, ""},
		{"too few extra tries to be a storm", floor, scenario.Limits{}, 300, 0, 0, time.Minute, ""},
		{"six hits a second are allowed", never, narrow, 100, 30, 3, time.Minute, ""},
		{"more are not", never, narrow, 100, 31, 3, time.Minute, ByRadius},
		{"a burst in the first seconds is none yet", never, narrow, 100, 31, 3, 9 * time.Second, ""},
		{"a tenant too many", never, narrow, 100, 0, 4, time.Second, ByRadius},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := scenario.Scenario{Target: scenario.Target{Service: "points"}, Stop: []scenario.Stop{tt.stop}, Limits: tt.limits}
			points := course(tt.tries, tt.hits)
			v := View{Now: noon, Fresh: noon, Series: map[string][]Point{"points": points}, Hit: points, Tenants: tt.tenants,
				Run: Run{InjectAt: noon.Add(-tt.inject), BaselineAt: noon.Add(-2 * tt.inject)}}
			got, hit := Guard(sc, v)
			if got.Reason != tt.want || hit != (tt.want != "") {
				t.Errorf("got %q %s, want %q", got.Reason, got.Text, tt.want)
			}
		})
	}
	if stopVerdict(ByRadius) != Inconclusive || stopVerdict(ByTrouble) != Inconclusive {
		t.Error("what happened to the drill fails the system")
	}
}

func TestSpentLeavesOutWhatFailsAnyway(t *testing.T) {
	sc := scenario.Scenario{Target: scenario.Target{Service: "points"}}
	var order []Point
	for i := range 24 {
		p := Point{At: noon.Add(time.Duration(i*5) * time.Second), Good: 98, Bad: 2}
		if i >= 12 {
			p.Bad, p.Good = 5, 95
		}
		order = append(order, p)
	}
	v := View{
		Now: noon.Add(2 * time.Minute), Run: Run{BaselineAt: noon.Add(-time.Second), InjectAt: noon.Add(58 * time.Second)},
		Series: map[string][]Point{"order": order, "points": order},
		Hit:    []Point{{At: noon.Add(90 * time.Second), Bad: 50}},
	}
	if got := Spent(sc, "order", v); got != 12*3 {
		t.Errorf("order: %d failures by the run, want the 36 beyond the usual 2 %%", got)
	}
	if got := Spent(sc, "points", v); got != 50 {
		t.Errorf("points: %d failures by the run, want the 50 its faults touched", got)
	}
}

func TestGone(t *testing.T) {
	at := Stamped{Epoch: 5, Revision: 9}
	holds := Gateway{At: noon, Epoch: 5, Revision: 9}
	tests := []struct {
		name            string
		g               Gateway
		now             time.Time
		proven, byLease bool
	}{
		{"its word on the plan without the rule", holds, noon, true, false},
		{"its word on an older plan", Gateway{At: noon, Epoch: 5, Revision: 8}, noon, false, false},
		{"an older epoch", Gateway{At: noon, Epoch: 4, Revision: 9}, noon, false, false},
		{"silent for one lease", Gateway{At: noon, Epoch: 5, Revision: 8}, noon.Add(LeaseFor), false, false},
		{"and a second more", Gateway{At: noon, Epoch: 5, Revision: 8}, noon.Add(LeaseFor + time.Second), true, true},
	}
	for _, tt := range tests {
		if proven, byLease := gone(tt.g, "r", at, tt.now); proven != tt.proven || byLease != tt.byLease {
			t.Errorf("%s: %v by lease %v, want %v, %v", tt.name, proven, byLease, tt.proven, tt.byLease)
		}
	}
}
