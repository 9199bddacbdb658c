package main

import (
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/pgtest"
)

// TestSetupFromNothing goes the three steps on a real ledger: each is told from what
// is there, writes what the parsers read, never over a file, and stands in the audit.
func TestSetupFromNothing(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	dir := t.TempDir()
	d.c.set.config, d.c.set.env = dir, "test"
	b := d.browser()
	b.signIn("boss", d.person("boss", auth.Admin), "").leads(t, "/")
	page := func(method, path string, form url.Values, status int, want ...string) page {
		t.Helper()
		p := b.do(method, path, form)
		if p.status != status {
			t.Fatalf("%s %s: %d to %q\n%s", method, path, p.status, p.to(), plainText(p.body))
		}
		for _, w := range want {
			if !strings.Contains(p.body, w) {
				t.Errorf("%s %s: %q is not on the page", method, path, w)
			}
		}
		return p
	}
	page("GET", "/", nil, 200, `href="/setup"`)
	page("GET", "/setup", nil, 200, "Step 1 of 3")

	// 1: the token in the command is one that a gateway is let in with.
	p := page("POST", "/setup/gateway", url.Values{"name": {"gw-east"}, "service": {"shop"}, "address": {"shop.internal:8000"}}, 200, "breakwater gateway --name gw-east", "--control "+d.c.set.baseURL())
	_, rest, _ := strings.Cut(p.body, "BREAKWATER_TOKEN=")
	secret, _, _ := strings.Cut(rest, " ")
	poll := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/api/v1/plan?gateway=gw-east&boot=b1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if status := poll(secret); status == 401 || status == 403 {
		t.Errorf("a gateway with the token is refused: %d", status)
	}
	if status := poll("bw_nothing"); status != 401 {
		t.Errorf("any token will do: %d", status)
	}
	page("POST", "/setup/gateway", url.Values{"name": {"gw-east"}, "service": {"shop"}, "address": {"shop.internal:8000"}}, 422, "names are not used twice")

	page("POST", "/setup/gateway", url.Values{"name": {"gw-west"}, "service": {"Shop"}, "address": {"nowhere"}}, 422, "gw.yaml:3:7", "must be a name", "address")

	// 2: the promise holds at once.
	if p := page("POST", "/setup/slo", url.Values{"service": {"shop"}, "target": {"99.9"}, "owner": {"team-shop"}}, 303); p.to() != "/setup?said=promised" {
		t.Errorf("to %q", p.to())
	}
	file := filepath.Join(dir, "slo-shop.yaml")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "target: 0.999") {
		t.Fatalf("%v\n%s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v: a gateway of another user has to read it", info.Mode())
	}
	objectives, err := d.c.store.Objectives(t.Context())
	if err != nil || len(objectives) != 1 || objectives[0].ID != "shop-availability" || objectives[0].Owner != "team-shop" {
		t.Fatalf("%+v, %v", objectives, err)
	}
	page("GET", "/setup", nil, 200, "Step 3 of 3", "shop")

	// Again is no second one, and nothing is written over.
	page("POST", "/setup/slo", url.Values{"service": {"shop"}, "target": {"99.99"}}, 422, "Nothing was written")
	if again, err := os.ReadFile(file); err != nil || string(again) != string(text) {
		t.Errorf("the document was changed: %v\n%s", err, again)
	}

	// 3: the drill is planned, in its zone.
	form := url.Values{"service": {"shop"}, "day": {"2"}, "at": {"10:30"}, "zone": {"Europe/Berlin"}}
	if p := page("POST", "/setup/drill", form, 303); p.to() != "/setup?said=drilled" {
		t.Errorf("to %q", p.to())
	}
	schedules, err := d.c.store.Schedules(t.Context())
	if err != nil || len(schedules) != 1 || schedules[0].Cron != "30 10 * * 2" || schedules[0].Zone != "Europe/Berlin" || !schedules[0].Enabled || schedules[0].NextAt.IsZero() {
		t.Fatalf("%+v, %v", schedules, err)
	}
	page("GET", "/setup", nil, 200, "All is set up")
	page("GET", "/scenarios/first-drill-shop", nil, 200, "first-drill-shop", "Weekly drill of shop")
	if p := b.do("GET", "/", nil); strings.Contains(p.body, `href="/setup"`) {
		t.Error("the overview still leads to the setup")
	}
	if left, err := fs.Glob(os.DirFS(dir), ".new-*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	rows, err := d.c.store.AuditTail(t.Context(), 1<<62, auth.Entry{Actor: "boss"}, 100)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]int{}
	for _, r := range rows {
		done[r.Action]++
	}
	if done["documents.write"] < 2 || done["token.issue"] < 1 {
		t.Errorf("the audit has %v", done)
	}

	// The editor judges and starts by the same code: the control run of the library.
	start := url.Values{"yaml": {string(mustRead(t, "../../scenarios/control-run-0.yaml"))}}
	start.Set("base", start.Get("yaml"))
	if p := page("POST", "/experiments/start", start, 303); !strings.HasPrefix(p.to(), "/runs/r-") {
		t.Errorf("to %q", p.to())
	}
	page("POST", "/experiments/start", start, 409, "Not started", "control-run-0", "another run holds the target")
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// plainText is a page for the log of a test.
func plainText(page string) string {
	_, main, _ := strings.Cut(page, "<main")
	return main[:min(len(main), 3000)]
}

// TestSetupWritesOnlyWhatItMay: mistakes of the whole directory are told at their
// places and leave it as it was; so does a place that is none.
func TestSetupWritesOnlyWhatItMay(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	dir := t.TempDir()
	d.c.set.config = dir
	desk := &setupDesk{c: d.c}
	write(t, filepath.Join(dir, "old.yaml"), "apiVersion: openslo/v1\nkind: SLO\nmetadata: {name: x}\n")
	good := "apiVersion: breakwater/v1\nkind: GameDay\nname: g\nscenarios: [none]\n"
	_, err := desk.Write(t.Context(), "boss", "new.yaml", good)
	mistakes, ok := err.(conf.Mistakes)
	if !ok || !strings.Contains(err.Error(), "old.yaml:1:1: spec: must be given") || !strings.Contains(err.Error(), "new.yaml:1:1: scenarios: must be known, got none") {
		t.Errorf("%d mistakes: %v", len(mistakes), err)
	}
	for _, name := range []string{"../up.yaml", "a/b.yaml", ".hidden.yaml", "x.txt", ""} {
		if _, err := desk.Write(t.Context(), "boss", name, "a: b\n"); err == nil || !strings.Contains(err.Error(), "cannot be the name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%d files, %v", len(files), err)
	}
	for place, want := range map[string]string{"": "without --config", filepath.Join(dir, "old.yaml"): "Control reads one file", filepath.Join(dir, "gone"): "no such file"} {
		d.c.set.config = place
		if closed := desk.Place().Closed; !strings.Contains(closed, want) {
			t.Errorf("%q: %q", place, closed)
		}
		if _, err := desk.Write(t.Context(), "boss", "new.yaml", good); err == nil {
			t.Errorf("%q: written", place)
		}
	}
}
