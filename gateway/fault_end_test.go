package gateway_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/retry"
	"breakwater/internal/retrylog"
)

// What ends a try looks to everything above as if the upstream had done it: as a
// try in the record, to retry, and to the client.
func TestFaultWire_Ends(t *testing.T) {
	phase := func(p fault.Phase) func(*fault.Fault) { return func(f *fault.Fault) { f.Phase = p } }
	for _, tt := range []struct {
		name     string
		f        fault.Fault
		kind     string
		status   int // of the try
		client   int
		code     string // of our answer, or its body
		upstream int64  // calls of it
		outcome  retrylog.Outcome
	}{
		{"drop before", whole(fault.Drop, phase(fault.BeforeUpstream)), "reset_before_first_byte", 0, 502, `"code":"reset_before_first_byte"`, 0, retrylog.UpstreamFailure},
		{"drop after", whole(fault.Drop, phase(fault.AfterUpstream)), "reset_before_first_byte", 0, 502, `"code":"reset_before_first_byte"`, 1, retrylog.UpstreamFailure},
		{"reset before", whole(fault.Reset, phase(fault.BeforeUpstream)), "reset_before_first_byte", 0, 502, `"code":"reset_before_first_byte"`, 0, retrylog.UpstreamFailure},
		{"reset after", whole(fault.Reset, phase(fault.AfterUpstream)), "reset_before_first_byte", 0, 502, `"code":"reset_before_first_byte"`, 1, retrylog.UpstreamFailure},
		{"refuse", whole(fault.Refuse), "dial", 0, 502, `"code":"dial"`, 0, retrylog.UpstreamFailure},
		{"blackhole", whole(fault.Blackhole), "try_timeout", 0, 504, `"code":"try_timeout"`, 0, retrylog.Timeout},
		{"error", whole(fault.Error, func(f *fault.Fault) {
			f.Status, f.Body, f.Headers = 503, `{"error":"busy"}`, map[string]string{"X-Backend-Status": "overloaded", "Retry-After": "7"}
		}), "", 503, 503, `{"error":"busy"}`, 0, retrylog.UpstreamFailure},
		{"latency beyond the try", whole(fault.Latency, func(f *fault.Fault) { f.LatencyMS = 10_000 }), "try_timeout", 0, 504, `"code":"try_timeout"`, 0, retrylog.Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			up := server(t, func(w http.ResponseWriter, _ *http.Request) { calls.Add(1); _, _ = io.WriteString(w, "fine") })
			cfg := shop(up)
			cfg.Routes[0].Retry = retry.Config{Enabled: true, PerTry: 300 * time.Millisecond, OnStatus: []int{502}, Fallback: retry.PassThrough}
			cfg.Routes[0].FaultVisible = true
			h := haunt(t, cfg)
			h.arm(t, tt.f)
			got := h.ask(t, "GET", "/orders/1")
			if got.status != tt.client || !strings.Contains(strings.ReplaceAll(string(got.body), `": `, `":`), tt.code) || got.head.Get("X-Breakwater-Fault") != "run-1" || calls.Load() != tt.upstream {
				t.Errorf("client got %d %q, %v, upstream %d calls", got.status, got.body, got.head, calls.Load())
			}
			ev := h.last(t, 1)
			if len(ev.Tries) != 1 || ev.Tries[0].Kind != tt.kind || ev.Tries[0].Status != tt.status || ev.Tries[0].Fault != tt.f.ID ||
				ev.Experiment != "run-1" || ev.Outcome != tt.outcome || h.injected() != 1 {
				t.Errorf("event %+v, %d injected", ev, h.injected())
			}
			if tt.f.Kind == fault.Error && (got.head.Get("Retry-After") != "7" || got.head.Get("X-Backend-Status") != "overloaded" || got.head.Get("Content-Type") != "application/json") {
				t.Errorf("head %v", got.head)
			}
		})
	}
}

func TestFaultWire_ErrorOfHEADHasNoBody(t *testing.T) {
	h := haunt(t, shop(server(t, func(http.ResponseWriter, *http.Request) {})))
	h.arm(t, whole(fault.Error, func(f *fault.Fault) { f.Status, f.Body = 503, "busy" }))
	if got := h.ask(t, "HEAD", "/orders/1", "Connection", "close"); got.status != 503 || len(got.body) != 0 || strings.Contains(string(got.raw), "busy") {
		t.Errorf("%q", got.raw)
	}
}

