package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/demo"
)

// mall is a world in which many shops share one gateway and one control: each is
// asked at an address of its own, so their drills go on side by side.
type mall struct {
	*world
	client *http.Client
	second string // token of somebody who may approve what another has begun
}

// asked is one request that is made over and over.
type asked struct {
	method, path, body string
	perSecond          float64
}

// callOn asks shop n until the test ends, whether or not it answers in time.
func (m *mall) callOn(n int, all ...asked) {
	base := "http://" + shopHost(n) + m.url["data"][strings.LastIndex(m.url["data"], ":"):]
	for _, a := range all {
		m.background(func(ctx context.Context) error {
			var group sync.WaitGroup
			defer group.Wait()
			permits := make(chan struct{}, 100)
			tick := time.NewTicker(time.Duration(float64(time.Second) / a.perSecond))
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
				select {
				case permits <- struct{}{}:
				default:
					continue // too many wait already
				}
				group.Go(func() {
					defer func() { <-permits }()
					m.call(ctx, base, a, i)
				})
			}
		})
	}
}

func (m *mall) call(ctx context.Context, base string, a asked, i int) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), a.method, base+strings.ReplaceAll(a.path, "{}", strconv.Itoa(i%500)), strings.NewReader(a.body))
	if err != nil {
		return
	}
	req.Header.Set("X-Caller", "web")
	req.Header.Set("X-Demo-Id", fmt.Sprintf("mall-%d", i))
	res, err := m.client.Do(req)
	if err != nil {
		return // the verdict tells
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}

// drilled is a run as the API tells it.
type drilled struct {
	drill
	Receipts []struct {
		RemovedAt time.Time `json:"removed_at"`
	} `json:"receipts"`
	Assertions []struct {
		ID       string `json:"id"`
		Phase    string `json:"phase"`
		Expected string `json:"expected"`
		Seen     string `json:"seen"`
		Result   string `json:"result"`
		Weakness string `json:"weakness"`
		Right    string `json:"right"`
	} `json:"assertions"`
}

// weak are the names of what a run shows.
func (d drilled) weak() (names []string) {
	for _, a := range d.Assertions {
		if a.Weakness != "" {
			names = append(names, a.Weakness)
		}
	}
	return names
}

func (d drilled) tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s: %s (%s), %d of %d tries", d.Scenario, d.ID, d.State, d.Verdict, d.Why, d.Injected, d.Attempts)
	for _, a := range d.Assertions {
		fmt.Fprintf(&b, "\n    %s %s: %s, saw %s: %s %s", a.Phase, a.ID, a.Expected, a.Seen, a.Result, a.Weakness)
	}
	return b.String()
}

// hold starts a drill, once no other stands in its way, and waits for its end.
func (m *mall) hold(text string) (d drilled, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); <-tick.C {
		var free bool
		if d, free, err = m.holdOnce(text, tick.C); free || err != nil {
			return d, err
		}
	}
	return d, fmt.Errorf("others stood in the way of the drill for too long:\n%s", text)
}

func (m *mall) holdOnce(text string, tick <-chan time.Time) (d drilled, free bool, err error) {
	var begun drill
	status, reply := m.request("POST", "control", "/api/v1/experiments", text, nil)
	switch {
	case status == http.StatusConflict || status == 0 || status == http.StatusServiceUnavailable:
		return d, false, nil
	case status != http.StatusCreated && status != http.StatusOK:
		return d, false, fmt.Errorf("start answered %d %s\n%s", status, reply, text)
	}
	if id := regexp.MustCompile(`"id": *"([^"]+)"`).FindStringSubmatch(reply); id != nil {
		begun.ID = id[1]
	}
	if strings.Contains(text, "after_upstream") { // waits for a second person everywhere
		if r := m.verb(m.second, "experiment", "approve", begun.ID); r.code != exitOK {
			return d, false, fmt.Errorf("approve %s: %d %s%s", begun.ID, r.code, r.out, r.err)
		}
	}
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); <-tick {
		if status, _ := m.request("GET", "control", "/api/v1/experiments/"+begun.ID, "", nil); status != http.StatusOK {
			continue
		}
		d = drilled{}
		m.request("GET", "control", "/api/v1/experiments/"+begun.ID, "", &d)
		if slices.Contains([]string{"completed", "aborted", "engine_error", "cancelled", "skipped", "expired", "rejected"}, d.State) {
			return d, d.State != "skipped", nil
		}
	}
	return d, false, fmt.Errorf("%s is not over: %s", begun.ID, d.tell())
}

