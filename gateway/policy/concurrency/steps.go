package concurrency

import (
	"math/bits"
	"time"
)

// Limits move in thousandths of a request, shares in parts per million: the same
// answers give the same limit everywhere.
const (
	milli   = 1_000
	million = 1_000_000
)

// gradient is the step of Envoy's adaptive concurrency: to the limit times the
// ratio of the least latency, and a quarter more, to the sample, and the square
// root of that above it, which is what may queue.
func gradient(limit int64, least, sample time.Duration) int64 {
	g := ratio(least+least/4, sample, million/2, 2*million)
	scaled := limit * g / million
	return scaled + root(scaled*milli)
}

// gradient2 is the step of Netflix's Gradient2Limit: by the ratio of the long
// average, times tolerance, to the sample; smoothed.
func gradient2(limit int64, long, sample time.Duration) int64 {
	const (
		smooth = million / 5
		queue  = 4 * milli
	)
	g := ratio(long+long/2, sample, million/2, million)
	next := limit*g/million + queue
	return (limit*(million-smooth) + next*smooth) / million
}

// vegas is the step of TCP Vegas, with bounds that grow with the logarithm: the
// queue is what is under way beyond what the least latency needs.
func vegas(limit int64, least, sample time.Duration) int64 {
	step := log10(limit)
	queue := int64(0)
	if sample > least {
		queue = ceilDiv(limit, int64(sample-least), int64(sample)*milli)
	}
	switch {
	case queue*milli < 3*step:
		return limit + step
	case queue*milli > 6*step:
		return limit - step
	}
	return limit
}

// shrink is the step after drops.
func shrink(limit int64) int64 { return limit * 9 / 10 }

// average moves the long average of gradient2 a tenth of the way in its first
// windows and a 300th later. Where it has become more than twice the sample, load
// has gone: it follows faster, or it would let in far too much when load is back.
func average(long, sample time.Duration) time.Duration {
	if long == 0 {
		return sample
	}
	long += (sample - long) / 300
	if long > 2*sample {
		long -= long / 20
	}
	return long
}

// ratio is a/b in parts per million, from lo to hi.
func ratio(a, b time.Duration, lo, hi int64) int64 {
	if b <= 0 {
		return hi
	}
	return min(max(mulDiv(int64(a), million, int64(b)), lo), hi)
}

// mulDiv is a*b/c for what is not negative, rounded down; a result beyond int64
// is the largest there is.
func mulDiv(a, b, c int64) int64 {
	h, l := bits.Mul64(uint64(a), uint64(b))
	if h >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(h, l, uint64(c))
	return int64(min(q, 1<<63-1))
}

// ceilDiv is a*b/c rounded up.
func ceilDiv(a, b, c int64) int64 {
	h, l := bits.Mul64(uint64(a), uint64(b))
	q, rest := bits.Div64(h, l, uint64(c)) // b < c*1000 and a is a limit: it fits
	if rest > 0 {
		q++
	}
	return int64(q)
}

// root is the square root, rounded down (Newton).
func root(v int64) int64 {
	if v < 2 {
		return max(v, 0)
	}
	x := int64(1) << ((bits.Len64(uint64(v)) + 1) / 2)
	for {
		y := (x + v/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// log10 is the decimal logarithm of a limit, both in thousandths and at least 1:
// a limit of ten and less moves by one. It is made of the binary one, bit by bit.
func log10(limit int64) int64 {
	if limit <= 10*milli {
		return milli
	}
	const fraction = 24
	whole := bits.Len64(uint64(limit)) - 1
	x := uint64(limit) << (31 - whole) // in [1, 2), of 31 bits; limits have fewer
	log := uint64(whole)
	for range fraction {
		log <<= 1
		if x = x * x >> 31; x >= 1<<32 {
			x >>= 1
			log |= 1
		}
	}
	// Less the logarithm of 1000, since the limit is in thousandths.
	const log2of10 = 55732705 // 3.32192809 with 24 bits behind the point
	return (int64(log)*milli+log2of10/2)/log2of10 - 3*milli
}
