package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// get asks a handler for a page as a browser at localhost does.
func get(t *testing.T, h http.Handler, path string) (int, http.Header, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8081"+path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, w.Result().Header, string(body)
}

var everyPage = map[string]string{
	"overview": "/", "table": "/?view=table", "wall": "/?tv=1", "service": "/services/order", "frozen": "/services/coupon", "silent": "/services/invoice-export",
	"gamedays": "/gamedays?zone=UTC", "runs": "/runs", "run": "/runs/r-1287", "ended": "/runs/r-1251", "gate": "/gate", "now": "/now", "slos": "/slos", "slo": "/slos/order-availability", "slo-frozen": "/slos/coupon-availability?r=30d", "slo-silent": "/slos/invoice-export-availability", "slo-whatif": "/slos/order-availability?target=99.9&window=28d",
	"find": "/find?q=coupon", "alerts": "/alerts", "alerts-all": "/alerts?view=all", "alerts-notes": "/alerts?view=notes", "alerts-silences": "/alerts?view=silences", "alert": "/alerts/i-207", "breakers": "/breakers", "retries": "/retries", "retries-one": "/retries?service=cart&r=6h", "now-fine": "/now?service=payment", "now-silent": "/now?service=invoice-export", "menu": "/menu", "missing": "/services/nobody",
	"requests": "/requests", "request": "/requests/01jdk7ev0zz", "simulator": "/simulator", "simulator-row": "/simulator?event=01jdk7f3c9a", "simulator-compare": "/simulator?view=compare",
	"scenarios": "/scenarios", "scenario": "/scenarios/points-slow", "editor": "/experiments/new?from=points-slow", "setup": "/setup",
}

// hashes change with every edit of a style; the pages do not.
var hashes = regexp.MustCompile(`\.[0-9a-f]{8}\.(css|js|svg)`)