// holdSure holds a drill again where it showed nothing, or not what was expected: a
// machine that stood still for a while spoils one, and seldom two.
func (m *mall) holdSure(text string, expected func(drilled) bool) (d drilled, err error) {
	for range 2 {
		if d, err = m.hold(text); err != nil || expected(d) {
			return d, err
		}
		m.t.Logf("once more: %s", d.tell())
	}
	return d, nil
}

var drillSpan = regexp.MustCompile(`\b(baseline|inject|recover|within|window|for): ([0-9]+)(s|m)\b`)

// compressed is a drill in a fifteenth of its time. Spans in which a machine that
// stands still would decide are not made that short, and what counts requests asks
// for a tenth of them.
func compressed(text string) string {
	least := map[string]time.Duration{"baseline": 10, "inject": 25, "recover": 6, "within": 20, "window": 10, "for": 10}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "pulse:") {
			lines[i] = strings.NewReplacer("every: 30s", "every: 8s", "for: 4s", "for: 2s").Replace(line)
			continue
		}
		line = drillSpan.ReplaceAllStringFunc(line, func(s string) string {
			p := drillSpan.FindStringSubmatch(s)
			n, _ := strconv.Atoi(p[2])
			d := time.Duration(n) * map[string]time.Duration{"s": time.Second, "m": time.Minute}[p[3]] / 15
			d = min(max(d, least[p[1]]*time.Second), 30*time.Second)
			return fmt.Sprintf("%s: %ds", p[1], int(d.Seconds()))
		})
		line = regexp.MustCompile(`min_requests: ([0-9]+)`).ReplaceAllStringFunc(line, func(s string) string {
			n, _ := strconv.Atoi(strings.TrimPrefix(s, "min_requests: "))
			return fmt.Sprintf("min_requests: %d", max(n/10, 10))
		})
		lines[i] = strings.ReplaceAll(line, "windows: [1m, 5m]", "windows: [10s, 20s]")
	}
	return strings.Join(lines, "\n")
}

// openMall starts a world with the documents of shops beside its own.
func openMall(t *testing.T, text string) *mall {
	t.Helper()
	w := newWorld(t, worldConfig{oneIn: -1, everywhere: true, docs: func(docs map[string][]byte) {
		docs["gateway.yaml"] = []byte(strings.Replace(string(docs["gateway.yaml"]), `max_percent: "50%"`, `max_percent: "100%"`, 1))
		docs["shops.yaml"] = []byte(text)
		delete(docs, "drills.yaml")
	}})
	m := &mall{world: w, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 200}}}
	t.Cleanup(m.client.CloseIdleConnections)
	m.second = m.person("ben", auth.Approver)
	return m
}

// upstreams starts the services of shop n: the demo's and a till, whose answers the
// inventory's may lose their names on the way.
func upstreams(t *testing.T, renames bool) (shop *demo.Shop, endpoints func(string) []string) {
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
	if renames {
		to, err := url.Parse("http://" + shop.Endpoints(demo.Inventory)[0].Address)
		if err != nil {
			t.Fatal(err)
		}
		between := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
			ModifyResponse: func(r *http.Response) error {
				if v := r.Header.Get("X-Backend-Status"); v != "" {
					r.Header.Del("X-Backend-Status")
					r.Header.Set("X-Original-Backend-Status", v)
				}
				return nil
			},
		})
		t.Cleanup(between.Close)
		proxies[demo.Inventory] = between.Listener.Addr().String()
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
	}
	return []asked{{"POST", "/payment/charge", `{"amount":1}`, 230}}
}

// drillShop is a shop with real services for drills in compressed time. Budgets that
// know no history would end each of them at once, so it promises nothing.
func drillShop(t *testing.T, seed uint64, n int, w *plantedKind) (s *weakShop, shop *demo.Shop) {
	renames := w != nil && w.scenario == ""
	shop, endpoints := upstreams(t, renames)
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
	if w != nil {
		s.kind = w.kind
		s.where = w.plant(s)
	}
	return s, shop
}

// TestWeaknessesByDrill plants what only shows when it is tried, holds the drill of
// the library that finds it, over real processes, and the same drills where nothing
// is planted. The normal run holds a part of them, another one each day.
func TestWeaknessesByDrill(t *testing.T) {
	slow(t)
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
			if w.scenario == "" {
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for end := time.Now().Add(time.Minute); !m.doctored(shops[i]); <-tick.C {
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
	printScores(t, scores)
}

// doctored reports whether the doctor finds that a field is renamed on its way from
// the inventory of s.
func (m *mall) doctored(s *weakShop) bool {
	r := verb(m.t, "", "doctor", "-o", "json", "--admin", strings.TrimPrefix(m.url["admin"], "http://"), "--control", m.url["control"], "--state-dir", m.dir)
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
