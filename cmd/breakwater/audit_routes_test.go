package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"breakwater/injector/scenario"
	"breakwater/internal/auth"
)

// change is a route that changes something, with a valid body. In it <x> is what an
// earlier change gave, and ¶...¶ is a free text, which the tests fill in.
type change struct {
	route, as  string // as in agreed(); the role whose token asks
	path, body string // a body that begins with { is JSON, with "api" YAML, else it is a form
	want       int
	action     string // what the audit calls it
	keep, of   string // the name under which what of finds in the answer is kept
	stops      bool   // stopping works with the audit away too: nobody may be kept from it
	before     func(*rounds)
	alsoSaid   string // by whom it also stands in the audit, beside who asked
	opens      bool   // opens a session too, which is a row of its own
}

// unaudited are the routes that change nothing a person or a pipeline decided, each
// with why it writes no row.
func unaudited() map[string]string {
	const asks = "asks the gate: the answer, who asked and why stand in the log of decisions"
	return map[string]string{
		"POST /simulator":                    "computes, and keeps nothing",
		"POST /simulator/compare":            "computes, and keeps nothing",
		"POST /experiments/check":            "computes, and keeps nothing",
		"POST /api/v1/experiments/preview":   "computes, and keeps nothing",
		"POST /api/v1/events":                "a gateway's records, ten thousands a second: they are what is counted",
		"POST /api/v1/events/files":          "the same records from files; that a file is read in is audited when it begins, TestIngestFilesAreAudited of slo/ingest",
		"POST /api/v1/gate/argo":             asks,
		"PUT /api/v1/gate/argo":              asks,
		"POST /api/v1/gate/flagger/confirm":  asks,
		"POST /api/v1/gate/flagger/rollback": asks,
		"POST /api/v1/gate/spinnaker":        asks,
		"POST /api/v1/gate/platform":         asks,
		"POST /api/v1/gate/flagger/event":    "a pipeline's report of what happened, as /api/v1/events/deploys",
		"POST /api/v1/events/deploys":        "a pipeline's report of what happened: it stands in the ledger with who said it, and is never changed",
		"POST /api/v1/events/incidents":      "a report of what happened: it stands in the ledger with who said it, and is never changed",
		"POST /api/v1/alerts/facts":          "a report of what happened: it stands beside the alert with who said it, for minutes",
		"POST /api/v1/webhooks/alertmanager": "another system's alerts as they fire: they stand in the ledger with who sent them",
	}
}

const drillDocs = `apiVersion: breakwater/v1
kind: GameDay
name: by-hand
title: Held by hand
scenarios: [control-run-0]
approvals: 1
`

