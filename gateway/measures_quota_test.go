package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/quota/redistest"
)

// quotaView is what /stats says of quotas and of what measures make of them.
type quotaView struct {
	Measures []struct {
		Quotas []struct {
			Quota      string
			EveryUS    int64 `json:"one_every_us"`
			Burst      int64
			Configured string
		}
		Others  []string `json:"quotas_of_others_too"`
		Without []string `json:"routes_without_rate"`
	}
	Quotas []struct {
		Quota       string
		LocalPassed int64 `json:"local_passed"`
	}
}

func quotasOf(t *testing.T, h *house) (v quotaView, local int64) {
	t.Helper()
	w := httptest.NewRecorder()
	h.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/stats", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	for _, q := range v.Quotas {
		if q.Quota == "own" {
			local = q.LocalPassed
		}
	}
	return v, local
}

// Two gateways that are told the same measure give out together what the shared quota
// allows under it, over a reload too; a quota that others draw on is left alone.
func TestMeasuresChangeSharedQuotas(t *testing.T) {
	redis := redistest.Start(t)
	cfg := tiers(server(t, func(http.ResponseWriter, *http.Request) {}))
	for _, name := range []string{"own", "common"} {
		cfg.Quotas = append(cfg.Quotas, config.Quota{Store: config.QuotaStore{URL: redis.URL()}, QuotaConfig: limiter.QuotaConfig{Name: name, Replicas: 2,
			Rate: limiter.Rate{Tokens: 100, Per: time.Hour, Burst: 100}, Key: limiter.Key{By: limiter.ByRoute}}})
	}
	for i, quota := range []string{"own", "common", "own"} {
		cfg.Routes[i].Limit.Quota = quota
	}
	other := cfg.Routes[1]
	other.Name, other.Service, other.Match.Path = "other", "points", "/other"
	cfg.Routes = append(cfg.Routes, other)
	gateways := []*house{start(t, cfg, gateway.Config{}), start(t, cfg, gateway.Config{})}
	tighten := plan.Measure{ID: "m-limit", Kind: plan.Limit, Service: "order", Direction: plan.Tighten, FactorPPM: 30_000, Reason: "order is frozen"}
	for i, h := range gateways {
		h.Protect([]plan.Held{held(tighten, time.Hour)})
		if i == 1 {
			if err := h.Apply(cfg); err != nil {
				t.Fatal(err)
			}
		}
		v, _ := quotasOf(t, h)
		m := v.Measures[0]
		if len(m.Quotas) != 1 || m.Quotas[0].Quota != "own" || m.Quotas[0].Burst != 3 || m.Quotas[0].EveryUS != 1_200_000_000 || m.Quotas[0].Configured != "100 per 1h0m0s" || !slices.Equal(m.Others, []string{"common"}) || len(m.Without) != 0 {
			t.Errorf("gateway %d shows %+v", i, m)
		}
	}
	// A store that is slow on a busy machine leaves the decision to a gateway's own
	// share, which is changed alike; it says how often.
	passes := func(path string, n int) (passed, local int64) {
		for range n {
			for _, h := range gateways {
				if status, _, _ := h.do(t, "GET", path, ""); status == 200 {
					passed++
				} else if status != 429 {
					t.Errorf("%s: %d", path, status)
				}
			}
		}
		for _, h := range gateways {
			_, l := quotasOf(t, h)
			local += l
		}
		return passed, local
	}
	if passed, local := passes("/critical", 10); passed-local > 3 || passed < 1 || local > 4 {
		t.Errorf("%d of 20 passed a burst of 100 at 3 %%, %d of them by the gateways' own shares", passed, local)
	}
	if passed, _ := passes("/default", 10); passed != 20 {
		t.Errorf("%d of 20 passed a quota that other services draw on too", passed)
	}
	for _, h := range gateways {
		h.Protect(nil)
	}
	if passed, _ := passes("/sheddable", 10); passed != 20 {
		t.Errorf("after it was taken back %d of 20 passed", passed)
	}
}
