package injector

import "math"

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

// upper reports whether op bounds from above.
func upper(op string) bool { return op == "<=" || op == "<" }
