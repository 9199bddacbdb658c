package dialect

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/internal/reply"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

func TestArgo(t *testing.T) {
	type answer struct{ Data *Said }
	w := newWorld(slo.Normal)
	for _, method := range []string{"GET", "POST"} {
		text := map[string]string{"POST": `{"service":"order","env":"prod"}`}[method]
		rec := w.send(method, "/api/v1/gate/argo"+map[string]string{"GET": "?service=order&env=prod"}[method], text)
		if a := into[answer](t, rec); rec.Code != 200 || !a.Data.OK || a.Data.DecisionID == "" || rec.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", method, rec.Code, rec.Body)
		}
	}
	w.set(slo.Frozen)
	if a := into[answer](t, w.send("GET", "/api/v1/gate/argo?service=order&env=prod", "")); a.Data.OK || a.Data.Decision != gate.Deny || *a.Data.Remaining != "-0.6" || a.Data.ThawAt == nil {
		t.Errorf("frozen: %+v", a.Data)
	}
	// Whatever is wrong is 200, a JSON object, and not ok.
	w.set(slo.Normal)
	for name, path := range map[string]string{"no service": "", "a typo": "?service=order&enviroment=prod", "no such service": "?service=nobody", "no such kind": "?service=order&kind=party"} {
		rec := w.send("GET", "/api/v1/gate/argo"+path, "")
		if a := into[answer](t, rec); rec.Code != 200 || a.Data == nil || a.Data.OK || a.Data.Decision != gate.Unclear || a.Data.ReasonCode == "" {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	rec := httptest.NewRecorder()
	ArgoAlways(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply.Problem(w, http.StatusUnauthorized, "token_ended", "the token has expired")
	})).ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
	if a := into[answer](t, rec); rec.Code != 200 || a.Data.OK || a.Data.ReasonCode != "token_ended" {
		t.Errorf("an ended token: %d %s", rec.Code, rec.Body)
	}
}

// canary is a call of Flagger as its source writes it.
const canary = `{"name":"order","namespace":"shop","phase":"Progressing","checksum":"85d557f47b","metadata":{"env":"prod","ref":"v2"}}`

func TestFlagger(t *testing.T) {
	w := newWorld(slo.Normal)
	for _, tt := range []struct {
		name             string
		level            slo.Level
		blind            bool
		confirm, rolback int
	}{
		{"all is well", slo.Normal, false, 200, 403},
		{"little is left", slo.Emergency, false, 200, 403},
		{"the budget is spent", slo.Frozen, false, 403, 200},
		{"nothing is known", slo.Normal, true, 403, 403},
		{"a freeze of which nothing new is known", slo.Frozen, true, 403, 403},
	} {
		w.set(tt.level)
		if tt.blind {
			w.blind()
		}
		confirm, back := w.send("POST", "/api/v1/gate/flagger/confirm", canary), w.send("POST", "/api/v1/gate/flagger/rollback", canary)
		if confirm.Code != tt.confirm || back.Code != tt.rolback || confirm.Body.Len() < 10 || !strings.Contains(confirm.Body.String(), "decision d-") {
			t.Errorf("%s: confirm %d %s, rollback %d, want %d and %d", tt.name, confirm.Code, confirm.Body, back.Code, tt.confirm, tt.rolback)
		}
	}
	// A freeze by hand stops a canary and does not take it back.
	w.set(slo.Normal)
	w.known.Orders = []freeze.Order{{ID: "f-1", Service: "order", Reason: "sale day", By: "ann", At: noon}}
	if c, b := w.send("POST", "/api/v1/gate/flagger/confirm", canary), w.send("POST", "/api/v1/gate/flagger/rollback", canary); c.Code != 403 || b.Code != 403 {
		t.Errorf("frozen by hand: confirm %d, rollback %d, want 403 and 403", c.Code, b.Code)
	}
	for name, text := range map[string]string{"no body": "", "two keys": `{"name":"order","Name":"points"}`, "a list": `[]`, "unknown kind": strings.Replace(canary, `"env"`, `"kind":"party","env"`, 1)} {
		if rec := w.send("POST", "/api/v1/gate/flagger/confirm", text); rec.Code != 400 {
			t.Errorf("%s: %d, want 400", name, rec.Code)
		}
	}
}

