package store_test

import (
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
)

// A busy second of one gateway: 5 000 events, 12 routes, 1 % of them failed.
func BenchmarkIngest(b *testing.B) {
	h := handler(store.New(pgtest.Pool(b)), noon)
	var records []retrylog.Record
	for i := range 5000 {
		status := 200
		if i%100 == 0 {
			status = 503
		}
		r := exchange(status, noon.Add(time.Duration(i)*200*time.Microsecond))
		r.Exchange.Route = "route-" + string(rune('a'+i%12))
		r.Exchange.LatencyUS = int64(1000 + i*7%90_000)
		records = append(records, r)
	}
	b.ReportAllocs()
	seq := int64(0)
	for b.Loop() {
		seq++
		if code, _ := post(h, key("gw", "b", seq), records); code != 200 {
			b.Fatal(code)
		}
	}
	b.ReportMetric(float64(5000*b.N)/b.Elapsed().Seconds(), "events/s")
}
