package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"breakwater/internal/retrylog"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func answered(status int) retrylog.Exchange {
	x := retrylog.Exchange{
		Count: 1, End: noon, Env: "prod", Service: "order", Route: "r", Status: status, FirstStatus: status,
		Outcome: retrylog.OK, BodyComplete: true, LatencyUS: 1000, Tries: []retrylog.Try{{Status: status}},
	}
	if status >= 500 {
		x.Outcome = retrylog.UpstreamFailure
	}
	return x
}

func with(x retrylog.Exchange, change func(*retrylog.Exchange)) retrylog.Exchange {
	change(&x)
	return x
}

func refused(policy string, status int) retrylog.Exchange {
	return with(answered(status), func(x *retrylog.Exchange) {
		x.Outcome, x.Refusal, x.Origin, x.Tries = retrylog.LocalRefusal, policy, "gateway", nil
	})
}

func TestSLO_T21(t *testing.T) {
	tests := []struct {
		name string
		x    retrylog.Exchange
		want Class
	}{
		{"200", answered(200), Good},
		{"302", answered(302), Good},
		{"101", answered(101), Good},
		{"a failed business code, which the gateway calls a failure", with(answered(200), func(x *retrylog.Exchange) { x.Outcome, x.BusinessCode = retrylog.UpstreamFailure, "E17" }), Bad},
		{"500", answered(500), Bad},
		{"200 with a cut body", with(answered(200), func(x *retrylog.Exchange) { x.BodyComplete = false }), Bad},
		{"401", answered(401), Neutral},
		{"403", answered(403), Neutral},
		{"404", answered(404), Neutral},
		{"422", answered(422), Neutral},
		{"429 of the upstream", answered(429), Throttled},
		{"429 of our limiter", refused("limiter:rate", 429), Throttled},
		{"408", answered(408), Aborted},
		{"499", with(answered(499), func(x *retrylog.Exchange) { x.Outcome = retrylog.ClientAbort }), Aborted},
		{"client gone before anything was sent", with(answered(0), func(x *retrylog.Exchange) { x.Outcome = retrylog.ClientAbort }), Aborted},
		{"client gone in the middle of a body", with(answered(200), func(x *retrylog.Exchange) { x.Outcome, x.BodyComplete = retrylog.ClientAbort, false }), Aborted},
		{"503 of our breaker", refused("breaker:open", 503), Bad},
		{"503 of load shedding", refused("limiter:shed", 503), Bad},
		{"degraded to a default", with(refused("breaker:open", 200), func(x *retrylog.Exchange) { x.Degraded = "return_default" }), Good},
		{"degraded to a 503", with(refused("breaker:open", 503), func(x *retrylog.Exchange) { x.Degraded = "return_503" }), Bad},
		{"total timeout", with(answered(504), func(x *retrylog.Exchange) { x.Outcome = retrylog.Timeout }), Bad},
		{"a panic of ours", with(answered(502), func(x *retrylog.Exchange) { x.Outcome = retrylog.Panicked }), Bad},
		{"400", answered(400), Neutral},
		{"405", answered(405), Neutral},
		{"409", answered(409), Neutral},
		{"410", answered(410), Neutral},
		{"200 with a business code that is fine", with(answered(200), func(x *retrylog.Exchange) { x.BusinessCode = "OK" }), Good},
		{"503 of our concurrency limit", refused("concurrency:limit", 503), Bad},
		{"503 without an endpoint", refused("balance:no_endpoint", 503), Bad},
		{"a probe that failed", with(answered(503), func(x *retrylog.Exchange) { x.Synthetic = "probe" }), Synthetic},
		{"a fault asked for by header", with(answered(503), func(x *retrylog.Exchange) { x.Synthetic, x.Experiment = "opt_in", "run-1" }), Synthetic},
		{"injected error counts as any other", with(answered(503), func(x *retrylog.Exchange) { x.Experiment = "run-1" }), Bad},
		{"refused before routing", with(answered(400), func(x *retrylog.Exchange) { x.Service, x.Route = "", "unmatched" }), Neutral},
		{"nothing was sent, and the client waits", with(answered(0), func(x *retrylog.Exchange) { x.Outcome = retrylog.UpstreamFailure }), Bad},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Classify(&tt.x); got != tt.want {
				t.Errorf("got class %d, want %d", got, tt.want)
			}
		})
	}
}

func records(xs ...retrylog.Exchange) []retrylog.Record {
	out := make([]retrylog.Record, len(xs))
	for i := range xs {
		out[i].Exchange = &xs[i]
	}
	return out
}

