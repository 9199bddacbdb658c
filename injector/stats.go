package injector

import (
	"math"
	"math/big"
)

// z is the one-sided 95 % point of the normal distribution.
const z = 1.645

// wilson is the one-sided bound of a share seen as k of n: the lowest (or the
// highest) true share that would still give it.
func wilson(k, n int64, lower bool) float64 {
	if n == 0 {
		if lower {
			return 0
		}
		return 1
	}
	p, c := float64(k)/float64(n), float64(n)
	centre := p + z*z/(2*c)
	half := z * math.Sqrt(p*(1-p)/c+z*z/(4*c*c))
	if lower {
		half = -half
	}
	return min(max((centre+half)/(1+z*z/c), 0), 1)
}

// met reports whether seen stands in the relation op to limit.
func met(op string, seen, limit float64) bool {
	switch op {
	case "<=":
		return seen <= limit
	case "<":
		return seen < limit
	case ">=":
		return seen >= limit
	}
	return seen > limit
}

// metShare is met for k of n against ppm, on integers: a share exactly at its
// limit must not depend on how a fraction rounds.
func metShare(op string, k, n, ppm int64) bool {
	left, right := k*1_000_000, ppm*n
	switch op {
	case "<=":
		return left <= right
	case "<":
		return left < right
	case ">=":
		return left >= right
	}
	return left > right
}

// beyond reports whether k of n misses op and ppm beyond doubt: even the share
// nearest to the limit that could well have given k of n misses it.
//
// That the one-sided Wilson bound of k/n lies past a limit L is the same as
// |k - nL| > z sqrt(nL(1-L)) (Wilson, Probable inference, 1927), which needs no
// root and no fraction: with L in millionths both sides are whole numbers.
func beyond(op string, k, n, ppm int64) bool {
	if n == 0 || metShare(op, k, n, ppm) {
		return false
	}
	miss := new(big.Int).Sub(product(k, 1_000_000), product(n, ppm))
	left := miss.Mul(miss, miss)
	left.Mul(left, big.NewInt(1_000_000))
	right := product(n, ppm)
	right.Mul(right, product(1_000_000-ppm, zSquared))
	return left.Cmp(right) > 0
}

// zSquared is z*z in millionths.
const zSquared = 2_706_025

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// worse bounds by how much the share k of n is above the share j of m: Newcombe's
// interval for a difference of shares (Interval estimation for the difference
// between independent proportions, 1998, method 10), one-sided.
func worse(k, n, j, m int64) (least, most float64) {
	p, q := float64(k)/float64(n), float64(j)/float64(m)
	low := math.Hypot(p-wilson(k, n, true), wilson(j, m, false)-q)
	high := math.Hypot(wilson(k, n, false)-p, q-wilson(j, m, true))
	return p - q - low, p - q + high
}

// upper reports whether op bounds from above.
func upper(op string) bool { return op == "<=" || op == "<" }
