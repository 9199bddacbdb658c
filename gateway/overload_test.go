package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/shed"
	"breakwater/gateway/route"
)

// mill is a real gateway before a real server of 20 slots of 50 ms,
// both in the caller's bubble.
type mill struct {
	gateway  *gateway.Gateway
	served   atomic.Int64
	arrivals *rand.Rand
	requests sync.WaitGroup
	number   int

	mu      sync.Mutex
	results map[string]*results // by tier
}

type results struct {
	sent, good int
	took       []time.Duration // of good ones
}

const slots = 20

// newMill routes /critical, /default and /sheddable under one limit.
func newMill(t *testing.T, kind concurrency.Kind, shape func(*config.Config), recorder gateway.Recorder) *mill {
	m := &mill{arrivals: rand.New(rand.NewPCG(7, 8)), results: map[string]*results{}}
	work := make(chan struct{}, slots)
	conns := &pipes{conns: make(chan net.Conn), shut: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work <- struct{}{}
		time.Sleep(50 * time.Millisecond)
		<-work
		m.served.Add(1)
		fmt.Fprint(w, "made")
	})}
	go func() { _ = server.Serve(conns) }()
	t.Cleanup(func() { _ = server.Close() })

	cfg := shop("mill:1")
	base := cfg.Routes[0]
	cfg.Routes = nil
	for _, tier := range []shed.Tier{shed.Critical, "", shed.Sheddable} {
		r := base
		r.Name = "order-" + string(tier)
		r.Match, r.Tier = route.Match{Path: "/" + nameOf(tier) + "/*"}, tier
		cfg.Routes = append(cfg.Routes, r)
	}
	cfg.Services = []config.Service{{
		Name: "order", Concurrency: concurrency.Config{Kind: kind, Queue: 16, QueueWait: 50 * time.Millisecond},
		Shed: shed.Config{DefaultPPM: 1_000_000, SheddablePPM: 800_000},
	}}
	if shape != nil {
		shape(&cfg)
	}
	m.gateway = gateway.New(gateway.Config{
		Name: "gw", Env: "test", Recorder: recorder, Log: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			select {
			case conns.conns <- theirs:
				return ours, nil
			case <-conns.shut:
				return nil, net.ErrClosed
			}
		},
	})
	if err := m.gateway.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.gateway.Run(ctx) })
	t.Cleanup(func() { m.requests.Wait(); cancel(); running.Wait() })
	return m
}

func nameOf(t shed.Tier) string {
	if t == "" {
		return "default"
	}
	return string(t)
}

// run sends requests at random moments for span: so many a second of each tier.
func (m *mill) run(span time.Duration, critical, standard, sheddable float64) {
	rates := []float64{critical, standard, sheddable}
	total := critical + standard + sheddable
	for end := time.Now().Add(span); time.Now().Before(end); {
		time.Sleep(time.Duration(m.arrivals.ExpFloat64() / total * float64(time.Second)))
		tier, at := 0, m.arrivals.Float64()*total
		for at -= rates[0]; at > 0 && tier < 2; at -= rates[tier] {
			tier++
		}
		m.number++
		name := []string{"critical", "default", "sheddable"}[tier]
		req := httptest.NewRequest("GET", fmt.Sprintf("/%s/%d", name, m.number), nil)
		req.Header.Set("X-Caller", fmt.Sprint("caller-", m.arrivals.IntN(100)))
		m.requests.Go(func() { m.ask(name, req) })
	}
}

func (m *mill) ask(tier string, req *http.Request) {
	w := httptest.NewRecorder()
	start := time.Now()
	m.gateway.Handler().ServeHTTP(w, req)
	took := time.Since(start)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.results[tier]
	if r == nil {
		r = &results{}
		m.results[tier] = r
	}
	r.sent++
	if w.Code == 200 {
		r.good++
		r.took = append(r.took, took)
	} else if w.Code != 503 || w.Header().Get("Retry-After") == "" || w.Header().Get("X-Breakwater-Refused") == "" {
		r.good = -1 << 30 // told as a share nobody misses
	}
}

// settle waits for what is under way and begins to count anew.
func (m *mill) settle() map[string]*results {
	m.requests.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.results
	m.results = map[string]*results{}
	m.served.Store(0)
	return before
}

func (r *results) share() float64 { return float64(r.good) / float64(max(r.sent, 1)) }

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func p99(lists ...[]time.Duration) time.Duration {
	all := slices.Sorted(slices.Values(slices.Concat(lists...)))
	return all[len(all)*99/100]
}

// Five times what the upstream can do: critical requests, half of its capacity,
// are served, sheddable ones go first, its slots stay in use, memory stays flat.
func TestOverload_FiveTimesTheCapacity(t *testing.T) {
	for _, kind := range []concurrency.Kind{concurrency.Gradient, concurrency.Vegas} {
		t.Run(string(kind), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { fiveTimes(t, kind) }) })
	}
}