func TestSLO_T20_ARecoveredExchangeIsGoodAndItsFirstTryBad(t *testing.T) {
	x := answered(200)
	x.FirstStatus, x.LatencyUS = 503, 900_000 // back-off included
	x.Tries = []retrylog.Try{{Status: 503, LatencyUS: 1}, {Status: 503, LatencyUS: 1}, {Status: 200, LatencyUS: 1}}
	f := Fold(records(x), noon, func(service, route string) time.Duration { return 300 * time.Millisecond })
	if len(f.Rows) != 1 {
		t.Fatalf("got %d rows", len(f.Rows))
	}
	r := f.Rows[0]
	if r.Good != 1 || r.Bad != 0 || r.FirstTryBad != 1 || r.Attempts != 3 || r.Retried != 1 || r.Recovered != 1 || r.OverLimit != 1 {
		t.Errorf("got %+v", r.Tally)
	}
	if above := r.Hist.Bins().Above(800_000); above != 1 {
		t.Errorf("the histogram does not hold the total time: %d above 0.8 s", above)
	}
	if len(f.Events) != 1 {
		t.Errorf("a retried exchange is worth keeping, got %d events", len(f.Events))
	}
}

func TestSLO_T22_ScannersDoNotDilute(t *testing.T) {
	bad, good, scan := answered(503), answered(200), answered(404)
	bad.Count, good.Count, scan.Count = 10, 990, 99_000
	r := Fold(records(bad, good, scan), noon, nil).Rows[0]
	if r.Good != 990 || r.Bad != 10 || r.Neutral != 99_000 || r.Exchanges != 100_000 {
		t.Errorf("got %+v", r.Tally)
	}
}

func TestARetryOverTheMinuteLandsWhereItEnded(t *testing.T) {
	x := answered(200)
	x.Start, x.End = noon.Add(59900*time.Millisecond), noon.Add(60400*time.Millisecond)
	if at := Fold(records(x), noon, nil).Rows[0].At; !at.Equal(noon.Add(time.Minute)) {
		t.Errorf("got %s", at)
	}
}

func TestFoldDoesNotCareAboutOrderOrSplit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var all []retrylog.Record
	for range 500 {
		x := answered([]int{200, 404, 429, 503}[rnd.IntN(4)])
		x.Service, x.Route = string(rune('a'+rnd.IntN(3))), string(rune('a'+rnd.IntN(3)))
		x.End = noon.Add(time.Duration(rnd.IntN(300)) * time.Second)
		x.LatencyUS = rnd.Int64N(1 << 24)
		all = append(all, records(x)...)
	}
	now := noon.Add(time.Hour)
	want := Fold(all, now, nil).Rows
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if got := Fold(all, now, nil).Rows; !reflect.DeepEqual(got, want) {
		t.Error("another order gives other rows")
	}
	for i := 1; i < len(want); i++ {
		if want[i-1].Key.compare(&want[i].Key) >= 0 {
			t.Fatalf("rows %d and %d are not in order: locks would cross", i-1, i)
		}
	}
}

func TestAnOutageKeepsABoundedSampleAndEveryCount(t *testing.T) {
	var all []retrylog.Record
	for range maxKept + 7 {
		all = append(all, records(answered(503))...)
	}
	f := Fold(all, noon, nil)
	if len(f.Events) != maxKept || f.Unkept != 7 || f.Rows[0].Bad != maxKept+7 {
		t.Errorf("kept %d, unkept %d, bad %d", len(f.Events), f.Unkept, f.Rows[0].Bad)
	}
}

