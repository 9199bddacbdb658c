package main

import (
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/scenarios"
)

// chainScenario is one link of the chain, in short phases.
func chainScenario(id, service, route, percent, fault, during, after string) string {
	return fmt.Sprintf(`apiVersion: breakwater/v1
kind: Scenario
id: %s
target: {service: %s, routes: [%s]}
sample: {percent: "%s", key: attempt, seed: auto}
phases: {baseline: 2s, inject: 10s, recover: 3s}
faults:
  - {id: f, %s}
hypothesis:
  during:
    - {id: d1, sli: order.error_rate, op: "<=", value: "5%%", min_requests: 30}
%s  after:
    - {id: a1, %s}
stop:
  - {sli: order.error_rate, op: ">", value: "60%%", for: 30s}
---
`, id, service, route, percent, fault, during, after)
}

// chainDay is the quarterly game day of the library, with a wave that never recovers
// and one after it.
func chainDay(t *testing.T) (text string, waves [][]string) {
	t.Helper()
	data, err := scenarios.Files.ReadFile("gamedays/quarterly-order-chain.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const last = "schedule: {cron"
	if !*chainWhole {
		data = regexp.MustCompile(`(?m)^  - \{name: (inventory alone|coupon alone|\w+ and \w+), .*\n`).ReplaceAll(data, nil)
	}
	text = strings.Replace(string(data), last, "  - {name: coupon never well, scenarios: [coupon-never-well]}\n  - {name: never, scenarios: [inventory-errors-503]}\n"+last, 1)
	if !strings.Contains(text, "windows: [1m, 5m]}, ") {
		t.Fatal("the guard of the day is another one")
	}
	for _, m := range regexp.MustCompile(`- \{name: [^,]+, scenarios: \[([^\]]+)\]\}`).FindAllStringSubmatch(text, -1) {
		waves = append(waves, strings.Split(m[1], ", "))
	}
	if want := map[bool]int{false: 5, true: 10}[*chainWhole]; len(waves) != want {
		t.Fatalf("%d waves, want %d: %s", len(waves), want, text)
	}
	return text, waves
}

// The form of the test below: each link alone, each pair and all, or some of each.
var chainWhole = flag.Bool("chain-whole", false, "hold every wave of the quarterly chain")

// TestQuarterlyChain holds the library's chain over the order path by real processes:
// points, inventory, coupon and order each alone, in pairs and all at once, each wave
// only after the one before has recovered; one that does not recover ends the day.
// Replies of order are lost after it has done its work, and each order is made once.
func TestQuarterlyChain(t *testing.T) {
	if slow(t) {
		return
	}
	well := `sli: order.success, op: ">=", value: "90%", window: 5s, within: 2m`
	never := `sli: coupon.success, op: "<=", value: "1%", window: 5s, within: 10s`
	again := "    - {id: d2, repeats: order, status: [200], op: \">=\", value: \"95%\", min_requests: 5}\n"
	day, waves := chainDay(t)
	w := newWorld(t, worldConfig{oneIn: -1, docs: func(docs map[string][]byte) {
		for name := range docs {
			if name != "gateway.yaml" {
				delete(docs, name) // promises would freeze a shop without history
			}
		}
		docs["gateway.yaml"] = editRoute(t, docs["gateway.yaml"], "order-create", "retry:\n", "trust_idempotency_key: true\nretry:\n")
		docs["chain.yaml"] = []byte(
			chainScenario("order-lost-reply", "order", "order-create", "25%", "drop: {phase: after_upstream}", again, well) +
				chainScenario("points-slow-5s", "points", "points-deduct, points-balance", "50%", `error: {status: 502, body: "no"}`, "", well) +
				chainScenario("inventory-errors-503", "inventory", "inventory-get, inventory-reserve", "50%", `error: {status: 503, body: "no"}`, "", well) +
				chainScenario("coupon-errors-500", "coupon", "coupon-get, coupon-redeem", "50%", `error: {status: 500, body: "no"}`, "", well) +
				chainScenario("coupon-never-well", "coupon", "coupon-get", "50%", `error: {status: 502, body: "no"}`, "", never) + day)
	}})
	stop := w.traffic("chain", 150)
	w.await("traffic arrives", 20*time.Second, func() bool { made, _ := w.shop.Orders(); return made > 50 })
	dora := w.person("dora", auth.Operator)
	began := time.Now().Add(-time.Minute)
	r := w.verb(dora, "gameday", "run", "quarterly-order-chain")
	r.want(t, exitOK)
	if !strings.Contains(r.out, "waiting for approval, 0 of 2") {
		t.Errorf("gameday run says %q", r.out)
	}
	if t.Failed() {
		return
	}
	id := strings.Fields(r.out)[0]
	for _, who := range []string{"eve", "fritz"} {
		w.verb(w.person(who, auth.Approver), "gameday", "approve", id).want(t, exitOK)
	}
	held := w.heldOnce("quarterly-order-chain", began, 12*time.Minute)
	w.judgeChain(held.ID, waves)
	stop()
	if err := w.book.Flush(); err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for _, a := range w.answers.read(t) {
		if a.Route == "order-create" {
			wanted[a.ID] = true
		}
	}
	made, twice := w.shop.Orders()
	t.Logf("%d orders wanted, %d made, %d asked for again", len(wanted), made, twice)
	if made != int64(len(wanted)) || twice == 0 {
		t.Errorf("%d orders were made for %d wishes, and %d asked for again: want as many as wishes, and some of them asked for again", made, len(wanted), twice)
	}
	w.report(dora, held.ID)
}

// judgeChain: every wave was held in order, each in its time, until the one that did not
// recover.
func (w *world) judgeChain(id string, waves [][]string) {
	w.t.Helper()
	var day struct {
		Runs []struct {
			Scenario, State, Verdict, Reason, Why string
			StartedAt                             time.Time `json:"started_at"`
			EndedAt                               time.Time `json:"ended_at"`
			Injected                              int64
		}
	}
	all := 0
	for _, wave := range waves {
		all += len(wave)
	}
	if status, text := w.request("GET", "control", "/api/v1/gamedays/"+id, "", &day); status != http.StatusOK || len(day.Runs) != all {
		w.t.Fatalf("%d runs, want %d: %d %s", len(day.Runs), all, status, text)
	}
	var before, ended time.Time // when the waves before had ended
	at := 0
	for n, wave := range waves {
		before = ended
		for _, want := range wave {
			r := day.Runs[at]
			at++
			if r.Scenario != want {
				w.t.Errorf("run %d is of %s, want %s", at, r.Scenario, want)
			}
			if n == len(waves)-1 {
				if r.State != "skipped" || r.Reason != "earlier_run" || !strings.Contains(r.Why, "has not recovered") {
					w.t.Errorf("the last wave: %s, %s %q", r.State, r.Reason, r.Why)
				}
				continue
			}
			if r.State != "completed" || r.Injected == 0 || r.StartedAt.Before(before) {
				w.t.Errorf("wave %d, %s: %s with %d hits (%s) %s, begun %v, the one before ended %v", n+1, r.Scenario, r.State, r.Injected, r.Reason, r.Why, r.StartedAt, before)
			}
			if n < len(waves)-2 && r.Verdict == "failed" {
				w.t.Errorf("wave %d, %s: %s: %s", n+1, r.Scenario, r.Verdict, r.Why)
			}
			if r.EndedAt.After(ended) {
				ended = r.EndedAt
			}
		}
	}
}