// changes are all others, in an order in which each finds what it needs.
func changes() []change {
	hash := `"hash":"([0-9a-f]+)"`
	return []change{
		{route: "POST /admin/users", as: "admin", body: "name=zoe&role=viewer&services=", want: 200, action: "user.create"},
		{route: "POST /admin/users/{name}", as: "admin", path: "/admin/users/zoe", body: "role=operator&services=order", want: 303, action: "user.change"},
		{route: "POST /admin/users/{name}/reset", as: "admin", path: "/admin/users/zoe/reset", body: "x=", want: 200, action: "user.reset"},
		{route: "POST /admin/users/{name}/disable", as: "admin", path: "/admin/users/zoe/disable", body: "x=", want: 303, action: "user.disable"},
		{route: "POST /admin/users/{name}/enable", as: "admin", path: "/admin/users/zoe/enable", body: "x=", want: 303, action: "user.enable"},
		{route: "POST /admin/tokens", as: "admin", body: "name=spare&role=viewer&services=&days=1", want: 200, action: "token.issue"},
		{route: "POST /admin/tokens/{name}/revoke", as: "admin", path: "/admin/tokens/spare/revoke", body: "x=", want: 303, action: "token.revoke"},

		{route: "POST /setup/gateway", as: "admin", body: "name=gw-2&service=shop&address=shop.internal:8000", want: 200, action: "token.issue"},
		{route: "POST /setup/slo", as: "operator", body: "service=shop&target=99.9&owner=team-shop", want: 303, action: "documents.write", alsoSaid: "system"},
		{route: "POST /setup/drill", as: "operator", body: "service=shop&day=2&at=10:30&zone=UTC&accept=" + strings.Join(scenario.Refusals(), "&accept="), want: 303, action: "documents.write", alsoSaid: "system"},
		{route: "POST /api/v1/config/rollback", as: "admin", body: `{"revision":1,"seen":<newest>,"reason":"¶why back by the API¶"}`, want: 200, action: "documents.rollback", alsoSaid: "system", before: (*rounds).newest},
		{route: "POST /admin/config/{number}", as: "admin", path: "/admin/config/2", body: "seen=<newest>&reason=¶why back by the page¶", want: 303, action: "documents.rollback", alsoSaid: "system", before: (*rounds).newest},
		{route: "POST /api/v1/policies", as: "admin", body: `{"document":"<policy>","reason":"¶why a policy by the API¶"}`, want: 201, action: "policy.save", alsoSaid: "system"},
		{route: "POST /gate/policy", as: "admin", body: "policy=<another>&reason=¶why a policy by the page¶", want: 303, action: "policy.save", alsoSaid: "system"},

		{route: "POST /halt", as: "viewer", body: "x=", want: 303, action: "experiments.halt", stops: true},
		{route: "POST /halt/lift", as: "operator", body: "x=", want: 303, action: "experiments.resume"},
		{route: "POST /api/v1/halt", as: "viewer", body: "{}", want: 200, action: "experiments.halt", stops: true},
		{route: "DELETE /api/v1/halt", as: "operator", want: 204, action: "experiments.resume"},

		{route: "POST /api/v1/experiments", as: "operator", body: `{"scenario":"control-run-0"}`, want: 201, action: "run.start", keep: "run", of: `"id":"(r-[^"]+)"`},
		{route: "POST /api/v1/experiments/{id}/approve", as: "approver", path: "/api/v1/experiments/<run>/approve", body: "{}", want: 200, action: "run.approve"},
		{route: "POST /api/v1/experiments/{id}/abort", as: "viewer", path: "/api/v1/experiments/<run>/abort", body: "{}", want: 200, action: "run.abort", stops: true},
		{route: "DELETE /api/v1/experiments/{id}", as: "operator", path: "/api/v1/experiments/<run>", want: 204, action: "run.delete"},
		{route: "POST /scenarios/{name}/run", as: "operator", path: "/scenarios/control-run-0/run", body: "x=", want: 303, action: "run.start", keep: "run", of: `/runs/(r-[^?"]+)`},
		{route: "POST /scenarios/{name}/plan", as: "operator", path: "/scenarios/order-timeout-boundary/plan", body: "day=2&at=10:30&zone=UTC&approval=1", want: 303, action: "documents.write", alsoSaid: "system"},
		{route: "POST /runs/{id}/abort", as: "viewer", path: "/runs/<run>/abort", body: "x=", want: 303, action: "run.abort", stops: true},
		{route: "POST /experiments/start", as: "operator", body: "yaml=<scenario>&base=<scenario>", want: 303, action: "run.start", keep: "run", of: `/runs/(r-[^?"]+)`},
		{route: "POST /api/v1/experiments/{id}/abort", as: "viewer", path: "/api/v1/experiments/<run>/abort", body: "{}", want: 200, action: "run.abort", stops: true},
		{route: "POST /api/v1/searches", as: "operator", body: `{"scenario":"order-timeout-boundary"}`, want: 201, action: "search.start", keep: "search", of: `"id":"([^"]+)"`},
		{route: "POST /api/v1/searches/{id}/abort", as: "viewer", path: "/api/v1/searches/<search>/abort", body: "{}", want: 200, action: "search.abort", stops: true},

		{route: "POST /api/v1/gamedays", as: "operator", body: `{"gameday":"by-hand"}`, want: 201, action: "gameday.start", keep: "day", of: `"id":"(g-[^"]+)"`},
		{route: "POST /api/v1/gamedays/{id}/approve", as: "approver", path: "/api/v1/gamedays/<day>/approve", body: `{"hash":""}`, want: 200, action: "gameday.approve"},
		{route: "POST /api/v1/gamedays/{id}/notes", as: "operator", path: "/api/v1/gamedays/<day>/notes", body: `{"kind":"note","text":"¶a note by the API¶"}`, want: 204, action: "gameday.note"},
		{route: "POST /api/v1/gamedays/{id}/abort", as: "viewer", path: "/api/v1/gamedays/<day>/abort", body: "{}", want: 200, action: "gameday.abort", stops: true},
		{route: "POST /gamedays", as: "operator", body: "gameday=by-hand", want: 303, action: "gameday.start", before: (*rounds).ended},
		{route: "POST /gamedays/{id}/approve", as: "approver", path: "/gamedays/<day>/approve", body: "hash=<hash>", want: 303, action: "gameday.approve", before: func(x *rounds) {
			x.look("/api/v1/gamedays/by-hand", "hash", hash)
			x.look("/api/v1/gamedays/by-hand", "day", `"id":"(g-[^"]+)"`)
		}},
		{route: "POST /gamedays/{id}/notes", as: "operator", path: "/gamedays/<day>/notes", body: "kind=note&text=¶a note by the page¶", want: 303, action: "gameday.note"},
		{route: "POST /gamedays/{id}/abort", as: "viewer", path: "/gamedays/<day>/abort", body: "x=", want: 303, action: "gameday.abort", stops: true},

		{route: "POST /api/v1/findings/{id}/close", as: "operator", path: "/api/v1/findings/f-1/close", body: `{"note":"¶mended, by the API¶"}`, want: 200, action: "finding.claim"},
		{route: "POST /api/v1/findings/{id}/accept", as: "approver", path: "/api/v1/findings/f-2/accept", body: `{"reason":"¶borne, by the API¶","until":"<tomorrow>"}`, want: 200, action: "finding.accept"},
		{route: "POST /findings/{key}/close", as: "operator", path: "/findings/f-3/close", body: "note=¶mended, by the page¶", want: 303, action: "finding.claim"},
		{route: "POST /findings/{key}/accept", as: "approver", path: "/findings/f-4/accept", body: "reason=¶borne, by the page¶&days=30", want: 303, action: "finding.accept"},
		{route: "POST /api/v1/readiness/{service}", as: "operator", path: "/api/v1/readiness/order", body: `{"item":"versions","yes":true,"evidence":"¶proof by the API¶"}`, want: 200, action: "readiness.answer"},
		{route: "POST /readiness/{service}", as: "operator", path: "/readiness/order", body: "item=versions&yes=yes&evidence=¶proof by the page¶", want: 303, action: "readiness.answer"},

		{route: "POST /api/v1/slos/{id}/corrections", as: "operator", path: "/api/v1/slos/order-availability/corrections", body: `{"from":"<yesterday>","to":"<today>","reason":"¶planned work¶","ticket":"¶its ticket¶"}`, want: 201, action: "correction.add", keep: "correction", of: `"id":"(c-[^"]+)"`},
		{route: "DELETE /api/v1/slos/{id}/corrections/{correction}", as: "operator", path: "/api/v1/slos/order-availability/corrections/<correction>?reason=¶not planned after all¶", want: 204, action: "correction.revoke"},
		{route: "POST /api/v1/slos/{id}/recompute", as: "operator", path: "/api/v1/slos/order-availability/recompute?dry_run=false", body: "{}", want: 200, action: "slo.recompute"},

		{route: "POST /api/v1/freezes/{service}", as: "operator", path: "/api/v1/freezes/order", body: `{"reason":"¶a sale day¶","ticket":"¶of the sale¶","until":"<tomorrow>"}`, want: 201, action: "freeze.on"},
		{route: "POST /api/v1/freezes/{service}/override", as: "operator", path: "/api/v1/freezes/order/override", body: `{"ref":"¶a commit¶","reason":"¶customers cannot pay¶","ticket":"¶of the glass¶"}`, want: 201, action: "override.ask", keep: "override", of: `"id":"(o-[^"]+)"`},
		{route: "POST /api/v1/freezes/{service}/override/{id}/grant", as: "approver", path: "/api/v1/freezes/order/override/<override>/grant", want: 200, action: "override.grant"},
		{route: "POST /api/v1/freezes/{service}/override/{id}/revoke", as: "viewer", path: "/api/v1/freezes/order/override/<override>/revoke?reason=¶over¶", want: 200, action: "override.revoke"},
		{route: "POST /gate/overrides", as: "operator", body: "service=order&env=&ref=¶another commit¶&reason=¶customers still cannot pay¶&ticket=¶a second one¶&minutes=60&uses=1", want: 303, action: "override.ask"},
		{route: "POST /gate/overrides/{service}/{id}/grant", as: "approver", path: "/gate/overrides/order/<override>/grant", body: "x=", want: 303, action: "override.grant", before: func(x *rounds) {
			x.look("/api/v1/freezes?service=order", "override", `"id":"(o-[^"]+)"[^}]*"granted_at":null`)
		}},
		{route: "POST /gate/overrides/{service}/{id}/revoke", as: "viewer", path: "/gate/overrides/order/<override>/revoke", body: "x=", want: 303, action: "override.revoke"},
		{route: "POST /api/v1/freezes/{service}/attest", as: "operator", path: "/api/v1/freezes/order/attest", body: `{"kind":"security_fix","ref":"¶a fix¶"}`, want: 201, action: "change.attest"},
		{route: "DELETE /api/v1/freezes/{service}", as: "operator", path: "/api/v1/freezes/order", want: 200, action: "freeze.off"},

		{route: "POST /api/v1/alerts/{id}/ack", as: "operator", path: "/api/v1/alerts/i-1/ack", body: `{"note":"¶seen, by the API¶"}`, want: 200, action: "alert.ack"},
		{route: "POST /alerts/{id}/ack", as: "operator", path: "/alerts/i-2/ack", body: "note=¶seen, by the page¶", want: 303, action: "alert.ack"},
		{route: "POST /api/v1/alerts/test", as: "operator", body: "{}", want: 200, action: "alert.test"},
		{route: "POST /api/v1/silences", as: "operator", body: `{"service":"order","until":"<tomorrow>","reason":"¶a planned move¶"}`, want: 201, action: "silence.add", keep: "silence", of: `"id":"(s-[^"]+)"`},
		{route: "DELETE /api/v1/silences/{id}", as: "operator", path: "/api/v1/silences/<silence>", want: 204, action: "silence.end"},
		{route: "POST /silences", as: "operator", body: "service=points&env=&class=&severity=&minutes=60&reason=¶a second move¶", want: 303, action: "silence.add"},
		{route: "POST /silences/{id}/end", as: "operator", path: "/silences/<silence>/end", body: "x=", want: 303, action: "silence.end", before: func(x *rounds) { x.look("/api/v1/silences", "silence", `"id":"(s-[^"]+)"`) }},

		{route: "POST /signin", as: "nobody", body: "name=kim&password=<password>&next=", want: 303, action: "session.open"},
		{route: "POST /password", as: "kim", body: "present=<password>&new=another+long+password+9&again=another+long+password+9&next=", want: 303, action: "user.password", opens: true},
		{route: "POST /signout", as: "kim", body: "x=", want: 303, action: "session.end"},
	}
}

