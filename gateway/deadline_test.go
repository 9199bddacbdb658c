package gateway_test

import (
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/retry"
)

// told collects one field of every call.
type told struct {
	mu     sync.Mutex
	values []string
}

func (c *told) handler(field string, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.values = append(c.values, r.Header.Get(field))
		c.mu.Unlock()
		then(w, r)
	}
}

func (c *told) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.values...)
}

func (h *house) with(t *testing.T, method, path string, fields ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	res, err := h.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}

func trusting(cfg config.Config) config.Config {
	cfg.Gateway.TrustedPeers = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	return cfg
}

// V-80 on the wire: each try is told what it has, and the last one what is left.
func TestPolicies_V80(t *testing.T) {
	var c told
	release := make(chan struct{})
	up := server(t, c.handler("X-Breakwater-Deadline-Ms", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(release) })
	cfg := shop(up)
	// Ten times the numbers of the vector: the machine may be slow.
	cfg.Routes[0].Timeout = 2500 * time.Millisecond
	cfg.Routes[0].Retry = retry.Config{Enabled: true, MaxRetries: 2, PerTry: time.Second, OnStatus: []int{504}, BackoffBase: 1}
	h := start(t, cfg, gateway.Config{})
	begin := time.Now()
	status, _, _ := h.with(t, "GET", "/orders/1")
	if took := time.Since(begin); status != 504 || took < 2400*time.Millisecond || took > 4*time.Second {
		t.Errorf("got %d after %v, want 504 after 2.5s", status, took)
	}
	values := c.all()
	if len(values) != 3 {
		t.Fatalf("tries were told %v, want three", values)
	}
	for i, want := range []int{1000, 1000, 500} {
		if got, err := strconv.Atoi(values[i]); err != nil || got > want || got < want-200 {
			t.Errorf("try %d was told %q, want about %d", i, values[i], want)
		}
	}
}

// V-81: nobody waits for what comes too late, and only a trusted peer can say so.
func TestPolicies_V81(t *testing.T) {
	up, calls := counted(t, 200)
	h := start(t, trusting(shop(up)), gateway.Config{})
	status, text, _ := h.with(t, "GET", "/orders/1", "X-Breakwater-Deadline-Ms", "0")
	if p := readProblem(t, text); status != 504 || p.Code != "total_timeout" || calls.Load() != 0 {
		t.Errorf("got %d, %s after %d calls, want 504 and none", status, text, calls.Load())
	}
	cfg := shop(up)
	cfg.Revision = "r2"
	if err := h.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := h.with(t, "GET", "/orders/1", "X-Breakwater-Deadline-Ms", "0"); status != 200 || calls.Load() != 1 {
		t.Errorf("from a stranger: got %d after %d calls, want 200", status, calls.Load())
	}
}

func TestDeadlineInAndOut(t *testing.T) {
	tests := []struct {
		name    string
		trusted bool
		fields  []string
		reads   string
		most    int // of what the upstream is told, and at least half of it
		unit    string
	}{
		{"the route's own", true, nil, "X-Breakwater-Deadline-Ms", 5000, ""},
		{"a peer's is shorter", true, []string{"X-Breakwater-Deadline-Ms", "3000"}, "X-Breakwater-Deadline-Ms", 3000, ""},
		{"a peer's is longer", true, []string{"X-Breakwater-Deadline-Ms", "60000"}, "X-Breakwater-Deadline-Ms", 5000, ""},
		{"garbage is none", true, []string{"X-Breakwater-Deadline-Ms", "-3"}, "X-Breakwater-Deadline-Ms", 5000, ""},
		{"a stranger's is not believed", false, []string{"X-Breakwater-Deadline-Ms", "300"}, "X-Breakwater-Deadline-Ms", 5000, ""},
		{"gRPC's, from anybody", false, []string{"Content-Type", "application/grpc", "Grpc-Timeout", "3S"}, "X-Breakwater-Deadline-Ms", 3000, ""},
		{"and told in its own field", false, []string{"Content-Type", "application/grpc", "Grpc-Timeout", "3S"}, "Grpc-Timeout", 3_000_000, "u"},
		{"made less by the route", false, []string{"Content-Type", "application/grpc+proto", "Grpc-Timeout", "1H"}, "Grpc-Timeout", 5_000_000, "u"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c told
			cfg := shop(server(t, c.handler(tt.reads, func(http.ResponseWriter, *http.Request) {})))
			if tt.trusted {
				cfg = trusting(cfg)
			}
			h := start(t, cfg, gateway.Config{})
			if status, _, _ := h.with(t, "GET", "/orders/1", tt.fields...); status != 200 {
				t.Fatalf("got %d", status)
			}
			value := c.all()[0]
			if len(value) < 2 || value[len(value)-len(tt.unit):] != tt.unit {
				t.Fatalf("told %q", value)
			}
			got, err := strconv.Atoi(value[:len(value)-len(tt.unit)])
			if err != nil || got > tt.most || got < tt.most/2 {
				t.Errorf("told %q, want at most %d%s", value, tt.most, tt.unit)
			}
		})
	}
	// A call without a timeout has none: it may be a stream of any length.
	var c told
	h := start(t, shop(server(t, c.handler("Grpc-Timeout", func(http.ResponseWriter, *http.Request) {}))), gateway.Config{})
	h.with(t, "GET", "/orders/1", "Content-Type", "application/grpc")
	if got := c.all()[0]; got != "" {
		t.Errorf("a gRPC call without a timeout was given %q", got)
	}
}

func TestTraceparent(t *testing.T) {
	const sound = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	tests := []struct {
		name, sent string
		passed     bool
	}{
		{"none", "", false},
		{"a sound one", sound, true},
		{"not sampled", sound[:54] + "0", true},
		{"a version to come, with more parts", "cc" + sound[2:] + "-what-the-future-has", true},
		{"a version to come, as today", "cc" + sound[2:], true},
		{"version 00 has no more parts", sound + "-x", false},
		{"version ff is none", "ff" + sound[2:], false},
		{"upper case", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false},
		{"a trace of zeros", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", false},
		{"a parent of zeros", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false},
		{"too short", sound[:54], false},
		{"other separators", "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01", false},
	}
	var parents, states told
	h := start(t, shop(server(t, parents.handler("Traceparent", states.handler("Tracestate", func(http.ResponseWriter, *http.Request) {})))), gateway.Config{})
	seen := map[string]bool{}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields := []string{"Tracestate", "vendor=1"}
			if tt.sent != "" {
				fields = append(fields, "Traceparent", tt.sent)
			}
			_, _, head := h.with(t, "GET", "/orders/1", fields...)
			parent, state, answered := parents.all()[i], states.all()[i], head.Get("Traceparent")
			if tt.passed {
				if parent != tt.sent || state != "vendor=1" || answered != "" {
					t.Errorf("upstream got %q and %q, client %q, want what was sent", parent, state, answered)
				}
				return
			}
			if len(parent) != 55 || parent[:3] != "00-" || parent[52:] != "-01" || seen[parent[3:35]] || parent == tt.sent {
				t.Errorf("minted %q", parent)
			}
			seen[parent[3:35]] = true
			if state != "" || answered != parent {
				t.Errorf("tracestate %q went on, and the client was told %q", state, answered)
			}
		})
	}
	h.with(t, "GET", "/orders/1", "Traceparent", sound, "Traceparent", sound)
	if all := parents.all(); all[len(all)-1] == sound {
		t.Error("two of them are none")
	}
}