// A gRPC status comes in a head that is the end of its stream, which is the only
// form in which a client reads its message from there.
func TestFaultWire_GRPC(t *testing.T) {
	h := haunt(t, grpc(h2server(t, func(http.ResponseWriter, *http.Request) {})))
	h.arm(t, whole(fault.GRPC, func(f *fault.Fault) { f.Status, f.Body = 14, "out of stock" }))
	got := h.dialH2(t).get(t, "/orders/1", "content-type", "application/grpc")
	if got.head[":status"] != "200" || got.head["grpc-status"] != "14" || got.head["grpc-message"] != "out of stock" || len(got.body) != 0 || !got.ended {
		t.Errorf("%+v", got)
	}
	if ev := h.last(t, 1); len(ev.Tries) != 3 || ev.Outcome != retrylog.UpstreamFailure || ev.FirstStatus != 503 {
		t.Errorf("retry did not take it for unavailable: %+v", ev)
	}
}

func TestFaultWire_Headers(t *testing.T) {
	seen := make(chan http.Header, 1)
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		w.Header().Set("X-Stock", "7")
		w.Header().Set("X-Gone", "soon")
	})
	h := haunt(t, shop(up))
	h.arm(t,
		whole(fault.Header, func(f *fault.Fault) {
			f.ID, f.Side, f.Headers, f.Remove = "in", fault.RequestSide, map[string]string{"X-In": "changed"}, []string{"X-Token"}
		}),
		whole(fault.Header, func(f *fault.Fault) { f.Headers, f.Remove = map[string]string{"X-Stock": "0"}, []string{"x-gone"} }))
	got := h.ask(t, "GET", "/orders/1", "X-In", "client", "X-Token", "secret")
	up1 := <-seen
	if up1.Get("X-In") != "changed" || up1.Get("X-Token") != "" || got.head.Get("X-Stock") != "0" || got.head.Get("X-Gone") != "" {
		t.Errorf("upstream saw %v, client %v", up1, got.head)
	}
}

// The upstream gets a request twice, and the client one answer.
func TestFaultWire_Duplicate(t *testing.T) {
	bodies := make(chan string, 4)
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		fmt.Fprintf(w, "paid %s", b)
	})
	h := haunt(t, shop(up))
	h.arm(t, whole(fault.Duplicate))
	status, text, _ := h.do(t, "POST", "/orders/1", "10 EUR")
	if status != 200 || text != "paid 10 EUR" || len(bodies) != 2 || <-bodies != "10 EUR" || <-bodies != "10 EUR" {
		t.Errorf("%d %q", status, text)
	}
	if ev := h.last(t, 1); len(ev.Tries) != 1 || ev.Tries[0].Fault != "duplicate" {
		t.Errorf("%+v", ev)
	}
}

