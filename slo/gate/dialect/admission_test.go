package dialect

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

func podTemplate(image string) string {
	return `{"metadata":{"creationTimestamp":null,"labels":{"app":"order","App":"x"}},"spec":{"containers":[{"name":"order","image":"` + image + `"}]}}`
}

func deployment(image, replicas string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"order-web","namespace":"shop","uid":"u-1","labels":{"breakwater.dev/service":"order"}},"spec":{"replicas":` + replicas + `,"template":` + podTemplate(image) + `}}`
}

// review is what an API server posts; with changes each old=new.
func review(changes ...string) string {
	text := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"r-1","kind":{"group":"apps","version":"v1","kind":"Deployment"},` +
		`"resource":{"group":"apps","version":"v1","resource":"deployments"},"requestKind":{"group":"apps","version":"v1","kind":"Deployment"},` +
		`"name":"order-web","namespace":"shop","operation":"UPDATE","userInfo":{"username":"ci","groups":["system:authenticated"]},` +
		`"object":` + deployment("order:v2", "3") + `,"oldObject":` + deployment("order:v1", "2") + `,"dryRun":false,"options":{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}}}`
	for _, c := range changes {
		from, to, _ := strings.Cut(c, "=>")
		text = strings.Replace(text, from, to, 1)
	}
	return text
}

// past is a History.
type past struct {
	templates []string
	err       error
}

func (p past) Templates(_ context.Context, _, _, _, uid string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, t := range p.templates {
		out = append(out, json.RawMessage(t))
	}
	return out, p.err
}

func (w *world) admission() *Admission {
	return &Admission{Env: "prod", Exempt: []string{"breakwater"}, OnUnknown: "deny", OnUnknownRollback: "allow",
		Ask: func(ctx context.Context, r gate.Request, dryRun bool) (gate.Decision, error) {
			if dryRun {
				return w.gate.Look(r), nil
			}
			return w.gate.Answer(ctx, r), nil
		}}
}

func admit(t *testing.T, a *Admission, text string) Admitted {
	t.Helper()
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/admission", strings.NewReader(text)))
	var r Review
	if err := json.Unmarshal(rec.Body.Bytes(), &r); err != nil || rec.Code != 200 || r.Response == nil || r.Response.UID != "r-1" || r.APIVersion != "admission.k8s.io/v1" || r.Kind != "AdmissionReview" {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return *r.Response
}

func TestAdmissionInAFreeze(t *testing.T) {
	w := newWorld(slo.Frozen)
	a := w.admission()
	a.History = past{templates: []string{`{"metadata":{"labels":{"app":"order","App":"x","pod-template-hash":"7d9"}},"spec":{"containers":[{"image":"order:v0","name":"order"}]}}`}}
	tests := []struct {
		name    string
		changes []string
		want    bool
		asked   int
	}{
		{"a new template", nil, false, 1},
		{"a new deployment", []string{"UPDATE=>CREATE"}, false, 1},
		{"more replicas only", []string{`order:v2=>order:v1`}, true, 0},
		{"autoscaling", []string{`"name":"order-web","namespace":"shop","operation"=>"subResource":"scale","name":"order-web","namespace":"shop","operation"`}, true, 0},
		{"a controller's status", []string{`"name":"order-web","namespace":"shop","operation"=>"subResource":"status","name":"order-web","namespace":"shop","operation"`}, true, 0},
		{"the system", []string{`"namespace":"shop","operation"=>"namespace":"kube-system","operation"`}, true, 0},
		{"ourselves", []string{`"namespace":"shop","operation"=>"namespace":"breakwater","operation"`}, true, 0},
		{"a deletion", []string{"UPDATE=>DELETE"}, true, 0},
		{"a ConfigMap", []string{`"resource":"deployments"=>"resource":"configmaps"`}, true, 0},
		{"a StatefulSet", []string{`"resource":"deployments"=>"resource":"statefulsets"`}, false, 1},
		{"back to what ran before", []string{`order:v2=>order:v0`}, true, 1},
		{"said to be a rollback", []string{`"uid":"u-1"=>"uid":"u-1","annotations":{"breakwater.dev/change-kind":"security_fix"}`}, false, 1},
		{"of another service, unknown", []string{`breakwater.dev/service":"order"=>breakwater.dev/service":"nobody"`}, false, 1},
		{"a kind that is none", []string{`"uid":"u-1"=>"uid":"u-1","annotations":{"breakwater.dev/change-kind":"party"}`}, false, 0},
	}
	for _, tt := range tests {
		w.kept = nil
		got := admit(t, a, review(tt.changes...))
		if got.Allowed != tt.want || len(w.kept) != tt.asked {
			t.Errorf("%s: allowed %v, asked %d times, want %v and %d: %+v", tt.name, got.Allowed, len(w.kept), tt.want, tt.asked, got.Status)
		}
		if !got.Allowed && (got.Status == nil || got.Status.Message == "" || got.Status.Code < 400) {
			t.Errorf("%s: refused without a word: %+v", tt.name, got)
		}
		if tt.asked == 1 && got.Audit["decision-id"] != w.kept[0].Decision.DecisionID {
			t.Errorf("%s: the decision is not named: %v", tt.name, got.Audit)
		}
	}
	w.set(slo.Normal)
	if got := admit(t, a, review()); !got.Allowed || len(got.Warnings) != 0 {
		t.Errorf("all is well: %+v", got)
	}
	w.set(slo.Emergency)
	if got := admit(t, a, review()); !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "canary") {
		t.Errorf("little is left: %+v", got)
	}
}

