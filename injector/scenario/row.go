package scenario

import "math"

// RowChance is the chance that n independent calls, each failing with the share p,
// hold k failures in a row: what a breaker that counts rows has to wait for.
//
// The chance is added up by where the first such row ends: at call m it ends with
// a good call before it, and no row in the calls before that. Summed so, a chance
// of 1e-32 keeps its digits, where the chance of its opposite would round to 1.
func RowChance(p float64, k, n int64) float64 {
	switch {
	case k <= 0:
		return 1
	case n < k || p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	row := math.Pow(p, float64(k))
	const most = 10_000_000 // calls: what is likely by then stays likely
	n = min(n, most)
	// seen[m%ring] is the chance of a row within m calls.
	ring := k + 2
	seen := make([]float64, ring)
	seen[k%ring] = row
	for m := k + 1; m <= n; m++ {
		seen[m%ring] = math.Min(seen[(m-1)%ring]+(1-seen[(m-k-1)%ring])*(1-p)*row, 1)
	}
	return seen[n%ring]
}
