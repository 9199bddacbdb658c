package main

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"breakwater/internal/auth"
	"breakwater/internal/store"
)

// router is control's real table of routes, over a database that is never asked.
func router(t *testing.T) chi.Routes {
	t.Helper()
	db, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &control{log: slog.New(slog.DiscardHandler), db: db, store: store.New(db), metrics: prometheus.NewRegistry()}
	if err := c.build(time.UTC, l); err != nil {
		t.Fatal(err)
	}
	return c.routes()
}

// Rows of agreed that are no roles.
const open, signed = "nobody guards it", "who signed in"

// agreed is who may call which route, pages too. TestReliability_F28 asks each of
// them as everybody.
func agreed() map[string]string {
	return map[string]string{
		"GET /signin":                      open,
		"POST /signin":                     open,
		"GET /signin/oidc":                 open,
		"GET /signin/callback":             open,
		"POST /signout":                    open,
		"GET /static/*":                    open,
		"GET /password":                    signed,
		"POST /password":                   signed,
		"GET /admin/":                      "admin",
		"POST /admin/users":                "admin",
		"POST /admin/users/{name}":         "admin",
		"POST /admin/users/{name}/reset":   "admin",
		"POST /admin/users/{name}/disable": "admin",
		"POST /admin/users/{name}/enable":  "admin",
		"GET /admin/tokens":                "admin",
		"POST /admin/tokens":               "admin",
		"POST /admin/tokens/{name}/revoke": "admin",
		"GET /admin/audit":                 "admin",
		"GET /admin/config":                "admin",
		"GET /admin/config/{number}":       "admin",
		"POST /admin/config/{number}":      "admin",
		"GET /admin/deliveries":            "admin",
		"GET /admin/database":              "admin",
		"GET /admin/doctor":                "admin",
		// Pages: reading and stopping, for whoever is logged in.
		"GET /":                       "viewer",
		"GET /alerts":                 "viewer",
		"GET /alerts/{id}/ack":        "viewer",
		"GET /silences":               "viewer",
		"GET /gate/overrides":         "viewer",
		"GET /alerts/{id}":            "viewer",
		"POST /alerts/{id}/ack":       "viewer",
		"GET /retries":                "viewer",
		"GET /find":                   "viewer",
		"GET /requests":               "viewer",
		"GET /requests/{id}":          "viewer",
		"GET /simulator":              "viewer",
		"POST /simulator":             "viewer", // they change nothing
		"POST /simulator/compare":     "viewer",
		"GET /api/v1/events":          "viewer",
		"GET /api/v1/events/{id}":     "viewer",
		"POST /silences":              "viewer",
		"POST /silences/{id}/end":     "viewer",
		"GET /menu":                   "viewer",
		"GET /now":                    "viewer",
		"GET /breakers":               "viewer",
		"GET /slos":                   "viewer",
		"GET /slos/{id}":              "viewer",
		"GET /services/{service}":     "viewer",
		"GET /gamedays":               "viewer",
		"POST /gamedays":              "viewer",
		"GET /gamedays/{id}":          "viewer",
		"GET /gamedays/{id}/notes":    "viewer",
		"POST /gamedays/{id}/approve": "viewer",
		"POST /gamedays/{id}/abort":   "viewer",
		"POST /gamedays/{id}/notes":   "viewer",
		"GET /findings":               "viewer",
		"GET /findings/{key}":         "viewer",
		"GET /findings/{key}/close":   "viewer",
		"GET /findings/{key}/accept":  "viewer",
		"POST /findings/{key}/close":  "viewer",
		"POST /findings/{key}/accept": "viewer",
		"GET /readiness":              "viewer",
		"GET /readiness/{service}":    "viewer",
		"POST /readiness/{service}":   "viewer",
		"GET /runs":                   "viewer",
		"GET /runs/{id}":              "viewer",
		"GET /gate":                   "viewer",
		"POST /runs/{id}/abort":       "viewer",
		"POST /halt":                  "viewer",
		"POST /halt/lift":             "viewer",
		"GET /scenarios":              "viewer",
		"GET /scenarios/{name}":       "viewer",
		"GET /scenarios/{name}/run":   "viewer",
		"POST /scenarios/{name}/run":  "viewer",
		"GET /scenarios/{name}/plan":  "viewer",
		"POST /scenarios/{name}/plan": "viewer",
		"GET /experiments/new":        "viewer",
		"GET /experiments/check":      "viewer",
		"POST /experiments/check":     "viewer",
		"GET /experiments/start":      "viewer",
		"POST /experiments/start":     "viewer",
		"GET /setup":                  "viewer",
		"GET /setup/gateway":          "viewer",
		"POST /setup/gateway":         "viewer",
		"GET /setup/slo":              "viewer",
		"POST /setup/slo":             "viewer",
		"GET /setup/drill":            "viewer",
		"POST /setup/drill":           "viewer",

		"GET /healthz":                                      open,
		"GET /readyz":                                       open,
		"GET /metrics":                                      "viewer pipeline",
		"POST /api/v1/events":                               "gateway",
		"POST /api/v1/events/files":                         "operator",
		"GET /api/v1/plan":                                  "gateway",
		"GET /api/v1/gate/decision":                         "viewer pipeline",
		"GET /api/v1/experiments":                           "viewer",
		"POST /api/v1/experiments":                          "operator",
		"GET /api/v1/experiments/{id}":                      "viewer",
		"POST /api/v1/experiments/{id}/abort":               "viewer",
		"POST /api/v1/experiments/{id}/approve":             "approver",
		"POST /api/v1/experiments/preview":                  "viewer",
		"DELETE /api/v1/experiments/{id}":                   "operator",
		"GET /api/v1/experiments/{id}/evidence/{assertion}": "viewer",
		"GET /api/v1/searches":                              "viewer",
		"POST /api/v1/searches":                             "operator",
		"GET /api/v1/searches/{id}":                         "viewer",
		"POST /api/v1/searches/{id}/abort":                  "viewer",
		"POST /api/v1/halt":                                 "viewer",
		"DELETE /api/v1/halt":                               "operator",
		"GET /api/v1/gamedays":                              "viewer",
		"POST /api/v1/gamedays":                             "operator",
		"GET /api/v1/gamedays.ics":                          "viewer",
		"GET /api/v1/gamedays/held":                         "viewer",
		"GET /api/v1/gamedays/{id}":                         "viewer",
		"GET /api/v1/gamedays/{id}/next":                    "viewer",
		"GET /api/v1/gamedays/{id}/report":                  "viewer",
		"POST /api/v1/gamedays/{id}/approve":                "approver",
		"POST /api/v1/gamedays/{id}/abort":                  "viewer",
		"POST /api/v1/gamedays/{id}/notes":                  "operator approver",
		"GET /api/v1/findings":                              "viewer",
		"GET /api/v1/findings/scenario":                     "viewer",
		"GET /api/v1/findings/{id}":                         "viewer",
		"POST /api/v1/findings/{id}/close":                  "operator",
		"POST /api/v1/findings/{id}/accept":                 "approver",
		"GET /api/v1/readiness":                             "viewer",
		"GET /api/v1/readiness/{service}":                   "viewer",
		"GET /api/v1/readiness/{service}/trend":             "viewer",
		"POST /api/v1/readiness/{service}":                  "operator approver",
		"GET /api/v1/config/revisions":                      "admin",
		"GET /api/v1/config/revisions/{number}":             "admin",
		"GET /api/v1/config/revisions/{number}/changes":     "admin",
		"POST /api/v1/config/rollback":                      "admin",
		"GET /api/v1/services":                              "viewer pipeline",
		"GET /api/v1/slos":                                  "viewer pipeline",
		"GET /api/v1/slos/{id}":                             "viewer pipeline",
		"GET /api/v1/slos/{id}/budget":                      "viewer pipeline",
		"GET /api/v1/stream":                                "viewer",
		"GET /api/v1/slos/{id}/attribution":                 "viewer",
		"GET /api/v1/slos/{id}/backtest":                    "viewer",
		"GET /api/v1/slos/{id}/revisions":                   "viewer",
		"GET /api/v1/health-scores":                         "viewer",
		"GET /api/v1/reports/budget":                        "viewer",
		"GET /api/v1/slos/{id}/corrections":                 "viewer",
		"POST /api/v1/slos/{id}/corrections":                "operator",
		"POST /api/v1/slos/{id}/recompute":                  "operator",
		"POST /api/v1/events/deploys":                       "operator pipeline",
		"POST /api/v1/events/incidents":                     "operator pipeline",
		"GET /api/v1/now":                                   "viewer",

		"GET /api/v1/gate/argo":                  "viewer pipeline",
		"POST /api/v1/gate/argo":                 "viewer pipeline",
		"PUT /api/v1/gate/argo":                  "viewer pipeline",
		"POST /api/v1/gate/flagger/confirm":      "viewer pipeline",
		"POST /api/v1/gate/flagger/rollback":     "viewer pipeline",
		"POST /api/v1/gate/flagger/event":        "viewer pipeline",
		"POST /api/v1/gate/spinnaker":            "viewer pipeline",
		"GET /api/v1/gate/spinnaker/{ticket}":    "viewer pipeline",
		"GET /api/v1/gate/gitlab/freeze_periods": "viewer pipeline",
		"GET /api/v1/gate/kubernetes/policy":     "viewer pipeline",
		"GET /api/v1/gate/kubernetes/freezes":    "viewer pipeline",
		"POST /api/v1/gate/platform":             "gateway",

		"GET /api/v1/gate/key":                                "viewer pipeline",
		"GET /api/v1/freezes":                                 "viewer pipeline",
		"GET /api/v1/measures":                                "viewer pipeline",
		"POST /gate/overrides":                                "viewer",
		"POST /gate/policy":                                   "viewer",
		"POST /gate/overrides/{service}/{id}/grant":           "viewer",
		"POST /gate/overrides/{service}/{id}/revoke":          "viewer",
		"GET /api/v1/freezes/history":                         "viewer pipeline",
		"GET /api/v1/freezes/overrides":                       "viewer pipeline",
		"GET /api/v1/policies":                                "viewer",
		"POST /api/v1/policies":                               "admin",
		"GET /api/v1/deploys":                                 "viewer pipeline",
		"GET /api/v1/gate/decisions":                          "viewer pipeline",
		"GET /api/v1/gate/decisions/{id}":                     "viewer pipeline",
		"POST /api/v1/webhooks/alertmanager":                  "operator pipeline",
		"POST /api/v1/freezes/{service}":                      "operator",
		"DELETE /api/v1/freezes/{service}":                    "operator",
		"POST /api/v1/freezes/{service}/override":             "operator",
		"POST /api/v1/freezes/{service}/override/{id}/grant":  "approver",
		"POST /api/v1/freezes/{service}/override/{id}/revoke": "viewer",
		"POST /api/v1/freezes/{service}/attest":               "operator approver",
		"GET /api/v1/alerts":                                  "viewer",
		"GET /api/v1/alerts/{id}":                             "viewer",
		"POST /api/v1/alerts/{id}/ack":                        "operator",
		"POST /api/v1/alerts/facts":                           "operator pipeline",
		"POST /api/v1/alerts/test":                            "operator",
		"GET /api/v1/silences":                                "viewer",
		"POST /api/v1/silences":                               "operator",
		"DELETE /api/v1/silences/{id}":                        "operator",

		"DELETE /api/v1/slos/{id}/corrections/{correction}": "operator",
	}
}

// TestRoutesAreGuarded holds the real router against what was agreed: a route
// that is not listed above, or listed with other roles, fails.
func TestRoutesAreGuarded(t *testing.T) {
	want := agreed()
	routes, err := auth.Walk(router(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range routes {
		key := a.Method + " " + a.Pattern
		var roles []string
		for _, r := range a.Roles {
			roles = append(roles, string(r))
		}
		got := strings.Join(roles, " ")
		switch {
		case got == "":
			got = open
		case a.Session:
			got = signed
		}
		if key == "GET /static/*" && got == "viewer" {
			continue // of the pages alone; the open one stands before it
		}
		if wanted, ok := want[key]; ok {
			seen[key] = true
			if got != wanted {
				t.Errorf("%s is for %s, want %s", key, got, wanted)
			}
			continue
		}
		t.Errorf("%s is for %s and not in the table", key, got)
	}
	for key := range want {
		if !seen[key] {
			t.Errorf("%s is in the table and not in the router", key)
		}
	}
	if _, ok := router(t).(http.Handler); !ok {
		t.Error("the router serves nothing")
	}
}
