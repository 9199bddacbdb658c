package dialect

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// BeginDeploy gives the slots of w, as the database does.
func (w *world) BeginDeploy(_ context.Context, d slo.Deploy, full func([]slo.Deploy) bool, now time.Time) (slo.Deploy, bool, error) {
	for _, l := range w.known.Deploys {
		if l.Same(d) {
			return l, true, nil
		}
	}
	if full(w.known.Deploys) {
		return slo.Deploy{}, false, nil
	}
	d.ID, d.Begun = "dp-1", now
	w.known.Deploys = append(w.known.Deploys, d)
	return d, true, nil
}

// A cap on deploys in the words of other products: what asks about one deploy waits or
// holds a slot, what lists freezes is not held up and takes none.
func TestACapInEveryDialect(t *testing.T) {
	w := newWorld(slo.Normal)
	p := freeze.Default()
	p.Name, p.Acts = "shop", []freeze.Act{{From: slo.Normal, Deploys: &freeze.Cap{AtMost: 1, Lasts: time.Hour}}}
	w.known.Policies = []freeze.Policy{p}
	w.gate = gate.New(gate.Config{Source: w, Keeper: w, Book: w, Slots: w, Now: w.clock})
	w.desk = New(Config{Gate: w.gate, Source: w, Marks: w, Now: w.clock})
	has := func(what string, rec *httptest.ResponseRecorder, status int, text string) {
		t.Helper()
		if rec.Code != status || !strings.Contains(rec.Body.String(), text) {
			t.Errorf("%s: %d %s, want %d with %q", what, rec.Code, rec.Body, status, text)
		}
	}
	has("periods of GitLab", w.send("GET", "/api/v1/gate/gitlab/freeze_periods?service=order&env=prod", ""), 200, `"freeze_periods":[]`)
	has("verdicts for Kubernetes", w.send("GET", "/api/v1/gate/kubernetes/freezes?env=prod", ""), 200, `"order":"allow"`)
	if len(w.known.Deploys) != 0 {
		t.Fatalf("a list took a slot: %+v", w.known.Deploys)
	}
	canary := func(checksum string) string {
		return `{"name":"order","namespace":"shop","phase":"Progressing","checksum":"` + checksum + `","metadata":{"env":"prod"}}`
	}
	for range 3 { // a canary is asked about again and again
		has("Flagger", w.send("POST", "/api/v1/gate/flagger/confirm", canary("1")), 200, "holds a slot")
	}
	has("another canary", w.send("POST", "/api/v1/gate/flagger/confirm", canary("2")), 403, "no slot is free")
	has("the rollback hook", w.send("POST", "/api/v1/gate/flagger/rollback", canary("1")), 403, "No rollback")
	has("Argo", w.send("GET", "/api/v1/gate/argo?service=order&env=prod&ref=v2", ""), 200, `"ok":false`)
	has("Argo without a name", w.send("GET", "/api/v1/gate/argo?service=order&env=prod", ""), 200, gate.CodeNotNamed)
	rec := w.send("POST", "/api/v1/gate/spinnaker", `{"service":"order","env":"prod","ref":"v3","wait":"10m"}`)
	has("Spinnaker", rec, 202, "PENDING")
	at := rec.Header().Get("Location")
	at = at[strings.Index(at, "/api"):]
	has("Spinnaker waits", w.send("GET", at, ""), 200, `"status":"PENDING"`)
	w.known.Deploys = nil // the canary is over
	has("Spinnaker goes on", w.send("GET", at, ""), 200, `"status":"ALLOWED"`)
	if len(w.known.Deploys) != 1 || w.known.Deploys[0].Key != "ref/v3" {
		t.Errorf("%+v", w.known.Deploys)
	}
}
