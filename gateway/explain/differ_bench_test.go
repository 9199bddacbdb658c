package explain

import (
	"fmt"
	"testing"
	"time"

	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

// What a comparison costs for each row of the log.
func BenchmarkAsk(b *testing.B) {
	e, r := FromFiles([]conf.File{{Name: "gw.yaml", Data: []byte(shopDocs)}})
	if e == nil {
		b.Fatal(r.Findings)
	}
	failed := retrylog.Try{Endpoint: "127.0.0.1:9001", Status: 502, LatencyUS: 1000, Reason: "status_code_match=502"}
	ev := &retrylog.Exchange{Count: 1, RequestID: "a", Start: time.Unix(1, 0), Route: "points-get", Service: "points", Method: "GET", Tries: []retrylog.Try{failed, failed}}
	a := Ask(e, e)
	b.ReportAllocs()
	for b.Loop() {
		ev.RequestID = fmt.Sprint(b.N)
		a.Add(ev)
	}
}
