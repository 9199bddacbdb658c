package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/source"
	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
)

// ran is what a verb left behind.
type ran struct {
	code     int
	out, err string
}

// verb runs the program as a function, with stdin as its standard input.
func verb(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, streams{in: strings.NewReader(stdin), out: &out, err: &errs})
	return ran{code, out.String(), errs.String()}
}

// want checks the code, and that each text stands on stderr.
func (r ran) want(t *testing.T, code int, onErr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, text := range onErr {
		if !strings.Contains(r.err, text) {
			t.Errorf("stderr does not say %q", text)
		}
	}
	if t.Failed() {
		t.Logf("stdout: %s\nstderr: %s", r.out, r.err)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"bogus", `unknown command "bogus"`},
		{"experiment", "experiment: must be abort, approve, boundary, export, import, ls, preview, run, search, show or watch, got nothing"},
		{"experiment bogus", `experiment: unknown verb "bogus"`},
		{"experiment shwo --token x", "did you mean show?"},
		{"experiment ls --bogus", "unknown flag"},
		{"token bogus", "must be create, ls or revoke"},
		{"slo bogus", "must be backtest, correct, export, import, ls, recompute, report, rules, show or why"},
		{"audit bogus", "must be ls or verify"},
		{"gameday", "must be abort, approve, ls, next, note, report or run"},
		{"completion bogus", `unknown verb "bogus"`},
		{"gate order --on-unknown foo", `--on-unknown: must be allow or deny, got "foo"`},
		{"gate order --control :::", "--control"},
		{"slo ls --control ftp://example.com", "--control: must be a URL"},
		{"slo ls -o yaml", "must be table or json"},
		{"validate -o yaml x", `--output: must be table, json, github, sarif, junit or text, got "yaml"`},
		{"validate", "requires at least 1 arg"},
	} {
		t.Run(c.line, func(t *testing.T) {
			r := verb(t, "", strings.Fields(c.line)...)
			r.want(t, exitUsage, c.says)
			if r.out != "" {
				t.Errorf("stdout has %q, want nothing", r.out)
			}
		})
	}
	for _, line := range []string{"experiment --help", "experiment ls --help", "help token", "completion bash", "version"} {
		t.Run(line, func(t *testing.T) {
			r := verb(t, "", strings.Fields(line)...)
			r.want(t, exitOK)
			if r.out == "" {
				t.Error("nothing is on stdout")
			}
		})
	}
}

// fakeControl answers everything with one status and body.
func fakeControl(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestExitCodeOfWhatControlAnswers(t *testing.T) {
	for _, c := range []struct {
		status, code int
		says         string
	}{
		{http.StatusBadRequest, exitUsage, "answered 400 Bad Request: because"},
		{http.StatusUnprocessableEntity, exitUsage, "because"},
		{http.StatusUnauthorized, exitUnknown, "does not accept the token (--token, BREAKWATER_TOKEN): because"},
		{http.StatusForbidden, exitUnknown, "does not let this token do that: because"},
		{http.StatusNotFound, exitUnknown, "does not know it: because"},
		{http.StatusConflict, exitNo, "refuses: because"},
		{http.StatusTooManyRequests, exitUnknown, "because"},
		{http.StatusServiceUnavailable, exitUnknown, "answered 503 Service Unavailable: because"},
		{http.StatusOK, exitUnknown, "not what was asked for"},
	} {
		url := fakeControl(t, c.status, `because`)
		for _, line := range []string{"slo show order", "experiment run order", "experiment abort r-1"} {
			t.Run(http.StatusText(c.status)+" "+line, func(t *testing.T) {
				r := verb(t, "", append(strings.Fields(line), "--control", url)...)
				r.want(t, c.code, c.says)
			})
		}
	}
	verb(t, "", "slo", "ls", "--control", nobody(t)).want(t, exitUnknown, "ask control at")
}

// nobody is an address that refuses connections: its listener has just closed.
func nobody(t *testing.T) string {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	return s.URL
}

func TestGateSaysHowUnknownWasSettled(t *testing.T) {
	unknown := fakeControl(t, http.StatusOK, `{"decision": "unknown", "state": "unknown", "reasons": ["no such service"]}`)
	denied := fakeControl(t, http.StatusOK, `{"decision": "deny", "state": "frozen"}`)
	noToken := fakeControl(t, http.StatusUnauthorized, `{"detail": "send a token"}`)
	badKind := fakeControl(t, http.StatusBadRequest, `{"detail": "kind: must be"}`)
	const allowed, refused = "unknown, settled as allow by --on-unknown", "unknown, settled as deny by --on-unknown"
	for _, c := range []struct {
		name, control, args string
		code                int
		out, err            string // what says that it was settled
	}{
		{"not settled", unknown, "", exitUnknown, "", ""},
		{"allow", unknown, "--on-unknown allow", exitOK, allowed, ""},
		{"deny", unknown, "--on-unknown deny", exitNo, refused, ""},
		{"as json", unknown, "--on-unknown allow -o json", exitOK, "", allowed},
		{"control away", nobody(t), "--on-unknown allow", exitOK, "", allowed},
		{"control away, not settled", nobody(t), "", exitUnknown, "", ""},
		{"no token", noToken, "--on-unknown deny", exitNo, "", refused},
		{"a known answer", denied, "--on-unknown allow", exitNo, "", ""},
		{"a question that is none", badKind, "--on-unknown allow", exitUsage, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := verb(t, "", append([]string{"gate", "nosuch", "--control", c.control}, strings.Fields(c.args)...)...)
			r.want(t, c.code, c.err)
			if !strings.Contains(r.out, c.out) {
				t.Errorf("stdout %q does not say %q", r.out, c.out)
			}
			if c.out+c.err == "" && strings.Contains(r.out+r.err, "settled") {
				t.Errorf("it says that something was settled: %q %q", r.out, r.err)
			}
		})
	}
}

