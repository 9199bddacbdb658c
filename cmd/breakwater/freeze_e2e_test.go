package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

var freezeRuns = flag.Int("freezeruns", 2, "how many budgets TestFromTheLastFailureToTheFreeze exhausts; 20 take about a quarter of an hour")

const budgetDocuments = `
---
apiVersion: breakwater/v1
kind: Service
name: svc-%[1]d
breaker: {enabled: false}
---
apiVersion: breakwater/v1
kind: Route
name: svc-%[1]d-ok
service: svc-%[1]d
core: true
match: {path: /svc-%[1]d/ok}
upstream: fine
---
apiVersion: breakwater/v1
kind: Route
name: svc-%[1]d-extra
service: svc-%[1]d
tier: sheddable
match: {path: /svc-%[1]d/extra}
limit: {rate: 1000/s}
upstream: fine
---
apiVersion: breakwater/v1
kind: Route
name: svc-%[1]d-dead
service: svc-%[1]d
core: true
match: {path: /svc-%[1]d/dead}
upstream: dead
`

const budgetSLO = `---
apiVersion: openslo/v1
kind: SLO
metadata: {name: svc-%[1]d-availability}
spec:
  service: svc-%[1]d
  budgetingMethod: Occurrences
  timeWindow: [{duration: 30d, isRolling: true}]
  indicator:
    metadata: {name: svc-%[1]d-requests}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: breakwater, spec: {class: good}}}
        total: {metricSource: {type: breakwater, spec: {class: valid}}}
  objectives: [{displayName: available, target: 0.99}]
`

const drillOf = `apiVersion: breakwater/v1
kind: Scenario
id: late-%[1]s
title: Answers are late
target: {service: %[1]s, routes: [%[1]s-ok]}
sample: {percent: "50%%", key: attempt, seed: auto}
phases: {baseline: 12s, inject: 1m, recover: 5s}
faults:
  - {id: late, latency: {dist: fixed, value: 50ms}, toothless: allowed}
hypothesis:
  steady:
    - {id: s1, sli: %[1]s.success, op: ">=", value: "50%%", min_requests: 30}
  during:
    - {id: d1, sli: %[1]s.success, op: ">=", value: "50%%", min_requests: 30}
stop:
  - {sli: %[1]s.error_rate, op: ">", value: "90%%", for: 30s}
`

const freezeDocuments = `apiVersion: breakwater/v1
kind: FreezePolicy
name: short
thaw: {left: 5%%, hold: 2s, min_freeze: 3s}
coverage: 50%%
stale: 10s
passes:
  - {kind: rollback, proof: [history, declared]}
measures:
  - from: frozen
    shed_below: default
    limit: {direction: tighten, factor: 50%%}
    experiments: stop
on_unknown:
  - {environments: [test], answer: deny, except: [rollback]}
---
apiVersion: breakwater/v1
kind: AlertRoute
name: oncall
resolve_after: 3s
to: [{type: webhook, url: "%s", secret_file: %q, allow_private: true}]
`

