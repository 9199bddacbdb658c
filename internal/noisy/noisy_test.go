package noisy

import (
	"strings"
	"testing"
)

func TestTry(t *testing.T) {
	var order []string
	Try(t, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, "clean") })
		order = append(order, "measure")
		if len(order) < 4 {
			t.Fatal("spoilt")
			order = append(order, "after Fatal")
		}
	})
	if got := strings.Join(order, " "); got != "measure clean measure clean measure clean" {
		t.Errorf("ran %s", got)
	}
}

func TestFaultsOfARound(t *testing.T) {
	r := &round{TB: t}
	r.ctx, r.cancel = t.Context(), func() {}
	r.run(func(t testing.TB) {
		t.Errorf("%d of %d", 1, 2)
		t.Error("and", 2)
		t.FailNow()
	})
	if got := strings.Join(r.faults, "; "); got != "1 of 2; and2; failed" {
		t.Errorf("kept %q", got)
	}
}