// A rollback is one by what the cluster kept, not by what its author says.
func TestAdmissionProvesRollbacks(t *testing.T) {
	w := newWorld(slo.Frozen)
	p := freeze.Default()
	p.Name, p.Passes = "strict", []freeze.Pass{{Kind: freeze.Rollback, Proofs: []freeze.Proof{freeze.History}}}
	w.known.Policies = []freeze.Policy{p}
	a := w.admission()
	said := review(`"uid":"u-1"=>"uid":"u-1","annotations":{"breakwater.dev/change-kind":"rollback"}`)
	if got := admit(t, a, said); got.Allowed || got.Audit["reason-code"] != "kind_not_proven" {
		t.Errorf("said: %+v", got)
	}
	a.History = past{err: errors.New("forbidden")}
	if got := admit(t, a, said); got.Allowed {
		t.Errorf("history cannot be seen: %+v", got)
	}
	a.History = past{templates: []string{podTemplate("order:v1"), podTemplate("order:v2")}}
	if got := admit(t, a, review()); !got.Allowed || got.Audit["kind"] != "rollback" {
		t.Errorf("seen: %+v", got)
	}
}

func TestAdmissionDryRunLeavesNothing(t *testing.T) {
	w := newWorld(slo.Frozen)
	at := noon
	w.known.Overrides = []freeze.Override{{ID: "o-1", Service: "order", Ref: "order:v2", Reason: "customers cannot pay", Ticket: "I-7", AskedBy: "ann", AskedAt: at, ExpiresAt: at.Add(1e12), MaxUses: 1, GrantedBy: "bob", GrantedAt: &at}}
	got := admit(t, w.admission(), review(`"dryRun":false=>"dryRun":true`))
	if !got.Allowed || len(w.used) != 0 || len(w.kept) != 0 || got.Audit["decision-id"] != "" {
		t.Errorf("%+v, used %v, kept %d", got, w.used, len(w.kept))
	}
	if got := admit(t, w.admission(), review()); !got.Allowed || len(w.used) != 1 || len(got.Warnings) != 1 {
		t.Errorf("%+v, used %v", got, w.used)
	}
	w.known.Overrides = nil
	p := freeze.Default()
	p.Name, p.DryRun = "watch", true
	w.known.Policies = []freeze.Policy{p}
	if got := admit(t, w.admission(), review()); !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "breakwater: ALLOW") || len(got.Warnings[0]) > 256 {
		t.Errorf("a policy that only watches: %+v", got)
	}
}

