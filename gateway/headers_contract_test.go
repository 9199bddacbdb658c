package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/contract"
	"breakwater/gateway/policy/fault"
	"breakwater/internal/conf"
)

const dealt = `apiVersion: breakwater/v1
kind: Upstream
name: order
breaker: {enabled: false}
retry_budget: off
endpoints: [{address: "UPSTREAM"}]
---
apiVersion: breakwater/v1
kind: Service
name: order
breaker: {enabled: false}
---
apiVersion: breakwater/v1
kind: Route
name: order
service: order
match: {path: "/*"}
upstream: order
retry: {enabled: true, max_retries: 1, per_try_timeout: 5s, retry_on_status: [500, 502, 503], backoff_base: 1ms, fallback_strategy: pass_through}
---
apiVersion: breakwater/v1
kind: ResilienceContract
name: order-answers
upstream: order
answers:
  - {status: 503, header: {key: X-Backend-Status, value: overloaded}, meaning: the pool is exhausted, reaction: retry}
  - {status: 500, meaning: a bug, reaction: never}
  - {status: 409, meaning: somebody was faster, reaction: pass}
`

// Live answers are held against the contract: what it does not list, and what the
// gateway made of an answer that was agreed to be treated otherwise.
func TestContractUnderTraffic(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := map[string]int{"/500": 500, "/503": 503, "/overloaded": 503, "/409": 409, "/418": 418}[r.URL.Path]
		if r.URL.Path == "/overloaded" {
			w.Header().Set("X-Backend-Status", "overloaded")
		}
		if status != 0 {
			w.WriteHeader(status)
		}
	}))
	defer up.Close()
	var log conf.Log
	cfg := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(strings.Replace(dealt, "UPSTREAM", up.Listener.Addr().String(), 1))}}, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	faults := fault.NewTable(fault.Caps{})
	g := New(Config{Name: "gw", Env: "test", Faults: faults})
	if err := g.Apply(*cfg); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Handler())
	defer server.Close()
	ask := func(paths ...string) {
		t.Helper()
		for _, p := range paths {
			res, err := http.Get(server.URL + p)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
	}
	ask("/", "/409", "/overloaded", "/overloaded", "/500", "/503", "/418")
	s := g.deals.stats()["order"]
	// Each overloaded answer was asked again, and came again.
	if s.Answers[0].Seen != 4 || s.Answers[1].Seen != 2 || s.Answers[2].Seen != 1 || s.Unlisted != 2 {
		t.Errorf("got %+v", s)
	}
	want := map[string]int64{
		"503 is not in the contract": 1, "418 is not in the contract": 1,
		"500: agreed never, got retry (status_code_match=500)": 1,
		"500: agreed never, got pass (attempts_exhausted)":     1,
	}
	for _, d := range s.Deviations {
		if want[d.Text] != d.Count || d.Route != "order" || d.First.IsZero() {
			t.Errorf("got %+v", d)
		}
		delete(want, d.Text)
	}
	if len(want) > 0 || s.Differ != 2 {
		t.Errorf("missing: %v; %d differ, want 2", want, s.Differ)
	}

	// The same contract goes on counting after a reload, another begins anew.
	if err := g.Apply(*cfg); err != nil {
		t.Fatal(err)
	}
	if got := g.deals.stats()["order"]; got.Unlisted != 2 {
		t.Errorf("a reload forgot what was counted: %+v", got)
	}
	changed := *cfg
	changed.Contracts = []contract.Resilience{{Name: "order-answers", Upstream: "order", Answers: cfg.Contracts[0].Answers[:1]}}
	if err := g.Apply(changed); err != nil {
		t.Fatal(err)
	}
	if got := g.deals.stats()["order"]; got.Unlisted != 0 {
		t.Errorf("another contract goes on with old counts: %+v", got)
	}

	// What a drill makes up was never agreed with anybody.
	now := time.Now()
	faults.Replace(now, []fault.Lease{{Until: now.Add(time.Minute), Hash: "h", Fault: fault.Fault{
		ID: "f", Run: "run", Seed: "s", Key: fault.KeyRequest, PPM: 1_000_000, Target: fault.Target{Service: "order"}, Kind: fault.Error, Status: 599,
	}}})
	ask("/")
	if got := g.deals.stats()["order"]; got.Unlisted != 0 {
		t.Errorf("an injected answer deviates: %+v", got)
	}
}
