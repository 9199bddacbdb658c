package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/internal/pgtest"
)

// TestUX_J6 is the first day without Helm, in a browser: web/e2e/setup.journey.mjs goes
// from an empty control with an empty database to a promise and a planned drill.
func TestUX_J6(t *testing.T) {
	if slow(t) {
		return
	}
	e2e, err := filepath.Abs(filepath.Join("..", "..", "web", "e2e"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(e2e, "node_modules", "playwright-core")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the browser tests are not installed: %v", err)
		}
		t.Skip("the browser tests are not installed: make test does it")
	}
	dir := t.TempDir()
	for _, name := range []string{"config", "state", "gateway"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}\n")) }))
	defer shop.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	logs, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	control := &process{t: t, logs: logs, listeners: map[string]net.Listener{"control": l}, env: []string{"DATABASE_URL=" + pgtest.Empty(t)},
		args: []string{"control", "--control", l.Addr().String(), "--config", filepath.Join(dir, "config"), "--state-dir", filepath.Join(dir, "state"), "--first-token-file", filepath.Join(dir, "first.token")}}
	control.start()
	t.Cleanup(control.kill)
	var password []byte
	for end := time.Now().Add(time.Minute); len(password) == 0; time.Sleep(50 * time.Millisecond) {
		if password, err = os.ReadFile(filepath.Join(dir, "first-admin.password")); err != nil && time.Now().After(end) {
			text, _ := os.ReadFile(logs.Name())
			t.Fatalf("%v\n%s", err, text)
		}
	}
	cmd := exec.Command("node", "--test", "setup.journey.mjs")
	cmd.Dir = e2e
	cmd.Env = append(os.Environ(), "BASE_URL=http://"+l.Addr().String(), "PASSWORD="+strings.TrimSpace(string(password)), "WORK="+filepath.Join(dir, "gateway"),
		"UPSTREAM="+strings.TrimPrefix(shop.URL, "http://"), "BREAKWATER="+bin(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		text, _ := os.ReadFile(logs.Name())
		t.Errorf("%v\n%s\ncontrol:\n%s", err, out, text)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "J6:") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