func TestFlaggerEventsMarkDeploys(t *testing.T) {
	w := newWorld(slo.Normal)
	event := func(phase, ref, stamp string) int {
		return w.send("POST", "/api/v1/gate/flagger/event", `{"name":"order","namespace":"shop","phase":"`+phase+`","metadata":{"env":"prod","ref":"`+ref+`","eventMessage":"m","eventType":"Normal","timestamp":"`+stamp+`"}}`).Code
	}
	if event("Progressing", "v2", "1") != 200 || event("Succeeded", "", "1") != 200 || len(w.marks) != 0 {
		t.Fatalf("marked %+v", w.marks)
	}
	if event("Succeeded", "v2", "1773143990000") != 200 || len(w.marks) != 1 || w.marks[0].Ref != "v2" || w.marks[0].Service != "order" || w.marks[0].Env != "prod" || !w.marks[0].From.Equal(time.UnixMilli(1773143990000)) {
		t.Errorf("marked %+v", w.marks)
	}
	// Over is over, whether it went well or not and named or not: its slot is free.
	if event("Failed", "v2", "1") != 200 || len(w.marks) != 1 || len(w.ends) != 2 || w.ends[0].Outcome != slo.DeploySucceeded || w.ends[1].Outcome != slo.DeployFailed || w.ends[1].Key != "ref/v2" {
		t.Errorf("ended %+v, marked %+v", w.ends, w.marks)
	}
	if event("Succeeded", "v3", "99") != 200 || !w.marks[1].From.Equal(noon) {
		t.Errorf("a clock far off: marked %+v", w.marks[1])
	}
}

func TestAnOverrideIsUsedOnceByOneCanary(t *testing.T) {
	w := newWorld(slo.Frozen)
	granted := noon.Add(-time.Minute)
	w.known.Overrides = []freeze.Override{{ID: "o-1", Service: "order", Env: "prod", Ref: "v2", Reason: "customers cannot pay", Ticket: "INC-7", AskedBy: "ann", AskedAt: granted,
		ExpiresAt: noon.Add(time.Hour), MaxUses: 1, GrantedBy: "bob", GrantedAt: &granted}}
	for range 3 {
		if rec := w.send("POST", "/api/v1/gate/flagger/confirm", canary); rec.Code != 200 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
	}
	if len(w.used) != 1 || !w.used["o-1 flagger/shop/order/85d557f47b"] {
		t.Errorf("used %v", w.used)
	}
	if rec := w.send("POST", "/api/v1/gate/flagger/rollback", canary); rec.Code != 403 {
		t.Errorf("what an override lets out is rolled back: %d", rec.Code)
	}
}

func TestSpinnaker(t *testing.T) {
	w := newWorld(slo.Frozen)
	start := func(text string) string {
		t.Helper()
		rec := w.send("POST", "/api/v1/gate/spinnaker", text)
		at := rec.Header().Get("Location")
		if rec.Code != 202 || !strings.HasPrefix(at, "http://control:8081/api/v1/gate/spinnaker/") {
			t.Fatalf("%d %q %s", rec.Code, at, rec.Body)
		}
		return strings.TrimPrefix(at, "http://control:8081")
	}
	poll := func(at, want string) progress {
		t.Helper()
		rec := w.send("GET", at, "")
		p := into[progress](t, rec)
		if rec.Code != 200 || p.Status != want || p.Progress == "" {
			t.Errorf("%d %s, want %s", rec.Code, rec.Body, want)
		}
		return p
	}
	at := start(`{"service":"order","env":"prod","wait":"30m"}`)
	poll(at, "PENDING")
	w.pass(29 * time.Minute)
	poll(at, "PENDING")
	if len(w.kept) != 0 {
		t.Errorf("%d polls are kept as decisions", len(w.kept))
	}
	w.set(slo.Normal)
	if p := poll(at, "ALLOWED"); p.DecisionID == "" || len(w.kept) != 1 {
		t.Errorf("allowed as %q", p.DecisionID)
	}
	w.set(slo.Frozen)
	at = start(`{"service":"order","env":"prod","wait":"30m"}`)
	w.pass(30 * time.Minute)
	if p := poll(at, "DENIED"); p.DecisionID == "" || p.Decision != gate.Deny {
		t.Errorf("denied as %+v", p)
	}
	poll(start(`{"service":"order","env":"prod"}`), "DENIED")
	w.blind()
	if p := poll(start(`{"service":"order","env":"prod"}`), "DENIED"); p.Decision != gate.Unclear {
		t.Errorf("nothing is known: %+v", p)
	}
	if p := poll(start(`{"service":"order","env":"prod","on_unknown":"allow"}`), "ALLOWED"); p.ReasonCode != "unknown_allowed" || !strings.Contains(p.Progress, "on_unknown=allow") {
		t.Errorf("allowed by its caller: %+v", p)
	}
	w.principal.Services = []string{"points"}
	if rec := w.send("GET", at, ""); rec.Code != 403 {
		t.Errorf("another service's: %d", rec.Code)
	}
	w.principal.Services = nil
	for _, word := range []string{"x", "e30", "bnVsbA"} {
		if rec := w.send("GET", "/api/v1/gate/spinnaker/"+word, ""); rec.Code != 400 {
			t.Errorf("ticket %s: %d", word, rec.Code)
		}
	}
	for _, text := range []string{`{"service":"order","wait":"-1s"}`, `{"service":"order","wait":"200h"}`, `{"wait":"1m"}`, `{"service":"order","waits":"1m"}`} {
		if rec := w.send("POST", "/api/v1/gate/spinnaker", text); rec.Code != 400 {
			t.Errorf("%s: %d", text, rec.Code)
		}
	}
}

