package gateway_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/breaker"
	"breakwater/internal/retrylog"
)

// turnedTo waits for a change of a breaker.
func (h *house) turnedTo(t *testing.T, to breaker.State, endpoint string) retrylog.Transition {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		h.records.mu.Lock()
		for _, c := range h.records.turned {
			if c.Policy == "breaker" && c.To == string(to) && c.Endpoint == endpoint {
				h.records.mu.Unlock()
				return c
			}
		}
		h.records.mu.Unlock()
	}
	t.Fatalf("no breaker of %q went %s", endpoint, to)
	return retrylog.Transition{}
}

// Retry over the breakers of endpoints, and a service breaker over retry: the bad
// endpoint's breaker opens, no client notices, and the service's own sees only what
// clients are told.
func TestPair_RetryOverBreaker(t *testing.T) {
	var ill, well atomic.Int64
	bad := server(t, func(w http.ResponseWriter, _ *http.Request) { ill.Add(1); w.WriteHeader(502) })
	good := server(t, func(w http.ResponseWriter, _ *http.Request) { well.Add(1); fmt.Fprint(w, "well") })
	cfg := retries(shop(bad, good), 1)
	own := breaker.DefaultEndpoint()
	own.MinRequests, own.OpenFor = 1, time.Second
	cfg.Upstreams[0].Breaker = &own
	strict := breaker.Default() // one bad answer to a client would open it
	strict.Windows, strict.MinRequests, strict.ErrorPPM = 1, 1, 10_000
	cfg.Services = []config.Service{{Name: "order", Breaker: &strict}}
	h := start(t, cfg, gateway.Config{Rand: func() float64 { return 0 }}) // the bad one is drawn first
	ask := func() {
		t.Helper()
		if status, text, _ := h.do(t, "GET", "/orders/1", ""); status != 200 || text != "well" {
			t.Fatalf("%d %q", status, text)
		}
	}
	ask()
	c := h.turnedTo(t, breaker.Open, bad)
	if c.Upstream != "order-up" || !strings.Contains(c.Reason, "1 of 1 calls failed") {
		t.Errorf("told %+v", c)
	}
	for range 20 {
		ask()
	}
	if ill.Load() != 1 || well.Load() != 21 {
		t.Errorf("the bad one had %d calls, the good one %d, want 1 and 21", ill.Load(), well.Load())
	}
	// When its time is up it is sent a probe, dear as it looks; that fails, and
	// the client has its answer all the same.
	for deadline := time.Now().Add(10 * time.Second); ill.Load() < 2 && time.Now().Before(deadline); {
		ask()
	}
	if probed := h.turnedTo(t, breaker.HalfOpen, bad); ill.Load() != 2 || probed.At.Sub(c.At) < time.Second {
		t.Errorf("%d calls of it, tried out after %s", ill.Load(), probed.At.Sub(c.At))
	}
}

// A breaker over balance: while it is open no endpoint is asked, clients are told
// when to come again, and a threshold that changes meanwhile changes nothing of it.
func TestPair_BreakerOverBalance(t *testing.T) {
	var calls atomic.Int64
	down := func(w http.ResponseWriter, _ *http.Request) { calls.Add(1); w.WriteHeader(503) }
	cfg := retries(shop(server(t, down), server(t, down)), 2)
	quick := breaker.Default()
	quick.Windows, quick.MinRequests, quick.ErrorPPM, quick.OpenFor = 1, 5, 800_000, 40*time.Second
	cfg.Services = []config.Service{{Name: "order", Breaker: &quick}}
	h := start(t, cfg, gateway.Config{})
	for range 5 {
		if status, _, _ := h.do(t, "GET", "/orders/1", ""); status != 503 {
			t.Fatalf("got %d", status)
		}
	}
	c := h.turnedTo(t, breaker.Open, "")
	if c.Service != "order" || c.From != "closed" || !strings.Contains(c.Reason, "5 of 5 calls failed") || time.Since(c.At) > time.Minute {
		t.Errorf("told %+v", c)
	}
	before := calls.Load()
	refused := func(most int) {
		t.Helper()
		status, _, head := h.do(t, "GET", "/orders/1", "")
		after, err := strconv.Atoi(head.Get("Retry-After"))
		if status != 503 || err != nil || after < 1 || after > most || after < most-10 {
			t.Errorf("%d, Retry-After %q, want at most %d", status, head.Get("Retry-After"), most)
		}
	}
	refused(40)
	softer := quick
	softer.ErrorPPM, softer.OpenFor = 990_000, 20*time.Second
	cfg.Services = []config.Service{{Name: "order", Breaker: &softer}}
	cfg.Revision, cfg.Hash = "r2", "h2"
	if err := h.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	refused(20) // from when it opened
	if calls.Load() != before {
		t.Errorf("%d calls while it is open", calls.Load()-before)
	}
	all := h.records.wait(t, 7)
	for _, ev := range all[5:] {
		if ev.Refusal != "breaker:open" || len(ev.Tries) != 0 || ev.Outcome != retrylog.LocalRefusal || ev.Origin != "gateway" {
			t.Errorf("event %+v", ev)
		}
	}
}
