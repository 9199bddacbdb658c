package gate

import (
	"strings"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

// The owner of a shared dependency is frozen in the place of who suffers from it.
func TestTheOwnerIsFrozenAndNotItsCallers(t *testing.T) {
	blame := freeze.Blame{Service: "order", Env: "prod", Upstream: "points-pool", Owner: "points", Bad: 60, Total: 80, PPM: 750_000, Since: noon.Add(-time.Hour)}
	order, points := status(slo.Frozen, 60), status(slo.Normal, 60)
	points.Objective.ID, points.Objective.Service = "points-availability", "points"
	facts := Facts{[]slo.Status{order, points}, freeze.Known{Blames: []freeze.Blame{blame}}}
	ask := func(service string, kind Kind, f Facts) Decision {
		return Judge(Request{Service: service, Env: "prod", Kind: kind}, f, noon)
	}
	if d := ask("order", Feature, facts); d.Decision != Allow || d.ReasonCode != "owner_frozen" || d.State != slo.Frozen || !strings.Contains(strings.Join(d.Reasons, " "), "points owns") {
		t.Errorf("the caller: %s %s %v", d.Decision, d.ReasonCode, d.Reasons)
	}
	if d := ask("points", Feature, facts); d.Decision != Deny || d.ReasonCode != "owns_failures" || d.State != slo.Frozen || !strings.Contains(strings.Join(d.Reasons, " "), "of the failures of order") {
		t.Errorf("the owner: %s %s %v", d.Decision, d.ReasonCode, d.Reasons)
	}
	facts.Blames = nil
	if d := ask("order", Feature, facts); d.ReasonCode != "budget_exhausted" {
		t.Errorf("without a blame: %s", d.ReasonCode)
	}
	if d := ask("points", Feature, facts); d.ReasonCode != "budget_ok" {
		t.Errorf("without a blame: %s", d.ReasonCode)
	}
	// A freeze by hand is whatever the budget says, and an old evaluation says nothing.
	facts.Blames = []freeze.Blame{blame}
	facts.Orders = []freeze.Order{{ID: "f-1", Service: "order", By: "ann", Reason: "we move", At: noon.Add(-time.Hour)}}
	if d := ask("order", Feature, facts); d.ReasonCode != "frozen_by_hand" {
		t.Errorf("frozen by hand: %s", d.ReasonCode)
	}
	facts.Orders = nil
	for i := range facts.Statuses {
		facts.Statuses[i].At = noon.Add(-time.Hour)
	}
	if d := ask("order", Feature, facts); d.Decision == Allow {
		t.Errorf("an hour in the dark: %s %s", d.Decision, d.ReasonCode)
	}
}
