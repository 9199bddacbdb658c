package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const ailing = `
apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints: [{address: "UPSTREAM"}]
breaker: {enabled: false}
---
apiVersion: breakwater/v1
kind: Service
name: order
breaker: {enabled: false}
---
apiVersion: breakwater/v1
kind: Route
name: order-get
service: order
match: {path: "/*"}
upstream: order
retry: {enabled: true, max_retries: 1, per_try_timeout: 800ms, retry_on_status: [503], backoff_base: 1ms, fallback_strategy: pass_through}
---
apiVersion: breakwater/v1
kind: ResilienceContract
name: order-answers
upstream: order
answers: [{status: 503, header: {key: X-Backend-Status, value: overloaded}, meaning: busy, reaction: retry}]
`

func doctored(t *testing.T, code int, args ...string) map[string]finding {
	t.Helper()
	r := verb(t, "", append([]string{"doctor", "-o", "json"}, args...)...)
	r.want(t, code)
	var list []finding
	if err := json.Unmarshal([]byte(r.out), &list); err != nil {
		t.Fatalf("%v in %s", err, r.out)
	}
	out := map[string]finding{}
	for _, f := range list {
		if f.State != "ok" && f.Do == "" {
			t.Errorf("%+v does not say what to do", f)
		}
		if f.State != "ok" || out[f.Check].Check == "" {
			out[f.Check] = f
		}
	}
	return out
}

func states(t *testing.T, got map[string]finding, want map[string]string) {
	t.Helper()
	for check, state := range want {
		if got[check].State != state {
			t.Errorf("%s is %q, want %s: %+v", check, got[check].State, state, got[check])
		}
	}
}

// A gateway whose upstream sends a field under another name, and an answer that
// nobody agreed to: both are told with what to do.
func TestDoctorOfARunningGateway(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Original-Backend-Status", "overloaded")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer up.Close()
	file := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, file, strings.Replace(ailing, "UPSTREAM", up.Listener.Addr().String(), 1))
	g, admin := served(t, file)
	data := httptest.NewServer(g.Handler())
	defer data.Close()
	state := t.TempDir()
	all := []string{"--config", file, "--admin", admin.Listener.Addr().String(), "--control", fakeControl(t, 200, "ok"), "--db", "auto", "--state-dir", state}
	got := doctored(t, exitOK, all...)
	states(t, got, map[string]string{"config": "ok", "gateway": "ok", "headers": "ok", "contract": "ok", "control": "ok", "clock": "ok", "spool": "ok", "state": "ok", "database": "skip"})

	for range 30 {
		res, err := http.Get(data.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	write(t, filepath.Join(state, "halt"), "")
	got = doctored(t, exitOK, all...)
	states(t, got, map[string]string{"headers": "warn", "contract": "warn", "halt": "warn", "gateway": "ok"})
	if f := got["headers"]; !strings.Contains(f.Text, "X-Original-Backend-Status") || !strings.Contains(f.Do, "name in the policy what really comes") {
		t.Errorf("got %+v", f)
	}
	if f := got["contract"]; !strings.Contains(f.Text, "503 is not in the contract") || !strings.Contains(f.Text, "order-get") {
		t.Errorf("got %+v", f)
	}
	doctored(t, exitHold, append(all, "--strict")...)
	r := verb(t, "", append([]string{"doctor"}, all...)...)
	r.want(t, exitOK)
	if !strings.HasPrefix(r.out, "STATE") || !strings.Contains(r.out, "X-Original-Backend-Status") {
		t.Errorf("got\n%s", r.out)
	}
}

// What is not there is passed over, unless somebody named it.
func TestDoctorOfNothing(t *testing.T) {
	state := filepath.Join(t.TempDir(), "none")
	away := strings.TrimPrefix(nobody(t), "http://")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	write(t, bad, goodDocument+"max_retry: 3\n")
	got := doctored(t, exitNo, "--config", bad, "--admin", away, "--control", "http://"+away, "--db", "postgres://127.0.0.1:1/x?connect_timeout=1", "--state-dir", state)
	states(t, got, map[string]string{"config": "fail", "gateway": "fail", "control": "fail", "database": "fail", "state": "warn"})
	if _, err := os.Lstat(state); err == nil {
		t.Error("to look has made the state directory")
	}
	d := &doctor{set: settings{admin: away, control: "http://" + away, db: "auto", stateDir: state}, client: &http.Client{}, now: time.Now, examined: &byFiles[examined]{}}
	d.examine(t.Context(), func(string) bool { return false })
	for _, f := range d.found {
		if f.State == "fail" {
			t.Errorf("got %+v of something nobody named", f)
		}
	}
}

func TestDoctorOfOthers(t *testing.T) {
	off := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusOK)
	}))
	defer off.Close()
	got := doctored(t, exitNo, "--admin", fakeControl(t, 404, "?"), "--control", off.URL, "--db", "auto", "--state-dir", t.TempDir())
	states(t, got, map[string]string{"gateway": "fail", "clock": "warn", "control": "ok"})
	if f := got["clock"]; !strings.Contains(f.Text, "-1h0m0s off") {
		t.Errorf("got %+v", f)
	}
	waiting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer waiting.Close()
	states(t, doctored(t, exitNo, "--control", waiting.URL, "--admin", nobody(t), "--db", "auto", "--state-dir", t.TempDir()), map[string]string{"control": "fail"})
}
