package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/route"
	"breakwater/internal/retrylog"
)

// memory keeps records, and tells whoever waits for one.
type memory struct {
	mu        sync.Mutex
	begun     int
	exchanges []retrylog.Exchange
	configs   []retrylog.Config
	turned    []retrylog.Transition
	more      chan struct{}
}

func newMemory() *memory { return &memory{more: make(chan struct{}, 1<<16)} }

func (m *memory) Begin() { m.mu.Lock(); defer m.mu.Unlock(); m.begun++ }

func (m *memory) Record(r *retrylog.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Config != nil {
		m.configs = append(m.configs, *r.Config)
		return
	}
	if r.Transition != nil {
		m.turned = append(m.turned, *r.Transition)
		return
	}
	m.exchanges = append(m.exchanges, copied(*r.Exchange))
	m.more <- struct{}{}
}

// wait returns the first n exchanges.
func (m *memory) wait(t testing.TB, n int) []retrylog.Exchange {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		m.mu.Lock()
		got := slices.Clone(m.exchanges)
		m.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-m.more:
		case <-deadline:
			t.Fatalf("%d records after 10 s, want %d", len(got), n)
		}
	}
}

// house is a gateway on a free port.
type house struct {
	*gateway.Gateway
	url     string
	records *memory
	client  *http.Client
}

func start(t testing.TB, cfg config.Config, own gateway.Config) *house {
	t.Helper()
	records := newMemory()
	own.Name, own.Env, own.Recorder = "gw", "test", records
	g := gateway.New(own)
	if err := g.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() { _ = g.Run(ctx) })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	t.Cleanup(func() { client.CloseIdleConnections(); cancel(); running.Wait() })
	return &house{g, "http://" + l.Addr().String(), records, client}
}

func (h *house) do(t *testing.T, method, path, body string) (status int, text string, head http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(all), res.Header
}

// shop is a configuration of one route over endpoints.
func shop(endpoints ...string) config.Config {
	up := config.Upstream{Name: "order-up"}
	for _, e := range endpoints {
		up.Endpoints = append(up.Endpoints, config.Endpoint{Address: e})
	}
	return config.Config{
		Gateway:   config.Gateway{CallerHeader: "X-Caller"},
		Upstreams: []config.Upstream{up},
		Routes: []config.Route{{
			Name: "order", Service: "order", Match: route.Match{Path: "/orders/*"}, Upstream: "order-up", Timeout: 5 * time.Second,
		}},
		Revision: "r1", Hash: "h1",
	}
}

func retries(cfg config.Config, max int) config.Config {
	cfg.Routes[0].Retry = retry.Config{
		Enabled: true, MaxRetries: max, PerTry: 2 * time.Second, OnStatus: []int{502, 503, 504},
		BackoffBase: time.Millisecond, Fallback: retry.PassThrough,
	}
	return cfg
}

func server(t testing.TB, h http.HandlerFunc) (address string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestPolicies_R4(t *testing.T) {
	body := strings.Repeat("b", 100)
	var got []string
	var mu sync.Mutex
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			mu.Lock()
			got = append(got, fmt.Sprintf("%d %s %s", r.ContentLength, b, r.Header.Get("Retry-Count")))
			mu.Unlock()
			if status == 503 {
				w.Header().Set("X-Backend-Status", "overloaded")
			}
			w.WriteHeader(status)
		}
	}
	first, second, third := closedPort(t), server(t, answer(503)), server(t, answer(200))
	// Both draws zero: the first two endpoints not tried yet, and of these the
	// first where neither is known.
	h := start(t, retries(shop(first, second, third), 2), gateway.Config{Rand: func() float64 { return 0 }})
	status, _, head := h.do(t, "PUT", "/orders/1", body)
	if status != 200 || head.Get("Retry-Count") != "2" {
		t.Errorf("status %d with Retry-Count %q, want 200 with 2", status, head.Get("Retry-Count"))
	}
	if want := []string{"100 " + body + " 1", "100 " + body + " 2"}; !slices.Equal(got, want) {
		t.Errorf("upstreams got %q, want %q", got, want)
	}
	ev := h.records.wait(t, 1)[0]
	if len(ev.Tries) != 3 || ev.Tries[0].Kind != "dial" || ev.Tries[1].Status != 503 || ev.Tries[2].Status != 200 ||
		ev.FirstStatus != 502 || ev.Outcome != retrylog.OK || ev.Status != 200 {
		t.Errorf("event %+v", ev)
	}
}

