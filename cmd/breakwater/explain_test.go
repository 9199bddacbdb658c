package main

import (
	"encoding/json"
	"encoding/xml"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/explain"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

// captured writes an exchange where a gateway would keep it.
func capture(t *testing.T, state, id string) {
	t.Helper()
	dir := filepath.Join(state, "spool", "boot-1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1_700_000_000, 0).UTC()
	ev := &retrylog.Exchange{
		Count: 1, RequestID: id, Start: start, End: start.Add(time.Second), Gateway: "gw", Env: "test", Service: "auth", Route: "login", Upstream: "auth",
		Method: "GET", Status: 200, Outcome: retrylog.OK, Origin: "upstream", Revision: "old", Reason: "header X-Backend-Status=overloaded", BodyComplete: true,
		Tries: []retrylog.Try{
			{Endpoint: "127.0.0.1:9001", Status: 503, LatencyUS: 12_000, Reason: "header X-Backend-Status=overloaded"},
			{Endpoint: "127.0.0.1:9002", Status: 200, LatencyUS: 9_000, WaitMS: 266},
		},
	}
	line := retrylog.AppendRecord(nil, &retrylog.Record{Exchange: ev})
	if err := os.WriteFile(filepath.Join(dir, "00000001.open"), append(line, make([]byte, 100)...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// served is a gateway with the documents of file, and its admin port.
func served(t *testing.T, file string) (g *gateway.Gateway, admin *httptest.Server) {
	t.Helper()
	files, err := conf.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var log conf.Log
	cfg := config.Parse(files, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	g = gateway.New(gateway.Config{Name: "gw", Env: "test", Log: slog.New(slog.DiscardHandler)})
	if err := g.Apply(*cfg); err != nil {
		t.Fatal(err)
	}
	admin = httptest.NewServer(g.Admin())
	t.Cleanup(admin.Close)
	return g, admin
}

// The page's commands run in a directory with the page's files, one after the other.
func TestExplainPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	t.Chdir(t.TempDir())
	for kind, name := range map[string]string{"yaml": "gw.yaml", "json": "sample.json"} {
		m := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("the page has no %s", kind)
		}
		write(t, name, m[1])
	}
	state := t.TempDir()
	capture(t, state, "7f3c9a")
	t.Setenv("BREAKWATER_STATE_DIR", state)
	t.Setenv("BREAKWATER_CONTROL", fakeControl(t, http.StatusOK, "ok"))
	t.Setenv("DATABASE_URL", "auto")
	_, admin := served(t, "gw.yaml")
	out := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
			stdin, command := "", line
			if m := regexp.MustCompile(`^echo '(.*)' \| (.*)$`).FindStringSubmatch(line); m != nil {
				stdin, command = m[1], m[2]
			}
			args := strings.Fields(strings.Replace(command, "127.0.0.1:15000", admin.Listener.Addr().String(), 1))
			if args[0] != "breakwater" {
				t.Fatalf("%s is no command of ours", line)
			}
			r := verb(t, stdin, args[1:]...)
			r.want(t, exitOK)
			out[command] = r.out
		}
	}
	for command, says := range map[string]string{
		"breakwater validate gw.yaml":                                "ok: 1 routes",
		"breakwater validate -o sarif gw.yaml":                       `"version": "2.1.0"`,
		"breakwater explain --config gw.yaml -":                      "secondary backpressure_signal: no",
		"breakwater explain --config gw.yaml sample.json":            "no further try: non_idempotent",
		"breakwater explain --config gw.yaml -o json sample.json":    `"skip_reason": "non_idempotent"`,
		"breakwater explain --config gw.yaml --event 7f3c9a":         "recorded",
		"breakwater doctor --config gw.yaml --admin 127.0.0.1:15000": "gateway",
	} {
		if !strings.Contains(out[command], says) {
			t.Errorf("%s does not say %q:\n%s", command, says, out[command])
		}
	}
	if len(out) != 7 {
		t.Errorf("%d commands of the page ran, want 7", len(out))
	}
	for _, kind := range explain.Kinds() {
		if !strings.Contains(page, "`"+kind+"`") {
			t.Errorf("the page lacks the failure %s", kind)
		}
	}
}

func TestExplainVerb(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, file, goodDocument)
	state := t.TempDir()
	t.Setenv("BREAKWATER_STATE_DIR", state)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	write(t, bad, "kind: [\n")
	for _, c := range []struct {
		name, stdin, line string
		code              int
		says              string // on stderr
	}{
		{"a sample on stdin", `{"path": "/orders", "status": 200}`, "--config " + file, exitOK, ""},
		{"no documents", `{}`, "", exitUsage, "--config: must name"},
		{"bad documents", `{}`, "--config " + bad, exitNo, "must be YAML"},
		{"a sample that is none", `{"path": 1}`, "--config " + file, exitUsage, "path must be a string, got number"},
		{"no such file", "", "--config " + file + " nosuch.json", exitUsage, "nosuch.json"},
		{"a sample and an event", "", "--config " + file + " - --event x", exitUsage, "--event: must not stand beside a sample"},
		{"an event of nobody", "", "--config " + file + " --event x --control " + nobody(t), exitUnknown, "no event x: it is not in the spool"},
		{"an event that control has not", "", "--config " + file + " --event x --control " + fakeControl(t, 404, "{}"), exitUnknown, "does not know it"},
		{"a format that is none", `{}`, "--config " + file + " -o yaml", exitUsage, "must be table or json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			verb(t, c.stdin, append([]string{"explain"}, strings.Fields(c.line)...)...).want(t, c.code, c.says)
		})
	}
	// Control's event is taken as a record and as the exchange itself.
	ev := `{"request_id": "e-1", "route": "order-get", "method": "GET", "status": 502, "config_revision": "old", "tries": [{"endpoint": "a:1", "status": 502, "latency_us": 5000}]}`
	for _, body := range []string{ev, `{"exchange": ` + ev + `}`} {
		r := verb(t, "", "explain", "--config", file, "--event", "e-1", "--control", fakeControl(t, 200, body), "-o", "json")
		r.want(t, exitOK)
		var a explain.Answer
		if err := json.Unmarshal([]byte(r.out), &a); err != nil || len(a.Tries) != 1 || a.Tries[0].Recorded == nil || a.Tries[0].Recorded.Endpoint != "a:1" {
			t.Errorf("got %+v, %v", a, err)
		}
	}
}

func TestValidateFormats(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, file, goodDocument+"max_retry: 3\n")
	for format, check := range map[string]func(string) bool{
		"json":   func(s string) bool { return json.Valid([]byte(s)) },
		"sarif":  func(s string) bool { return json.Valid([]byte(s)) },
		"junit":  func(s string) bool { return xml.Unmarshal([]byte(s), new(any)) == nil },
		"github": func(s string) bool { return strings.HasPrefix(s, "::error ") },
		"table":  func(s string) bool { return strings.HasPrefix(s, file+":") },
	} {
		r := verb(t, "", "validate", "-o", format, file)
		r.want(t, exitNo)
		if !check(r.out) {
			t.Errorf("%s: got\n%s", format, r.out)
		}
	}
}
