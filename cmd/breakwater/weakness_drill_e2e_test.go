package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/demo"
)

// upstreams starts the services of a shop: the demo's and a till. Something may stand
// before one of them.
func upstreams(t *testing.T, service, between string) (shop *demo.Shop, endpoints func(string) []string) {
	t.Helper()
	shop, err := demo.Open(demo.ShopConfig{Seed: 3, OneIn: -1})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"charged":true,"text":"`+strings.Repeat("thank you ", 30)+"\"}\n")
	}))
	t.Cleanup(server.Close)
	proxies := map[string]string{}
	if between != "" {
		to, err := url.Parse("http://" + shop.Endpoints(service)[0].Address)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				if between == dropsKey {
					r.Out.Header.Del("Idempotency-Key")
				}
			},
			ModifyResponse: func(r *http.Response) error {
				if v := r.Header.Get("X-Backend-Status"); v != "" && between == renamesStatus {
					r.Header.Del("X-Backend-Status")
					r.Header.Set("X-Original-Backend-Status", v)
				}
				if between == hidesFailures && r.StatusCode >= 500 {
					_ = r.Body.Close()
					r.StatusCode, r.Header = http.StatusOK, http.Header{"Content-Type": {"application/json"}}
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(substitute)), int64(len(substitute))
				}
				return nil
			},
		})
		t.Cleanup(proxy.Close)
		proxies[service] = proxy.Listener.Addr().String()
	}
	return shop, func(service string) (all []string) {
		if at := proxies[service]; at != "" {
			return []string{at}
		}
		for _, e := range shop.Endpoints(service) {
			all = append(all, e.Address)
		}
		if len(all) == 0 {
			all = append(all, server.Listener.Addr().String())
		}
		return all
	}
}

// drillTraffic is what the drills of planted weaknesses need, by their service.
func drillTraffic(service string) []asked {
	order := asked{"GET", "/order/orders/o-{}", "", 15}
	switch service {
	case demo.Points:
		return []asked{order, {"GET", "/points/balance/u-{}", "", 20}, {"POST", "/points/deduct", `{"user":"u-1"}`, 20}}
	case demo.Inventory:
		return []asked{order, {"GET", "/inventory/items/sku-{}", "", 70}}
	case demo.Coupon:
		return []asked{order, {"GET", "/coupon/coupons/code-{}", "", 40}}
	case demo.Order:
		return []asked{{"POST", "/order/orders", `{"sku":"sku-1","user":"u-1"}`, 60}}
	}
	return []asked{{"POST", "/payment/charge", `{"amount":1}`, 230}}
}

// drillShop is a shop with real services for drills in compressed time. Budgets that
// know no history would end each of them at once, so it promises nothing.
func drillShop(t *testing.T, seed uint64, n int, w *plantedKind) (s *weakShop, shop *demo.Shop) {
	service, between := "", ""
	if w != nil {
		service, between = w.target, w.between
	}
	shop, endpoints := upstreams(t, service, between)
	s = soundShop(seed, n, endpoints)
	s.docs = slices.DeleteFunc(s.docs, func(d *shopDoc) bool { return d.kind == "SLO" })
	for _, name := range s.services() {
		s.doc("Service", name).set("core", "false")             // one drill of a core service at a time would take all day
		s.doc("Upstream", name).set("breaker.enabled", "false") // that of the service is drilled
		// Only what a fault does may count, however long this machine stands still.
		s.doc("Service", name).drop("breaker.slow_after").drop("breaker.slow_rate").set("breaker.window", "8s").set("breaker.min_requests", "40").set("breaker.error_rate", `"20%"`)
		s.doc("Service", name).drop("concurrency").set("concurrency", "{kind: fixed, max: 2000}")
		s.doc("Upstream", name).drop("concurrency").set("concurrency", "{kind: fixed, max: 2000}")
	}
	for _, op := range s.operations() {
		s.doc("Route", op.Route).set("timeout", "60s").set("retry.per_try_timeout", "15s")
	}
	s.doc("Route", "order-create").set("trust_idempotency_key", "true") // the shop's orders keep their keys
	if w != nil {
		s.kind = w.kind
		s.where = w.plant(s)
	}
	return s, shop
}

