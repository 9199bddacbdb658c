package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
)

// counted is an upstream that counts its calls and answers with status.
func counted(t *testing.T, status int) (address string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return server(t, func(w http.ResponseWriter, _ *http.Request) { calls.Add(1); w.WriteHeader(status) }), calls
}

// canary is shop with a split of the stable endpoint and another one.
func canary(stable, other string, weights ...int64) config.Config {
	cfg := shop(stable, other)
	cfg.Upstreams[0].Endpoints[0].Version = "v1"
	cfg.Upstreams[0].Endpoints[1].Version = "v2"
	cfg.Routes[0].Split = []config.Branch{
		{Upstream: "order-up", Subset: config.Labels{Version: "v1"}, Weight: weights[0]},
		{Upstream: "order-up", Subset: config.Labels{Version: "v2"}, Weight: weights[1]},
	}
	return cfg
}

func TestSplit(t *testing.T) {
	get := func(t *testing.T, h *house, caller string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/orders/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Caller", caller)
		res, err := h.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	t.Run("a weight of 0 gets nothing", func(t *testing.T) {
		one, ones := counted(t, 200)
		two, twos := counted(t, 200)
		h := start(t, canary(one, two, 100, 0), gateway.Config{})
		for range 300 {
			get(t, h, "web")
		}
		if ones.Load() != 300 || twos.Load() != 0 {
			t.Errorf("%d and %d calls, want 300 and 0", ones.Load(), twos.Load())
		}
	})
	t.Run("requests of one caller are shared out", func(t *testing.T) {
		one, ones := counted(t, 200)
		two, twos := counted(t, 200)
		h := start(t, canary(one, two, 1, 1), gateway.Config{})
		for range 300 {
			get(t, h, "web")
		}
		if ones.Load() < 100 || twos.Load() < 100 {
			t.Errorf("%d and %d calls, want about half each", ones.Load(), twos.Load())
		}
	})
	t.Run("a caller that sticks has one branch", func(t *testing.T) {
		one, ones := counted(t, 200)
		two, twos := counted(t, 200)
		cfg := canary(one, two, 1, 1)
		cfg.Routes[0].Sticky = true
		h := start(t, cfg, gateway.Config{})
		branches := map[bool]int{}
		for caller := range 30 {
			before := ones.Load()
			for range 5 {
				get(t, h, fmt.Sprint("caller-", caller))
			}
			got := ones.Load() - before
			if got != 0 && got != 5 {
				t.Fatalf("caller %d had both branches", caller)
			}
			branches[got == 5]++
		}
		if branches[true] < 5 || branches[false] < 5 {
			t.Errorf("callers per branch: %v; calls %d and %d", branches, ones.Load(), twos.Load())
		}
	})
	t.Run("tries stay in their split", func(t *testing.T) {
		good, goods := counted(t, 200)
		bad, bads := counted(t, 502)
		h := start(t, retries(canary(good, bad, 1, 1), 2), gateway.Config{})
		failed := 0
		for range 60 {
			if get(t, h, "web") != 200 {
				failed++
			}
		}
		if int(goods.Load()) != 60-failed || int(bads.Load()) < failed {
			t.Errorf("%d failed, %d good calls, %d bad ones", failed, goods.Load(), bads.Load())
		}
		for _, ev := range h.records.wait(t, 60) {
			for _, try := range ev.Tries {
				if (try.Endpoint == good) != (ev.Upstream == "order-up/version=v1") {
					t.Fatalf("%s was tried for branch %s", try.Endpoint, ev.Upstream)
				}
			}
		}
	})
	t.Run("but a retry may leave a failing canary where it is allowed to", func(t *testing.T) {
		good, _ := counted(t, 200)
		bad, bads := counted(t, 502)
		cfg := retries(canary(good, bad, 3, 1), 1)
		cfg.Routes[0].EscapeSplit = true
		h := start(t, cfg, gateway.Config{})
		for range 60 {
			if got := get(t, h, "web"); got != 200 {
				t.Fatalf("got %d", got)
			}
		}
		if bads.Load() == 0 {
			t.Error("nobody came to the canary")
		}
		for _, ev := range h.records.wait(t, 60) {
			if ev.Upstream == "order-up/version=v2" && (len(ev.Tries) != 2 || ev.Tries[0].Endpoint != bad || ev.Tries[1].Endpoint != good) {
				t.Errorf("tries %+v", ev.Tries)
			}
		}
	})
	t.Run("all weights 0 is no configuration", func(t *testing.T) {
		one, _ := counted(t, 200)
		cfg := canary(one, one, 0, 0)
		if err := gateway.New(gateway.Config{}).Apply(cfg); err == nil {
			t.Error("it was applied")
		}
	})
}

// What a reload does not change keeps its branch.
func TestSplitOverReloads(t *testing.T) {
	one, ones := counted(t, 200)
	two, _ := counted(t, 200)
	cfg := canary(one, two, 1, 0)
	h := start(t, cfg, gateway.Config{})
	for i := range 20 {
		next := canary(one, two, 1, 0)
		next.Revision = fmt.Sprint(i)
		next.Upstreams[0].ConnectTimeout = time.Duration(i+1) * 100 * time.Millisecond
		if err := h.Apply(next); err != nil {
			t.Fatal(err)
		}
		if status, _, _ := h.do(t, "GET", "/orders/1", ""); status != 200 {
			t.Fatalf("reload %d: %d", i, status)
		}
	}
	if ones.Load() != 20 {
		t.Errorf("%d calls, want 20", ones.Load())
	}
}
