package slo

import "math/big"

// Sample says how sure counts are that were estimated from sampled lines. Our own
// gateways never sample what is counted; lines from elsewhere may have been. Each
// line then stands for w = 1/p events (Horvitz and Thompson), and the variance of
// such a sum is the sum of w(w-1), which adds up as counts do.
type Sample struct {
	Lines           int64 // lines that stand for more than themselves; 0: nothing is estimated
	VarGood, VarBad int64
}

// z95 squared is how wide an interval of 95 % is: 1.96 standard errors each way.
const (
	z95Num = 196 * 196
	z95Den = 100 * 100
)

// Undetermined reports whether good and bad, as estimated, could lie on either
// side of target: whether target is within the 95 % interval of the ratio. With no
// failure at all the interval reaches up to 3/n (the rule of three).
func (s Sample) Undetermined(target, good, bad int64) bool {
	n := good + bad
	if s.Lines <= 0 || n <= 0 {
		return false
	}
	b := whole - target
	if bad == 0 {
		// 3/lines > b, crosswise.
		return compare(3, whole, s.Lines, b) > 0
	}
	// |B/N - b| <= z * SE, and SE^2 = ((G/N)^2 Vb + (B/N)^2 Vg) / N^2 for a ratio of
	// two estimates; times N^2 * 10^9 on both sides:
	// (B 10^9 - b N)^2 N^2 den <= z^2 (G^2 Vb + B^2 Vg) 10^18.
	d := new(big.Int).Sub(product(bad, whole), product(b, n))
	left := new(big.Int).Mul(d, d)
	left.Mul(left, product(n, n, z95Den))
	right := new(big.Int).Add(product(good, good, s.VarBad), product(bad, bad, s.VarGood))
	right.Mul(right, product(z95Num, whole, whole))
	return left.Cmp(right) <= 0
}

// SampleSize is how many lines tell a ratio of a from one of b, both in parts per
// 10^9, with 95 % confidence and 80 % power: (1.96 + 0.8416)^2 p(1-p) / d^2 with p
// between them. So many, rounded up.
func SampleSize(a, b int64) int64 {
	d := max(a-b, b-a)
	if d == 0 {
		return 0
	}
	// p = (a+b)/2, kept as a sum over twice the whole.
	n := product(28016, 28016, a+b, 2*whole-a-b)
	m := product(10_000, 10_000, 4, d, d)
	q, rest := new(big.Int).QuoRem(n, m, new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}
