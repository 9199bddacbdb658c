package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
)

// pipes is a listener to which dial connects, so that a server lives in a bubble.
type pipes struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.shut) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// endpoint is a real HTTP server whose behaviour changes under the test's hands.
type endpoint struct {
	pipes
	took   atomic.Int64 // ns
	status atomic.Int64
	served atomic.Int64
}

// fleet is a gateway over n endpoints e0:1, e1:1 ..., all in the caller's bubble.
type fleet struct {
	t         *testing.T
	gateway   *gateway.Gateway
	endpoints []*endpoint
	arrivals  *rand.Rand
	requests  sync.WaitGroup
	failed    atomic.Int64
}

func newFleet(t *testing.T, n int, shape func(*config.Upstream)) *fleet {
	f := &fleet{t: t, arrivals: rand.New(rand.NewPCG(3, 4))}
	byName := map[string]*endpoint{}
	var names []string
	for i := range n {
		e := &endpoint{pipes: pipes{conns: make(chan net.Conn), shut: make(chan struct{})}}
		e.status.Store(200)
		e.took.Store(int64(20 * time.Millisecond))
		own := rand.New(rand.NewPCG(uint64(i), 9))
		var mu sync.Mutex
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			spread := 0.8 + 0.4*own.Float64()
			mu.Unlock()
			time.Sleep(time.Duration(float64(e.took.Load()) * spread))
			e.served.Add(1)
			w.WriteHeader(int(e.status.Load()))
		})}
		go func() { _ = s.Serve(e) }()
		t.Cleanup(func() { _ = s.Close() })
		name := fmt.Sprintf("e%d:1", i)
		byName[name], names = e, append(names, name)
		f.endpoints = append(f.endpoints, e)
	}
	cfg := shop(names...)
	if shape != nil {
		shape(&cfg.Upstreams[0])
	}
	draws := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	f.gateway = gateway.New(gateway.Config{
		Name: "gw", Env: "test", Log: slog.New(slog.DiscardHandler),
		Rand: func() float64 { mu.Lock(); defer mu.Unlock(); return draws.Float64() },
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			select {
			case byName[address].conns <- theirs:
				return ours, nil
			case <-byName[address].shut:
				return nil, net.ErrClosed
			}
		},
	})
	if err := f.gateway.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.gateway.Run(ctx) })
	t.Cleanup(func() { f.requests.Wait(); cancel(); running.Wait() })
	return f
}

// run sends 200 requests a second at random moments, for span, and returns the
// share of them that each endpoint was given.
func (f *fleet) run(span time.Duration) (shares []float64) {
	before := make([]int64, len(f.endpoints))
	for i, e := range f.endpoints {
		before[i] = e.served.Load()
	}
	for end := time.Now().Add(span); time.Now().Before(end); {
		time.Sleep(time.Duration(f.arrivals.ExpFloat64() * float64(5*time.Millisecond)))
		f.requests.Go(func() {
			w := httptest.NewRecorder()
			f.gateway.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/orders/1", nil))
			if w.Code != 200 {
				f.failed.Add(1)
			}
		})
	}
	total := int64(0)
	for i, e := range f.endpoints {
		before[i] = e.served.Load() - before[i]
		total += before[i]
	}
	for _, n := range before {
		shares = append(shares, float64(n)/float64(total))
	}
	return shares
}

// One of three endpoints becomes ten times slower: within 2 s it has under 5 % of
// the traffic, and within 60 s of its recovery its fair share again.
//
// Real servers and a real gateway on pipes, in a bubble: the seconds are fake, so
// that a busy machine does not change what is measured.
func TestBalancing_OneOfThreeTenTimesSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, nil)
		if shares := f.run(10 * time.Second); shares[0] < 0.2 || shares[0] > 0.47 {
			t.Errorf("alike, the endpoints have %.3f", shares)
		}
		f.endpoints[0].took.Store(int64(200 * time.Millisecond))
		f.run(2 * time.Second)
		shares := f.run(10 * time.Second)
		if shares[0] >= 0.05 {
			t.Errorf("slow, it has %.3f of the traffic, want under 0.05", shares)
		}
		t.Logf("slow: %.3f", shares)
		f.endpoints[0].took.Store(int64(20 * time.Millisecond))
		for second := 5; ; second += 5 {
			shares = f.run(5 * time.Second)
			if shares[0] > 0.27 {
				t.Logf("%d s after its recovery: %.3f", second, shares)
				return
			}
			if second >= 60 {
				t.Fatalf("%d s after its recovery it has %.3f", second, shares)
			}
		}
	})
}

