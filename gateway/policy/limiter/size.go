package limiter

import (
	"errors"
	"math/bits"
	"time"
)

// Errors of Size.
var (
	ErrPool = errors.New("the pool must hold at least one")
	ErrHold = errors.New("the hold time must be more than nothing")
	ErrKeep = errors.New("the share that is used must be more than 0% and at most 100%")
)

// Size is how many requests a second a pool can carry: pool times the share of it
// that is to be used (in parts per million), divided by how long one request holds
// its part of it, rounded down. This is Little's law; hold is the mean time the
// connection is held and not the latency that a client sees.
func Size(pool int64, hold time.Duration, usePPM int64) (int64, error) {
	switch {
	case pool <= 0:
		return 0, ErrPool
	case hold <= 0:
		return 0, ErrHold
	case usePPM <= 0 || usePPM > 1_000_000:
		return 0, ErrKeep
	}
	// pool * use/1e6 / (hold/1e9)
	hi, lo := bits.Mul64(uint64(pool), uint64(usePPM)*1000)
	if hi >= uint64(hold) {
		return 0, ErrHold // faster than any machine
	}
	n, _ := bits.Div64(hi, lo, uint64(hold))
	return int64(min(n, 1<<62)), nil
}