func TestEveryRequestIsRecorded(t *testing.T) {
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/orders/bad":
			w.WriteHeader(500)
		case "/orders/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("hello"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/orders/slow":
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, "fine")
		}
	})
	cfg := shop(up)
	cfg.Routes[0].Timeout = 300 * time.Millisecond
	tests := []struct {
		path, service, route string
		status               int
		outcome              retrylog.Outcome
		complete             bool
		origin, refusal      string
		timeout              string
	}{
		{"/orders/1", "order", "order", 200, retrylog.OK, true, "upstream", "", ""},
		{"/orders/bad", "order", "order", 500, retrylog.UpstreamFailure, true, "upstream", "", ""},
		{"/orders/cut", "order", "order", 200, retrylog.UpstreamFailure, false, "upstream", "", ""},
		{"/orders/slow", "order", "order", 504, retrylog.Timeout, true, "gateway", "", "total"},
		{"/nowhere", "", "unmatched", 404, retrylog.LocalRefusal, true, "gateway", "route:no_route", ""},
		{"/orders/..%2fadmin", "", "unmatched", 400, retrylog.LocalRefusal, true, "gateway", "ingress:target", ""},
	}
	h := start(t, cfg, gateway.Config{})
	for i, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			res, err := h.client.Get(h.url + tt.path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
			if (err == nil) != tt.complete {
				t.Errorf("the client read the body with %v", err)
			}
			if tt.origin == "gateway" && res.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("our own answer is %q", res.Header.Get("Content-Type"))
			}
			ev := h.records.wait(t, i+1)[i]
			if ev.Service != tt.service || ev.Route != tt.route || ev.Status != tt.status || ev.Outcome != tt.outcome ||
				ev.BodyComplete != tt.complete || ev.Origin != tt.origin || ev.Refusal != tt.refusal || ev.Timeout != tt.timeout {
				t.Errorf("event %+v, want %+v", ev, tt)
			}
			if ev.RequestID != res.Header.Get("X-Request-Id") || ev.RequestID == "" || ev.Gateway != "gw" || ev.Revision != "r1" {
				t.Errorf("event %+v does not name request and revision", ev)
			}
		})
	}
	if h.records.begun != len(tests) {
		t.Errorf("%d begun, want %d", h.records.begun, len(tests))
	}
}

func TestClientGone(t *testing.T) {
	entered, left := make(chan struct{}), make(chan struct{})
	up := server(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done() // the gateway hung up
		close(left)
	})
	h := start(t, shop(up), gateway.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	req, _ := http.NewRequestWithContext(ctx, "GET", h.url+"/orders/1", nil)
	if _, err := h.client.Do(req); !errors.Is(err, context.Canceled) {
		t.Fatalf("the client got %v", err)
	}
	<-left
	ev := h.records.wait(t, 1)[0]
	if ev.Outcome != retrylog.ClientAbort || ev.Status != 0 || len(ev.Tries) != 1 || ev.Tries[0].Kind != "canceled" {
		t.Errorf("event %+v, want a client abort", ev)
	}
}

func TestStreamsAreFlushed(t *testing.T) {
	next := make(chan struct{})
	up := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next // the next event only after the client has this one
		}
	})
	h := start(t, retries(shop(up), 1), gateway.Config{})
	res, err := h.client.Get(h.url + "/orders/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for i := range 3 {
		line, err := r.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		_, _ = r.ReadString('\n')
		next <- struct{}{}
	}
}

func TestReloadUnderLoad(t *testing.T) {
	var hits atomic.Int64
	answer := func(w http.ResponseWriter, _ *http.Request) { hits.Add(1); _, _ = io.WriteString(w, "ok") }
	one, two := server(t, answer), server(t, answer)
	h := start(t, shop(one, two), gateway.Config{})
	stop := make(chan struct{})
	var sent, failed atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				sent.Add(1)
				res, err := h.client.Get(h.url + "/orders/1")
				if err != nil {
					failed.Add(1)
					continue
				}
				if b, err := io.ReadAll(res.Body); err != nil || string(b) != "ok" || res.StatusCode != 200 {
					failed.Add(1)
				}
				_ = res.Body.Close()
			}
		})
	}
	for i := range 100 {
		cfg := shop(one, two)
		if i%2 == 0 {
			cfg = retries(shop(two), 1)
			cfg.Upstreams[0].ConnectTimeout = time.Second
		}
		cfg.Revision = fmt.Sprint(i)
		if err := h.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		for before := sent.Load(); sent.Load() < before+5; { // some traffic on each
			h.records.wait(t, int(before)-4)
		}
	}
	close(stop)
	callers.Wait()
	if failed.Load() != 0 || hits.Load() != sent.Load() {
		t.Errorf("%d of %d requests failed, %d reached an upstream", failed.Load(), sent.Load(), hits.Load())
	}
	if got := h.records.wait(t, int(sent.Load())); int64(len(got)) != sent.Load() {
		t.Errorf("%d records of %d requests", len(got), sent.Load())
	}
}
