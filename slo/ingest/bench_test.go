package ingest

import (
	"bytes"
	"strconv"
	"syscall"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

// busy are the lines of a busy second without coalescing: a thousand routes of
// twelve services, one request in a hundred failed, one in fifty was retried.
func busy(n int) []byte {
	var out []byte
	for i := range n {
		x := retrylog.Exchange{
			Count: 1, RequestID: "0192f1c8a4b37c11-" + strconv.Itoa(i), Start: noon.Add(time.Duration(i) * 41 * time.Microsecond), Gateway: "gateway-1", Env: "prod",
			Service: "service-" + strconv.Itoa(i%12), Route: "route-" + strconv.Itoa(i*7%1000), Upstream: "upstream-" + strconv.Itoa(i%12),
			Method: "GET", Caller: "web-" + strconv.Itoa(i%5), Status: 200, FirstStatus: 200, Outcome: retrylog.OK, LatencyUS: int64(1000 + i*7919%90_000),
			BodyComplete: true, Origin: "upstream", Revision: "7f3a91c2", BytesOut: 1532,
			Tries: []retrylog.Try{{Endpoint: "10.0.0." + strconv.Itoa(i%6) + ":8080", Status: 200, LatencyUS: 900}},
		}
		switch {
		case i%100 == 0:
			x.Status, x.FirstStatus, x.Outcome = 503, 503, retrylog.UpstreamFailure
		case i%50 == 0:
			x.FirstStatus, x.Reason = 503, "status_code_match"
			x.Tries = append([]retrylog.Try{{Endpoint: "10.0.0.9:8080", Status: 503, LatencyUS: 700}}, x.Tries...)
		}
		x.End = x.Start.Add(time.Duration(x.LatencyUS) * time.Microsecond)
		out = retrylog.AppendRecord(out, &retrylog.Record{Exchange: &x})
	}
	return out
}

// Done-when: at least 300 000 events a second and core.
func BenchmarkParseAndFold(b *testing.B) {
	const lines = 2000 // a batch as gateways send it
	body := busy(lines)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	f := newFolder()
	before := cpu(b)
	for b.Loop() {
		f.begin(noon.Add(time.Minute), MaxLate, nil)
		if bad, err := f.read(bytes.NewReader(body)); bad != 0 || err != nil {
			b.Fatal(bad, err)
		}
		if out := f.done(); out.Exchanges != lines {
			b.Fatal(out.Exchanges)
		}
	}
	b.ReportMetric(float64(lines*b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(lines*b.N)/(cpu(b)-before).Seconds(), "events/cpu-s")
}

// cpu is what the process has used of processors, collector and all: the figure
// is one of a core, whatever else the machine does.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
