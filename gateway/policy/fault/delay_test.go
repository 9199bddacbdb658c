package fault

import (
	"fmt"
	"testing"
	"time"
)

func TestLatencyDistributions(t *testing.T) {
	for _, tt := range []struct {
		d         Delay
		least, p5 time.Duration // the least, and a bound for the median from below
		p95, most time.Duration // ... from above, and the greatest
	}{
		{Delay{Dist: "fixed", MS: 100}, 100 * ms, 100 * ms, 100 * ms, 100 * ms},
		{Delay{Dist: "uniform", MS: 100, JitterMS: 50}, 50 * ms, 97 * ms, 103 * ms, 150 * ms},
		{Delay{Dist: "normal", MS: 100, JitterMS: 20}, 0, 98 * ms, 102 * ms, 260 * ms},
		{Delay{Dist: "normal", MS: 10, JitterMS: 50}, 0, 7 * ms, 13 * ms, 410 * ms},
		{Delay{Dist: "pareto", MS: 100, Alpha: 2000, CapMS: 1000}, 100 * ms, 138 * ms, 145 * ms, 1000 * ms}, // median 100*sqrt(2)
		{Delay{Dist: "table", Table: []Percentile{{500_000, 100}, {990_000, 1000}, {1_000_000, 5000}}}, 0, 95 * ms, 120 * ms, 5000 * ms},
	} {
		f := of(Latency, func(f *Fault) { f.Delay = &tt.d })
		if err := Check(f); err != nil {
			t.Fatal(err)
		}
		const n = 20_000
		all := make([]time.Duration, n)
		for i := range all {
			all[i] = f.latency(hash("seed", fmt.Sprint(i)))
			if all[i] < tt.least || all[i] > tt.most || all[i] > f.longest() {
				t.Fatalf("%s drew %v, want %v to %v", tt.d.Dist, all[i], tt.least, tt.most)
			}
		}
		under, over := 0, 0
		for _, d := range all {
			if d < tt.p5 {
				under++
			}
			if d > tt.p95 {
				over++
			}
		}
		if under > n/2 || over > n/2 {
			t.Errorf("%s %+v: %d of %d below %v, %d above %v: the median lies elsewhere", tt.d.Dist, tt.d, under, n, tt.p5, over, tt.p95)
		}
	}
}
