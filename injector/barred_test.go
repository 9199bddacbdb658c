package injector

import (
	"strings"
	"testing"
	"time"

	"breakwater/injector/scenario"
)

type fixedBudgets map[string]Budget

func (b fixedBudgets) Budget(service string) Budget { return b[service] }

// A measure ends runs against its service, or against what the run watches, and
// keeps new ones from starting; the reason is said.
func TestMeasuresBarRuns(t *testing.T) {
	sc := scenario.Scenario{Target: scenario.Target{Service: "order"}, Stop: []scenario.Stop{{Kind: scenario.StopErrors, Service: "points", PPM: 500_000, For: time.Minute, MinBad: 10}}}
	view := func(budgets map[string]Budget) View {
		return View{Now: noon, Run: Run{InjectAt: noon}, Series: map[string][]Point{}, Budgets: budgets, Fresh: noon}
	}
	for _, service := range []string{"order", "points"} {
		why := "measure m-1 stops experiments on " + service
		s, stop := Guard(sc, view(map[string]Budget{service: {Stop: why, Refuse: why}}))
		if !stop || s.Reason != ByFreeze || s.Text != why {
			t.Errorf("under a measure for %s the guard says %+v, %v", service, s, stop)
		}
	}
	refused := Budget{Known: true, Refuse: "measure m-2 refuses experiments"}
	if s, stop := Guard(sc, view(map[string]Budget{"order": refused})); stop {
		t.Errorf("a run under way was stopped by what only refuses new ones: %+v", s)
	}
	if s := grant(fixedBudgets{"order": refused}, "order", 0); s.Reason != ByFreeze || !strings.Contains(s.Text, "m-2") {
		t.Errorf("granted %+v", s)
	}
	if s := grant(fixedBudgets{}, "order", 0); s.Reason != "" {
		t.Errorf("refused %+v though nothing bars it", s)
	}
}