func fiveTimes(t *testing.T, kind concurrency.Kind) {
	m := newMill(t, kind, nil, nil)
	m.run(1500*time.Millisecond, 200, 900, 900)
	m.settle()
	before := heap()
	const span = 2 * time.Second
	m.run(span, 200, 900, 900)
	goodput := float64(m.served.Load()) / (span.Seconds() * slots * 20)
	got := m.settle()
	grown := heap() - before
	t.Logf("goodput %.3f of the capacity; served: critical %.4f, default %.3f, sheddable %.3f; p99 of served %v; heap %+d KiB",
		goodput, got["critical"].share(), got["default"].share(), got["sheddable"].share(),
		p99(got["critical"].took, got["default"].took, got["sheddable"].took), grown>>10)
	if goodput < 0.9 {
		t.Errorf("goodput is %.3f of the capacity, want 0.9", goodput)
	}
	if share := got["critical"].share(); share < 0.99 {
		t.Errorf("%.4f of critical requests are served, want 0.99", share)
	}
	if low, high := got["sheddable"].share(), got["default"].share(); low > high/4 || high < 0.05 {
		t.Errorf("%.3f of sheddable and %.3f of default are served", low, high)
	}
	if grown > 8<<20 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
	if s := placesOf(t, m.gateway).Services[0]; s.Shedding != "default" || s.Concurrency.InFlight != 0 || s.Concurrency.Limit > 100 {
		t.Errorf("stats %+v", s)
	}
}

// F20: ten times the capacity gives as much as the capacity itself, what is
// admitted takes at most twice as long as with nobody else, and 4 s after the load
// has gone everybody is served.
func TestReliability_F20(t *testing.T) {
	if testing.Short() {
		t.Skip("a load of its own: part of make test, not of make check")
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMill(t, concurrency.Vegas, func(c *config.Config) { c.Services[0].Concurrency.Max = 32 }, nil)
		m.run(time.Second, 40, 40, 40) // the first probe is over
		m.settle()
		m.run(2*time.Second, 40, 40, 40)
		quiet := p99(m.settle()["critical"].took)
		m.run(time.Second, 100, 150, 150) // at its capacity
		m.settle()
		m.run(time.Second, 100, 150, 150)
		peak := m.served.Load()
		m.settle()
		m.run(2*time.Second, 200, 1900, 1900)
		m.settle()
		m.run(time.Second, 200, 1900, 1900)
		goodput := m.served.Load()
		got := m.settle()
		admitted := p99(got["critical"].took, got["default"].took, got["sheddable"].took)
		m.run(4*time.Second, 60, 60, 40)
		m.settle()
		m.run(2*time.Second, 60, 60, 40)
		after := m.settle()
		t.Logf("served in 1 s: %d at the capacity, %d at ten times; p99 of admitted %v, with nobody else %v; then %.3f, %.3f, %.3f",
			peak, goodput, admitted, quiet, after["critical"].share(), after["default"].share(), after["sheddable"].share())
		if goodput*10 < peak*9 {
			t.Errorf("goodput falls from %d to %d", peak, goodput)
		}
		if admitted > 2*quiet {
			t.Errorf("p99 of what is admitted is %v, more than twice %v", admitted, quiet)
		}
		for tier, r := range after {
			if r.share() < 0.98 {
				t.Errorf("4 s after the overload %.3f of %s are served", r.share(), tier)
			}
		}
	})
}

// A service that only observes sheds and refuses nobody, and says whom it would.
func TestOverload_ObserveOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := newMemory()
		m := newMill(t, concurrency.Fixed, func(c *config.Config) {
			c.Services[0].Concurrency = concurrency.Config{Kind: concurrency.Fixed, Max: 10, Observe: true}
			c.Services[0].Shed = shed.Config{Observe: true}
		}, records)
		m.run(2*time.Second, 100, 150, 100)
		got := m.settle()
		for tier, r := range got {
			if r.share() != 1 {
				t.Errorf("%.3f of %s are served", r.share(), tier)
			}
		}
		observed := map[string]int{}
		for _, ev := range records.exchanges {
			for what := range strings.SplitSeq(ev.Observed, ",") {
				observed[what]++
			}
		}
		if observed["shed:tier_sheddable"] == 0 || observed["shed:tier_default"] == 0 || observed["concurrency:full"] == 0 {
			t.Errorf("observed %v", observed)
		}
	})
}

// What a peer says of a tier, and of retries made, is believed where the peer is.
func TestTierOfARequest(t *testing.T) {
	up := server(t, func(http.ResponseWriter, *http.Request) {})
	for _, tt := range []struct {
		trusted bool
		want    []string // by header and by retry
	}{{true, []string{"critical", "sheddable"}}, {false, []string{"", ""}}} {
		cfg := shop(up)
		if tt.trusted {
			cfg.Gateway.TrustedPeers = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		}
		h := start(t, cfg, gateway.Config{})
		for _, field := range []string{shed.Header + ": critical", "Retry-Count: 1"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/orders/1", nil)
			if err != nil {
				t.Fatal(err)
			}
			name, value, _ := strings.Cut(field, ": ")
			req.Header.Set(name, value)
			res, err := h.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
		for i, ev := range h.records.wait(t, 2) {
			if ev.Tier != tt.want[i] {
				t.Errorf("trusted %v: tier %q, want %q", tt.trusted, ev.Tier, tt.want[i])
			}
		}
	}
}
