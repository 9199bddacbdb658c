package web

import (
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
