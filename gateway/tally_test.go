package gateway

import (
	"testing"

	"breakwater/internal/retrylog"
)

// Requests that are nobody's success or failure, such as throttled ones, must not
// look as if those that are had been asked again.
func TestTallyOfNeutralRequests(t *testing.T) {
	var all tallies
	all.init()
	at := all.of("", "coupon")
	one := []retrylog.Try{{Endpoint: "a:1"}}
	for _, ev := range []retrylog.Exchange{
		{Service: "coupon", Status: 200, Outcome: retrylog.OK, Tries: one},
		{Service: "coupon", Status: 429, Outcome: retrylog.OK, Tries: one},
		{Service: "coupon", Status: 429, Outcome: retrylog.OK},
		{Service: "coupon", Status: 503, Outcome: retrylog.UpstreamFailure, Tries: append(one, one...)},
		{Service: "coupon", Status: 404, Outcome: retrylog.OK, Tries: append(one, one...)},
	} {
		all.count(at, &ev)
	}
	if good, bad, tries := at.good.Load(), at.bad.Load(), at.attempts.Load(); good != 1 || bad != 1 || tries != 4 {
		t.Errorf("%d good, %d bad, %d tries; want 1, 1 and 4: two of them extra", good, bad, tries)
	}
}
