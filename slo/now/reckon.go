package now

import "math/bits"

const million = 1_000_000

// mulDiv is a*b/c for what is not negative, exactly; too large a quotient becomes
// the largest.
func mulDiv(a, b, c int64) int64 {
	const most = 1<<63 - 1
	if a <= 0 || b <= 0 || c <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return most
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, most))
}
