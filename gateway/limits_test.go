package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/internal/retrylog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestBodyLimit(t *testing.T) {
	// By path: of a request that was refused half way the upstream may hear late.
	var calls sync.Map
	up := server(t, func(_ http.ResponseWriter, r *http.Request) {
		n, _ := calls.LoadOrStore(r.URL.Path, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	cfg := shop(up)
	cfg.Routes[0].MaxBody = 100_000
	h := start(t, cfg, gateway.Config{})
	tests := []struct {
		name    string
		size    int
		chunked bool
		status  int
		asked   int64 // upstream calls
	}{
		{"just within", 100_000, false, 200, 1},
		{"a byte too many is told by the head", 100_001, false, 413, 0},
		{"chunked, just within", 100_000, true, 200, 1},
		{"chunked, a byte too many", 100_001, true, 413, 1},
		{"none", 0, false, 200, 1},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := fmt.Sprintf("/orders/%d", i)
			var body io.Reader = bytes.NewReader(make([]byte, tt.size))
			if tt.chunked {
				body = io.MultiReader(body) // of a length nobody knows
			}
			req, err := http.NewRequestWithContext(t.Context(), "POST", h.url+path, body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := h.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			asked := int64(0)
			if n, ok := calls.Load(path); ok {
				asked = n.(*atomic.Int64).Load()
			}
			if res.StatusCode != tt.status || asked > tt.asked || tt.status == 200 && asked != 1 {
				t.Errorf("got %d after %d calls, want %d after %d", res.StatusCode, asked, tt.status, tt.asked)
			}
			ev := h.records.wait(t, i+1)[i]
			if tt.status != 413 {
				return
			}
			if p := readProblem(t, string(text)); p.Code != "route:body_size" || *p.Retryable {
				t.Errorf("got %s", text)
			}
			if ev.Outcome != retrylog.LocalRefusal || ev.Refusal != "route:body_size" {
				t.Errorf("event %+v", ev)
			}
		})
	}
}

// mirrored is shop with a mirror of everything.
func mirrored(up, shadow string, max int64) config.Config {
	cfg := shop(up)
	cfg.Upstreams = append(cfg.Upstreams, config.Upstream{Name: "shadow", Endpoints: []config.Endpoint{{Address: shadow}}})
	cfg.Routes[0].Mirror = &config.Mirror{Upstream: "shadow", PPM: 1_000_000, MaxBody: max, Timeout: 5 * time.Second}
	return cfg
}

// R62, on the wire: small bodies and large ones are copied up to the cap, a larger
// one goes to the upstream alone, and neither it nor a WebSocket is hurt.
func TestPolicies_R62(t *testing.T) {
	const limit = 1 << 20
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
			line, _ := rw.ReadString('\n')
			_, _ = c.Write([]byte("echo " + line))
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	type copied struct {
		size int
		mark string
	}
	copies := make(chan copied, 100)
	shadow := server(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		copies <- copied{len(text), r.Header.Get("X-Breakwater-Mirror")}
		w.WriteHeader(500) // nobody is to notice
	})
	metrics := prometheus.NewRegistry()
	h := start(t, mirrored(up, shadow, limit), gateway.Config{Metrics: metrics})
	for _, size := range []int{0, 10, 100_000, limit, limit + 1, 10 << 20} {
		status, text, _ := h.do(t, "POST", "/orders/1", strings.Repeat("x", size))
		if want := fmt.Sprint(size, nil); status != 200 || text != want {
			t.Errorf("%d bytes: got %d, %q, want %q", size, status, text, want)
		}
		if size > limit {
			continue
		}
		if got := <-copies; got.size != size || got.mark != "order" {
			t.Errorf("copy %+v, want of %d bytes", got, size)
		}
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /orders/ws HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\nSec-WebSocket-Version: 13\r\n\r\n")
	r := bufio.NewReader(conn)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("no tunnel: %v", err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := r.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("tunnel: %q, %v", line, err)
	}
	h.records.wait(t, 6)
	want := `
# HELP breakwater_mirror_requests_total Requests that were to be mirrored, by what became of their copy.
# TYPE breakwater_mirror_requests_total counter
breakwater_mirror_requests_total{result="answered",upstream="shadow"} 4
breakwater_mirror_requests_total{result="failed",upstream="shadow"} 0
breakwater_mirror_requests_total{result="skipped_body",upstream="shadow"} 2
breakwater_mirror_requests_total{result="skipped_closed",upstream="shadow"} 0
breakwater_mirror_requests_total{result="skipped_incomplete",upstream="shadow"} 0
breakwater_mirror_requests_total{result="skipped_queue",upstream="shadow"} 0
breakwater_mirror_requests_total{result="skipped_upgrade",upstream="shadow"} 1
`
	until := time.Now().Add(10 * time.Second) // the last answer is counted a moment after it is given
	for {
		err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "breakwater_mirror_requests_total")
		if err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// A mirror that hangs, refuses or is taken away costs no request anything, and the
// gateway stops all the same.
func TestMirrorHurtsNobody(t *testing.T) {
	up, calls := counted(t, 200)
	release := make(chan struct{})
	hang := server(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	for name, shadow := range map[string]string{"hangs": hang, "refuses": closedPort(t)} {
		t.Run(name, func(t *testing.T) {
			before := calls.Load()
			h := start(t, mirrored(up, shadow, 1<<20), gateway.Config{})
			for range 600 {
				if status, _, _ := h.do(t, "POST", "/orders/1", "hello"); status != 200 {
					t.Fatalf("got %d", status)
				}
			}
			if got := calls.Load() - before; got != 600 {
				t.Errorf("%d calls, want 600", got)
			}
			if err := h.Apply(shop(up)); err != nil {
				t.Fatal(err)
			}
			if status, _, _ := h.do(t, "POST", "/orders/1", "hello"); status != 200 {
				t.Errorf("without the mirror: %d", status)
			}
		})
	}
}