func TestPagesAreAsTheyWere(t *testing.T) {
	worlds := map[string]func(time.Time) *house{"shop": shop, "empty": empty, "lost": lost, "halted": halted}
	for world, build := range worlds {
		h := build(noon).server(t).Handler()
		for name, path := range everyPage {
			if world == "halted" && name != "overview" && name != "runs" {
				continue // the notice is the same on all of them, as a test below holds
			}
			if world != "shop" && (name == "frozen" || name == "silent" || name == "table" || name == "wall" || name == "ended" || strings.HasPrefix(name, "now-") || strings.HasPrefix(name, "slo-") || name == "retries-one" || strings.HasPrefix(name, "alerts-")) {
				continue
			}
			t.Run(world+"/"+name, func(t *testing.T) {
				_, _, body := get(t, h, path)
				golden(t, world+"-"+name, hashes.ReplaceAllString(body, ".HASH.$1"))
			})
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("%s differs from line %d (run with -update and read the diff):\n got %.400s\nwant %.400s", file, i+1, line(a, i), line(b, i))
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

// The content policy forbids the first of these, so each would be a silent hole in
// a page; the last are figures that nobody made. Names of attributes are looked
// for with their values taken out, since a value may say anything.
var inline = []struct{ hint, bad *regexp.Regexp }{
	{regexp.MustCompile(`style *=`), regexp.MustCompile(`<[^>]+\sstyle\s*=`)},
	{regexp.MustCompile(`<style`), regexp.MustCompile(`(?i)<style`)},
	{regexp.MustCompile(` on[a-z]+ *=`), regexp.MustCompile(`(?i)<[^>]+\son[a-z]+\s*=`)},
	{regexp.MustCompile(`<script`), regexp.MustCompile(`<script[^>]*>[^<]`)},
	{regexp.MustCompile(`="(javascript|https?|//)`), regexp.MustCompile(`(?i)(src|href|action)="(javascript|https?|//)`)},
}

var nobodysFigures = []string{"NaN", "Infinity", "%!", "<no value>", "ZgotmplZ", "-9223372036854775808", "0001-01-01"}

var (
	quoted = regexp.MustCompile(`="[^"]{12,}"`)
	dull   = strings.NewReplacer(" ", "_", "<", "_", ">", "_")
	blanks = strings.NewReplacer("\t", " ", "\n", " ", "\f", " ", "\r", " ")
)

// bare is a page without what long attributes say; short ones and the beginning
// of addresses stay.
func bare(page string) string {
	return quoted.ReplaceAllStringFunc(page, func(q string) string { return dull.Replace(q[:14]) + `"` })
}

// refused lists what no page may hold. The expressions hold on to every tag, so a
// hint that begins with plain letters says first whether there can be any.
func refused(page string) (found []string) {
	page = bare(page)
	for _, figure := range nobodysFigures {
		if strings.Contains(page, figure) {
			found = append(found, figure)
		}
	}
	lower := strings.ToLower(blanks.Replace(page))
	for _, in := range inline {
		if in.hint.MatchString(lower) {
			if m := in.bad.FindString(page); m != "" {
				found = append(found, m)
			}
		}
	}
	return found
}

// Every expression finds its kind, though only a hint lets it look.
func TestInlineIsSeen(t *testing.T) {
	for _, page := range []string{`<p class="a" style="x">`, "<p\nSTYLE\t=x><p\nstyle\t=x>", `<STYLE>`, `<img src=x onerror=1>`, "<p\nonClick = x>", `<script src="/a.js">alert(1)</script>`, `<a href="HTTPS://a.b">`,
		`<form action="//a.b">`, `<a class="y" href="javascript:alert(1)">`, "<td>NaN</td>", "0001-01-01T00:00:00Z", "%!d(string)"} {
		if len(refused(page)) == 0 {
			t.Errorf("nothing is seen in %q", page)
		}
	}
	if found := refused(`<link rel="stylesheet" href="/static/a.css"><p class="on" title="a style = x onerror=1 <style>">set on = 1</p><script src="/static/a.js"></script>`); len(found) > 0 {
		t.Errorf("%q is seen in a good page", found)
	}
}

func TestNoPageHasAnythingInline(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) < 20 {
		t.Fatalf("only %d golden pages, %v", len(files), err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range refused(string(body)) {
			t.Errorf("%s: %q", file, found)
		}
	}
}

func TestStoredMarkupIsEscaped(t *testing.T) {
	h := hostile(noon).server(t).Handler()
	for _, path := range []string{"/", "/scenarios", "/scenarios/points-slow", "/experiments/new?from=points-slow", "/setup", "/setup?service=%3Cscript%3Ealert(1)%3C/script%3E&zone=%3Cimg%20src=x%3E", "/?view=table", "/now", "/slos", "/breakers", "/retries", "/alerts", "/alerts?view=all", "/gamedays", "/runs", "/runs/r-1287", "/gate", "/services/points",
		"/services/%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E%3Cimg%20src=x%20onerror=alert(2)%3E", "/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/%3Cscript%3Ealert(1)%3C/script%3E"} {
		_, _, body := get(t, h, path)
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") {
			t.Errorf("%s: stored markup came through", path)
		}
		for _, found := range refused(body) {
			t.Errorf("%s: %q", path, found)
		}
	}
}

func TestWhatPagesSay(t *testing.T) {
	thin := "\u202f"
	handlers := map[string]http.Handler{
		"shop": shop(noon).server(t).Handler(), "empty": empty(noon).server(t).Handler(), "lost": lost(noon).server(t).Handler(), "many": many(noon, 200).server(t).Handler(),
	}
	tests := []struct {
		name, path string
		house      string
		status     int
		want       []string
		not        []string
	}{
		{"the overview counts states and shows the worst first", "/", "shop", 200, []string{"9 services, worst first", "Data until 14:27:11", "−5.6" + thin + "%", "inject 7:12"}, []string{"Database away"}},
		{"no data is hatched, not zero", "/services/invoice-export", "shop", 200, []string{"f-hatch", "no data", "Nothing is assumed"}, []string{`huge">0`}},
		{"a freeze says when it thaws", "/services/coupon", "shop", 200, []string{"Frozen since", "Thaws Fri 27 Nov 21:39 at best", "deny", "32" + thin + "947 failures"}, nil},
		{"the service page explains with integers", "/services/order", "shop", 200, []string{"107" + thin + "966" + thin + "300", "Show as table", "order-availability"}, nil},
		{"a game day is in zone, in UTC and relative", "/gamedays", "shop", 200, []string{"every Tuesday", "Europe/Berlin", "Tue 1 Dec 14:15", "13:15Z", "in 6" + thin + "d 22" + thin + "h", "skipped: points is frozen"}, nil},
		{"a run can be aborted while it runs", "/runs/r-1287", "shop", 200, []string{`action="/runs/r-1287/abort"`, "7:12 of 10:00", "127", "not yet"}, nil},
		{"a run that ended cannot", "/runs/r-1251", "shop", 200, []string{"inconclusive", "engine lost", "lease ended"}, []string{"Abort run"}},
		{"the gate names the reason", "/gate", "shop", 200, []string{"budget_exhausted", "coupon is frozen", "3" + thin + "d 7" + thin + "h"}, nil},
		{"an empty house says the next step", "/", "empty", 200, []string{"No objective yet", "Stop all", "(0)"}, []string{"worst first. Data until"}},
		{"with the database away figures say until when they reach", "/", "lost", 200, []string{"Database away", "Figures reach until 14:27:11", "(?)", "−5.6"}, nil},
		{"with the database away a service still shows its budget", "/services/order", "lost", 200, []string{"20" + thin + "300 of 54" + thin + "000", "cannot be read now"}, nil},
		{"with the database away a run says that faults end by themselves", "/runs/r-1", "lost", 503, []string{"by themselves within 15 s"}, nil},
		{"a service nobody knows is 404", "/services/nobody", "shop", 404, []string{"No service nobody"}, nil},
		{"a run nobody knows is 404", "/runs/r-0", "shop", 404, []string{"No run r-0"}, nil},
		{"a state filters", "/?state=warn", "shop", 200, []string{"2 services of 9"}, []string{`title="coupon"`}},
		{"a name filters", "/?q=SETTLE", "shop", 200, []string{"1 service of 9", "settlement-reconciliation"}, []string{`title="coupon"`}},
		{"two hundred services are all there", "/", "many", 200, []string{"200 services", "service-000", "service-199", "25 services are frozen"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := get(t, handlers[tt.house], tt.path)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			for _, w := range tt.want {
				if !strings.Contains(body, w) {
					t.Errorf("%q is not on the page", w)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(body, n) {
					t.Errorf("%q is on the page", n)
				}
			}
		})
	}
}

func TestAFragmentHoldsOnlyWhatChanges(t *testing.T) {
	h := shop(noon).server(t).Handler()
	_, _, whole := get(t, h, "/")
	_, _, part := get(t, h, "/?fragment=1")
	if !strings.HasPrefix(part, "<bw-live") || strings.Contains(part, "<symbol") || strings.Contains(part, "fragment=1") {
		t.Errorf("the fragment is more than the live part: %.80s", part)
	}
	if !strings.Contains(whole, part[:60]) {
		t.Error("page and fragment disagree")
	}
}

func BenchmarkOverviewOf200(b *testing.B) {
	h := many(noon, 200).server(b).Handler()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
