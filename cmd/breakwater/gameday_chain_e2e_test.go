package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
)

// chainScenario is one link of the chain, in short phases.
func chainScenario(id, service, route, percent, fault, after string) string {
	return fmt.Sprintf(`apiVersion: breakwater/v1
kind: Scenario
id: %s
target: {service: %s, routes: [%s]}
sample: {percent: "%s", key: attempt, seed: auto}
phases: {baseline: 8s, inject: 25s, recover: 6s}
faults:
  - {id: f, %s}
hypothesis:
  during:
    - {id: d1, sli: order.error_rate, op: "<=", value: "5%%", min_requests: 30}
  after:
    - {id: a1, %s}
stop:
  - {sli: order.error_rate, op: ">", value: "60%%", for: 30s}
---
`, id, service, route, percent, fault, after)
}

// TestQuarterlyChain holds a chain over the order path by real processes: each link
// alone, then together, each wave only after the one before has recovered; one that
// does not recover ends the day. Replies of order are lost after it has done its work,
// and each order is made once.
func TestQuarterlyChain(t *testing.T) {
	slow(t)
	well := `sli: order.success, op: ">=", value: "90%", window: 5s, within: 2m`
	w := newWorld(t, worldConfig{oneIn: -1, docs: func(docs map[string][]byte) {
		for name := range docs {
			if name != "gateway.yaml" {
				delete(docs, name) // promises would freeze a shop without history
			}
		}
		docs["gateway.yaml"] = editRoute(t, docs["gateway.yaml"], "order-create", "retry:\n", "trust_idempotency_key: true\nretry:\n")
		docs["chain.yaml"] = []byte(
			chainScenario("order-lost-reply", "order", "order-create", "25%", "drop: {phase: after_upstream}", well) +
				chainScenario("inventory-flaky", "inventory", "inventory-get", "20%", `error: {status: 502, body: "no"}`, well) +
				chainScenario("coupon-never-well", "coupon", "coupon-get", "10%", `error: {status: 502, body: "no"}`, `sli: coupon.success, op: "<=", value: "1%", window: 5s, within: 10s`) +
				`apiVersion: breakwater/v1
kind: GameDay
name: chain
title: Quarterly chain of the order path
waves:
  - {name: order alone, scenarios: [order-lost-reply]}
  - {name: both, scenarios: [order-lost-reply, inventory-flaky]}
  - {name: coupon alone, scenarios: [coupon-never-well]}
  - {name: never, scenarios: [inventory-flaky]}
schedule: {cron: "0 10 * * *", zone: Europe/Berlin, nth: {week: 1, day: mon}, quarterly: true}
roles: {commander: anna, scribe: ben, observers: [carl]}
approvals: 2
`)
	}})
	stop := w.traffic("chain", 60)
	w.await("traffic arrives", 20*time.Second, func() bool { made, _ := w.shop.Orders(); return made > 50 })
	dora := w.person("dora", auth.Operator)
	began := time.Now().Add(-time.Minute)
	r := w.verb(dora, "gameday", "run", "chain")
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
	held := w.heldOnce("chain", began, 6*time.Minute)
	var day struct {
		Runs []struct {
			Scenario, State, Verdict, Reason, Why string
			StartedAt                             time.Time `json:"started_at"`
			EndedAt                               time.Time `json:"ended_at"`
			Injected                              int64
		}
	}
	if status, text := w.request("GET", "control", "/api/v1/gamedays/"+held.ID, "", &day); status != http.StatusOK || len(day.Runs) != 5 {
		t.Fatalf("%d %s", status, text)
	}
	runs := day.Runs
	for i, want := range []string{"completed", "completed", "completed", "completed", "skipped"} {
		if runs[i].State != want {
			t.Errorf("run %d, %s: %s (%s) %s, want %s", i, runs[i].Scenario, runs[i].State, runs[i].Reason, runs[i].Why, want)
		}
	}
	for _, i := range []int{1, 2} {
		if runs[i].StartedAt.Before(runs[0].EndedAt) || runs[3].StartedAt.Before(runs[i].EndedAt) {
			t.Errorf("run %d went from %v to %v, the one before ended %v, the one after began %v", i, runs[i].StartedAt, runs[i].EndedAt, runs[0].EndedAt, runs[3].StartedAt)
		}
	}
	if runs[4].Reason != "earlier_run" || !strings.Contains(runs[4].Why, "has not recovered") {
		t.Errorf("the last wave: %s %q", runs[4].Reason, runs[4].Why)
	}
	for i := range 2 {
		if runs[i].Verdict != "passed" || runs[i].Injected < 30 {
			t.Errorf("%s: %s with %d hits: %s", runs[i].Scenario, runs[i].Verdict, runs[i].Injected, runs[i].Why)
		}
	}
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
	made, again := w.shop.Orders()
	t.Logf("%d orders wanted, %d made, %d asked for again", len(wanted), made, again)
	if made != int64(len(wanted)) || again == 0 {
		t.Errorf("%d orders were made for %d wishes, and %d asked for again: want as many as wishes, and some of them asked for again", made, len(wanted), again)
	}
	w.report(dora, held.ID)
}