// Control away, or nothing known: closed in prod, but for what history proves; and
// the answer says on whose word.
func TestAdmissionFailMode(t *testing.T) {
	for name, ask := range map[string]func(context.Context, gate.Request, bool) (gate.Decision, error){
		"control is away": func(context.Context, gate.Request, bool) (gate.Decision, error) {
			return gate.Decision{}, errors.New("refused")
		},
		"nothing is known": func(context.Context, gate.Request, bool) (gate.Decision, error) {
			return gate.Decision{Decision: gate.Unclear, ReasonCode: "stale_evaluation", Reasons: []string{"old."}}, nil
		},
	} {
		a := newWorld(slo.Normal).admission()
		a.Ask = ask
		if got := admit(t, a, review()); got.Allowed || got.Audit["reason-code"] != "unknown_denied" || !strings.Contains(got.Status.Message, "--on-unknown of this webhook asks for deny") {
			t.Errorf("%s: %+v", name, got)
		}
		// Whoever only says that it is a rollback is no better off.
		if got := admit(t, a, review(`"uid":"u-1"=>"uid":"u-1","annotations":{"breakwater.dev/change-kind":"rollback"}`)); got.Allowed {
			t.Errorf("%s, said to be a rollback: %+v", name, got)
		}
		a.History = past{templates: []string{podTemplate("order:v2")}}
		if got := admit(t, a, review()); !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "--on-unknown-rollback of this webhook asks for allow") {
			t.Errorf("%s, a rollback: %+v", name, got)
		}
		a.OnUnknownRollback = ""
		if got := admit(t, a, review()); got.Allowed {
			t.Errorf("%s, not asked for: %+v", name, got)
		}
		a.History, a.OnUnknown = nil, "allow"
		if got := admit(t, a, review()); !got.Allowed || len(got.Warnings) != 1 {
			t.Errorf("%s, asked for: %+v", name, got)
		}
	}
}

func TestAdmissionRefusesWhatIsNoReview(t *testing.T) {
	a := newWorld(slo.Normal).admission()
	for name, text := range map[string]string{"nothing": "", "a list": "[]", "no request": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		"v1beta1": review("admission.k8s.io/v1=>admission.k8s.io/v1beta1"), "no uid": review(`"uid":"r-1"=>"uid":""`)} {
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/admission", strings.NewReader(text)))
		if rec.Code != 400 {
			t.Errorf("%s: %d", name, rec.Code)
		}
	}
	if got := admit(t, a, review(`"object":`+deployment("order:v2", "3")+`=>"object":null`)); got.Allowed {
		t.Errorf("no object: %+v", got)
	}
}

// Whatever is posted, what is let through in a freeze has a reason that is not the gate's.
func FuzzAdmission(f *testing.F) {
	f.Add(review())
	f.Add(review("UPDATE=>CREATE"))
	w := newWorld(slo.Frozen)
	f.Fuzz(func(t *testing.T, text string) {
		rec := httptest.NewRecorder()
		w.admission().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/admission", strings.NewReader(text)))
		var r Review
		if rec.Code == 200 && (json.Unmarshal(rec.Body.Bytes(), &r) != nil || r.Response == nil || r.Response.UID == "") {
			t.Errorf("%s", rec.Body)
		}
		if rec.Code == 200 && r.Response.Allowed && r.Response.Audit["why"] == "" && r.Response.Audit["kind"] == "feature" {
			t.Errorf("let through: %s", text)
		}
	})
}

func TestClusterHistory(t *testing.T) {
	var asked []string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		owner := `"metadata":{"ownerReferences":[{"kind":"X","name":"order-web","uid":"%s"}]}`
		switch {
		case strings.HasSuffix(r.URL.Path, "controllerrevisions"):
			fmt.Fprintf(w, `{"items":[{`+owner+`,"data":{"spec":{"template":{"$patch":"replace","spec":{"containers":[]}}}}}]}`, "u-1")
		case r.URL.Query().Get("continue") == "":
			fmt.Fprintf(w, `{"metadata":{"continue":"more"},"items":[{`+owner+`,"spec":{"template":{"a":1}}},{`+owner+`,"spec":{"template":{"b":1}}}]}`, "u-1", "u-0")
		default:
			fmt.Fprintf(w, `{"items":[{`+owner+`,"spec":{"template":{"c":1}}}]}`, "u-1")
		}
	}))
	defer srv.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewCluster(srv.URL, dir); err == nil {
		t.Error("taken without a certificate")
	}
	writeCA(t, dir, srv)
	c, err := NewCluster(srv.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Templates(t.Context(), "deployments", "shop", "order-web", "u-1")
	if err != nil || len(got) != 2 || string(got[0]) != `{"a":1}` || string(got[1]) != `{"c":1}` {
		t.Errorf("%s, %v", got, err)
	}
	got, err = c.Templates(t.Context(), "statefulsets", "shop", "order-web", "u-1")
	if err != nil || len(got) != 1 || !same(got[0], json.RawMessage(`{"spec":{"containers":[]}}`)) {
		t.Errorf("%s, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Templates(t.Context(), "deployments", "shop", "order-web", "u-1"); err == nil {
		t.Errorf("not let in, yet %s", got)
	}
}

func writeCA(t *testing.T, dir string, srv *httptest.Server) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
