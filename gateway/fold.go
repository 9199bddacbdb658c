package gateway

import "breakwater/internal/histogram"

// alike is the same for latencies, in microseconds, that may be counted in one
// line of the log: those of one bin, so that the minute's histogram is the same
// as if each had a line. Bins beyond 45 ms hold several milliseconds, and limits
// are in whole ones: by its millisecond a line is over a limit as a whole or not
// at all. It is never 0.
func alike(us int64) int64 {
	ms := (us + 999) / 1000
	return ms*histogram.Size + int64(histogram.Index(us)) + 1
}
