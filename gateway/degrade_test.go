package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/fallback"
	"breakwater/internal/retrylog"
	"breakwater/slo/ingest"
)

var degradedTo = fallback.Answer{Status: 200, Head: []exchange.Field{{Name: "Content-Type", Value: "application/json"}}, Body: `{"points":[]}`}

// protected is a shop whose service has a quick breaker, and whose route does as
// degrade says.
func protected(degrade fallback.Config, endpoints ...string) config.Config {
	cfg := shop(endpoints...)
	b := breaker.Default()
	b.Windows, b.MinRequests, b.ErrorPPM, b.OpenFor = 1, 5, 500_000, 60*time.Second
	cfg.Services = []config.Service{{Name: "order", Breaker: &b}}
	cfg.Upstreams[0].Breaker = &breaker.Config{Disabled: true}
	cfg.Routes[0].Degrade = degrade
	return cfg
}

// While the breaker is open the route's action can be changed, and the next
// request has the new one; the upstream sees none of them, and no degraded answer
// is kept, counted, or given without its mark.
func TestDegrade_ActionWhileOpen(t *testing.T) {
	var calls atomic.Int64
	var ill atomic.Bool
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if ill.Load() {
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "fresh of ", r.URL.Path)
	})
	lastGood := fallback.Config{Action: fallback.LastGood, OnOpen: true}
	h := start(t, protected(lastGood, up), gateway.Config{Log: slog.New(slog.DiscardHandler)})
	if status, text, head := h.do(t, "GET", "/orders/1", ""); status != 200 || head.Get("X-Breakwater-Degraded") != "" {
		t.Fatalf("well: %d %q", status, text)
	}
	ill.Store(true)
	for range 20 {
		if _, _, head := h.do(t, "GET", "/orders/2", ""); head.Get("X-Breakwater-Degraded") != "" {
			break
		}
	}
	before := calls.Load()

	status, text, head := h.do(t, "GET", "/orders/1", "")
	if age, err := strconv.Atoi(head.Get("Age")); status != 200 || text != "fresh of /orders/1" || head.Get("X-Breakwater-Degraded") != "last_good;reason=breaker:open" ||
		err != nil || age > 10 || head.Get("Cache-Control") != "no-store" || head.Get("Content-Type") != "text/plain" {
		t.Errorf("last_good: %d %q %v", status, text, head)
	}
	status, text, head = h.do(t, "GET", "/orders/3", "")
	after, err := strconv.Atoi(head.Get("Retry-After"))
	if status != 503 || head.Get("X-Breakwater-Degraded") != "fail_fast;reason=breaker:open" || err != nil || after < 50 || after > 60 || !strings.Contains(text, "breaker:open") {
		t.Errorf("nothing was kept of it: %d %q %v", status, text, head)
	}
	steps := []struct {
		action   fallback.Config
		status   int
		text     string
		degraded string
	}{
		{fallback.Config{Action: fallback.ReturnDefault, OnOpen: true, Default: degradedTo}, 200, `{"points":[]}`, "return_default;reason=breaker:open"},
		{fallback.Config{Action: fallback.FailFast, OnOpen: true}, 503, "", "fail_fast;reason=breaker:open"},
		{fallback.Config{Action: fallback.PassThrough}, 503, "", ""},
		{fallback.Config{Action: fallback.ReturnDefault, OnOpen: true, Observe: true}, 503, "", ""},
		{fallback.Config{}, 503, "", "fail_fast;reason=breaker:open"},
	}
	for _, s := range steps {
		if err := h.Apply(protected(s.action, up)); err != nil {
			t.Fatal(err)
		}
		status, text, head := h.do(t, "GET", "/orders/1", "")
		if status != s.status || s.text != "" && text != s.text || head.Get("X-Breakwater-Degraded") != s.degraded || (status == 503) != (head.Get("Retry-After") != "") {
			t.Errorf("%s: %d %q, degraded %q", s.action.Action, status, text, head.Get("X-Breakwater-Degraded"))
		}
	}
	if n := calls.Load() - before; n != 0 {
		t.Errorf("%d requests went to the upstream while the breaker was open", n)
	}
	all := h.records.wait(t, int(before)+8)
	for _, ev := range all[before+1:] {
		if ev.Origin != "gateway" || len(ev.Tries) != 0 || ev.Refusal != "breaker:open" || ev.Status == 200 && ev.Outcome != retrylog.OK {
			t.Errorf("event %+v", ev)
		}
		// What slo says: an answer is an answer, and 503 is none.
		if class := ingest.Classify(&ev); (class == ingest.Good) != (ev.Status == 200) || ev.Status == 503 && class != ingest.Bad {
			t.Errorf("a %d by %q counts as %v", ev.Status, ev.Degraded, class)
		}
	}
	if ev := all[len(all)-2]; ev.Observed != "fallback:return_default" || ev.Degraded != "" {
		t.Errorf("only observed: %+v", ev)
	}
}