func TestValidateNeedsADocument(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	empty := file("empty.yaml", "")
	remarks := file("remarks.yaml", "# nothing yet\n---\n")
	good := file("good.yaml", goodDocument)
	bad := file("bad.yaml", "kind: [\n")
	void := t.TempDir()
	slo, err := os.ReadFile("../../slo/openslo/testdata/order.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slo, _, _ = bytes.Cut(slo, []byte("\n---\n"))
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		out         string
	}{
		{"empty", "", []string{empty}, exitNo, empty + ":1:1: must hold a document, got none"},
		{"remarks only", "", []string{remarks}, exitNo, "E-EMPTY"},
		{"empty directory", "", []string{void}, exitNo, void + ":1:1: must hold a document"},
		{"nothing on stdin", "", []string{"-"}, exitNo, "stdin:1:1: must hold a document"},
		{"good on stdin", goodDocument, []string{"-"}, exitOK, "ok: 1 routes"},
		{"bad on stdin", "kind: [\n", []string{"-"}, exitNo, "stdin:"},
		{"one of two", "", []string{good, empty}, exitOK, "W-EMPTY"},
		{"one of two, strict", "", []string{"--strict", good, empty}, exitHold, "W-EMPTY"},
		{"only an SLO", string(slo), []string{"-"}, exitOK, "ok: 0 routes"},
		{"only scenarios", "", []string{"../../scenarios"}, exitOK, "ok: 0 routes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := verb(t, c.stdin, append([]string{"validate"}, c.args...)...)
			r.want(t, c.code)
			if !strings.Contains(r.out, c.out) {
				t.Errorf("stdout %q does not say %q", r.out, c.out)
			}
		})
	}
	if r := verb(t, "", "validate", bad); strings.Contains(r.out, "EMPTY") {
		t.Errorf("a file that cannot be read is called empty: %s", r.out)
	}
}

// TestDocumentsWithoutARouteNeverServe takes the documents away from a running
// gateway in every way an accident does, and gives them back.
func TestDocumentsWithoutARouteNeverServe(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	doc := strings.Replace(goodDocument, "127.0.0.1:9", upstream.Listener.Addr().String(), 1)
	for _, directory := range []bool{false, true} {
		dir := t.TempDir()
		file, path := filepath.Join(dir, "gw.yaml"), filepath.Join(dir, "gw.yaml")
		name := "file"
		if directory {
			path, name = dir, "directory"
		}
		t.Run(name, func(t *testing.T) {
			g := gateway.New(gateway.Config{Name: "gw", Env: "test", Log: slog.New(slog.DiscardHandler)})
			admin, data := httptest.NewServer(g.Admin()), httptest.NewServer(g.Handler())
			defer admin.Close()
			defer data.Close()
			asks := func(want int) {
				t.Helper()
				res, err := http.Get(data.URL + "/orders")
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("the gateway answered %d, want %d", res.StatusCode, want)
				}
			}
			const without = "no Route document: the gateway stays without configuration"
			write(t, file, "")
			ctx, cancel := context.WithCancel(t.Context())
			ended, warned := make(chan error, 1), make(chan error, 1)
			src := source.File{Path: path, Poll: 2 * time.Millisecond, Warn: func(err error) {
				select {
				case warned <- err:
				default:
				}
			}}
			go func() { ended <- src.Follow(ctx, applier(g, slog.New(slog.DiscardHandler), func() {})) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			follows(t, admin.URL, func(d debugConfig) bool { return strings.HasPrefix(d.LastError, without) && d.Revision == "" })
			asks(http.StatusServiceUnavailable)

			write(t, file, doc)
			first := follows(t, admin.URL, func(d debugConfig) bool { return d.Revision != "" && d.LastError == "" })
			asks(http.StatusOK)
			keeps := "no Route document: the gateway keeps revision " + first.Revision
			stays := func() {
				t.Helper()
				d := follows(t, admin.URL, func(d debugConfig) bool { return d.LastError == keeps })
				if d.Revision != first.Revision || d.AppliedAt == "" {
					t.Errorf("what serves has changed from %+v to %+v", first, d)
				}
				asks(http.StatusOK)
			}
			back := func() {
				t.Helper()
				follows(t, admin.URL, func(d debugConfig) bool { return d.Revision == first.Revision && d.LastError == "" })
				asks(http.StatusOK)
			}
			_, upstreamOnly, _ := strings.Cut(doc, "---")
			for _, text := range []string{"", "# all gone\n", strings.TrimSuffix(doc, "---"+upstreamOnly)} {
				write(t, file, text)
				stays()
				write(t, file, doc)
				back()
			}
			// Moved away and back: a directory is then empty, a file is not there.
			away := filepath.Join(t.TempDir(), "away")
			if err := os.Rename(file, away); err != nil {
				t.Fatal(err)
			}
			if directory {
				stays()
			} else {
				<-warned
				asks(http.StatusOK)
			}
			if err := os.Rename(away, file); err != nil {
				t.Fatal(err)
			}
			back()
		})
	}
}