// An endpoint that fails at once is not the fastest: it has under 2 %.
func TestBalancing_FailsFast(t *testing.T) {
	if testing.Short() {
		t.Skip("a load of its own: part of make test, not of make check")
	}
	for _, tt := range []struct {
		name  string
		shape func(*config.Upstream)
	}{
		{"by its cost alone", nil},
		{"with ejection", func(u *config.Upstream) {
			u.Ejection = &config.Ejection{After: 1, For: 10 * time.Second, MaxPPM: 500_000}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 3, tt.shape)
				f.run(5 * time.Second)
				f.endpoints[0].took.Store(int64(time.Millisecond))
				f.endpoints[0].status.Store(503)
				// Its cost lets it be tried seldom, and the first failure is enough.
				for i := range 60 {
					f.run(time.Second)
					if tt.shape == nil && i == 20 || tt.shape != nil && stateOf(t, f.gateway, "e0:1") == "ejected" {
						break
					}
				}
				if got := stateOf(t, f.gateway, "e0:1"); tt.shape != nil && got != "ejected" {
					t.Errorf("failing, it is %s", got)
				}
				shares := f.run(20 * time.Second) // 4,000 requests
				if shares[0] >= 0.02 {
					t.Errorf("failing fast, it has %.4f of the traffic, want under 0.02", shares)
				}
				t.Logf("failing fast: %.4f", shares)
			})
		})
	}
}

// Probes take an endpoint out that fails them, whatever its traffic looks like,
// and bring it back; 404 is a failed probe like any other (R44).
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, func(u *config.Upstream) {
			u.Health = &config.Health{Path: "/healthz", Interval: time.Second, Timeout: 500 * time.Millisecond, HealthyAfter: 2, UnhealthyAfter: 3}
			u.ConnectTimeout = time.Second
		})
		steps := []struct {
			name   string
			status int64
			took   time.Duration
			want   string
		}{
			{"well from the start", 200, 0, "ready"},
			{"404", 404, 0, "unhealthy"},
			{"200 again", 200, 0, "ready"},
			{"a redirect is an answer", 302, 0, "ready"},
			{"slower than the timeout", 200, 800 * time.Millisecond, "unhealthy"},
			{"200 once more", 200, 0, "ready"},
		}
		for _, s := range steps {
			f.endpoints[0].status.Store(s.status)
			f.endpoints[0].took.Store(int64(s.took))
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := stateOf(t, f.gateway, "e0:1"); got != s.want {
				t.Errorf("%s: it is %s, want %s", s.name, got, s.want)
			}
			if got := stateOf(t, f.gateway, "e1:1"); got != "ready" {
				t.Errorf("%s: the other one is %s", s.name, got)
			}
		}
		f.endpoints[0].status.Store(500)
		time.Sleep(5 * time.Second)
		before := f.endpoints[0].served.Load()
		f.run(5 * time.Second)
		f.requests.Wait()
		if n := f.endpoints[0].served.Load() - before; n > 6 || f.failed.Load() != 0 {
			t.Errorf("an unhealthy endpoint got %d requests, probes included; %d failed", n, f.failed.Load())
		}
		// Nobody asks any more: it is not left out for ever.
		if err := f.gateway.Apply(shop("e0:1", "e1:1")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := stateOf(t, f.gateway, "e0:1"); got != "ready" {
			t.Errorf("without probes it is %s", got)
		}
	})
}
