package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/slo/gate"
)

// fakeGitHub is GitHub's API as far as a deployment protection rule needs it.
type fakeGitHub struct {
	mu      sync.Mutex
	away    bool
	failed  int // callbacks while it was away
	tokens  int
	reports []string
	reviews []string // state and comment
	strange []string // what nobody should have asked
}

func (g *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var body struct {
		Environment string `json:"environment_name"`
		State       string
		Comment     string
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch word := r.Header.Get("Authorization"); {
	case r.Method == "GET" && r.URL.Path == "/app/hook/deliveries":
		_, _ = io.WriteString(w, "[]")
	case r.Method == "POST" && r.URL.Path == "/app/installations/7/access_tokens" && strings.Count(word, ".") == 2:
		g.tokens++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":"ghs_token","expires_at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	case r.Method == "POST" && r.URL.Path == "/repos/acme/shop/actions/runs/42/deployment_protection_rule" && word == "Bearer ghs_token" && body.Environment == "production":
		switch {
		case g.away:
			g.failed++
			w.WriteHeader(http.StatusBadGateway)
		case body.State == "":
			g.reports = append(g.reports, body.Comment)
			w.WriteHeader(http.StatusNoContent)
		default:
			g.reviews = append(g.reviews, body.State+" "+body.Comment)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		g.strange = append(g.strange, r.Method+" "+r.URL.Path+" "+body.Environment)
		w.WriteHeader(http.StatusNotFound)
	}
}

func (g *fakeGitHub) look(f func()) { g.mu.Lock(); defer g.mu.Unlock(); f() }

const (
	hubSHA    = "d6fde92930d4715a2b49857d24b940956b26d2d3"
	hubSecret = "0123456789abcdef0123"
)

var hubDecision = regexp.MustCompile("Decision `(d-[a-z0-9]+)`")

// A real control is told by GitHub that a run waits: it believes the signature alone,
// reports the freeze with a decision that can be looked up, goes on when the callback
// fails, outlives a kill, and approves once at the thaw.
func TestGitHubThroughARealControl(t *testing.T) {
	if slow(t) {
		return
	}
	hub := &fakeGitHub{}
	api := httptest.NewServer(hub)
	defer api.Close()
	w := newWorld(t, worldConfig{})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keyFile, secretFile := filepath.Join(w.dir, "app.pem"), filepath.Join(w.dir, "hook")
	write(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	write(t, secretFile, hubSecret+"\n")
	deliver := func(id string, alter func(*http.Request)) (int, string) {
		t.Helper()
		text := fmt.Sprintf(`{"action":"requested","environment":"production","event":"push","deployment_callback_url":"%s/repos/acme/shop/actions/runs/42/deployment_protection_rule",`+
			`"deployment":{"id":501,"sha":%q,"created_at":%q},"repository":{"full_name":"acme/shop"},"sender":{"login":"ann"},"installation":{"id":7}}`, api.URL, hubSHA, time.Now().UTC().Format(time.RFC3339))
		req, err := http.NewRequest("POST", w.url["control"]+"/api/v1/gate/github", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, []byte(hubSecret))
		mac.Write([]byte(text))
		for name, value := range map[string]string{"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "X-GitHub-Delivery": id, "X-GitHub-Event": "deployment_protection_rule", "Content-Type": "application/json"} {
			req.Header.Set(name, value)
		}
		if alter != nil {
			alter(req)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if status, text := deliver("g-0", nil); status != 404 && status != 405 {
		t.Errorf("where no App is configured: %d %s", status, text)
	}
	w.control.stop()
	w.control.env = append(w.control.env, "BREAKWATER_GITHUB_APP_ID=1234", "BREAKWATER_GITHUB_APP_KEY_FILE="+keyFile, "BREAKWATER_GITHUB_WEBHOOK_SECRET_FILE="+secretFile,
		"BREAKWATER_GITHUB_API="+api.URL, "BREAKWATER_GITHUB_SERVICES=acme/shop=order", "BREAKWATER_GITHUB_ENVIRONMENTS=production=test")
	w.control.start()
	w.ready("control")
	w.traffic("g", 20)
	decide := func() (d gate.Decision) {
		w.request("GET", "control", "/api/v1/gate/decision?service=order&env=test&dry_run=true", "", &d)
		return d
	}
	w.await("allow while nothing is wrong", time.Minute, func() bool { return decide().Decision == gate.Allow })
	if d := decide(); !d.DryRun || d.DecisionID != "" {
		t.Errorf("a dry run answers %+v", d)
	}
	if status, text := w.request("POST", "control", "/api/v1/freezes/order", `{"reason":"sale day"}`, nil); status != http.StatusCreated {
		t.Fatalf("freezing by hand: %d %s", status, text)
	}
	for name, alter := range map[string]func(*http.Request){
		"another secret's signature": func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)) },
		"no signature":               func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") },
	} {
		if status, text := deliver("g-forged", alter); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, text := deliver("g-1", nil); status != http.StatusAccepted || !strings.Contains(text, `"service":"order"`) {
		t.Fatalf("%d %s", status, text)
	}
	var report string
	w.await("the report of the freeze", 30*time.Second, func() bool {
		hub.look(func() {
			if len(hub.reports) > 0 {
				report = hub.reports[0]
			}
		})
		return report != ""
	})
	found := hubDecision.FindStringSubmatch(report)
	if found == nil || !strings.Contains(report, "**breakwater: deny** (`frozen_by_hand`") || !strings.Contains(report, "sale day") {
		t.Fatalf("reported\n%s", report)
	}
	var kept gate.Logged
	if status, text := w.request("GET", "control", "/api/v1/gate/decisions/"+found[1], "", &kept); status != 200 || kept.By != "github" || kept.Answer.Decision != gate.Deny || kept.Answer.Ref != hubSHA {
		t.Errorf("the decision it names: %d %s", status, text)
	}
	var list struct{ Decisions []gate.Logged }
	if w.request("GET", "control", "/api/v1/gate/decisions?service=order", "", &list); len(list.Decisions) != 1 {
		t.Errorf("%d decisions are kept, want the one that GitHub was told: dry runs leave none", len(list.Decisions))
	}

	// The callback that would approve fails; the process dies over it.
	hub.look(func() { hub.away = true })
	if status, text := w.request("DELETE", "control", "/api/v1/freezes/order", "", nil); status != 200 {
		t.Fatalf("taking the freeze back: %d %s", status, text)
	}
	failed := func() (n int) { hub.look(func() { n = hub.failed }); return n }
	w.await("a callback that fails", 30*time.Second, func() bool { return failed() > 0 })
	w.control.kill()
	w.control.start()
	w.ready("control")
	if status, text := deliver("g-2", nil); status != http.StatusAccepted || !strings.Contains(text, "known already") {
		t.Errorf("the same run under another id: %d %s", status, text)
	}
	before := failed()
	w.await("another try, after the restart", 2*time.Minute, func() bool { return failed() > before })
	hub.look(func() { hub.away = false })
	reviews := func() (out []string) {
		hub.look(func() { out = append(out, hub.reviews...) })
		return out
	}
	w.await("the approval", 2*time.Minute, func() bool { return len(reviews()) > 0 })
	if got := reviews(); len(got) != 1 || !strings.HasPrefix(got[0], "approved **breakwater: allow**") || !hubDecision.MatchString(got[0]) {
		t.Errorf("reviewed %q", got)
	}
	var open, audited int
	w.await("that nothing waits any more", 30*time.Second, func() bool {
		if err := w.db.QueryRow(t.Context(), "select count(*) filter (where done_at is null) from gate_pending").Scan(&open); err != nil {
			t.Fatal(err)
		}
		return open == 0
	})
	if err := w.db.QueryRow(t.Context(), "select count(*) from audit where action = 'github.approved' and object = 'order/test'").Scan(&audited); err != nil || audited < 1 {
		t.Errorf("%d rows of the audit, %v", audited, err)
	}
	hub.look(func() {
		if len(hub.reviews) != 1 || len(hub.reports) != 1 || len(hub.strange) > 0 {
			t.Errorf("%d reviews, %d reports, asked besides %q", len(hub.reviews), len(hub.reports), hub.strange)
		}
	})
}
