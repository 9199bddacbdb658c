package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/retry"
	"breakwater/internal/retrylog"
)

// R27: who is refused by one host asks the next one at once.
func TestPolicies_R27(t *testing.T) {
	inTown(t, ponytail("dead:1", "up:1"), map[string]http.HandlerFunc{"up:1": saying(200)}, func(t *testing.T, w *town) {
		status, _, head, took, ev := w.do(t, "GET", "")
		if status != 200 || took != 0 || head.Get("Retry-Count") != "1" || len(ev.Tries) != 2 || ev.Tries[0].Kind != "dial" {
			t.Errorf("%d after %v, tries %+v", status, took, ev.Tries)
		}
	})
}

// X129: the method goes before what the upstream allows.
func TestReliability_X129(t *testing.T) {
	up := map[string]http.HandlerFunc{"up:1": saying(503, "Retry-After", "0")}
	inTown(t, ponytail("up:1"), up, func(t *testing.T, w *town) {
		status, text, head, took, ev := w.do(t, "POST", "pay")
		if status != 503 || text != "503" || head.Get("Retry-After") != "0" || took != 0 || w.calls["up:1"].Load() != 1 || ev.Skip != "non_idempotent" {
			t.Errorf("%d %q after %v and %d calls, skip %q", status, text, took, w.calls["up:1"].Load(), ev.Skip)
		}
		if status, _, _, _, _ := w.do(t, "GET", ""); status != 503 || w.calls["up:1"].Load() != 4 {
			t.Errorf("a GET: %d after %d calls in all, want 4", status, w.calls["up:1"].Load())
		}
	})
}

// X131: a Retry-After that nobody can wait for, or read, holds nobody up.
func TestReliability_X131(t *testing.T) {
	for value, want := range map[string]struct {
		calls int64
		took  time.Duration
		skip  string
	}{
		"99999999":                      {1, 0, "retry_after_exceeds_deadline"},
		"6":                             {1, 0, "retry_after_exceeds_deadline"},
		"-1":                            {1, 0, "secondary_unmatched"},
		"1e3":                           {1, 0, "secondary_unmatched"},
		"":                              {1, 0, "secondary_unmatched"},
		"Thu, 01 Jan 1970 00:00:00 GMT": {3, 750 * time.Millisecond, "attempts_exhausted"},
		"1":                             {3, 2 * time.Second, "attempts_exhausted"},
	} {
		up := map[string]http.HandlerFunc{"up:1": saying(503, "Retry-After", value)}
		inTown(t, ponytail("up:1"), up, func(t *testing.T, w *town) {
			status, _, head, took, ev := w.do(t, "GET", "")
			if status != 503 || head.Get("Retry-After") != value || took != want.took || w.calls["up:1"].Load() != want.calls || ev.Skip != want.skip {
				t.Errorf("%q: %d after %v and %d calls, skip %q, Retry-After %q; want %+v", value, status, took, w.calls["up:1"].Load(), ev.Skip, head.Get("Retry-After"), want)
			}
		})
	}
}

// X133: what speaks for the mesh is believed of nobody outside it.
func TestReliability_X133(t *testing.T) {
	var seen http.Header
	n := 0
	up := map[string]http.HandlerFunc{"up:1": func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			seen = r.Header.Clone()
			w.WriteHeader(502)
		}
	}}
	forged := []string{"Retry-Count", "7", "Retry_Count", "7", "X-Backend-Status", "overloaded", "X-Breakwater-Degraded", "last_good", "X-Breakwater-Fault", "run-1", "X-Breakwater-Deadline-Ms", "1"}
	inTown(t, ponytail("up:1"), up, func(t *testing.T, w *town) {
		status, _, head, _, ev := w.do(t, "GET", "", forged...)
		// The forged count is not believed: the retry is made.
		if status != 200 || n != 2 || head.Get("Retry-Count") != "1" || ev.Skip != "" || ev.Degraded != "" || ev.Experiment != "" {
			t.Errorf("%d after %d calls, event %+v", status, n, ev)
		}
		for i := 0; i < len(forged); i += 2 {
			if v := seen.Values(forged[i]); len(v) > 0 && forged[i] != "X-Breakwater-Deadline-Ms" {
				t.Errorf("the upstream saw %s: %q", forged[i], v)
			}
		}
		if seen.Get("X-Breakwater-Deadline-Ms") == "1" {
			t.Error("a deadline was believed")
		}
	})
}

