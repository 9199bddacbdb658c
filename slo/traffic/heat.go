package traffic

import (
	"time"

	"breakwater/internal/histogram"
)

// HeatStep is the latencies of one step, and the longest of them.
type HeatStep struct {
	At    time.Time
	Hist  []int64
	MaxUS int64
}

// Beside is a neighbour of a service, or a way in which it fails: Side is caller, calls,
// code or kind.
type Beside struct {
	Side, Name string
	Bad, Total int64
}

// binsPerRow makes each row of a heat map wider by the square root of two than the one
// below it.
const binsPerRow = 16

// HeatMap counts latencies by rows that grow, and by steps. Rows ascend.
type HeatMap struct {
	LowUS  []float64 // the lower edge of each row
	Counts [][]int64 // by step, then by row
	Most   int64     // of any cell
}

// Heat joins the bins of steps into the rows that hold any of them.
func Heat(steps []HeatStep) HeatMap {
	first, last := -1, -1
	rows := make([][]int64, len(steps))
	for i, s := range steps {
		rows[i] = make([]int64, histogram.Size/binsPerRow+1)
		for bin, n := range s.Hist {
			if n <= 0 {
				continue
			}
			r := bin / binsPerRow
			rows[i][r] += n
			if first < 0 || r < first {
				first = r
			}
			last = max(last, r)
		}
	}
	var out HeatMap
	if first < 0 {
		return out
	}
	for r := first; r <= last; r++ {
		out.LowUS = append(out.LowUS, histogram.Value(r*binsPerRow))
	}
	for _, row := range rows {
		cells := row[first : last+1]
		for _, n := range cells {
			out.Most = max(out.Most, n)
		}
		out.Counts = append(out.Counts, cells)
	}
	return out
}