func TestMinutesCoverExactlyTheSpan(t *testing.T) {
	got := minutes(noon.Add(-1500*time.Millisecond), noon.Add(61*time.Second))
	want := []Minute{{At: noon.Add(-time.Minute), CoveredUS: 1_500_000}, {At: noon, CoveredUS: 60_000_000}, {At: noon.Add(time.Minute), CoveredUS: 1_000_000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// kept remembers what it was given.
type kept struct {
	batch *Batch
	err   error
}

func (k *kept) Ingest(_ context.Context, batches ...*Batch) ([]bool, error) {
	k.batch = batches[len(batches)-1]
	return make([]bool, len(batches)), k.err
}

func request(header string, body []byte) *http.Request {
	r := httptest.NewRequest("POST", "/api/v1/events", bytes.NewReader(body))
	if header != "" {
		r.Header.Set(retrylog.BatchHeader, header)
	}
	return r
}

func goodHeader(change func(*retrylog.Batch)) string {
	k := retrylog.Batch{Gateway: "gw", Env: "prod", Boot: "b", Seq: 7, From: noon, Until: noon.Add(time.Second)}
	if change != nil {
		change(&k)
	}
	b, _ := json.Marshal(k)
	return string(b)
}

func lines(rs []retrylog.Record) (out []byte) {
	for i := range rs {
		out = retrylog.AppendRecord(out, &rs[i])
	}
	return out
}

func serve(s Store, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	New(Config{Store: s, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
	return w
}

func TestHandlerCountsBadLinesAndGoesOn(t *testing.T) {
	body := lines(records(answered(200), answered(503)))
	body = append(body, "{\"exchange\":{\"status\":200},\"crc\":\"00000000\"}\n"...)
	body = append(body, lines(records(answered(200)))...)
	body = append(body, "{\"torn"...)
	s := &kept{}
	w := serve(s, request(goodHeader(nil), body))
	var a Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 200 || a.Acked != 7 || a.BadLines != 2 {
		t.Fatalf("got %d %s, %v", w.Code, w.Body, err)
	}
	if s.batch.Exchanges != 3 || len(s.batch.Minutes) != 1 || s.batch.Minutes[0].Lost != 2 {
		t.Errorf("got %d exchanges, minutes %+v: what cannot be read must lower coverage", s.batch.Exchanges, s.batch.Minutes)
	}
}

func TestHandlerTakesAPackedBody(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(lines(records(answered(200))))
	_ = z.Close()
	s := &kept{}
	r := request(goodHeader(nil), packed.Bytes())
	r.Header.Set("Content-Encoding", "gzip")
	if w := serve(s, r); w.Code != 200 || s.batch.Exchanges != 1 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestHandlerTakesAnEmptyBatchForItsWatermark(t *testing.T) {
	s := &kept{}
	if w := serve(s, request(goodHeader(func(k *retrylog.Batch) { k.Last, k.Lost = true, 3 }), nil)); w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if !s.batch.Key.Last || !s.batch.Key.Until.Equal(noon.Add(time.Second)) || s.batch.Minutes[0] != (Minute{noon, 1_000_000, 3}) {
		t.Errorf("got %+v, %+v", s.batch.Key, s.batch.Minutes)
	}
}

func TestHandlerRefuses(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	long := append(bytes.Repeat([]byte("x"), 1<<16-1), '\n')
	_, _ = z.Write(bytes.Repeat(long, maxUnpacked/len(long)+1))
	_ = z.Close()
	packed := request(goodHeader(nil), bomb.Bytes())
	packed.Header.Set("Content-Encoding", "gzip")
	brotli := request(goodHeader(nil), nil)
	brotli.Header.Set("Content-Encoding", "br")

	tests := []struct {
		name string
		r    *http.Request
		err  error
		code int
		says string
	}{
		{"no header", request("", nil), nil, 400, "must be there"},
		{"no JSON", request("{", nil), nil, 400, retrylog.BatchHeader},
		{"no gateway", request(goodHeader(func(k *retrylog.Batch) { k.Gateway = "" }), nil), nil, 400, "gateway:"},
		{"a gateway with a NUL", request(goodHeader(func(k *retrylog.Batch) { k.Gateway = "a\x00" }), nil), nil, 400, "gateway:"},
		{"sequence 0", request(goodHeader(func(k *retrylog.Batch) { k.Seq = 0 }), nil), nil, 400, "seq:"},
		{"until before from", request(goodHeader(func(k *retrylog.Batch) { k.Until = k.From.Add(-1) }), nil), nil, 400, "from, until:"},
		{"a body over the limit", request(goodHeader(nil), bytes.Repeat(long, maxBody/len(long)+1)), nil, 413, "up to 8388608"},
		{"newlines all through", request(goodHeader(nil), bytes.Repeat([]byte("x\n"), maxLines+40_000)), nil, 413, "200000 lines"},
		{"a packed body without end", packed, nil, 413, "up to"},
		{"an unknown encoding", brotli, nil, 415, "gzip"},
		{"the store is away", request(goodHeader(nil), nil), errors.New("away"), 503, "send the batch again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := serve(&kept{err: tt.err}, tt.r)
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.says) || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("got %d %s, want %d %q", w.Code, w.Body, tt.code, tt.says)
			}
			if (w.Header().Get("Retry-After") != "") != (tt.code == 503) {
				t.Errorf("Retry-After %q with %d", w.Header().Get("Retry-After"), tt.code)
			}
		})
	}
}

func TestAClockAheadPromisesNothing(t *testing.T) {
	s := &kept{}
	ahead := goodHeader(func(k *retrylog.Batch) { k.From, k.Until = noon.Add(time.Hour), noon.Add(time.Hour+time.Second) })
	if w := serve(s, request(ahead, nil)); w.Code != 200 {
		t.Fatalf("got %d", w.Code)
	}
	if s.batch.Key.Until.After(noon.Add(MaxAhead)) || len(s.batch.Minutes) != 0 {
		t.Errorf("got until %s, minutes %+v", s.batch.Key.Until, s.batch.Minutes)
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := New(Config{Store: &kept{}, Now: func() time.Time { return noon }, Metrics: reg})
	h.ServeHTTP(httptest.NewRecorder(), request(goodHeader(nil), lines(records(answered(200)))))
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if got := testutil.ToFloat64(h.events.WithLabelValues("counted")); got != 1 {
		t.Errorf("counted %v events", got)
	}
}

// Whatever a name is, PostgreSQL must take it and its index must hold it.
func FuzzClean(f *testing.F) {
	f.Add("order")
	f.Add("\x00\xff\xed\xa0\x80")
	f.Add(strings.Repeat("€", 100))
	f.Fuzz(func(t *testing.T, s string) {
		c := clean(s)
		if strings.ContainsRune(c, 0) || strings.ToValidUTF8(c, "") != c || len(c) > 3*maxKey || clean(c) != c && len(c) <= maxKey {
			t.Errorf("%q becomes %q", s, c)
		}
	})
}