// TestWeaknessesByDrill plants what only shows when it is tried, holds the drill of
// the library that finds it, over real processes, and the same drills where nothing
// is planted. The normal run holds a part of them, another one each time.
func TestWeaknessesByDrill(t *testing.T) {
	if slow(t) {
		return
	}
	seed := weaknessSeed()
	t.Logf("seed %d", seed)
	var kinds []plantedKind
	for _, w := range weaknesses() {
		if w.by == byDrill {
			kinds = append(kinds, w)
		}
	}
	if !*weakAll {
		first := int(seed % uint64(len(kinds)))
		kinds = append(kinds, kinds...)[first : first+2]
	}
	sound := map[int][]string{} // scenarios, by shop: those that share no service
	var shops []*weakShop
	var running []*demo.Shop
	var text []string
	open := func(n int, w *plantedKind) *weakShop {
		s, shop := drillShop(t, seed, n, w)
		shops, running, text = append(shops, s), append(running, shop), append(text, s.text())
		return s
	}
	for i := range kinds {
		open(i+1, &kinds[i])
	}
	for _, w := range kinds {
		if w.scenario == "" {
			continue
		}
		n := len(kinds) + 1
		for ; slices.ContainsFunc(sound[n], func(id string) bool {
			return w.scenario == id || needsOrder(id) && needsOrder(w.scenario) || targetOf(id) == w.target
		}); n++ {
		}
		if sound[n] == nil {
			open(n, nil)
		}
		sound[n] = append(sound[n], w.scenario)
	}
	m := openMall(t, strings.Join(text, "---\n"))
	for i, s := range shops {
		m.background(running[i].Run)
		targets := sound[s.n]
		if i < len(kinds) {
			targets = []string{kinds[i].scenario}
			if kinds[i].between == hidesFailures {
				m.callOn(s.n, asked{"GET", "/inventory/items/sku-{}", "", 15})
				continue
			}
			if kinds[i].scenario == "" {
				if err := running[i].Break(demo.Inventory, demo.Overloaded); err != nil {
					t.Fatal(err)
				}
				m.callOn(s.n, asked{"GET", "/inventory/items/sku-{}", "", 10})
				continue
			}
		}
		for _, id := range targets {
			m.callOn(s.n, drillTraffic(targetOf(id))...)
		}
	}
	lib := library(t)
	scores := make([]score, len(kinds))
	var group sync.WaitGroup
	for i, w := range kinds {
		scores[i] = score{w: w, planted: 1}
		group.Go(func() {
			d, err := drilled{}, error(nil)
			if w.between == hidesFailures {
				// How it answers when it is well has to be known first.
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for end := time.Now().Add(2 * time.Minute); m.substitutes(shops[i]).Own == 0; <-tick.C {
					if time.Now().After(end) {
						t.Errorf("seed %d: the gateway never saw an answer of the inventory's own at %s", seed, shops[i].where)
						return
					}
				}
				if err := running[i].Break(demo.Inventory, demo.Overloaded); err != nil {
					t.Error(err)
					return
				}
			}
			if w.scenario == "" {
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for end := time.Now().Add(time.Minute); !m.doctored(shops[i], w); <-tick.C {
					if time.Now().After(end) {
						t.Errorf("seed %d: %s at %s was not found by the doctor", seed, w.kind, shops[i].where)
						return
					}
				}
			} else if d, err = m.holdSure(shops[i].renamed(compressed(lib[w.scenario].Text)), func(d drilled) bool { return slices.Contains(d.weak(), w.code) }); err != nil {
				t.Error(err)
				return
			}
			if w.scenario != "" && (d.Verdict != "failed" || !slices.Contains(d.weak(), w.code)) {
				t.Errorf("seed %d: %s at %s was not found as %s: %s", seed, w.kind, shops[i].where, w.code, d.tell())
				return
			}
			scores[i].found++
		})
	}
	for _, s := range shops[len(kinds):] {
		for _, id := range sound[s.n] {
			group.Go(func() {
				d, err := m.holdSure(s.renamed(compressed(lib[id].Text)), func(d drilled) bool { return d.Verdict == "passed" })
				if err != nil || d.Verdict != "passed" || len(d.weak()) > 0 {
					t.Errorf("seed %d: a sound shop: %v: %s", seed, err, d.tell())
				}
			})
		}
	}
	group.Wait()
	for i, s := range shops {
		if found := m.substitutes(s); found.Text != "" && (i >= len(kinds) || kinds[i].between != hidesFailures) {
			t.Errorf("seed %d: where nobody stands in for the inventory: %s", seed, found.Text)
		}
	}
	printScores(t, scores)
}

// substitute is the fallback of every generated shop.
const substitute = `{"state":"later"}`

// substitutes is what the gateway knows of answers in the place of the inventory's.
func (m *mall) substitutes(s *weakShop) (out struct {
	Own  int64 `json:"stretches_of_its_own"`
	Text string
}) {
	var stats struct {
		Substitutes map[string]json.RawMessage
	}
	m.request("GET", "admin", "/stats", "", &stats)
	if text := stats.Substitutes[s.svc("inventory-get")]; len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			m.t.Error(err)
		}
	}
	return out
}

// doctored reports whether the doctor finds what stands before the inventory of s: that
// a field is renamed on its way, or that somebody answers in its place.
func (m *mall) doctored(s *weakShop, w plantedKind) bool {
	r := verb(m.t, "", "doctor", "-o", "json", "--admin", strings.TrimPrefix(m.url["admin"], "http://"), "--control", m.url["control"], "--state-dir", m.dir)
	if w.between == hidesFailures {
		return strings.Contains(r.out, s.svc(demo.Inventory)+": ") && strings.Contains(r.out, s.svc("inventory-get")+" were, to the byte, what the route gives in place of a failure")
	}
	return strings.Contains(r.out, s.svc(demo.Inventory)+": ") && strings.Contains(r.out, "X-Original-Backend-Status")
}

// needsOrder: whether a drill watches orders, so that two of them cannot share a shop.
func needsOrder(id string) bool {
	return id != "payment-lost-reply" && id != "points-low-traffic-night"
}

func targetOf(id string) string {
	service, _, _ := strings.Cut(id, "-")
	return service
}