// With on: [failure] the last answer of the upstream is replaced, after all tries;
// a good one never is.
func TestDegrade_OnFailure(t *testing.T) {
	var calls atomic.Int64
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.URL.Path == "/orders/bad" {
			w.WriteHeader(502)
			fmt.Fprint(w, "a page of theirs")
		}
	})
	cfg := retries(shop(up), 2)
	cfg.Routes[0].Degrade = fallback.Config{Action: fallback.ReturnDefault, OnFailure: true, Default: degradedTo}
	h := start(t, cfg, gateway.Config{})
	status, text, head := h.do(t, "GET", "/orders/bad", "")
	if status != 200 || text != degradedTo.Body || head.Get("X-Breakwater-Degraded") != "return_default;reason=attempts_exhausted" || head.Get("Retry-Count") != "2" || calls.Load() != 3 {
		t.Errorf("%d %q %v after %d calls", status, text, head, calls.Load())
	}
	status, _, head = h.do(t, "POST", "/orders/bad", "x")
	if status != 200 || head.Get("X-Breakwater-Degraded") != "return_default;reason=non_idempotent" {
		t.Errorf("POST: %d %v", status, head)
	}
	if status, _, head := h.do(t, "GET", "/orders/good", ""); status != 200 || head.Get("X-Breakwater-Degraded") != "" {
		t.Errorf("good: %d %v", status, head)
	}
	ev := h.records.wait(t, 3)[0]
	if len(ev.Tries) != 3 || ev.FirstStatus != 502 || ev.Status != 200 || ev.Outcome != retrylog.OK || ev.Degraded != "return_default" || ev.Origin != "gateway" {
		t.Errorf("event %+v", ev)
	}
}

// Whatever refuses below degrades: here too many under way.
func TestDegrade_Concurrency(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	up := server(t, func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-leave })
	cfg := protected(fallback.Config{Action: fallback.ReturnDefault, OnOpen: true, Default: degradedTo}, up)
	cfg.Services[0].Concurrency = concurrency.Config{Kind: concurrency.Fixed, Max: 1}
	cfg.Routes[0].Tier = "critical"
	h := start(t, cfg, gateway.Config{})
	var first sync.WaitGroup
	first.Go(func() { h.do(t, "GET", "/orders/1", "") })
	<-arrived
	status, text, head := h.do(t, "GET", "/orders/2", "")
	close(leave)
	first.Wait()
	if status != 200 || text != degradedTo.Body || head.Get("X-Breakwater-Degraded") != "return_default;reason=concurrency:full" {
		t.Errorf("%d %q %v", status, text, head)
	}
}

// A client that leaves, an upstream that dies half-way, an upgrade, an error: no
// place under a limit is lost (R54).
func TestPolicies_R54_OverAGateway(t *testing.T) {
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/orders/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("hello"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/orders/long":
			_, _ = w.Write([]byte("and then nothing"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/orders/500":
			w.WriteHeader(500)
		}
	})
	cfg := protected(fallback.Config{Action: fallback.PassThrough}, up)
	cfg.Services[0].Breaker = &breaker.Config{Disabled: true}
	cfg.Services[0].Concurrency = concurrency.Config{Kind: concurrency.Fixed, Max: 50}
	cfg.Upstreams[0].Concurrency = concurrency.Config{Kind: concurrency.Fixed, Max: 10}
	h := start(t, cfg, gateway.Config{Log: slog.New(slog.DiscardHandler)})
	paths := []string{"/orders/1", "/orders/500", "/orders/cut", "/orders/long"}
	var group sync.WaitGroup
	for worker := range 20 {
		group.Go(func() {
			for i := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, "GET", h.url+paths[(worker+i)%len(paths)], nil)
				if err != nil {
					t.Error(err)
				}
				if res, err := h.client.Do(req); err == nil {
					_, _ = res.Body.Read(make([]byte, 10))
					cancel() // in the middle of the long one
					_ = res.Body.Close()
				}
				cancel()
			}
		})
	}
	group.Wait()
	h.records.wait(t, 1000)
	stats := placesOf(t, h.Gateway)
	if s := stats.Services[0].Concurrency; s.InFlight != 0 || s.Limit != 50 {
		t.Errorf("the service still has %+v", s)
	}
	for _, e := range stats.Upstreams["order-up"].Endpoints {
		if e.Concurrency.InFlight != 0 || e.Concurrency.Limit != 10 || e.InFlight != 0 {
			t.Errorf("the endpoint still has %+v", e)
		}
	}
}

type places struct {
	InFlight int64 `json:"in_flight"`
	Limit    int64
}

type placeStats struct {
	Services []struct {
		Service, Shedding string
		Concurrency       places
	}
	Upstreams map[string]struct {
		Endpoints []struct {
			InFlight    int64 `json:"in_flight"`
			Concurrency places
		}
	}
}

// placesOf reads what /stats says of limits.
func placesOf(t *testing.T, g *gateway.Gateway) (stats placeStats) {
	t.Helper()
	w := httptest.NewRecorder()
	g.Admin().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/stats", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &stats); err != nil {
		t.Fatal(err)
	}
	return stats
}
