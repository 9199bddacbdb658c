// Package timeout bounds a request, and each of its tries, by lowering the
// deadline that the exchange carries. It starts no timer: the wire and
// exchange.Wait enforce the deadline, and this package says afterwards which one
// ran out.
package timeout

import "time"

// Lower returns the earlier of before and now+d, and whether that is now+d. A
// before of zero means no deadline, a d of zero or less means no bound.
func Lower(before, now time.Time, d time.Duration) (deadline time.Time, lowered bool) {
	if d <= 0 {
		return before, false
	}
	mine := now.Add(d)
	if before.IsZero() || mine.Before(before) {
		return mine, true
	}
	return before, false
}