// TestEveryChangeIsInTheAuditFirst holds every route of the router that can change
// something against the audit: done, it writes one row by who asked; while the audit
// takes no row nothing changes, so the row comes before its effect; from another site
// it does nothing at all.
func TestEveryChangeIsInTheAuditFirst(t *testing.T) {
	x := newRounds(t, func(name string) string { return "because of a test, " + name })
	listed := map[string]bool{}
	for route, why := range unaudited() {
		if listed[route] = true; len(why) < 20 {
			t.Errorf("%s has no reason", route)
		}
	}
	for _, c := range changes() {
		if unaudited()[c.route] != "" {
			t.Errorf("%s is listed as both", c.route)
		}
		listed[c.route] = true
	}
	routes, err := auth.Walk(x.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	real := map[string]bool{}
	for _, r := range routes {
		if key := r.Method + " " + r.Pattern; r.Method != http.MethodGet && r.Method != http.MethodHead {
			if real[key] = true; !listed[key] {
				t.Errorf("%s can change something, and is not listed with a valid body or a reason", key)
			}
		}
	}
	for key := range listed {
		if !real[key] {
			t.Errorf("%s is listed, and is no route", key)
		}
	}

	_, last := x.rows(0)
	for _, c := range changes() {
		if c.before != nil {
			c.before(x)
		}
		method, path, _ := strings.Cut(c.route, " ")
		if c.path != "" {
			path = c.path
		}
		before := x.state()
		if c.as != "nobody" {
			w := x.ask(method, path, c.body, c.as, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
			if after := x.state(); w.Code != http.StatusForbidden || after != before {
				t.Errorf("%s from another site: %d, and changed %s", c.route, w.Code, differing(before, after))
			}
			var rows []auth.Row
			if rows, last = x.rows(last); len(rows) > 0 {
				t.Errorf("%s from another site is in the audit as %+v", c.route, rows)
			}
		}
		if !c.stops {
			x.auditAway(true)
			w := x.ask(method, path, c.body, c.as, nil)
			x.auditAway(false)
			if after := x.state(); after != before || w.Code < 400 {
				t.Errorf("%s while the audit is away: %d, and changed %s", c.route, w.Code, differing(before, after))
			}
			before = x.state()
		}
		w := x.do(c)
		if w.Code != c.want {
			t.Errorf("%s: %d to %q, want %d: %.400s", c.route, w.Code, w.Header().Get("Location"), c.want, plainOr(w.Body.String()))
		}
		var rows []auth.Row
		rows, last = x.rows(last)
		who := map[string]string{"nobody": "kim", "kim": "kim"}[c.as]
		if who == "" {
			who = "t-" + c.as
		}
		mine := slices.DeleteFunc(slices.Clone(rows), func(r auth.Row) bool { return r.Actor == c.alsoSaid || c.opens && r.Action == "session.open" })
		if len(mine) != 1 || mine[0].Actor != who || !strings.HasPrefix(mine[0].Action, c.action) {
			t.Errorf("%s writes %+v, want one row of %s by %s", c.route, rows, c.action, who)
		}
		if x.state() == before && c.action != "change.attest" && c.action != "alert.test" && c.action != "slo.recompute" { // a signature, a message, and a sum that was right
			t.Errorf("%s changes nothing", c.route)
		}
	}
}

// plainOr is the part of a page that says something, or the text as it is.
func plainOr(body string) string {
	if _, main, ok := strings.Cut(body, "<main"); ok {
		return main[:min(len(main), 400)]
	}
	return body
}
