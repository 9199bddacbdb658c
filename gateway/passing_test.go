package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/spool"
	"breakwater/internal/conf"
)

// everything is a route with every policy on and none tripping.
const everything = `apiVersion: breakwater/v1
kind: Gateway
name: gw
env: bench
front: auto
caller_header: X-Caller
---
apiVersion: breakwater/v1
kind: Service
name: shop
breaker: {}
concurrency: {kind: gradient}
---
apiVersion: breakwater/v1
kind: Upstream
name: shop
breaker: {}
endpoints: [{address: "%[1]s"}, {address: "localhost:%[2]s"}]
---
apiVersion: breakwater/v1
kind: Route
name: all
service: shop
match: {path: "/*"}
upstream: shop
timeout: 25s
tier: critical
max_body: 1MiB
retry: {enabled: true, max_retries: 2, per_try_timeout: 5s, retry_on_status: [502, 503, 504], backoff_base: 25ms, fallback_strategy: pass_through}
limit: {rate: 1000000/s, key: caller}
`

// parsed is the configuration that text stands for.
func parsed(t testing.TB, text string) config.Config {
	t.Helper()
	var log conf.Log
	cfg := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(text)}}, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	return *cfg
}

// canned is an upstream that reads requests as they come and gives each the same
// answer.
func canned(t testing.TB, answer string) (address string) {
	t.Helper()
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	go func() {
		for {
			c, err := up.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, answer := bufio.NewReader(c), []byte(answer)
				for {
					length := 0
					for {
						line, err := r.ReadSlice('\n')
						if err != nil {
							return
						}
						if len(line) == 2 {
							break
						}
						if name := "Content-Length: "; string(line[:min(len(line), len(name))]) == name {
							for _, d := range line[len(name) : len(line)-2] {
								length = length*10 + int(d-'0')
							}
						}
					}
					if _, err := r.Discard(length); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return up.Addr().String()
}

// TestPassingAllocatesNothing: a request that passes costs the collector nothing,
// with all policies on, on the fast face.
func TestPassingAllocatesNothing(t *testing.T) {
	if gateway.RaceEnabled {
		t.Log("a pool forgets at random under the race detector")
		return
	}
	small, large := strings.Repeat("x", 1<<10), strings.Repeat("y", 64<<10)
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: canned\r\n"
	for _, tt := range []struct {
		name, request, answer string
		body                  int
	}{
		{"a small answer", "GET /orders/1?a=b HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: test\r\nX-Caller: web\r\n\r\n",
			head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(small)) + small, len(small)},
		{"none", "HEAD /orders/1 HTTP/1.1\r\nHost: shop.example\r\nX-Caller: web\r\n\r\n", head + "Content-Length: 1024\r\n\r\n", 0},
		{"a small upload", "POST /orders HTTP/1.1\r\nHost: shop.example\r\nX-Caller: web\r\nContent-Length: 1024\r\n\r\n" + small,
			head + "Content-Length: 0\r\n\r\n", 0},
		{"chunks", "GET /orders HTTP/1.1\r\nHost: shop.example\r\nX-Caller: web\r\n\r\n",
			head + "Transfer-Encoding: chunked\r\n\r\n400\r\n" + small + "\r\n0\r\n\r\n", len("400\r\n") + len(small) + len("\r\n0\r\n\r\n")},
		{"a large answer", "GET /orders HTTP/1.1\r\nHost: shop.example\r\nX-Caller: web\r\n\r\n",
			head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(large)) + large, len(large)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			s, err := spool.Open(spool.Config{Dir: t.TempDir(), Log: log, MaxBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close(context.Background()) }()
			g := gateway.New(gateway.Config{Recorder: s, Log: log})
			up := canned(t, tt.answer)
			_, port, err := net.SplitHostPort(up)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Apply(parsed(t, fmt.Sprintf(everything, up, port))); err != nil {
				t.Fatal(err)
			}
			address := served(t, g)
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			r, request := bufio.NewReader(c), []byte(tt.request)
			ask := func() {
				if _, err := c.Write(request); err != nil {
					t.Fatal(err)
				}
				line, err := r.ReadSlice('\n')
				if err != nil || !strings.HasPrefix(string(line), "HTTP/1.1 200 ") {
					t.Fatalf("got %q, %v", line, err)
				}
				for len(line) > 2 {
					if line, err = r.ReadSlice('\n'); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := r.Discard(tt.body); err != nil {
					t.Fatal(err)
				}
			}
			for range 300 { // pools fill, connections open, tables grow
				ask()
			}
			if n := testing.AllocsPerRun(2000, ask); n > 0 { // an average, rounded down
				t.Errorf("%v allocations a request", n)
			}
		})
	}
}

// served serves g on a free port until the test ends.
func served(t testing.TB, g *gateway.Gateway) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
