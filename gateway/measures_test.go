package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/policy/shed"
	"breakwater/gateway/route"
	"breakwater/internal/retrylog"
)

// tiers is a shop with a route of each tier, all of one service.
func tiers(up string) config.Config {
	c := shop(up)
	c.Gateway.TrustedPeers = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	c.Routes = nil
	for _, tier := range []shed.Tier{shed.Critical, shed.Default, shed.Sheddable} {
		c.Routes = append(c.Routes, config.Route{
			Name: string(tier), Service: "order", Tier: tier, Match: route.Match{Path: "/" + string(tier)}, Upstream: "order-up", Timeout: 20 * time.Second,
		})
	}
	return c
}

// measures are the turns of measures that were told.
func (m *memory) measures() (out []retrylog.Transition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, turn := range m.turned {
		if turn.Policy == "measure" {
			out = append(out, turn)
		}
	}
	return out
}

func held(m plan.Measure, ttl time.Duration) plan.Held {
	return plan.Held{Measure: m, Until: time.Now().Add(ttl)}
}

func keep(lowest string) plan.Measure {
	return plan.Measure{ID: "m-" + lowest, Kind: plan.Shed, Service: "order", Lowest: lowest, Reason: "order is frozen"}
}

func TestMeasuresShedByTierAndNeverRoutesOfTierCritical(t *testing.T) {
	h := start(t, tiers(server(t, func(http.ResponseWriter, *http.Request) {})), gateway.Config{})
	answers := func() string {
		text := ""
		for _, path := range []string{"/critical", "/default", "/sheddable"} {
			status, _, _ := h.do(t, "GET", path, "")
			text += fmt.Sprint(status, " ")
		}
		return text
	}
	for _, tt := range []struct {
		name string
		held []plan.Held
		want string
	}{
		{"none", nil, "200 200 200 "},
		{"down to default", []plan.Held{held(keep("default"), time.Hour)}, "200 200 503 "},
		{"down to critical", []plan.Held{held(keep("critical"), time.Hour)}, "200 503 503 "},
		{"the stricter of two", []plan.Held{held(keep("critical"), time.Hour), held(keep("default"), time.Hour)}, "200 503 503 "},
		{"of another environment", []plan.Held{held(plan.Measure{ID: "x", Kind: plan.Shed, Service: "order", Env: "prod", Lowest: "critical"}, time.Hour)}, "200 200 200 "},
		{"of another service", []plan.Held{held(plan.Measure{ID: "x", Kind: plan.Shed, Service: "points", Lowest: "critical"}, time.Hour)}, "200 200 200 "},
		{"with a tier that cannot be kept", []plan.Held{held(keep("sheddable"), time.Hour)}, "200 200 200 "},
		{"of a kind that is not known", []plan.Held{held(plan.Measure{ID: "x", Kind: "explode", Service: "order"}, time.Hour)}, "200 200 200 "},
		{"over already", []plan.Held{held(keep("critical"), -time.Second)}, "200 200 200 "},
	} {
		h.Protect(tt.held)
		if got := answers(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	// A request that was retried loses a tier; its route does not.
	h.Protect([]plan.Held{held(keep("critical"), time.Hour)})
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/critical", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Retry-Count", "1")
	res, err := h.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("a retried request for a critical route: %d", res.StatusCode)
	}
	status, body, head := h.do(t, "GET", "/default", "")
	if status != 503 || head.Get("X-Breakwater-Refused") != "shed;reason=measure_default" || head.Get("Retry-After") == "" {
		t.Errorf("refused with %d %v %s", status, head, body)
	}
}

