package gateway_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/quota/redistest"
	"breakwater/internal/noisy"
	"breakwater/internal/retrylog"
)

func limited(up string, cfg limiter.Config) config.Config {
	c := shop(up)
	c.Gateway.TenantHeader = "X-Tenant"
	c.Routes[0].Limit = cfg
	return c
}

// A request over the limit costs the upstream nothing, and is told when to come again.
func TestALimitAtTheGateway(t *testing.T) {
	var calls atomic.Int64
	up := server(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	h := start(t, limited(up, limiter.Config{Rate: limiter.Rate{Tokens: 1, Per: time.Minute, Burst: 2}, Key: limiter.Key{By: limiter.ByTenant}}), gateway.Config{})
	ask := func(tenant string) (int, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/orders/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Tenant", tenant)
		res, err := h.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header
	}
	for i, want := range []int{200, 200, 429, 429} {
		status, head := ask("a")
		if after := head.Get("Retry-After"); status != want || status == 429 && after != "60" && after != "59" {
			t.Errorf("request %d: %d, Retry-After %q", i, status, after)
		}
	}
	if status, _ := ask("b"); status != 200 {
		t.Errorf("another tenant: %d", status)
	}
	events := h.records.wait(t, 5)
	slices.SortFunc(events, func(a, b retrylog.Exchange) int { return a.Start.Compare(b.Start) }) // they are written as they end
	for i, ev := range events {
		if want := ""; i == 2 || i == 3 {
			want = "limiter:rate"
			if ev.Refusal != want || len(ev.Tries) != 0 || ev.Status != 429 || ev.Tenant != "a" {
				t.Errorf("event %d: %+v", i, ev)
			}
		} else if ev.Refusal != want {
			t.Errorf("event %d: %+v", i, ev)
		}
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls upstream, want 3", calls.Load())
	}
}

// V-83 through the whole gateway: new documents give nothing away.
func TestPolicies_V83_OverAGateway(t *testing.T) {
	up := server(t, func(http.ResponseWriter, *http.Request) {})
	cfg := limited(up, limiter.Config{Rate: limiter.Rate{Tokens: 1, Per: time.Hour, Burst: 10}})
	h := start(t, cfg, gateway.Config{Log: slog.New(slog.DiscardHandler)})
	passed := 0
	for i := range 100 {
		next := cfg
		next.Routes = append([]config.Route(nil), cfg.Routes...)
		next.Routes[0].Timeout += time.Duration(i) * time.Millisecond
		next.Routes[0].Limit.Rate.Burst = 10 - int64(i%2)
		if err := h.Apply(next); err != nil {
			t.Fatal(err)
		}
		if status, _, _ := h.do(t, "GET", "/orders/1", ""); status == 200 {
			passed++
		}
	}
	if passed < 9 || passed > 10 {
		t.Errorf("%d passed by a bucket of 10 over 100 reloads", passed)
	}
}

// crowd sends rate requests a second to h until stop.
type crowd struct {
	passed, refused, other, longest atomic.Int64
	end                             chan struct{}
	all                             sync.WaitGroup
}

func (c *crowd) send(t testing.TB, h *house, rate int) {
	const workers = 8
	for range workers {
		c.all.Go(func() {
			tick := time.NewTicker(workers * time.Second / time.Duration(rate))
			defer tick.Stop()
			for {
				select {
				case <-c.end:
					return
				case <-tick.C:
				}
				start := time.Now()
				res, err := h.client.Get(h.url + "/orders/1")
				took := int64(time.Since(start))
				for old := c.longest.Load(); took > old && !c.longest.CompareAndSwap(old, took); old = c.longest.Load() {
				}
				if err != nil {
					t.Error(err)
					return
				}
				_ = res.Body.Close()
				switch res.StatusCode {
				case 200:
					c.passed.Add(1)
				case 429:
					c.refused.Add(1)
				default:
					c.other.Add(1)
				}
			}
		})
	}
}

// Two gateways share a quota; Redis falls silent, and answers again. Nothing is
// refused for that, nobody waits long, and together they keep to the quota all along.
func TestReliability_F17_OverTwoGateways(t *testing.T) {
	noisy.Try(t, quotaOutage)
}

func quotaOutage(t testing.TB) {
	redis := redistest.Start(t)
	up := server(t, func(http.ResponseWriter, *http.Request) {})
	cfg := limited(up, limiter.Config{Quota: "orders"})
	cfg.Quotas = []config.Quota{{
		QuotaConfig: limiter.QuotaConfig{Name: "orders", Rate: limiter.Rate{Tokens: 200, Per: time.Second, Burst: 20}, Key: limiter.Key{By: limiter.ByAll}, Replicas: 2},
		Store:       config.QuotaStore{URL: redis.URL()},
	}}
	a, b := start(t, cfg, gateway.Config{}), start(t, cfg, gateway.Config{})
	c := &crowd{end: make(chan struct{})}
	c.send(t, a, 200)
	c.send(t, b, 200)
	stop := sync.OnceFunc(func() { close(c.end); c.all.Wait() })
	defer stop()

	admitted := func(over time.Duration) float64 {
		before, start := c.passed.Load(), time.Now()
		time.Sleep(over)
		return float64(c.passed.Load()-before) / time.Since(start).Seconds()
	}
	time.Sleep(500 * time.Millisecond) // the burst is gone
	normal := admitted(time.Second)
	healthy := time.Duration(c.longest.Swap(0))

	late := lateness(t)
	redis.Silence()
	wait(t, a, "local_share")
	wait(t, b, "local_share")
	away := admitted(time.Second)
	slow := time.Duration(c.longest.Swap(0))
	redis.Continue()
	healed := time.Now()
	wait(t, a, "shared")
	wait(t, b, "shared")
	back := time.Since(healed)
	again := admitted(time.Second)
	stop()
	t.Logf("%.0f a second, away %.0f, again %.0f; back after %v; longest request %v, away %v", normal, away, again, back, healthy, slow)
	for name, rate := range map[string]float64{"before": normal, "away": away, "after": again} {
		// A second may begin with full buckets: 20 more.
		if rate < 150 || rate > 240 {
			t.Errorf("%s: %.0f admitted a second, want 200 within 10 %%, or fewer on a busy machine", name, rate)
		}
	}
	if slow > max(healthy, late())+60*time.Millisecond {
		t.Errorf("a request took %v while the store was away, %v before; this machine was late by %v", slow, healthy, late())
	}
	if back > 2500*time.Millisecond {
		t.Errorf("back after %v", back)
	}
	if c.other.Load() > 0 {
		t.Errorf("%d other answers", c.other.Load())
	}
	for _, h := range []*house{a, b} {
		for _, ev := range h.records.wait(t, 1) {
			if ev.Refusal != "" && !strings.HasPrefix(ev.Refusal, "limiter:quota") || ev.Refusal == "limiter:quota_away" {
				t.Fatalf("refused %q", ev.Refusal)
			}
		}
	}
}

// lateness measures how late this machine lets goroutines run: what requests are
// delayed by beside our doing.
func lateness(t testing.TB) (worst func() time.Duration) {
	var longest atomic.Int64
	end := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for before := time.Now(); ; before = time.Now() {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
				late := int64(time.Since(before) - time.Millisecond)
				for old := longest.Load(); late > old && !longest.CompareAndSwap(old, late); old = longest.Load() {
				}
			}
		})
	}
	t.Cleanup(func() { close(end); all.Wait() })
	return func() time.Duration { return time.Duration(longest.Load()) }
}

// wait waits until h has recorded that its quota went to a state.
func wait(t testing.TB, h *house, to string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		h.records.mu.Lock()
		n := len(h.records.turned)
		found := n > 0 && h.records.turned[n-1].Policy == "quota" && h.records.turned[n-1].To == to
		h.records.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no transition to %s", to)
		}
	}
}
