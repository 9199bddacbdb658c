package web

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every table that the documentation names can be had, and every page it lists answers.
func TestThePagesDocumentIsTrue(t *testing.T) {
	text, err := os.ReadFile("../docs/pages.md")
	if err != nil {
		t.Fatal(err)
	}
	h := shop(noon).server(t).Handler()
	examples := strings.NewReplacer("/gamedays/{id}", "/gamedays/weekly-small-drill", "/findings/{key}", "/findings/f-0000000001", "/readiness/{service}", "/readiness/order", "/slos/{id}", "/slos/order-availability", "/scenarios/{name}", "/scenarios/points-slow", "/alerts/{id}", "/alerts/i-207", "/runs/{id}", "/runs/r-1287", "/services/{service}", "/services/points", "/requests/{id}", "/requests/01jdk7ev0zz")
	_, tables, _ := strings.Cut(string(text), "| page | tables |")
	tables, _, _ = strings.Cut(tables, "## Keys")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|$").FindAllStringSubmatch(tables, -1)
	if len(rows) != 22 {
		t.Fatalf("%d rows of tables", len(rows))
	}
	for _, row := range rows {
		path := examples.Replace(row[1])
		names, _, _ := strings.Cut(row[2], ":")
		for name := range strings.SplitSeq(names, ", ") {
			at := path + "?format=csv&table=" + name
			if path == "/alerts" {
				at += "&view=" + name
			}
			if status, head, body := get(t, h, at); status != 200 || head.Get("Content-Type") != "text/csv; charset=utf-8" || strings.Count(body, "\n") < 2 {
				t.Errorf("%s: %d, %s", at, status, head.Get("Content-Type"))
			}
		}
	}
	pages, _, _ := strings.Cut(string(text), "## Numbers")
	for _, m := range regexp.MustCompile("`(/[a-z/{}?=1]*)`").FindAllStringSubmatch(pages, -1) {
		path := examples.Replace(m[1])
		if strings.HasPrefix(path, "/admin/") {
			continue // behind a door of their own: TestSystemPages asks them
		}
		if status, _, _ := get(t, h, path); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
	keys, err := os.ReadFile("static/keys.js")
	if err != nil {
		t.Fatal(err)
	}
	layout, err := os.ReadFile("templates/layout.html")
	if err != nil {
		t.Fatal(err)
	}
	list, _, _ := strings.Cut(string(layout), "</dialog>")
	_, list, _ = strings.Cut(list, `<dialog id="keys"`)
	for _, m := range regexp.MustCompile(`\b([a-z]): '/`).FindAllStringSubmatch(string(keys), -1) {
		if !strings.Contains(list, `<kbd>{{"g"}}</kbd> <kbd>{{"`+m[1]+`"}}</kbd>`) {
			t.Errorf("the list of keys has no g %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z])` (now|overview|SLOs|alerts|runs|game|gate|breakers)").FindAllStringSubmatch(strings.ReplaceAll(string(text), "\n", " "), -1) {
		if !strings.Contains(string(keys), " "+m[1]+": '/") {
			t.Errorf("no key %s", m[1])
		}
	}
}
