package ingest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"reflect"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

// whole has every field of an exchange set.
func whole() retrylog.Exchange {
	at := time.Date(2028, 2, 28, 21, 59, 59, 123456000, time.UTC)
	return retrylog.Exchange{
		Count: 3, RequestID: "r-1", Start: at, End: at.Add(time.Second), Gateway: "gw", Env: "prod",
		Service: "order", Route: "order-create", Upstream: "order", Method: "POST", Caller: "web", Tenant: "t", Tier: "critical",
		Tries: []retrylog.Try{
			{Endpoint: "127.0.0.1:1", Status: 503, LatencyUS: 12, Reason: "status_code_match=503", Skip: "deadline", Fault: "f1", PlannedUS: 5, ActualUS: 6, CutShort: true},
			{Endpoint: "127.0.0.1:2", Kind: "dial", LatencyUS: 40, WaitMS: 250},
		},
		FirstStatus: 503, Status: 200, Outcome: retrylog.OK, Timeout: "try", Reason: "status_code_match", Skip: "max_retries",
		RetryWaitMS: 250, LatencyUS: -300_000, BodyComplete: true, Degraded: "last_good", Refusal: "limiter:rate",
		Origin: "upstream", Observed: "limiter:rate", Experiment: "run-7", Synthetic: "opt_in", SamplePPM: 100_000, DepTimeouts: 2,
		BusinessCode: "OK", Revision: "abc", BytesOut: 99,
	}
}

// A field that is added to the log and forgotten here would send every line the
// slow way: this notices.
func TestGlanceReadsEveryFieldAGatewayWrites(t *testing.T) {
	var into retrylog.Exchange
	for _, want := range []retrylog.Exchange{whole(), {Count: 1}, answered(200)} {
		v := reflect.ValueOf(want)
		for i := range v.NumField() {
			if want.RequestID == "r-1" && v.Field(i).IsZero() {
				t.Errorf("%s is not set in this test", v.Type().Field(i).Name)
			}
		}
		line := retrylog.AppendRecord(nil, &retrylog.Record{Exchange: &want})
		if !glance(line, &into) {
			t.Errorf("not read at a glance: %s", line)
			continue
		}
		parsed, err := retrylog.Parse(line)
		if err != nil || !same(&into, parsed.Exchange) {
			t.Errorf("got  %+v\nwant %+v, %v", into, parsed.Exchange, err)
		}
	}
}

// same compares without telling no tries from an empty list of them.
func same(a, b *retrylog.Exchange) bool {
	x, y := *a, *b
	x.Tries, y.Tries = append([]retrylog.Try{}, x.Tries...), append([]retrylog.Try{}, y.Tries...)
	return reflect.DeepEqual(x, y)
}

func TestGlanceLeavesWhatIsUnusualToTheDecoder(t *testing.T) {
	good := string(retrylog.AppendRecord(nil, &retrylog.Record{Exchange: new(whole())}))
	var into retrylog.Exchange
	for _, change := range [][2]string{
		{`"prod"`, `"pr\u006fd"`}, {`"prod"`, `"pröd"`}, {`"prod"`, ` "prod"`}, {`"prod"`, `null`}, {`"count":3`, `"count":03`}, {`"count":3`, `"count":0`},
		{`"count":3`, `"count":3.0`}, {`"count":3`, `"count":1e3`}, {`"count":3`, `"count":9999999999999999999`}, {`"latency_us":-300000`, `"latency_us":-0`},
		{`2028-02-28`, `2028-02-29`}, {`2028-02-28`, `2028-02-30`}, {`2028-02-28`, `2028-04-31`}, {`2028-02-28`, `2028-13-01`}, {`T21:59`, `T24:59`},
		{`59:59.123456Z`, `59:60.123456Z`}, {`59:59.123456Z`, `59:59.Z`}, {`59:59.123456Z`, `59:59.1234567890Z`}, {`59:59.123456Z`, `59:59.123456+00:00`}, {`2028-02`, `0000-02`},
		{`"method"`, `"Method"`}, {`"method"`, `"unknown":1,"method"`}, {`"exchange"`, `"notice"`}, {`true`, `True`},
	} {
		line := sealed(replaceOnce(good, change[0], change[1]))
		if glance(line, &into) {
			t.Errorf("%s for %s was read at a glance", change[1], change[0])
		}
	}
}

func replaceOnce(line, old, with string) string {
	body, _, _ := bytes.Cut([]byte(line), []byte(`,"crc":"`))
	return string(bytes.Replace(body, []byte(old), []byte(with), 1))
}

func sealed(body string) []byte {
	return fmt.Appendf(nil, "%s,\"crc\":\"%08x\"}\n", body, crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli)))
}

// What is read at a glance is what the decoder reads, for any line.
func FuzzGlance(f *testing.F) {
	for _, x := range []retrylog.Exchange{whole(), {Count: 1}, answered(503)} {
		line := string(retrylog.AppendRecord(nil, &retrylog.Record{Exchange: &x}))
		f.Add(replaceOnce(line, "", ""))
		f.Add(replaceOnce(line, `"tries":[`, `"tries":[],"tries":[`))
		f.Add(replaceOnce(line, `T`, `t`))
	}
	var into retrylog.Exchange
	f.Fuzz(func(t *testing.T, body string) {
		line := sealed(body)
		if bytes.IndexByte(line, '\n') != len(line)-1 || !glance(line, &into) {
			return
		}
		parsed, err := retrylog.Parse(line)
		if err != nil || parsed.Exchange == nil || !same(&into, parsed.Exchange) {
			t.Errorf("%q reads as %+v at a glance, decoded as %+v, %v", body, into, parsed.Exchange, err)
		}
	})
}
