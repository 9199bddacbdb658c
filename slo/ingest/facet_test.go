package ingest

import (
	"testing"

	"breakwater/internal/retrylog"
)

// What failed is told by its own name, each try by itself, and who was refused too.
func TestFacetsTellHowItFailed(t *testing.T) {
	one := func(change func(*retrylog.Exchange)) retrylog.Record {
		x := retrylog.Exchange{Count: 1, RequestID: "r", Start: noon, End: noon, Env: "prod", Service: "order", Route: "a", Caller: "web", Method: "GET",
			Tries: []retrylog.Try{{Endpoint: "a:1", Status: 200}}, Status: 200, Outcome: retrylog.OK, BodyComplete: true, Origin: "upstream"}
		change(&x)
		return retrylog.Record{Exchange: &x}
	}
	f := Fold([]retrylog.Record{
		one(func(*retrylog.Exchange) {}),
		one(func(x *retrylog.Exchange) { // a retry hid it
			x.Tries = []retrylog.Try{{Endpoint: "b:1", Kind: "dial", Cause: "refused"}, {Endpoint: "a:1", Status: 200}}
		}),
		one(func(x *retrylog.Exchange) {
			x.Tries, x.Status, x.Outcome = []retrylog.Try{{Endpoint: "c:1", Kind: "connect_timeout", Cause: "dns"}}, 504, retrylog.Timeout
			x.Skip = "retry_budget"
		}),
		one(func(x *retrylog.Exchange) {
			x.Tries, x.Status, x.Outcome, x.Refusal, x.Origin = nil, 429, retrylog.LocalRefusal, "limiter:rate", "gateway"
		}),
		one(func(x *retrylog.Exchange) {
			x.Tries[0].Kind, x.Tries[0].Status, x.Status, x.Outcome = "try_timeout", 0, 504, retrylog.Timeout
		}),
		one(func(x *retrylog.Exchange) {
			x.Tries[0].Status, x.Status, x.Outcome = 500, 500, retrylog.UpstreamFailure
		}),
		one(func(x *retrylog.Exchange) { x.Outcome, x.BusinessCode = retrylog.UpstreamFailure, "50003" }),
		one(func(x *retrylog.Exchange) {
			x.Outcome, x.Status = retrylog.ClientAbort, 499
			x.Tries[0] = retrylog.Try{Endpoint: "a:1", Kind: "canceled"}
		}),
	}, noon, nil)
	got := map[string]Facet{}
	for _, x := range f.Facets {
		got[x.Dimension+" "+x.Value] = x
	}
	for key, want := range map[string][4]int64{ // good, bad, throttled, total
		"try a:1":            {3, 2, 0, 5},
		"try b:1":            {0, 1, 0, 1},
		"try c:1":            {0, 1, 0, 1},
		"kind dns":           {0, 1, 0, 1},
		"kind limiter:rate":  {0, 0, 1, 1},
		"kind try_timeout":   {0, 1, 0, 1},
		"kind status_500":    {0, 1, 0, 1},
		"kind business_code": {0, 1, 0, 1},
		"skip retry_budget":  {0, 1, 0, 1},
		"caller web":         {2, 4, 1, 8},
	} {
		if g := got[key]; [4]int64{g.Good, g.Bad, g.Throttled, g.Total} != want {
			t.Errorf("%s: %+v, want %v", key, g, want)
		}
	}
}
