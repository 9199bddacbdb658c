package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/now"
)

// pages gives a config what the newer pages read.
func (h *house) pages(cfg *Config) {
	cfg.Situations = &now.Desk{Ledger: h, Source: h, Clock: func() time.Time { return h.now }}
	cfg.Scenarios, cfg.Setup = shelf{h}, shelf{h}
	cfg.Alerts, cfg.Promises, cfg.Traffic, cfg.Bell = h, h, h, h
	cfg.Practice = h.practice()
	cfg.Logbook = h.logbook()
	cfg.Releases, cfg.MayGrant = desk{h}, func(*http.Request) bool { return h.mayLift }
}

// NowEvidence is the outage of the mock page: order fails since 14:19 because of a
// configuration, most of it at one instance.
func (h *house) NowEvidence(_ context.Context, service, env string, at time.Time) (now.Evidence, error) {
	if h.broken != nil {
		return now.Evidence{}, h.broken
	}
	e := now.Evidence{Service: service, Env: env, At: at, Until: at.Add(-time.Second)}
	if service == "invoice-export" {
		e.Until = time.Time{}
		return e, nil
	}
	onset := at.Add(-8*time.Minute - 20*time.Second)
	for i := range 60 {
		m := now.Minute{At: at.Truncate(time.Minute).Add(time.Duration(i-59) * time.Minute), Good: 1560, Exchanges: 1560, Attempts: 1580, Retried: 20, Recovered: 18, FirstTryBad: 20}
		if service == "coupon" && !m.At.Before(onset.Truncate(time.Minute)) {
			m.Good, m.Bad, m.FirstTryBad, m.Retried, m.Recovered, m.Degraded = 1342, 218, 290, 260, 72, 41
		}
		e.Minutes = append(e.Minutes, m)
	}
	if service != "coupon" {
		return e, nil
	}
	for i := range 30 {
		s := now.Second{At: onset.Truncate(time.Second).Add(time.Duration(i-10) * time.Second)}
		if i >= 10 {
			s.Failures = 4
		}
		e.Seconds = append(e.Seconds, s)
	}
	add := func(dimension, value string, hits, total, wasHits, wasTotal int64) {
		e.Facets = append(e.Facets, now.Facet{Dimension: dimension, Value: value, Hits: hits, Total: total, WasHits: wasHits, WasTotal: wasTotal})
	}
	add(now.ByCaller, "app-ios", 1_020, 8_000, 8, 46_000)
	add(now.ByCaller, "web", 744, 5_040, 6, 30_000)
	add(now.ByCaller, "partner-api-with-a-name-that-somebody-wrote-a-whole-sentence-into", 198, 960, 1, 5_000)
	add(now.ByRoute, "coupon-redeem", 1_962, 12_000, 12, 70_000)
	add(now.ByRoute, "coupon-list", 0, 2_000, 3, 11_000)
	add(now.ByInstance, "vault-3", 1_180, 2_800, 6, 16_000)
	add(now.ByInstance, "vault-1", 420, 5_600, 4, 32_000)
	add(now.ByInstance, "vault-2", 362, 5_600, 5, 33_000)
	add(now.ByCode, "50003", 1_373, 1_373, 0, 0)
	add(now.ByCode, "504", 589, 589, 9, 9)
	add(now.ByKind, "upstream_5xx", 1_373, 1_373, 3, 3)
	add(now.ByKind, "breaker:open", 240, 240, 0, 0)
	add(now.BySkip, "error_rate_gate", 0, 310, 0, 0)
	for i := range e.Facets {
		if e.Facets[i].Value == "coupon-redeem" {
			e.Facets[i].Degraded = 328
		}
	}
	e.Experiments = []now.Experiment{{Run: "r-1287", Title: "Points answers after 5 s", Service: "points", Hits: 310, Touched: 420, Live: true, Since: at.Add(-7 * time.Minute)}}
	e.Marks = []slo.Cause{{Kind: slo.ByDeploy, Service: "coupon", Ref: "v1.42.0", Title: "", From: onset.Add(-4 * time.Minute), Actor: "deploy-bot"}}
	e.Turns = []now.Turn{{At: onset.Add(2 * time.Minute), Policy: "breaker", Upstream: "vault", Endpoint: "vault-3", From: "closed", To: "open", Reason: "13 of 20 calls failed in 10s (limit 50%)", Standing: true}}
	e.Measures = []string{"no experiment starts"}
	return e, nil
}

func (h *house) Incidents(_ context.Context, q alert.Question) ([]alert.Incident, error) {
	var out []alert.Incident
	for _, i := range h.incidents() {
		if (q.Service == "" || q.Service == i.Service) && (!q.Open || i.Open()) && (q.Tier == "" || q.Tier == i.Tier) {
			out = append(out, i)
		}
	}
	return out, h.broken
}

func asking(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }

func parse(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
