package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/source"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/pgtest"
	"breakwater/web"
)

const promiseOfOrder = `apiVersion: openslo/v1
kind: SLO
metadata: {name: order-availability}
spec:
  service: order
  budgetingMethod: Occurrences
  timeWindow: [{duration: 30d, isRolling: true}]
  indicator:
    metadata: {name: order-requests}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: breakwater, spec: {class: good}}}
        total: {metricSource: {type: breakwater, spec: {class: valid}}}
  objectives: [{target: 0.999}]
`

// TestUX_P20 goes back to an earlier configuration by the page, by the API and by the
// command line: who, when and why stand there, a real gateway follows, and what is
// wrong, in place already or changed meanwhile is not written.
func TestUX_P20(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	dir := t.TempDir()
	d.c.set.config, d.c.set.env = dir, "test"
	file, extra := filepath.Join(dir, "gw.yaml"), filepath.Join(dir, "more.yaml")
	write(t, file, goodDocument)
	now, err := d.c.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.c.importDocuments(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 2)
	go func() { followed <- documentDesk{d.c}.follow(ctx) }()

	g := gateway.New(gateway.Config{Name: "gw", Env: "test", Log: slog.New(slog.DiscardHandler)})
	admin := httptest.NewServer(g.Admin())
	defer admin.Close()
	go func() {
		followed <- source.File{Path: dir}.Follow(ctx, applier(g, slog.New(slog.DiscardHandler), func() {}))
	}()
	defer func() {
		cancel()
		for range 2 {
			if err := <-followed; err != nil {
				t.Errorf("following ended with %v", err)
			}
		}
	}()
	first := follows(t, admin.URL, func(c debugConfig) bool { return c.Revision != "" }).Revision

	// until waits for the newest revision to be what is wanted; following takes a second.
	until := func(what string, ok func(web.DocumentRevision) bool) web.DocumentRevision {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			r, err := documentDesk{d.c}.newest(t.Context())
			if err == nil && ok(r) {
				return r
			}
			if time.Now().After(end) {
				t.Fatalf("the newest revision is never %s: %+v, %v", what, r, err)
			}
		}
	}
	if r := until("the first", func(r web.DocumentRevision) bool { return r.Number == 1 }); r.How != "found" || r.By != "system" || r.Gateway != first {
		t.Errorf("%+v, want found by the start, and called %s by gateways", r, first)
	}

	// Somebody edits the files: another timeout, and a promise beside it.
	write(t, extra, promiseOfOrder)
	write(t, file, strings.ReplaceAll(goodDocument, "timeout: 4s", "timeout: 9s"))
	edited := until("the edited one", func(r web.DocumentRevision) bool { return r.Number > 1 && r.Gateway != first && r.Mistakes == nil })
	follows(t, admin.URL, func(c debugConfig) bool { return c.Revision == edited.Gateway })
	bad := strings.ReplaceAll(goodDocument, "timeout: 4s", "timeout: soon")
	write(t, file, bad)
	broken := until("the broken one", func(r web.DocumentRevision) bool { return r.Mistakes != nil })
	if broken.Gateway != "" || !strings.Contains(strings.Join(broken.Mistakes, "\n"), "gw.yaml:13:10: timeout: must be") {
		t.Errorf("%+v", broken)
	}
	write(t, file, strings.ReplaceAll(goodDocument, "timeout: 4s", "timeout: 9s"))
	seen := until("mended", func(r web.DocumentRevision) bool { return r.Number > broken.Number })
	// Whoever follows had read what the files are again by now, and took in another state in between.
	if err := (documentDesk{d.c}).take(t.Context(), source.Document{Hash: "of what was read before"}); !errors.Is(err, source.ErrAgain) {
		t.Errorf("a later state was taken in for the one that was read: %v", err)
	}
	promised := func(want int) { // control takes in what it finds, a moment after it is kept
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			list, err := d.c.store.Objectives(t.Context())
			if err == nil && len(list) == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d objectives, want %d: %v", len(list), want, err)
			}
		}
	}
	promised(1)

	// The page: a list, what would change, and a form that asks for a reason.
	b := d.browser()
	b.signIn("boss", d.person("boss", auth.Admin), "").leads(t, "/")
	b.get("/admin/config").want(t, 200, "Found on disk", "in place", "has mistakes", `href="/admin/config/1"`)
	b.get("/admin/config?table=documents&format=csv").want(t, 200, "revision,at,place,how,by,restores,reason", "gw.yaml:13:10: timeout: must be")
	b.get("/admin/config/1").want(t, 200, "gw.yaml", "<del>timeout: 9s</del>", "<ins>timeout: 4s</ins>", "more.yaml", "removed", "Roll back to 1")
	b.get("/admin/config/7777").want(t, 404, "No revision 7777")
	b.get("/admin/config/one").want(t, 404)
	rows := func() []auth.Row {
		t.Helper()
		all, err := d.c.store.AuditTail(t.Context(), 1<<62, auth.Entry{Action: "documents.rollback"}, 100)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	state := func() string {
		t.Helper()
		files, err := conf.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return conf.Hash(files)
	}
	before := state()
	form := func(reason string, seen int64) url.Values {
		return url.Values{"reason": {reason}, "seen": {fmt.Sprint(seen)}}
	}
	why := `4 s were right <script>alert(1)</script>`
	b.post("/admin/config/1", form("short", seen.Number)).want(t, 422, "10 to 500 bytes, got 5", `value="short"`)
	b.post("/admin/config/1", url.Values{"reason": {why}}).want(t, 422, "Look at what changes first")
	b.post("/admin/config/1", form(why, seen.Number-1)).want(t, 409, "changed since you looked")
	b.get(fmt.Sprintf("/admin/config/%d", broken.Number)).want(t, 200, "gw.yaml:13:10: timeout: must be", "cannot be put back")
	b.post(fmt.Sprintf("/admin/config/%d", broken.Number), form(why, seen.Number)).want(t, 409, "would be refused, so nothing was written", file+":13:10: timeout: must be")
	if len(rows()) != 0 || state() != before {
		t.Fatalf("a refused roll back wrote %d rows, or the files", len(rows()))
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}

	// Done: the files are what they were, budgets and gateways follow, and it stands there.
	p := b.post("/admin/config/1", form(why, seen.Number))
	made := until("the one put back", func(r web.DocumentRevision) bool { return r.How == "rolled_back" })
	p.leads(t, fmt.Sprintf("/admin/config?rolled=%d", made.Number))
	if made.Restores != 1 || made.By != "boss" || made.Reason != why || made.Gateway != first || made.Number <= seen.Number || !made.InPlace {
		t.Errorf("%+v", made)
	}
	text, err := os.ReadFile(file)
	if _, gone := os.Stat(extra); err != nil || string(text) != goodDocument || !os.IsNotExist(gone) {
		t.Errorf("the files are not what they were: %v %v\n%s", err, gone, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	follows(t, admin.URL, func(c debugConfig) bool { return c.Revision == first && c.LastError == "" })
	promised(0)
	if all := rows(); len(all) != 1 || all[0].Actor != "boss" || all[0].Object != "revision 1" || !strings.Contains(all[0].Detail, fmt.Sprintf("from %d in %s", seen.Number, dir)) || !strings.Contains(all[0].Detail, why) || all[0].At.Before(now) {
		t.Errorf("the audit has %+v", all)
	}
	b.get(p.to()).want(t, 200, fmt.Sprintf("Revision 1 is put back, as revision %d", made.Number), "Roll back to 1", "boss", why)

	// A second click, with the page as it was: done once.
	b.post("/admin/config/1", form(why, seen.Number)).leads(t, fmt.Sprintf("/admin/config?rolled=%d", made.Number))
	if again := until("any", func(web.DocumentRevision) bool { return true }); again.Number != made.Number || len(rows()) != 1 {
		t.Errorf("done twice: %+v, %d rows", again, len(rows()))
	}

	// The command line, with a token; forwards again is a roll back too.
	secret, err := auth.Issue(t.Context(), d.c.store, auth.Token{Name: "ops", Role: auth.Admin, CreatedAt: now})
	if err != nil {
		t.Fatal(err)
	}
	cli := func(args ...string) ran {
		return verb(t, "", append(append([]string{"config"}, args...), "--control", d.url, "--token", secret)...)
	}
	says := func(r ran, code int, texts ...string) {
		t.Helper()
		r.want(t, code)
		for _, text := range texts {
			if !strings.Contains(r.out+r.err, text) {
				t.Errorf("%q is not said:\n%s%s", text, r.out, r.err)
			}
		}
	}
	number := fmt.Sprint(edited.Number)
	if edited.Number+1 == broken.Number { // both edits were seen at once, else the promise alone is one of them
		number = fmt.Sprint(seen.Number)
	}
	says(cli("ls"), exitOK, "roll back to 1", "found on disk", "has mistakes", "in place", first)
	says(cli("show", "1"), exitOK, "# gw.yaml\n", "timeout: 4s")
	says(cli("show", "1", "--dir", filepath.Join(t.TempDir(), "r1")), exitOK, "1 files in")
	says(cli("show", "1", "--dir", dir), exitUsage, "must be empty")
	says(cli("diff", number), exitOK, "+ timeout: 9s", "- timeout: 4s", "more.yaml: added")
	says(cli("diff", "1"), exitOK, "nothing differs")
	says(cli("diff", "one"), exitUsage, "must be a number")
	says(cli("diff", "7777"), exitUnknown, "No revision 7777")
	says(cli("rollback", number, "--reason", "it was right"), exitUsage, "+ timeout: 9s", "--yes: must be given")
	says(cli("rollback", number, "--reason", "no"), exitUsage, "10 to 500 bytes")
	says(cli("rollback", fmt.Sprint(broken.Number), "--reason", "it was right", "--yes"), exitNo, "gw.yaml:13:10: timeout: must be")
	says(cli("rollback", number, "--reason", "it was right", "--yes"), exitOK, "revision "+number+" is put back")
	says(cli("rollback", number, "--reason", "it was right", "--yes"), exitOK, "nothing differs")
	follows(t, admin.URL, func(c debugConfig) bool { return c.Revision == edited.Gateway })
	promised(1)
	if all := rows(); len(all) != 2 || all[0].Actor != "ops" {
		t.Errorf("the audit has %+v", all)
	}

	// A file that something else keeps is not ours to write; neither are those of others.
	target := filepath.Join(t.TempDir(), "real.yaml")
	write(t, target, string(text))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		t.Fatal(err)
	}
	says(cli("rollback", number, "--reason", "it was right", "--yes"), exitNo, "is a link that something else keeps")
	some, err := auth.Issue(t.Context(), d.c.store, auth.Token{Name: "some", Role: auth.Admin, Services: []string{"order"}, CreatedAt: now})
	if err != nil {
		t.Fatal(err)
	}
	d.c.guard.Forget()
	verb(t, "", "config", "ls", "--control", d.url, "--token", some).want(t, exitUnknown, "of all services")
}

func TestLineDiff(t *testing.T) {
	lines := func(s string) []string { return shownLines(strings.ReplaceAll(s, " ", "\n")) }
	for _, tt := range []struct{ name, was, is, want string }{
		{"nothing", "", "", ""},
		{"all new", "", "a b", "+a +b"},
		{"all gone", "a b", "", "-a -b"},
		{"one changed", "a b c", "a x c", " a -b +x  c"},
		{"the longest common stays", "a b c d", "b c x d", "-a  b  c +x  d"},
		{"doubled", "a", "a a", " a +a"},
		{"moved", "a b", "b a", "-a  b +a"},
	} {
		var got []string
		for _, l := range lineDiff(lines(tt.was), lines(tt.is)) {
			got = append(got, l.Mark+l.Text)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, s, tt.want)
		}
	}
	// Far from a change lines are left out; what differs never is.
	var was, is []conf.File
	long := strings.Repeat("same\n", 40)
	was = append(was, conf.File{Name: "a", Data: []byte(long + "old\n" + long)}, conf.File{Name: "gone", Data: []byte("x\n")})
	is = append(is, conf.File{Name: "a", Data: []byte(long + "new\n" + long)})
	got := differences(was, is)
	if len(got) != 2 || got[0].Added != 1 || got[0].Removed != 1 || len(got[0].Lines) != 2+2*contextLines+2 || got[0].Lines[0].Mark != "…" || got[1].What != "removed" {
		t.Errorf("%+v", got)
	}
	// A text beyond the table's bound counts as changed whole, and stays right.
	var x, y []string
	for i := range 2100 {
		x, y = append(x, fmt.Sprint("x", i)), append(y, fmt.Sprint("y", i))
	}
	if n := len(lineDiff(append(x, "end"), append(y, "end"))); n != 4201 {
		t.Errorf("%d lines", n)
	}
	// Of receivers the host is shown, and never the path.
	receiver := "kind: AlertRoute\nreceivers: [{url: \"https://hooks.example.com/services/T0/s3cr3t\"}]\n"
	if shown := strings.Join(shownLines(receiver), "\n"); strings.Contains(shown, "s3cr3t") || !strings.Contains(shown, "https://hooks.example.com/…") {
		t.Error(shown)
	}
}