func TestVerbsThatLookMakeNoDatabase(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for _, line := range []string{"token ls", "token revoke ci", "audit verify"} {
		r := verb(t, "", append(strings.Fields(line), "--db", "auto", "--state-dir", state)...)
		r.want(t, exitUnknown, "no breakwater database in "+state+" (the demo keeps its own in "+filepath.Join(state, "demo")+")")
	}
	for _, line := range []string{"token create bob --role foo", "token create Bob", "token create bob --expires=-1h"} {
		verb(t, "", append(strings.Fields(line), "--db", "auto", "--state-dir", state)...).want(t, exitUsage)
	}
	for _, place := range append(clusterPlaces(filepath.Join(state, "pg")), state) {
		if _, err := os.Lstat(place); err == nil {
			t.Errorf("%s was made", place)
		}
	}
	verb(t, "", "token", "ls", "--db", "postgres://127.0.0.1:1/x").want(t, exitUnknown, "the database cannot be reached")
	verb(t, "", "token", "ls", "--db", "port=x").want(t, exitUsage, "--db")
}

func TestTokenOnADatabaseWithoutASchema(t *testing.T) {
	db := []string{"--db", pgtest.Empty(t)}
	for _, line := range []string{"token ls", "token revoke ci", "audit verify"} {
		verb(t, "", append(strings.Fields(line), db...)...).want(t, exitUnknown, "the database is not migrated")
	}
	r := verb(t, "", append([]string{"token", "create", "ci", "--role", "pipeline"}, db...)...)
	r.want(t, exitOK)
	if !strings.HasPrefix(r.out, auth.Prefix) {
		t.Errorf("stdout %q is no secret", r.out)
	}
	verb(t, "", append([]string{"token", "create", "ci"}, db...)...).want(t, exitNo, "taken")
	verb(t, "", append([]string{"token", "revoke", "cd"}, db...)...).want(t, exitUnknown, "no live token")
	if r := verb(t, "", append([]string{"token", "ls"}, db...)...); !strings.Contains(r.out, "pipeline") {
		t.Errorf("token ls does not list the token: %+v", r)
	}
	verb(t, "", append([]string{"audit", "verify"}, db...)...).want(t, exitOK)
}

// TestFirstTokenMakesThePrivateDatabase holds clusterPlaces against where pglocal
// really puts a cluster, as root too.
func TestFirstTokenMakesThePrivateDatabase(t *testing.T) {
	pgtest.Cluster(t) // skips where PostgreSQL is not installed
	state := t.TempDir()
	t.Cleanup(func() {
		for _, place := range clusterPlaces(filepath.Join(state, "pg")) {
			_ = os.RemoveAll(place)
		}
	})
	private := []string{"--db", "auto", "--state-dir", state}
	verb(t, "", append([]string{"token", "create", "ci"}, private...)...).want(t, exitOK)
	r := verb(t, "", append([]string{"token", "ls"}, private...)...)
	r.want(t, exitOK)
	if !strings.Contains(r.out, "ci") {
		t.Errorf("token ls does not list the first token: %q", r.out)
	}
}

// TestEveryVerbIsOnItsPage holds docs/cli.md against the program.
func TestEveryVerbIsOnItsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(text string) {
		t.Helper()
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/cli.md lacks %q", text)
		}
	}
	for code := exitOK; code <= exitInternal; code++ {
		has(fmt.Sprintf("\n| %d | ", code))
	}
	for _, c := range newRoot(streams{}).Commands() {
		if c.Name() == "completion" || !c.HasSubCommands() {
			has("| `" + c.Name() + "` |")
			has("`breakwater " + c.Name())
			continue
		}
		for _, v := range c.Commands() {
			has("| `" + c.Name() + " " + v.Name() + "` |")
			has("`breakwater " + c.Name() + " " + v.Name())
		}
	}
}