// X136: four ways to fail have four names in the log, and a retry only where the
// policy says so.
func TestReliability_X136(t *testing.T) {
	slow := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("forty"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	polo := retry.Polo()
	polo.PerTry, polo.BackoffBase = 800*time.Millisecond, 250*time.Millisecond
	tests := []struct {
		name    string
		address string
		policy  retry.Config
		method  string
		kind    string
		tries   int
		status  int
		skip    string
	}{
		{"connect refused", "dead:1", retry.Ponytail(), "GET", "dial", 3, 502, "attempts_exhausted"},
		{"connect refused, POST", "dead:1", retry.Ponytail(), "POST", "dial", 3, 502, "attempts_exhausted"},
		{"connect refused, polo", "dead:1", polo, "GET", "dial", 1, 502, "connect_never"},
		{"connect timeout", "silent:1", retry.Ponytail(), "GET", "connect_timeout", 1, 504, "no_other_host"},
		{"connect timeout, polo", "silent:1", polo, "GET", "connect_timeout", 1, 504, "connect_never"},
		{"read timeout", "slow:1", retry.Ponytail(), "GET", "try_timeout", 3, 504, "attempts_exhausted"},
		{"read timeout, polo", "slow:1", polo, "GET", "try_timeout", 2, 504, "attempts_exhausted"},
		{"read timeout, POST", "slow:1", retry.Ponytail(), "POST", "try_timeout", 1, 504, "non_idempotent"},
		{"reset mid-body", "cut:1", retry.Ponytail(), "GET", "body_cut", 1, 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := ponytail(tt.address)
			cfg.Routes[0].Retry = tt.policy
			inTown(t, cfg, map[string]http.HandlerFunc{"slow:1": slow, "cut:1": cut}, func(t *testing.T, w *town) {
				status, _, _, _, ev := w.do(t, tt.method, "")
				if status != tt.status || len(ev.Tries) != tt.tries || ev.Skip != tt.skip {
					t.Errorf("%d, skip %q, tries %+v", status, ev.Skip, ev.Tries)
				}
				for _, try := range ev.Tries {
					if try.Kind != tt.kind {
						t.Errorf("kind %q, want %q", try.Kind, tt.kind)
					}
				}
				if strings.Contains(w.lines.String(), "retry triggered") != (tt.tries > 1) {
					t.Errorf("lines\n%s", w.lines.String())
				}
			})
		})
	}
}

// V-21 over two gateways: A may not retry what B retried.
func TestPolicies_V21(t *testing.T) {
	var counts told
	c := server(t, counts.handler("Retry-Count", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) }))
	b := start(t, trusting(retries(shop(c), 1)), gateway.Config{})
	a := start(t, trusting(retries(shop(strings.TrimPrefix(b.url, "http://")), 1)), gateway.Config{})
	status, _, head := a.do(t, "GET", "/orders/1", "")
	if status != 504 || head.Get("Retry-Count") != "1" || !slices.Equal(counts.all(), []string{"", "1"}) {
		t.Errorf("%d with Retry-Count %q, C saw %q; want 504 with 1, absent and 1", status, head.Get("Retry-Count"), counts.all())
	}
	if ev := a.records.wait(t, 1)[0]; len(ev.Tries) != 1 || ev.Skip != "retry_count" || ev.Tries[0].Skip != "retry_count" {
		t.Errorf("A's event %+v", ev)
	}
	if ev := b.records.wait(t, 1)[0]; len(ev.Tries) != 2 || ev.Skip != "attempts_exhausted" {
		t.Errorf("B's event %+v", ev)
	}
}

// V-7, layered: the gateway beside the service turns a spent quota into a 503, and
// the one at the edge does not ask again.
func TestPolicies_V7(t *testing.T) {
	var calls atomic.Int64
	limited := server(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.WriteHeader(429)
	})
	inner := trusting(retries(shop(limited), 2))
	inner.Routes[0].Retry.Rules = []retry.Rule{{
		Primary:   retry.Condition{Trigger: retry.StatusCodeMatch, Statuses: []int{429}},
		Secondary: []retry.Condition{{Trigger: retry.HeaderValueMatch, Header: "X-RateLimit-Remaining", Value: "0"}},
		Action:    retry.ToFallback, Fallback: retry.Return503,
	}}
	side := start(t, inner, gateway.Config{})
	edge := start(t, trusting(retries(shop(strings.TrimPrefix(side.url, "http://")), 2)), gateway.Config{})
	status, _, head := edge.do(t, "GET", "/orders/1", "")
	if status != 503 || calls.Load() != 1 || head.Get("Retry-Count") != "" {
		t.Errorf("%d after %d calls, Retry-Count %q", status, calls.Load(), head.Get("Retry-Count"))
	}
	ev := side.records.wait(t, 1)[0]
	if ev.Skip != "rule_fallback" || ev.Degraded != "return_503" || len(ev.Tries) != 1 || ev.FirstStatus != 429 {
		t.Errorf("event %+v", ev)
	}
	if ev := edge.records.wait(t, 1)[0]; len(ev.Tries) != 1 || ev.Skip != "secondary_unmatched" {
		t.Errorf("the edge's event %+v", ev)
	}
}

