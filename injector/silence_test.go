package injector

import (
	"strings"
	"testing"
	"time"

	"breakwater/injector/scenario"
)

// X165: what the brakes go by falls silent for 15 s, and the fault ends: a stop
// condition that sees nothing never stops anything.
func TestReliability_X165(t *testing.T) {
	at := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	sc := scenario.Scenario{Target: scenario.Target{Service: "points"}, Stop: []scenario.Stop{{Kind: scenario.StopErrors, Service: "order", PPM: 80_000, For: 15 * time.Second, MinBad: 10}}}
	run := Run{Service: "points", BaselineAt: at, InjectAt: at.Add(time.Minute)}
	// series counts perSecond of order each second over [0, until).
	series := func(perSecond int64, until time.Duration) map[string][]Point {
		var out []Point
		for s := time.Second; s <= until; s += time.Second {
			out = append(out, Point{At: at.Add(s), Good: perSecond})
		}
		return map[string][]Point{"order": out}
	}
	for _, tt := range []struct {
		name   string
		now    time.Duration // since the baseline began
		fresh  time.Duration // how old the newest word of the slowest gateway is
		series map[string][]Point
		stops  bool
	}{
		{"all is counted", 90 * time.Second, time.Second, series(5, 90*time.Second), false},
		{"a gateway was silent for 14 s", 90 * time.Second, 14 * time.Second, series(5, 90*time.Second), false},
		{"a gateway is silent for 15 s", 90 * time.Second, 15 * time.Second, series(5, 90*time.Second), true},
		{"gateways speak, and of order nothing is counted for 14 s", 90 * time.Second, 0, series(5, 76*time.Second), false},
		{"gateways speak, and of order nothing is counted for 15 s", 90 * time.Second, 0, series(5, 75*time.Second), true},
		{"nothing was counted since the injection began, 10 s ago", 70 * time.Second, 0, series(5, 60*time.Second), false},
		{"order is quiet at all times", 90 * time.Second, 0, map[string][]Point{"order": {{At: at.Add(5 * time.Second), Good: 30}}}, false},
		{"order was never seen", 90 * time.Second, 0, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := View{Now: at.Add(tt.now), Run: run, Series: tt.series, Fresh: at.Add(tt.now - tt.fresh)}
			s, stopped := Guard(sc, v)
			if stopped != tt.stops || stopped && s.Reason != BySilence {
				t.Errorf("%v %+v, want it to stop: %v", stopped, s, tt.stops)
			}
			if stopped && tt.fresh == 0 && !strings.Contains(s.Text, "order") {
				t.Errorf("it does not say of what: %s", s.Text)
			}
		})
	}
	// Silence shows nothing of the system: the verdict is open.
	if v := stopVerdict(BySilence); v != Inconclusive {
		t.Errorf("the verdict is %s", v)
	}
}
