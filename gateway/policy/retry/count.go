package retry

import (
	"strconv"

	"breakwater/gateway/exchange"
)

// The Retry-Count header goes both ways: on a request it says how many retries
// the path has made so far, on an answer how many were spent below. One layer of
// a path retries, because every other one sees that it did.
const countHeader = "Retry-Count"

// tell writes a count into a head; none where there is nothing to tell.
func tell(h *exchange.Head, n int) {
	if n <= 0 {
		if h.Has(countHeader) {
			h.Del(countHeader)
		}
		return
	}
	h.Set(countHeader, strconv.Itoa(min(n, exchange.MostRetries)))
}