// The budget lives on over reloads, and is the upstream's own.
func TestRetryBudgetOverReloads(t *testing.T) {
	bad, calls := counted(t, 502)
	allowing := func(perSecond int64, revision string) config.Config {
		cfg := retries(shop(bad), 1)
		cfg.Upstreams[0].RetryBudget = &retry.BudgetConfig{MinPerSec: perSecond, TTL: 60 * time.Second}
		cfg.Revision = revision
		return cfg
	}
	h := start(t, allowing(1, "first"), gateway.Config{})
	for range 60 {
		h.do(t, "GET", "/orders/1", "")
	}
	if calls.Load() != 120 {
		t.Fatalf("%d calls, want 120", calls.Load())
	}
	for i := range 20 {
		if err := h.Apply(allowing(1, string(rune('a'+i)))); err != nil {
			t.Fatal(err)
		}
		h.do(t, "GET", "/orders/1", "")
	}
	if calls.Load() != 140 {
		t.Errorf("%d calls, want 140: what was spent stays spent", calls.Load())
	}
	if ev := h.records.wait(t, 80)[79]; ev.Skip != "retry_budget" || ev.Tries[0].Skip != "retry_budget" || ev.Tries[0].Reason != "status_code_match=502" {
		t.Errorf("event %+v", ev)
	}
	if err := h.Apply(allowing(2, "more")); err != nil {
		t.Fatal(err)
	}
	if h.do(t, "GET", "/orders/1", ""); calls.Load() != 142 {
		t.Errorf("%d calls, want 142: twice the budget is there now", calls.Load())
	}
}

// One tenant's waits are its own.
func TestTenantsBackOff(t *testing.T) {
	cfg := ponytail("up:1")
	cfg.Gateway.TenantHeader = "X-Tenant"
	cfg.Routes[0].Retry.Tenants = map[string]retry.Tenant{"gold": {BackoffBase: 100 * time.Millisecond}}
	inTown(t, cfg, map[string]http.HandlerFunc{"up:1": saying(502)}, func(t *testing.T, w *town) {
		for tenant, want := range map[string]time.Duration{"gold": 300 * time.Millisecond, "silver": 750 * time.Millisecond} {
			if _, _, _, took, ev := w.do(t, "GET", "", "X-Tenant", tenant); took != want || ev.RetryWaitMS != want.Milliseconds() {
				t.Errorf("%s waited %v, event says %d ms; want %v", tenant, took, ev.RetryWaitMS, want)
			}
		}
	})
}

// V-20 over a gateway: too many first tries fail, of whatever route, and nobody
// asks again.
func TestPolicies_V20(t *testing.T) {
	bad, calls := counted(t, 502)
	cfg := retries(shop(bad), 1)
	cfg.Routes[0].Retry.Gate = retry.ErrorGate{MaxPPM: 50_000, MinCount: 20}
	other := cfg.Routes[0]
	other.Name, other.Match.Path, other.Retry = "other", "/other", retry.Config{}
	cfg.Routes = append(cfg.Routes, other)
	h := start(t, cfg, gateway.Config{})
	for range 18 {
		h.do(t, "GET", "/other", "")
	}
	h.do(t, "GET", "/orders/1", "") // the 19th: the gate is not yet in force
	if calls.Load() != 20 {
		t.Fatalf("%d calls, want 20", calls.Load())
	}
	h.do(t, "GET", "/orders/1", "")
	if ev := h.records.wait(t, 20)[19]; calls.Load() != 21 || ev.Skip != "error_rate_gate" {
		t.Errorf("%d calls, skip %q", calls.Load(), ev.Skip)
	}
}

