package web

import (
	"strings"
	"testing"

	"breakwater/injector"
)

// A failure is told by its name, and with what would be right.
func TestAFailureSaysWhatIsRight(t *testing.T) {
	run := injector.Run{ID: "r-1", Assertions: []injector.Assertion{
		{ID: "d1", Text: "order.success", Result: injector.Fail, Weakness: "retry_unsafe", Right: "retry only what may be done twice"},
		{ID: "d2", Text: "points.success", Result: injector.Pass},
	}}
	checks, _ := view{}.checks(run)
	if len(checks) != 2 || checks[0].Weakness != "retry unsafe" || checks[0].Right != run.Assertions[0].Right || checks[1].Right != "" {
		t.Errorf("checks %+v", checks)
	}
}

// What the policies of the target did, and what its retries cost, stands over the same
// time as its failures, with the fault behind (P6): of the target alone.
func TestARunShowsTriesAndBands(t *testing.T) {
	h := shop(noon)
	_, _, body := get(t, h.server(t).Handler(), "/runs/"+h.list[0].ID)
	part := func(from, to string) string {
		_, rest, ok := strings.Cut(body, from)
		if !ok {
			t.Fatalf("the page of %s has no %s", h.list[0].ID, from)
		}
		rest, _, _ = strings.Cut(rest, to)
		return rest
	}
	bands := part(`id="bands"`, "</svg></div>")
	for _, want := range []string{`class="f-open"`, `class="band"`, `data-lane="breaker of ` + h.list[0].Service} {
		if !strings.Contains(bands, want) {
			t.Errorf("the bands lack %s: %.600s", want, bands)
		}
	}
	for _, other := range []string{"search", "coupon", "vault"} {
		if h.list[0].Service != other && strings.Contains(bands, " of "+other) {
			t.Errorf("the bands of a run on %s show %s", h.list[0].Service, other)
		}
	}
	if tries := part(`id="run-tries"`, "</bw-chart>"); !strings.Contains(tries, `class="band"`) || !strings.Contains(tries, `data-v="0.33`) {
		t.Errorf("the tries have no band or no values: %.400s", tries)
	}
}
