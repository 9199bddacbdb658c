package traffic

import (
	"testing"

	"breakwater/internal/histogram"
)

func TestHeatKeepsEveryCount(t *testing.T) {
	var a, b histogram.Bins
	a.Add(4_000, 30)
	a.Add(1_000_000_000, 1) // beyond what is told apart
	b.Add(2, 5)
	m := Heat([]HeatStep{{Hist: a}, {Hist: b}, {}})
	var sum int64
	for _, step := range m.Counts {
		for _, n := range step {
			sum += n
		}
	}
	if sum != 36 || m.Most != 30 || len(m.Counts) != 3 || len(m.Counts[0]) != len(m.LowUS) || m.LowUS[0] > 2 {
		t.Errorf("%d counted, most %d, edges %v", sum, m.Most, m.LowUS)
	}
	if none := Heat([]HeatStep{{}}); none.Counts != nil || none.Most != 0 {
		t.Errorf("nothing makes %+v", none)
	}
}
