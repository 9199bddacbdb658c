package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"breakwater/internal/retrylog"
)

// One hop of a path: a route to the next one, with its retries.
const hopDocument = `
apiVersion: breakwater/v1
kind: Upstream
name: next
endpoints: [{address: %q}]
breaker: {enabled: false}
---
apiVersion: breakwater/v1
kind: Service
name: points
breaker: {enabled: false}
---
apiVersion: breakwater/v1
kind: Route
name: points
service: points
core: true
match: {path: "/*"}
upstream: next
timeout: 10s
retry: {enabled: true, max_retries: 2, per_try_timeout: 2000ms, retry_on_status: [502, 503, 504], backoff_base: 5ms, fallback_strategy: pass_through}
`

// The edge answers a spent quota at once, by a rule of its own.
const edgeRules = `conditions:
  rules:
    - primary: {status_code_match: [429]}
      secondary: [{header_value_match: {key: X-RateLimit-Remaining, value: "0"}}]
      action: fallback
      fallback_strategy: return_503
`

// TestLayeredGateways puts an edge gateway in front of a service-side one, both
// as processes: of a path one hop retries.
func TestLayeredGateways(t *testing.T) {
	if slow(t) {
		return
	}
	var calls atomic.Int64
	var counts [4]atomic.Int64 // calls by the Retry-Count they came with
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		switch n := r.Header.Get("Retry-Count"); n {
		case "":
			counts[0].Add(1)
		case "1", "2":
			counts[n[0]-'0'].Add(1)
		default:
			counts[3].Add(1)
		}
		switch r.URL.Path {
		case "/spent":
			rw.Header().Set("X-RateLimit-Remaining", "0")
			rw.Header().Set("Retry-After", "7")
			rw.WriteHeader(http.StatusTooManyRequests)
		case "/down":
			rw.WriteHeader(http.StatusGatewayTimeout)
		}
	}))
	defer up.Close()
	inner, _ := loneGateway(t, fmt.Sprintf(hopDocument, up.Listener.Addr().String()))
	edgeDocument := fmt.Sprintf(hopDocument, inner.host("data")) + edgeRules
	edge, _ := loneGateway(t, edgeDocument)

	get := func(path string) *http.Response {
		res, err := http.Get(edge.url["data"] + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	// 429 with nothing left becomes one 503 at the edge, without a retry anywhere.
	if res := get("/spent"); res.StatusCode != 503 || res.Header.Get("Retry-After") != "7" || calls.Load() != 1 {
		t.Errorf("a spent quota: status %d, Retry-After %q, %d calls", res.StatusCode, res.Header.Get("Retry-After"), calls.Load())
	}
	// What the inner hop has retried, the edge does not.
	res := get("/down")
	if res.StatusCode != 504 || calls.Load() != 1+3 || counts[0].Load() != 2 || counts[1].Load() != 1 || counts[2].Load() != 1 || counts[3].Load() != 0 {
		t.Errorf("a dead upstream: status %d after %d calls, want 504 after 3, with Retry-Count none, 1, 2", res.StatusCode, calls.Load()-1)
	}
	edge.gateway.stop()
	inner.gateway.stop()

	// Attempts logged are attempts the upstream saw, and the edge says why it made
	// no second one.
	tries, _ := inner.tries()
	if int64(tries) != calls.Load() {
		t.Errorf("%d tries in the inner log, the upstream saw %d", tries, calls.Load())
	}
	if tries, skips := edge.tries(); tries != 2 || skips["retry_count"] != 1 || skips["rule_fallback"] != 1 {
		t.Errorf("the edge logged %d tries and skipped by %v", tries, skips)
	}
}

// tries are the tries in the log of a lone gateway, and its skip reasons.
func (w *world) tries() (n int, skips map[string]int) {
	w.t.Helper()
	skips = map[string]int{}
	segments, err := filepath.Glob(filepath.Join(w.dir, "gateway-state", "spool", "*", "*.log"))
	if err != nil || len(segments) == 0 {
		w.t.Fatalf("no segments: %v", err)
	}
	for _, path := range segments {
		f, err := os.Open(path)
		if err != nil {
			w.t.Fatal(err)
		}
		_, _, err = retrylog.Scan(f, func(r retrylog.Record) error {
			if x := r.Exchange; x != nil && x.Service != "" {
				n += len(x.Tries)
				skips[x.Skip]++
			}
			return nil
		})
		_ = f.Close()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return n, skips
}