// R63, C15, C19: injected aborts are retried as real ones are. Half of all attempts
// fail, so that one in eight requests does after two retries, of 1.75 attempts each,
// and the endpoint's own window has seen every injected failure.
func TestPolicies_R63_wire(t *testing.T) {
	var calls atomic.Int64
	up := server(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	cfg := retries(shop(up), 2)
	cfg.Upstreams[0].RetryBudget = &retry.BudgetConfig{Off: true}
	cfg.Upstreams[0].Breaker, cfg.Services = &breaker.Config{Disabled: true}, []config.Service{{Name: "order", Breaker: &breaker.Config{Disabled: true}}}
	h := haunt(t, cfg)
	h.arm(t, whole(fault.Error, func(f *fault.Fault) {
		f.Status, f.PPM, f.Headers = 503, 500_000, map[string]string{"X-Backend-Status": "overloaded"}
	}))
	n := 10_000
	if gateway.RaceEnabled || testing.Short() {
		n = 2000
	}
	var failed atomic.Int64
	var asking sync.WaitGroup
	const callers = 16 // retries wait, and others go on meanwhile
	for c := range callers {
		asking.Go(func() {
			for i := c; i < n; i += callers {
				res, err := h.client.Get(fmt.Sprintf("%s/orders/%d", h.url, i))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode == 503 {
					failed.Add(1)
				}
			}
		})
	}
	asking.Wait()
	tries, hit := 0, 0
	for _, ev := range h.records.wait(t, n) {
		tries += len(ev.Tries)
		for i, try := range ev.Tries {
			if want := fault.Hit("s", fmt.Sprintf("%s#%d", ev.RequestID, i+1), 500_000); (try.Fault != "") != want || want != (try.Status == 503) {
				t.Fatalf("try %d of %s: %+v, to be hit: %v", i+1, ev.RequestID, try, want)
			}
			if try.Fault != "" {
				hit++
			}
		}
	}
	// Five standard deviations of each share.
	near := func(got, want, slack float64) bool { return math.Abs(got-want) <= slack }
	root := math.Sqrt(float64(n))
	if !near(float64(failed.Load())/float64(n), 0.125, 5*0.33/root) || !near(float64(tries)/float64(n), 1.75, 5*0.83/root) ||
		!near(float64(hit)/float64(tries), 0.5, 5*0.5/root) || int64(tries-hit) != calls.Load() {
		t.Errorf("of %d: %d failed, %d tries, %d hit, %d reached the upstream", n, failed.Load(), tries, hit, calls.Load())
	}
	for _, tally := range h.table.Tallies() {
		if tally.Attempts != int64(tries) || tally.Injected != int64(hit) {
			t.Errorf("tally %+v, want %d and %d", tally, tries, hit)
		}
	}
}

// The breakers of endpoint and service count injected failures as real ones, and
// while one is open nothing is injected, since nothing is tried.
func TestPair_BreakerOverFault(t *testing.T) {
	var calls atomic.Int64
	up := server(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	for name, f := range map[string]fault.Fault{
		"refuse": whole(fault.Refuse),
		"drop":   whole(fault.Drop, func(f *fault.Fault) { f.Phase = fault.BeforeUpstream }),
		"reset":  whole(fault.Reset, func(f *fault.Fault) { f.Phase = fault.AfterUpstream }),
		"error":  whole(fault.Error, func(f *fault.Fault) { f.Status = 500 }),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := shop(up)
			quick := breaker.Default()
			quick.Windows, quick.MinRequests, quick.ErrorPPM, quick.OpenFor = 1, 5, 800_000, 30*time.Second
			cfg.Services = []config.Service{{Name: "order", Breaker: &quick}}
			h := haunt(t, cfg)
			h.arm(t, f)
			for range 5 {
				if got := h.ask(t, "GET", "/orders/1"); got.status < 500 {
					t.Fatalf("got %d", got.status)
				}
			}
			h.turnedTo(t, breaker.Open, "")
			before := calls.Load()
			if got := h.ask(t, "GET", "/orders/1"); got.status != 503 || !strings.HasPrefix(got.head.Get("X-Breakwater-Refused"), "breaker") {
				t.Errorf("%d %v", got.status, got.head)
			}
			if h.injected() != 5 || calls.Load() != before {
				t.Errorf("%d injected, want those before it opened", h.injected())
			}
		})
	}
}

// A blackhole is seen by the breaker of its endpoint, and retry goes round it.
func TestPair_RetryOverBlackhole(t *testing.T) {
	up := func(name string) string {
		return server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
	}
	bad, good := up("bad"), up("good")
	cfg := retries(shop(bad, good), 1)
	cfg.Routes[0].Retry.PerTry = 200 * time.Millisecond
	own := breaker.DefaultEndpoint()
	own.Windows, own.MinRequests, own.OpenFor = 1, 1, 30*time.Second
	cfg.Upstreams[0].Breaker = &own
	h := haunt(t, cfg)
	h.arm(t, whole(fault.Blackhole, func(f *fault.Fault) { f.Target.Endpoint = bad }))
	if got := h.ask(t, "GET", "/orders/1"); string(got.body) != "good" || got.head.Get("Retry-Count") != "1" {
		t.Errorf("%d %q", got.status, got.body)
	}
	h.turnedTo(t, breaker.Open, bad)
	begin := time.Now()
	if got := h.ask(t, "GET", "/orders/1"); string(got.body) != "good" || time.Since(begin) > 150*time.Millisecond {
		t.Errorf("%q after %v: the breaker is open", got.body, time.Since(begin))
	}
}
