package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"breakwater/internal/demo"
)

// catalog is a service of the library that the demo has not.
const catalog = "catalog"

// others answers for the services of the library that the demo has not.
func others(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"text":"`+strings.Repeat("all that there is ", 60)+"\"}\n")
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

var (
	demoNames   = regexp.MustCompile(`(?m)^(name|service|upstream): (order|points|inventory|coupon)\b`)
	demoPattern = regexp.MustCompile(`match: \{`)
)

// libraryShop is the demo shop's own documents, for shop n of a mall: under names and
// an address of its own, with a till and a catalogue, and with breakers that open
// and close within seconds.
func libraryShop(t *testing.T, n int, shop *demo.Shop, elsewhere string) string {
	t.Helper()
	docs, err := demo.Documents(demo.DocumentConfig{Env: "test", Endpoints: shop.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	gateway := strings.ReplaceAll(string(patient(t, docs["gateway.yaml"])), "per_try_timeout: 15s", "per_try_timeout: 2400ms") // what is 3 s or 5 s late must notice
	for part := range strings.SplitSeq(gateway, "---\n") {
		if strings.Contains(part, "kind: Gateway") {
			continue
		}
		if strings.Contains(part, "name: order-create\n") { // the shop's orders keep their keys
			part = strings.Replace(part, "retry:\n", "trust_idempotency_key: true\nretry:\n", 1)
		}
		part = demoNames.ReplaceAllString(part, fmt.Sprintf("$1: s%d-$2", n))
		part = demoPattern.ReplaceAllString(part, "match: {host: "+shopHost(n)+", ")
		part = strings.ReplaceAll(part, "core: true\n", "core: false\n") // only one drill of a core service goes on at a time
		if strings.Contains(part, "kind: Service") {
			part += quickBreaker
		}
		out = append(out, part)
	}
	for name, op := range map[string]string{till: "[POST], path: /payment/charge", catalog: "[GET], path: \"/catalog/{id}\""} {
		out = append(out, fmt.Sprintf(`apiVersion: breakwater/v1
kind: Upstream
name: s%[1]d-%[2]s
endpoints: [{address: %[3]q}]
`, n, name, elsewhere), fmt.Sprintf(`apiVersion: breakwater/v1
kind: Service
name: s%[1]d-%[2]s
%[3]s`, n, name, quickBreaker), fmt.Sprintf(`apiVersion: breakwater/v1
kind: Route
name: s%[1]d-%[2]s-any
service: s%[1]d-%[2]s
match: {host: %[3]s, methods: %[4]s}
upstream: s%[1]d-%[2]s
timeout: 60s
`, n, name, shopHost(n), op))
	}
	// Endpoints are left to the service's breaker: one of two that open is enough.
	text := strings.Join(out, "---\n")
	return strings.ReplaceAll(text, "endpoints:", "breaker: {enabled: false}\nendpoints:")
}

const quickBreaker = "breaker: {windows: 1, window: 8s, min_requests: 40, error_rate: \"25%\", open: 2s, max_open: 4s, half_open: {window: 1s, probes: 5}}\n"

// libraryTraffic is what a drill needs so that thirty tries are hit, and orders.
func libraryTraffic(service string, sample int64) []asked {
	order := asked{"POST", "/order/orders", `{"sku":"sku-1","user":"u-1"}`, 8}
	// Thirty hits and half as many again, in the 25 s of an injection.
	rate := 25.0
	if sample > 0 {
		rate = min(max(45*1_000_000/float64(sample)/25, rate), 230)
	}
	switch service {
	case demo.Points:
		return []asked{order, {"GET", "/points/balance/u-{}", "", rate}, {"POST", "/points/deduct", `{"user":"u-1"}`, rate}}
	case demo.Inventory:
		return []asked{order, {"GET", "/inventory/items/sku-{}", "", rate}, {"POST", "/inventory/reserve", `{"sku":"sku-1"}`, rate / 2}}
	case demo.Coupon:
		return []asked{order, {"GET", "/coupon/coupons/code-{}", "", rate}}
	case demo.Order:
		return []asked{{"POST", "/order/orders", `{"sku":"sku-1","user":"u-1"}`, rate}}
	case catalog:
		return []asked{{"GET", "/catalog/{}", "", rate}}
	}
	return []asked{{"POST", "/payment/charge", `{"amount":1}`, rate}}
}

// TestLibrary runs the drills of scenarios/ against demo shops behind a real gateway
// and control, in compressed time. Each can be started, hits what it says it hits,
// is wholly taken away again and ends with a verdict. The normal run takes four of
// them, others each time.
func TestLibrary(t *testing.T) {
	if slow(t) {
		return
	}
	seed := weaknessSeed()
	t.Logf("seed %d", seed)
	lib := library(t)
	ids := slices.Sorted(maps.Keys(lib))
	if !*weakAll {
		const some = 2
		first := int(seed%uint64(len(ids)+some-1)) / some * some
		ids = append(ids, ids...)[first : first+some]
	}
	elsewhere := others(t)
	var running []*demo.Shop
	var text []string
	for n := range ids {
		shop, err := demo.Open(demo.ShopConfig{Seed: uint64(n), OneIn: -1})
		if err != nil {
			t.Fatal(err)
		}
		running, text = append(running, shop), append(text, libraryShop(t, n+1, shop, elsewhere))
	}
	m := openMall(t, strings.Join(text, "---\n"))
	for i, id := range ids {
		running[i].SetGateway("http://" + shopHost(i+1) + m.url["data"][strings.LastIndex(m.url["data"], ":"):])
		m.background(running[i].Run)
		m.callOn(i+1, libraryTraffic(lib[id].Target.Service, lib[id].Sample.PPM)...)
	}
	told := make([]string, len(ids))
	var group sync.WaitGroup
	for i, id := range ids {
		group.Go(func() {
			s := &weakShop{n: i + 1}
			d, err := m.holdSure(s.renamed(compressed(lib[id].Text)), func(d drilled) bool { return d.Verdict == "passed" || d.Verdict == "failed" })
			told[i] = d.tell()
			if err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			d.judge(t, lib[id].Sample.PPM == 0)
		})
	}
	group.Wait()
	t.Logf("\n%s", strings.Join(told, "\n"))
}

// judge: a run had its effect, which is over, and says what it showed.
func (d drilled) judge(t *testing.T, control bool) {
	// In so short a time a share may lie between what passes and what fails for sure.
	sure := d.Verdict == "passed" || d.Verdict == "failed" || strings.HasPrefix(d.Why, "no_data") && strings.Contains(d.Why, "too few to tell")
	if d.State != "completed" && d.State != "aborted" || !sure {
		t.Errorf("no verdict: %s", d.tell())
	}
	if control != (d.Injected == 0) || !control && d.Injected < 30 {
		t.Errorf("%d tries were hit: %s", d.Injected, d.tell())
	}
	if len(d.Receipts) == 0 {
		t.Errorf("no receipt: %s", d.tell())
	}
	for _, r := range d.Receipts {
		if r.RemovedAt.IsZero() {
			t.Errorf("not known to be taken away: %s", d.tell())
		}
	}
	for _, a := range d.Assertions {
		if a.Result == "fail" && a.Phase != "steady" && (a.Weakness == "" || a.Right == "") {
			t.Errorf("%s is broken and nothing is named: %s", a.ID, d.tell())
		}
	}
}