// What is known of nothing is no yes in any dialect, unless it was asked for in
// writing: by the caller, and then the answer says so, or by the policy.
func TestUX_U4_UnknownIsNoAllowInAnyDialect(t *testing.T) {
	ask := func(w *world, extra string) map[string]bool {
		argo := into[argo](t, w.send("GET", "/api/v1/gate/argo?service=order&env=prod"+extra, ""))
		gitlab := into[struct {
			Periods []FreezePeriod `json:"freeze_periods"`
		}](t, w.send("GET", "/api/v1/gate/gitlab/freeze_periods?service=order&env=prod"+extra, ""))
		spin := w.send("POST", "/api/v1/gate/spinnaker?service=order&env=prod"+extra, "{}").Header().Get("Location")
		status := into[progress](t, w.send("GET", strings.TrimPrefix(spin, "http://control:8081"), ""))
		freezes := into[struct{ Data map[string]string }](t, w.send("GET", "/api/v1/gate/kubernetes/freezes?env=prod"+extra, ""))
		return map[string]bool{
			"argo":    argo.Data.OK,
			"flagger": w.send("POST", "/api/v1/gate/flagger/confirm?service=order&env=prod"+extra, canary).Code == 200,
			"gitlab":  len(gitlab.Periods) == 0, "spinnaker": status.Status == "ALLOWED",
			"vap": freezes.Data["order"] == "allow" || freezes.Data["unknown.answer"] == "allow",
		}
	}
	for name, dark := range map[string]func(*world){
		"the database is away":   func(w *world) { w.blind(); w.keepErr = errors.New("away") },
		"nothing was ever known": func(w *world) { w.statuses = nil },
		"no data": func(w *world) {
			w.statuses[0].Level, w.statuses[0].Measured, w.statuses[0].Budget = slo.Unknown, slo.Unknown, slo.Budget{NoData: true}
		},
	} {
		w := newWorld(slo.Normal)
		dark(w)
		for dialect, allowed := range ask(w, "") {
			if allowed {
				t.Errorf("%s: %s allows", name, dialect)
			}
		}
	}
	w := newWorld(slo.Normal)
	w.blind()
	for dialect, allowed := range ask(w, "&on_unknown=allow") {
		if !allowed {
			t.Errorf("the caller asked for it in writing, and %s does not allow", dialect)
		}
	}
	if text := w.send("POST", "/api/v1/gate/flagger/confirm?on_unknown=allow", canary).Body.String(); !strings.Contains(text, "the caller asked for allow then, by on_unknown=allow") {
		t.Errorf("it does not say so: %s", text)
	}
	// What is known is not settled by it, and neither is a hold.
	frozen, held := newWorld(slo.Frozen), newWorld(slo.Unknown)
	for _, w := range []*world{frozen, held} {
		for dialect, allowed := range ask(w, "&on_unknown=allow") {
			if allowed && dialect != "vap" || dialect == "vap" && into[struct{ Data map[string]string }](t, w.send("GET", "/api/v1/gate/kubernetes/freezes?env=prod&on_unknown=allow", "")).Data["order"] == "allow" {
				t.Errorf("%s lets out what is %s", dialect, w.statuses[0].Level)
			}
		}
	}
	p := freeze.Default()
	p.Name, p.OnUnknown = "loose", []freeze.Settle{{Envs: []string{"prod"}, Allow: true}}
	w.known.Policies = []freeze.Policy{p}
	for dialect, allowed := range ask(w, "") {
		if !allowed {
			t.Errorf("the policy asks for it in writing, and %s does not allow", dialect)
		}
	}
}

