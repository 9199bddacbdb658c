package web

import (
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

// counted is the burn-down of steps as the ledger makes it, after what the window
// held before.
func counted(o slo.Objective, before slo.Tally, steps ...slo.Tally) []slo.Point {
	var out []slo.Point
	for i, s := range steps {
		before.Good, before.Bad = before.Good+s.Good, before.Bad+s.Bad
		b := slo.Weigh(o, before)
		out = append(out, slo.Point{At: noon.Add(time.Duration(i-len(steps)+1) * time.Minute), RemainingPPM: b.RemainingPPM, Weighed: b.Valid, NoData: b.NoData, Valid: s.Good + s.Bad, Bad: s.Bad})
	}
	return out
}

func TestABurndownIsNotFlattenedByItsFirstRequests(t *testing.T) {
	st := status(noon, "order", 1_000_000, 100, slo.Normal, 0)
	o, day := st.Objective, slo.Tally{Good: 10_000, Bad: 1}
	steps := []slo.Tally{{}, {Good: 997, Bad: 3}, {Good: 500}, day, day, day}
	points := counted(o, slo.Tally{}, steps...)
	if points[1].RemainingPPM > -4_000_000 {
		t.Fatalf("the first step leaves %d ppm, want far below zero", points[1].RemainingPPM)
	}
	if n := tooEarly(points); n != 3 {
		t.Errorf("%d points are left out, want the three that rest on 1 500 of 31 503 requests", n)
	}
	// So it does where the range begins a while after the counting did.
	if n := tooEarly(counted(o, slo.Tally{Good: 400, Bad: 4}, steps...)); n != 3 {
		t.Errorf("%d points are left out, want those that rest on 1 904 requests at most", n)
	}
	// The same counts as part of a longer history are what was measured, and drawn.
	if n := tooEarly(counted(o, slo.Tally{Good: 90_000, Bad: 700}, steps...)); n != 0 {
		t.Errorf("%d points of a full window are left out", n)
	}
	if n := tooEarly(counted(o, slo.Tally{}, day, day, day)); n != 0 {
		t.Errorf("%d points of even traffic are left out", n)
	}

	h := shop(noon)
	h.statuses, h.points = []slo.Status{st}, points
	_, _, body := get(t, h.server(t).Handler(), "/services/order?r=15m")
	for _, want := range []string{"too few requests yet", "less than a tenth of the window"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if strings.Contains(body, "\u2212400") || strings.Contains(body, "\u2212600") {
		t.Error("the axis still reaches down to the first requests")
	}
}
