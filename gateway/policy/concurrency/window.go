package concurrency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// window holds the latencies of one window in bins of a sixteenth of an octave:
// the sample is their median, which one slow answer does not move.
type window struct {
	n    atomic.Int64
	bins [octaves * parts]atomic.Int32
}

const (
	parts   = 16
	octaves = 33 // up to 137 s
	finest  = 16 // ns; below, all is the first bin
)

// bin of a latency: its octave, and the four bits behind the leading one.
func bin(d time.Duration) int {
	v := uint64(max(d, finest))
	octave := bits.Len64(v) - 5 // v >= 16
	i := octave*parts + int(v>>octave&(parts-1))
	return min(i, octaves*parts-1)
}

// middle is the latency that stands for a bin.
func middle(i int) time.Duration {
	octave := i / parts
	return time.Duration(uint64(parts+i%parts)<<octave + uint64(1)<<octave/2)
}

func (w *window) add(d time.Duration) {
	w.bins[bin(d)].Add(1)
	w.n.Add(1)
}

// take empties the window and returns how many there were, and their median. What
// is added meanwhile counts in this window or the next.
func (w *window) take() (n int64, median time.Duration) {
	w.n.Store(0)
	var counts [octaves * parts]int32
	for i := range w.bins {
		if w.bins[i].Load() != 0 {
			counts[i] = w.bins[i].Swap(0)
			n += int64(counts[i])
		}
	}
	seen := int64(0)
	for i, c := range counts[:] { // the array itself would be copied
		if seen += int64(c); c > 0 && 2*seen >= n {
			return n, middle(i)
		}
	}
	return n, 0
}