// The store is away: unknown; production freezes, and a rollback is let through.
func TestReliability_X168(t *testing.T) {
	w := newWorld(slo.Normal)
	w.blind()
	w.keepErr = errors.New("away")
	ask := func(kind string) Said {
		return into[argo](t, w.send("GET", "/api/v1/gate/argo?service=order&env=prod&kind="+kind, "")).Data
	}
	if s := ask("feature"); s.OK || s.Decision != gate.Unclear || s.ReasonCode != "stale_evaluation" || s.DecisionID != "" {
		t.Errorf("%+v, want unknown", s)
	}
	p := freeze.Default()
	p.Name, p.OnUnknown = "prod", []freeze.Settle{{Envs: []string{"prod"}, Except: []freeze.Kind{freeze.Rollback}}}
	w.known.Policies = []freeze.Policy{p}
	if s := ask("feature"); s.OK || s.Decision != gate.Deny || s.ReasonCode != "unknown_denied" {
		t.Errorf("%+v, want deny", s)
	}
	if s := ask("rollback"); !s.OK || s.ReasonCode != "unknown_allowed" || !strings.Contains(s.Text, "policy prod asks for allow") {
		t.Errorf("%+v, want allow", s)
	}
}

func TestPlatformTakesProofsOfHistoryOnly(t *testing.T) {
	w := newWorld(slo.Frozen)
	p := freeze.Default()
	p.Name = "strict"
	p.Passes = []freeze.Pass{{Kind: freeze.Rollback, Proofs: []freeze.Proof{freeze.History}}}
	w.known.Policies = []freeze.Policy{p}
	for text, want := range map[string]string{
		`{"service":"order","env":"prod","kind":"rollback","ref":"v1"}`:                                 "deny",
		`{"service":"order","env":"prod","kind":"rollback","ref":"v1","seen":"history"}`:                "allow",
		`{"service":"order","env":"prod","kind":"rollback","ref":"v1","seen":"history","dry_run":true}`: "allow",
		`{"service":"order","env":"prod","kind":"feature","ref":"v1","seen":"history"}`:                 "deny",
		`{"service":"order","env":"prod","kind":"rollback","ref":"v1","seen":"label"}`:                  "",
	} {
		rec := w.send("POST", "/api/v1/gate/platform", text)
		var d gate.Decision
		_ = json.Unmarshal(rec.Body.Bytes(), &d)
		if string(d.Decision) != want || (rec.Code == 200) != (want != "") || strings.Contains(text, "dry_run") && d.DecisionID != "" {
			t.Errorf("%s: %d %s, want %q", text, rec.Code, rec.Body, want)
		}
	}
	if len(w.kept) != 3 {
		t.Errorf("%d decisions are kept, want 3: a dry run leaves none", len(w.kept))
	}
}

// Whatever a stage is told to poll, it is answered and never by an allow from nothing.
func FuzzTicket(f *testing.F) {
	f.Add("eyJxIjp7InNlcnZpY2UiOiJvcmRlciJ9LCJ0IjoiMjAyNi0wMy0xMFQxMjowMDowMFoifQ")
	f.Add("bnVsbA")
	f.Fuzz(func(t *testing.T, word string) {
		tk, err := readTicket(word)
		if err != nil {
			return
		}
		if tk.Request.Seen != "" || tk.Request.Service == "" || tk.Request.DryRun {
			t.Errorf("taken: %+v", tk)
		}
	})
}
