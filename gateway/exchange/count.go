package exchange

import "strconv"

// MostRetries is the highest Retry-Count that is told or believed.
const MostRetries = 99

// RetryCount reads a Retry-Count: how many retries the path has made so far. What
// is none counts as 0, and what is too many as MostRetries.
func RetryCount(v string) int {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0
		}
	}
	n, err := strconv.Atoi(v)
	if err != nil && v != "" { // digits beyond an int
		return MostRetries
	}
	return min(n, MostRetries)
}