// Retry over the mirror: the shadow sees each request once, and whole.
func TestRetryOverMirror(t *testing.T) {
	var mu sync.Mutex
	var copies []string
	read := func(r *http.Request) string {
		text, _ := io.ReadAll(r.Body)
		return string(text)
	}
	n := 0
	ups := map[string]http.HandlerFunc{
		"up:1": func(w http.ResponseWriter, r *http.Request) {
			if text := read(r); text != "ten bytes!" {
				t.Errorf("a try had %q", text)
			}
			if n++; n < 3 {
				w.WriteHeader(502)
			}
		},
		"shadow:1": func(_ http.ResponseWriter, r *http.Request) {
			text := read(r)
			mu.Lock()
			copies = append(copies, text+r.Header.Get("Retry-Count"))
			mu.Unlock()
		},
	}
	cfg := ponytail("up:1")
	cfg.Upstreams = append(cfg.Upstreams, config.Upstream{Name: "shadow", Endpoints: []config.Endpoint{{Address: "shadow:1"}}})
	cfg.Routes[0].Mirror = &config.Mirror{Upstream: "shadow", PPM: 1_000_000, MaxBody: 1 << 20, Timeout: time.Second}
	inTown(t, cfg, ups, func(t *testing.T, w *town) {
		status, _, _, _, ev := w.do(t, "PUT", "ten bytes!")
		time.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if status != 200 || len(ev.Tries) != 3 || !slices.Equal(copies, []string{"ten bytes!"}) {
			t.Errorf("%d after %d tries, copies %q", status, len(ev.Tries), copies)
		}
	})
}

// Retry over the timeouts: a try that is too slow is given up for another host,
// and the total bounds them all.
func TestRetryOverTimeout(t *testing.T) {
	slow := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	cfg := ponytail("slow:1", "up:1")
	inTown(t, cfg, map[string]http.HandlerFunc{"slow:1": slow, "up:1": saying(200)}, func(t *testing.T, w *town) {
		status, _, _, took, ev := w.do(t, "GET", "")
		if status != 200 || took != 1050*time.Millisecond || len(ev.Tries) != 2 || ev.Tries[0].Kind != "try_timeout" || ev.DepTimeouts != 1 {
			t.Errorf("%d after %v, event %+v", status, took, ev)
		}
	})
	cfg = ponytail("slow:1")
	cfg.Routes[0].Timeout = 1200 * time.Millisecond
	inTown(t, cfg, map[string]http.HandlerFunc{"slow:1": slow}, func(t *testing.T, w *town) {
		status, _, _, took, ev := w.do(t, "GET", "")
		if status != 504 || took != 1200*time.Millisecond || len(ev.Tries) != 2 || ev.Skip != "deadline" || ev.Timeout != "total" || ev.Outcome != retrylog.Timeout {
			t.Errorf("%d after %v, event %+v", status, took, ev)
		}
	})
}

// Retry over balance: the second try goes elsewhere, whatever the costs say.
func TestRetryOverBalance(t *testing.T) {
	ups := map[string]http.HandlerFunc{"a:1": saying(502), "b:1": saying(502), "c:1": saying(200)}
	inTown(t, ponytail("a:1", "b:1", "c:1"), ups, func(t *testing.T, w *town) {
		for range 20 {
			status, _, _, _, ev := w.do(t, "GET", "")
			seen := map[string]bool{}
			for _, try := range ev.Tries {
				if seen[try.Endpoint] {
					t.Fatalf("%s was tried twice: %+v", try.Endpoint, ev.Tries)
				}
				seen[try.Endpoint] = true
			}
			if status != 200 {
				t.Fatalf("%d", status)
			}
		}
	})
}

// R23, the rest of it: an answer cut in its body is a failure to the breaker,
// though its head said 200, and no try follows it.
func TestPolicies_R23_Breaker(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, strings.Repeat("x", 40))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	once := breaker.Default()
	once.Windows, once.MinRequests = 1, 1
	cfg := ponytail("cut:1")
	cfg.Services = []config.Service{{Name: "order", Breaker: &once}}
	inTown(t, cfg, map[string]http.HandlerFunc{"cut:1": cut}, func(t *testing.T, w *town) {
		status, text, _, _, ev := w.do(t, "GET", "")
		if status != 200 || len(text) != 40 || len(ev.Tries) != 1 || ev.Outcome != retrylog.UpstreamFailure {
			t.Errorf("%d with %d bytes, event %+v", status, len(text), ev)
		}
		if status, _, _, _, ev := w.do(t, "GET", ""); status != 503 || ev.Outcome != retrylog.LocalRefusal || w.calls["cut:1"].Load() != 1 {
			t.Errorf("the next request: %d after %d calls, event %+v", status, w.calls["cut:1"].Load(), ev)
		}
	})
}
