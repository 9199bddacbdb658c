package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/reply"
)

// shelf is what scenarios, their editor and the setup look at in a made-up world. The
// preview is that of the real scenario over made-up facts.
type shelf struct{ *house }

const pointsSlow = `apiVersion: breakwater/v1
kind: Scenario
id: points-slow
title: Points answers after 5 s
tags: [weekly, non-core]
target: {service: points, routes: [points-deduct]}
sample: {percent: "60%", key: attempt, seed: auto}
phases: {baseline: 5m, inject: 10m, recover: 5m}
faults:
  - {id: lat, latency: {dist: fixed, value: 5s}} # far beyond any timeout
hypothesis:
  steady:
    - {id: s1, sli: order.success, op: ">=", value: "98%", min_requests: 100}
  during:
    - {id: d1, sli: order.error_rate, op: "<=", value: "3%"}
  after:
    - {id: a1, sli: order.success, op: ">=", value: "98%", window: 30s, within: 5m}
stop:
  - {burn_rate: order, over: 240, windows: [1m, 5m]}
  - {budget_spent: "5%"}
`

const fromIncident = `# Drawn from the retry log: coupon, 2026-11-24T14:15:00Z to 2026-11-24T14:25:00Z.
# 13000 tries were sent; 1790 failed ones were kept:
` + `apiVersion: breakwater/v1
kind: Scenario
id: incident-coupon-2026-11-24-1415
title: What happened to coupon on 2026-11-24
tags: [incident]
target: {service: coupon}
sample: {percent: "13.7%"}
phases: {baseline: 2m, inject: 5m, recover: 2m}
faults:
  - {id: error, error: {status: 503}}
hypothesis:
  during:
    - {id: d1, sli: coupon.error_rate, op: "<=", value: "3%"}
stop:
  - {sli: coupon.error_rate, op: ">", value: "20%", for: 30s}
limits: {max_affected_rps: 4, max_tenants: 3}
on_fail: {finding: {severity: high, owner: team-coupon, due: 14d}}
`

func (h shelf) Documents(context.Context) ([]injector.Document, error) {
	if h.broken != nil || len(h.statuses) == 0 {
		return nil, h.broken
	}
	docs := []injector.Document{{ID: "points-slow", Title: "Points answers after 5 s", Service: "points", Text: pointsSlow, Hash: "h1", File: "/etc/breakwater/drills.yaml"},
		{ID: "incident-coupon-2026-11-24-1415", Title: "What happened to coupon on 2026-11-24", Service: "coupon", Text: fromIncident, Hash: "h2", File: "/etc/breakwater/incident.yaml"}}
	if h.evil != "" {
		docs[0].Title, docs[0].File = h.evil, h.evil
		docs[0].Text = strings.Replace(pointsSlow, "title: Points answers after 5 s", "title: "+yamlQuoted(h.evil), 1)
		docs[0].Hash = "evil"
	}
	return docs, nil
}

func (h shelf) Preview(ctx context.Context, id, document string) (injector.Preview, error) {
	if h.broken != nil {
		return injector.Preview{}, h.broken
	}
	docs, _ := h.Documents(ctx)
	for _, d := range docs {
		if document == "" && d.ID == id {
			document = d.Text
		}
	}
	sc, err := injector.ParseText(document)
	if err != nil {
		return injector.Preview{}, &injector.DocumentError{Err: err}
	}
	old := 30 * 24 * time.Hour
	f := scenario.Facts{PerTry: time.Second, Retries: 2, Prod: true, Routes: []scenario.Route{{Name: "points-deduct"}, {Name: "health", NoFaults: true}}, History: &old,
		Budgets: map[string]scenario.Budget{"points": {Allowed: 36_000, RemainingPPM: 541_000}}, TargetPPB: map[string]int64{"points": 999_500_000, "coupon": 999_500_000, "order": 999_500_000, "catalog": 999_500_000}}
	f.TargetPPB[sc.Target.Service] = 999_500_000
	if sc.Target.Service != "points" {
		f.Routes = []scenario.Route{{Name: "all", Fallback: true}}
	}
	if sc.Target.Service != "quiet" {
		f.Traffic = map[string]scenario.Traffic{sc.Target.Service: {Span: 10 * time.Minute, Requests: 18_300, Matched: 12_400, Users: []int64{9_000, 8_000, 1_300}}}
	}
	return injector.Preview{Scenario: sc, Facts: f, Forecast: sc.Forecast(f), Warnings: sc.Preflight(f)}, nil
}

// Create notes what it was asked, as the API would.
func (h shelf) Create(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(string(body), "refuse") {
		reply.Problem(w, http.StatusConflict, "frozen", "the target is frozen")
		return
	}
	if _, err := injector.ParseText(string(body)); r.Header.Get("Content-Type") == "application/yaml" && err != nil {
		reply.Problem(w, http.StatusBadRequest, "document", err.Error())
		return
	}
	h.stopped = append(h.stopped, "start "+r.Header.Get("Content-Type")+" "+string(body))
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(`{"id":"r-1287"}`))
}

func (h shelf) Gateways(context.Context) ([]injector.Gateway, error) {
	if len(h.statuses) == 0 {
		return h.gateways, h.broken
	}
	return []injector.Gateway{{Name: "gw-1", At: h.now.Add(-time.Second)}}, h.broken
}

func (h shelf) Place() DocumentPlace {
	return DocumentPlace{Path: "/etc/breakwater", Control: "http://127.0.0.1:8081", Closed: h.closed}
}

func (h shelf) Write(_ context.Context, actor, name, text string) (string, error) {
	if h.closed != "" {
		return "", errors.New("permission denied")
	}
	var log conf.Log
	if h.evil != "" {
		log.Add(name, 3, 7, "must be good, got %s", h.evil)
		return "", log.Errors()
	}
	h.stopped = append(h.stopped, actor+" wrote "+name+"\n"+text)
	return "/etc/breakwater/" + name, nil
}

func (h shelf) Check(name, text string) error {
	if strings.Contains(text, "name: shop\n") {
		return nil
	}
	return conf.Mistakes{{File: name, Line: 3, Col: 7, Path: "name", Text: "must be a name, got " + text}}
}

func (h shelf) Issue(_ context.Context, actor, name string) (string, error) {
	if err := auth.CheckToken(auth.Token{Name: name, Role: auth.Gateway}); err != nil {
		return "", err
	}
	h.stopped = append(h.stopped, actor+" issued "+name)
	return "bw_secret", nil
}