// From the request that exhausts a budget to the gate's deny, to the page with its
// context and to a gateway that sheds and limits at most 10 s, and to the thaw and
// the end of that protection after enough good ones likewise; then the fail modes:
// without a gateway, without a database, and without control.
func TestFromTheLastFailureToTheFreeze(t *testing.T) {
	if slow(t) {
		return
	}
	fine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer fine.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := gone.Addr().String()
	_ = gone.Close()
	var mu sync.Mutex
	paged := map[string]time.Time{} // by service: when the page arrived
	context := map[string]string{}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var e struct {
			Type string
			Data struct {
				Incident struct{ Service, Class, Severity string }
				Lines    []string
			}
		}
		if err := json.Unmarshal(body, &e); err != nil || r.Header.Get("Webhook-Signature") == "" {
			t.Errorf("%v in %s", err, body)
		}
		mu.Lock()
		defer mu.Unlock()
		if i := e.Data.Incident; i.Severity == "page" && e.Type != "breakwater.incident.resolved" && paged[i.Service].IsZero() {
			paged[i.Service], context[i.Service] = time.Now(), strings.Join(e.Data.Lines, "\n")
		}
	}))
	defer hook.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, strings.Repeat("s", 32))
	w := newWorld(t, worldConfig{docs: func(docs map[string][]byte) {
		text := fmt.Sprintf("\n---\napiVersion: breakwater/v1\nkind: Upstream\nname: fine\nendpoints: [{address: %q}]\n---\napiVersion: breakwater/v1\nkind: Upstream\nname: dead\nbreaker: {enabled: false}\nendpoints: [{address: %q, labels: {rack: A}}]\n",
			strings.TrimPrefix(fine.URL, "http://"), dead)
		slos := ""
		for i := range *freezeRuns {
			text += fmt.Sprintf(budgetDocuments, i)
			slos += fmt.Sprintf(budgetSLO, i)
		}
		for name := range docs {
			if strings.HasPrefix(name, "gateway") {
				docs[name] = append(docs[name], text...)
			}
		}
		docs["budgets.yaml"] = []byte(slos)
		docs["freeze.yaml"] = fmt.Appendf(nil, freezeDocuments, hook.URL, secret)
	}})
	get := func(path string, n int) {
		var group sync.WaitGroup
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
		defer client.CloseIdleConnections()
		for k := range 8 {
			group.Go(func() {
				for i := k; i < n; i += 8 {
					res, err := client.Get(w.url["data"] + path)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		}
		group.Wait()
	}
	decide := func(service, kind string) gate.Decision {
		var d gate.Decision
		w.request("GET", "control", "/api/v1/gate/decision?service="+service+"&env=test&kind="+kind, "", &d)
		return d
	}
	protects := func(service string) (floor, tight bool) {
		var stats struct {
			Measures []struct {
				Service, Kind string
				Routes        []struct {
					EveryUS int64 `json:"one_every_us"`
				}
			}
		}
		w.request("GET", "admin", "/stats", "", &stats)
		for _, m := range stats.Measures {
			floor = floor || m.Service == service && m.Kind == "shed"
			// 500 a second, of 1000
			tight = tight || m.Service == service && m.Kind == "limit" && len(m.Routes) == 1 && m.Routes[0].EveryUS == 2000
		}
		return floor, tight
	}
	extra := func(service string) int {
		status, _ := w.request("GET", "data", "/"+service+"/extra", "", nil)
		return status
	}
	t.Cleanup(func() {
		if t.Failed() && w.control.cmd != nil {
			_, text := w.request("GET", "control", "/api/v1/alerts?open=1", "", nil)
			t.Logf("open incidents: %.8000s", text)
		}
	})
	var denied, told, shed, thawed, released []time.Duration
	for i := range *freezeRuns {
		service := fmt.Sprintf("svc-%d", i)
		get("/"+service+"/ok", 20)
		w.await("allow before anything fails", 30*time.Second, func() bool { return decide(service, "feature").Decision == gate.Allow })
		get("/"+service+"/dead", 30)
		spent := time.Now()
		w.await("deny", 10*time.Second, func() bool { return decide(service, "feature").Decision == gate.Deny })
		denied = append(denied, time.Since(spent))
		// The failures may come in two batches, and the first is enough to freeze.
		w.await("all failures counted", 10*time.Second, func() bool {
			d := decide(service, "feature")
			return d.RestsOn != nil && d.RestsOn.Bad == 30
		})
		if d := decide(service, "feature"); d.ReasonCode != "budget_exhausted" || d.RestsOn == nil || d.RestsOn.Bad != 30 || d.Signature == nil || d.Policy != "short" {
			t.Errorf("denied with %+v", d)
		}
		if d := decide(service, "rollback"); d.Decision != gate.Allow || d.ReasonCode != "allowed_kind" {
			t.Errorf("a rollback: %s %s", d.Decision, d.ReasonCode)
		}
		w.await("the page", 10*time.Second, func() bool { mu.Lock(); defer mu.Unlock(); return !paged[service].IsZero() })
		mu.Lock()
		told = append(told, paged[service].Sub(spent))
		if text := context[service]; !strings.Contains(text, "Budget burns at") || !strings.Contains(text, "upstream dead") || !strings.Contains(text, "route "+service+"-dead") {
			t.Errorf("its context is\n%s", text)
		}
		mu.Unlock()
		w.await("the protection", 10*time.Second, func() bool { floor, tight := protects(service); return floor && tight && extra(service) == 503 })
		shed = append(shed, time.Since(spent))
		// API and page name what holds, and the gateway that has told that it does.
		var page string
		w.await("the measures on the page", 10*time.Second, func() bool {
			var list struct{ Measures []freeze.Shown }
			w.request("GET", "control", "/api/v1/measures?service="+service, "", &list)
			obeyed := 0
			for _, m := range list.Measures {
				if m.Live && m.HoldsFrom == "frozen" && len(m.Gateways) == 1 && m.Gateways[0] == "gateway-1" {
					obeyed++
				}
			}
			_, page = w.request("GET", "control", "/gate", "", nil)
			return obeyed == 3 && strings.Contains(page, "obeyed by gateway-1")
		})
		if !strings.Contains(page, service+" is frozen") || !strings.Contains(page, "Sheddable requests are shed") || !strings.Contains(page, "Rate limits are tightened to 50%") {
			t.Errorf("the page of the gate does not say what protects:\n%.4000s", page)
		}
		if i == 0 {
			// A gateway that starts anew learns from the plan what holds.
			w.gateway.kill()
			if d := decide(service, "feature"); d.Decision != gate.Deny {
				t.Errorf("without a gateway a frozen service is answered %s %s", d.Decision, d.ReasonCode)
			}
			if d := decide("nobody", "feature"); d.Decision == gate.Allow {
				t.Error("without a gateway an unknown service is allowed")
			}
			w.gateway.start()
			w.ready("admin")
			w.await("the protection, by a new gateway", 30*time.Second, func() bool { floor, tight := protects(service); return floor && tight && extra(service) == 503 })
		}
		if status, _ := w.request("GET", "data", "/"+service+"/ok", "", nil); status != 200 {
			t.Errorf("a route of the default tier answers %d under the measure", status)
		}
		status, text := w.request("POST", "control", "/api/v1/experiments", fmt.Sprintf(drillOf, service), nil)
		if status != http.StatusConflict || !strings.Contains(text, "frozen") {
			t.Errorf("an experiment on a frozen service: %d %s", status, text)
		}
		get("/"+service+"/ok", 4500)
		back := time.Now()
		// A minute that runs may worsen a state and never improve it: what was good
		// counts toward the thaw once its minute is closed, unless the failures lie in it.
		if back.Truncate(time.Minute) != spent.Truncate(time.Minute) {
			back = back.Truncate(time.Minute).Add(time.Minute)
		}
		w.await("thaw", time.Until(back)+10*time.Second, func() bool { return decide(service, "feature").Decision == gate.Allow })
		thawed = append(thawed, time.Since(back))
		w.await("the end of the protection", time.Until(back)+10*time.Second, func() bool { floor, tight := protects(service); return !floor && !tight })
		released = append(released, time.Since(back))
		if status := extra(service); status != 200 {
			t.Errorf("after the thaw a sheddable route answers %d", status)
		}
		var list struct{ Measures []freeze.Shown }
		w.request("GET", "control", "/api/v1/measures?service="+service, "", &list)
		for _, m := range list.Measures {
			if m.EndedAt == nil || m.Live || !strings.Contains(m.Reason, service+" (test) is frozen") {
				t.Errorf("after the thaw %+v", m)
			}
		}
		if len(list.Measures) != 3 {
			t.Errorf("%d measures are listed, want shed, limit and stop_experiments", len(list.Measures))
		}
	}
	t.Logf("from the last failure to deny %v, to the page %v, to the protection %v; from the last good one to the thaw (2 s hold) %v, to the end of the protection %v", denied, told, shed, thawed, released)

	// Fail modes. First the last signed answer of each question, while all is well.
	memory := t.TempDir()
	ask := func(args ...string) ran {
		return verb(t, "", append([]string{"gate", "svc-0", "--env", "test", "--control", w.url["control"], "--memory", memory}, args...)...)
	}
	ask("--ref", "sha-1").want(t, exitOK, "")
	if err := w.pg.Stop(); err != nil {
		t.Fatal(err)
	}
	w.await("unknown, which the policy denies in writing", 90*time.Second, func() bool { return decide("svc-0", "feature").ReasonCode == "unknown_denied" })
	if d := decide("svc-0", "rollback"); d.Decision != gate.Allow || d.ReasonCode != "unknown_allowed" {
		t.Errorf("a rollback without a database: %s %s", d.Decision, d.ReasonCode)
	}
	w.control.kill()
	if r := ask("--ref", "sha-1"); r.code != exitOK || !strings.Contains(r.out, "Control is away") || !strings.Contains(r.err, "stands in") {
		t.Errorf("control away: %d %q %q", r.code, r.out, r.err)
	}
	ask("--ref", "sha-1", "--no-fallback").want(t, exitUnknown, "")
	ask("--ref", "sha-2").want(t, exitUnknown, "")
	ask("--ref", "sha-2", "--on-unknown", "deny").want(t, exitNo, "")
	entries, err := os.ReadDir(memory)
	if err != nil || len(entries) != 1 {
		t.Errorf("kept %v, %v", entries, err)
	}
}