// A measure outlives a reload, reaches what the reload brings, and is shown.
func TestMeasuresHoldOverAReloadAndAreShown(t *testing.T) {
	up := server(t, func(http.ResponseWriter, *http.Request) {})
	rate := limiter.Config{Rate: limiter.Rate{Tokens: 100, Per: time.Hour, Burst: 100}, Key: limiter.Key{By: limiter.ByRoute}}
	cfg := tiers(up)
	cfg.Routes[0].Limit = rate
	h := start(t, shop(up), gateway.Config{})
	tighten := plan.Measure{ID: "m-limit", Kind: plan.Limit, Service: "order", Direction: plan.Tighten, FactorPPM: 30_000, Reason: "order is frozen"}
	vague := plan.Measure{ID: "m-vague", Kind: plan.Limit, Service: "order", FactorPPM: 10_000}
	h.Protect([]plan.Held{held(keep("default"), time.Hour), held(tighten, time.Hour), held(vague, time.Hour)})
	if err := h.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := h.do(t, "GET", "/sheddable", ""); status != 503 {
		t.Errorf("after the reload: %d", status)
	}
	passed := 0
	for range 10 {
		if status, _, _ := h.do(t, "GET", "/critical", ""); status == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d of 10 passed a burst of 100 at 3 %%, want 3", passed)
	}
	var stats struct {
		Measures []struct {
			ID, Refused string
			LeftMS      int64 `json:"left_ms"`
			Routes      []struct {
				Route      string
				EveryUS    int64 `json:"one_every_us"`
				Burst      int64
				Configured string
			}
			Without []string `json:"routes_without_rate"`
		}
	}
	admin := func(path string) string {
		w := httptest.NewRecorder()
		h.Admin().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	if err := json.Unmarshal([]byte(admin("/stats")), &stats); err != nil || len(stats.Measures) != 3 {
		t.Fatalf("/stats shows %+v, %v", stats, err)
	}
	limit := stats.Measures[1]
	if limit.ID != "m-limit" || limit.LeftMS <= 0 || len(limit.Routes) != 1 || limit.Routes[0].Burst != 3 || limit.Routes[0].EveryUS != 1_200_000_000 || len(limit.Without) != 2 {
		t.Errorf("the limit is shown as %+v", limit)
	}
	if vague := stats.Measures[2]; !strings.Contains(vague.Refused, "direction must be tighten or relax") {
		t.Errorf("a limit without a direction: %+v", vague)
	}
	for _, want := range []string{`breakwater_measure_active{measure="shed",service="order"} 1`, `breakwater_measure_active{measure="limit_tighten",service="order"} 1`} {
		if text := admin("/metrics"); !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	h.Protect(nil)
	if status, _, _ := h.do(t, "GET", "/sheddable", ""); status != 200 {
		t.Errorf("after it was taken back: %d", status)
	}
	var turns []string
	for _, turn := range h.records.measures() {
		turns = append(turns, turn.From+" to "+turn.To+": "+turn.Reason)
	}
	if got := strings.Join(turns, "\n"); len(turns) != 4 || !strings.Contains(got, "none to limit_tighten: order is frozen") || !strings.Contains(got, "shed to none: control has taken it back") {
		t.Errorf("told of\n%s", got)
	}
}

// Control is gone: each measure ends at its lease, by this process's own clock, with
// traffic or without.
func TestMeasuresEndAtTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := newMemory()
		g := gateway.New(gateway.Config{Name: "gw", Env: "test", Recorder: records, Log: slog.New(slog.DiscardHandler)})
		cfg := tiers("127.0.0.1:1")
		cfg.Routes[1].Limit = limiter.Config{Rate: limiter.Rate{Tokens: 10, Per: time.Second, Burst: 10}, Key: limiter.Key{By: limiter.ByRoute}}
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = g.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		tighten := plan.Measure{ID: "m-limit", Kind: plan.Limit, Service: "order", Direction: plan.Tighten, FactorPPM: 100_000}
		g.Protect([]plan.Held{held(keep("critical"), 600*time.Second), held(tighten, 300*time.Second)})
		turns := func() (out []retrylog.Transition) {
			synctest.Wait()
			for _, turn := range records.measures() {
				if turn.To == "none" {
					out = append(out, turn)
				}
			}
			return out
		}
		time.Sleep(300*time.Second - time.Millisecond)
		if n := len(turns()); n != 0 {
			t.Errorf("%d ended before their leases", n)
		}
		time.Sleep(2 * time.Millisecond)
		if got := turns(); len(got) != 1 || got[0].From != "limit_tighten" || !strings.Contains(got[0].Reason, "lease") {
			t.Errorf("after the limit's lease %+v", got)
		}
		// Renewed, it goes on.
		g.Protect([]plan.Held{held(keep("critical"), 600*time.Second)})
		time.Sleep(599 * time.Second)
		if n := len(turns()); n != 1 {
			t.Errorf("%d ended, though renewed", n)
		}
		time.Sleep(2 * time.Second)
		if got := turns(); len(got) != 2 || got[1].From != "shed" {
			t.Errorf("after the floor's lease %+v", got)
		}
	})
}
