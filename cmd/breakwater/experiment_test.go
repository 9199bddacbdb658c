package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const goodDoc = "apiVersion: breakwater/v1\nkind: Scenario\nid: slow\n"

// drillControl answers as control does: a run that is looked at `looks` times before it has
// ended as last says.
func drillControl(t *testing.T, looks int32, last string) (address string, aborted *atomic.Bool, posted *atomic.Value) {
	t.Helper()
	var seen atomic.Int32
	aborted, posted = new(atomic.Bool), new(atomic.Value)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/experiments":
			body, _ := io.ReadAll(r.Body)
			posted.Store(r.Header.Get("Content-Type") + " " + string(body))
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"id":"r-1","state":"scheduled"}`))
		case "GET /api/v1/experiments/r-1":
			if n := seen.Add(1); n <= looks && !aborted.Load() {
				_, _ = w.Write([]byte(`{"id":"r-1","state":"injecting","verdict":"not_evaluated","events":[{"at":"2026-03-03T10:00:00Z","kind":"state","text":"injecting"}]}`))
				return
			}
			_, _ = w.Write([]byte(last))
		case "POST /api/v1/experiments/r-1/abort":
			aborted.Store(true)
			_, _ = w.Write([]byte(`{"id":"r-1","state":"aborting"}`))
		default:
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, aborted, posted
}

func endedAs(state, verdict, why string) string {
	return `{"id":"r-1","scenario":"slow","state":"` + state + `","verdict":"` + verdict + `","why":"` + why + `","attempts":100,"injected":30,
		"started_at":"2026-03-03T10:00:00Z","ended_at":"2026-03-03T10:01:00Z","events":[{"at":"2026-03-03T10:00:00Z","kind":"state","text":"injecting"}],
		"assertions":[{"id":"d1","phase":"during","text":"share","expected":"<= 3 %","seen":"9 % \u0001","result":"fail","n":900},
			{"id":"d2","phase":"during","text":"alert","expected":"silent","seen":"nothing","result":"no_data"},
			{"id":"d3","phase":"during","text":"x","expected":"y","seen":"z","result":"pass"},
			{"id":"d4","phase":"during","text":"x","expected":"y","seen":"z","result":"fail","optional":true}]}`
}

func TestExperimentRunCI(t *testing.T) {
	for _, tt := range []struct {
		state, verdict string
		code           int
	}{
		{"completed", "passed", exitOK}, {"completed", "failed", exitNo}, {"aborted", "failed", exitNo}, {"completed", "inconclusive", exitHold},
		{"engine_error", "inconclusive", exitInternal}, {"skipped", "not_evaluated", exitHold}, {"cancelled", "not_evaluated", exitHold},
		{"expired", "", exitHold},
	} {
		t.Run(tt.state+" "+tt.verdict, func(t *testing.T) {
			at, aborted, _ := drillControl(t, 0, endedAs(tt.state, tt.verdict, "d1 & <more>"))
			file := filepath.Join(t.TempDir(), "drill.xml")
			r := verb(t, "", "experiment", "run", "slow", "--ci", "--control", at, "--junit", file)
			r.want(t, tt.code, "r-1 scheduled", "10:00:00 injecting")
			if aborted.Load() || !strings.Contains(r.out, "30 of 100 tries were hit") {
				t.Errorf("aborted %v, stdout %s", aborted.Load(), r.out)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s junitSuite
			if err := xml.Unmarshal(text, &s); err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			// The verdict is a case too: a run without a verdict must not look green.
			fails, errs := 1, 1
			switch tt.verdict {
			case "failed":
				fails++
			case "passed":
			default:
				errs++
			}
			if s.Tests != 5 || s.Failures != fails || s.Errors != errs || s.Skipped != 1 || s.Time != "60.000" || len(s.Cases) != 5 {
				t.Errorf("%s", text)
			}
		})
	}
}

func TestExperimentRunWaits(t *testing.T) {
	at, _, posted := drillControl(t, 2, endedAs("completed", "passed", ""))
	file := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(file, []byte(goodDoc), 0o600); err != nil {
		t.Fatal(err)
	}
	r := verb(t, "", "experiment", "run", file, "--ci", "-o", "junit", "--control", at)
	r.want(t, exitOK)
	if got := posted.Load(); got != "application/yaml "+goodDoc {
		t.Errorf("control was sent %q, want the document as it stands", got)
	}
	if !strings.HasPrefix(r.out, "<?xml") || strings.Count(r.err, "injecting") != 1 {
		t.Errorf("stdout %s\nstderr %s", r.out, r.err)
	}
}

// tripwire is a standard error that tells when a word is written.
type tripwire struct {
	bytes.Buffer
	word string
	hit  func()
}

func (w *tripwire) Write(p []byte) (int, error) {
	if w.hit != nil && bytes.Contains(p, []byte(w.word)) {
		w.hit()
	}
	return w.Buffer.Write(p)
}

// Who goes away takes the fault along: Ctrl-C and --timeout abort the run.
func TestExperimentRunIsInterrupted(t *testing.T) {
	for _, how := range []string{"ctrl-c", "ctrl-c while it is started", "timeout"} {
		t.Run(how, func(t *testing.T) {
			at, aborted, _ := drillControl(t, 1<<30, endedAs("aborted", "inconclusive", "user: stopped early"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			args := []string{"experiment", "run", "slow", "--ci", "--control", at}
			errs := &tripwire{}
			switch how {
			case "timeout":
				args = append(args, "--timeout", "300ms")
			case "ctrl-c":
				errs.word, errs.hit = "injecting", cancel
			case "ctrl-c while it is started":
				cancel()
			}
			var out bytes.Buffer
			code := run(ctx, args, streams{in: strings.NewReader(""), out: &out, err: errs})
			if code != exitHold || !aborted.Load() || !strings.Contains(errs.String(), "aborting r-1") {
				t.Errorf("exit code %d, aborted %v\n%s%s", code, aborted.Load(), out.String(), errs.String())
			}
		})
	}
	// Who only watches does not stop what others started.
	at, aborted, _ := drillControl(t, 1<<30, "")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	code := run(ctx, []string{"experiment", "watch", "r-1", "--control", at}, streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
	if code != exitUnknown || aborted.Load() {
		t.Errorf("watch ended with %d, aborted %v", code, aborted.Load())
	}
}

func TestExperimentUsage(t *testing.T) {
	for line, says := range map[string]string{
		"experiment run slow --junit x.xml":                   "must go with --ci",
		"experiment run slow --ci -o yaml":                    "must be table, json or junit",
		"experiment run ./none.yaml":                          "read the scenario",
		"experiment import ./none.json --from toxiproxy":      "read the file",
		"experiment import x --from gremlin":                  "must be chaostoolkit or toxiproxy",
		"experiment run slow --ci --control http://127.0.0.1": "ask control",
	} {
		r := verb(t, "", strings.Fields(line)...)
		if r.code == exitOK || !strings.Contains(r.err, says) {
			t.Errorf("%s: %d %s, want %q", line, r.code, r.err, says)
		}
	}
}

func TestExperimentImport(t *testing.T) {
	toxics := `[{"name":"redis","listen":"a:1","upstream":"b:2","toxics":[{"type":"limit_data","attributes":{"bytes":10}}]}]`
	r := verb(t, toxics, "experiment", "import", "-", "--from", "toxiproxy")
	r.want(t, exitOK, "[0].listen: not carried", "1 scenarios, ")
	if !strings.Contains(r.out, "truncate: {at: 10B, mode: dirty}") {
		t.Errorf("stdout %s", r.out)
	}
	dir := t.TempDir()
	verb(t, toxics, "experiment", "import", "-", "--from", "toxiproxy", "--out", dir, "--strict").want(t, exitHold)
	if text, err := os.ReadFile(filepath.Join(dir, "toxiproxy-redis.yaml")); err != nil || !strings.Contains(string(text), "kind: Scenario") {
		t.Errorf("%v %s", err, text)
	}
	verb(t, toxics, "experiment", "import", "-", "--from", "toxiproxy", "--out", dir).want(t, exitNo, "exists") // nothing is written over
	verb(t, "[]", "experiment", "import", "-", "--from", "toxiproxy").want(t, exitNo, "nothing in it")
}

func TestExperimentSearchAndExport(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done := `{"id":"s-1","scenario":"slow","knob":"latency.value","state":"ended","verdict":"found","change":"worse","previous":"s-0","why":"bears 1 s","shown":{"pass":"1000 ms","fail":"1100 ms"},"probes":[{"run":"r-1","value":5000,"result":"fail","why":"d1"}]}`
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/searches":
			_, _ = w.Write([]byte(`{"id":"s-1","state":"searching"}`))
		case "GET /api/v1/searches/s-1":
			_, _ = w.Write([]byte(done))
		case "GET /api/v1/searches":
			_, _ = w.Write([]byte(`{"searches":[` + done + `]}`))
		case "POST /api/v1/searches/s-1/abort":
			_, _ = w.Write([]byte(done))
		case "GET /api/v1/experiments/r-1":
			_, _ = w.Write([]byte(endedAs("completed", "failed", "d1")))
		case "POST /api/v1/experiments/preview":
			_, _ = w.Write([]byte(`{"scenario":"slow","service":"points","warnings":[]}`))
		default:
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	for _, tt := range []struct {
		line string
		code int
		out  string
	}{
		{"search slow", exitOK, "s-1 searching"},
		{"search slow --wait", exitNo, "since s-0: worse"},
		{"boundary slow", exitOK, "1000 ms to 1100 ms"},
		{"boundary s-1", exitOK, "r-1"},
		{"abort s-1", exitOK, "s-1 ended"},
		{"export r-1", exitOK, `"deviated": true`},
		{"export slow", exitOK, `"after-method-only"`},
	} {
		r := verb(t, "", append(append([]string{"experiment"}, strings.Fields(tt.line)...), "--control", s.URL)...)
		if r.code != tt.code || !strings.Contains(r.out, tt.out) {
			t.Errorf("%s: %d, %s%s, want %d and %q", tt.line, r.code, r.out, r.err, tt.code, tt.out)
		}
	}
}
