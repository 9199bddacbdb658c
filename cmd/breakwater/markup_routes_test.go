package main

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"breakwater/internal/auth"
)

// fixed are fields that hold one of a closed set, an id, a time or a name that rules
// bind; all others are free texts.
var fixed = strings.Fields(`revision seen scenario gameday kind hash item yes until from to service address env class severity minutes uses days day at zone approval
	name role services target owner base yaml document policy accept password present new again next x`)

// freeTexts are the marks ¶...¶ of a body; fields without one that are not fixed fail.
func freeTexts(t *testing.T, c change) (all []string) {
	t.Helper()
	check := func(field, value string) {
		if !strings.Contains(value, "¶") && !slices.Contains(fixed, field) {
			t.Errorf("%s: the field %s is a free text, and none is tried", c.route, field)
		}
	}
	if strings.HasPrefix(c.body, "{") {
		var fields map[string]any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(c.body, `:<newest>`, `:1`)), &fields); err != nil {
			t.Fatalf("%s: %v", c.route, err)
		}
		for name, v := range fields {
			if s, ok := v.(string); ok {
				check(name, s)
			}
		}
	} else {
		for pair := range strings.SplitSeq(c.body, "&") {
			name, value, _ := strings.Cut(pair, "=")
			if name != "" {
				check(name, value)
			}
		}
	}
	for _, m := range regexp.MustCompile(`¶([^¶]*)¶`).FindAllStringSubmatch(c.path+c.body, -1) {
		all = append(all, m[1])
	}
	return all
}

// unseen are free texts that no page shows, with where they go.
var unseen = map[string]string{
	"not planned after all": "the audit alone",
}

// forms are the forms of a page that change something, with the names of their fields.
var formTag = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]+)"[^>]*>(.*?)</form>`)
var textField = regexp.MustCompile(`<(?:textarea|input)[^>]*\bname="([^"]+)"[^>]*>`)

// TestMarkupInEveryFreeText writes markup into each free text of each route that can
// change something, and reads every page of the router as an admin: all is shown as the
// text it is, nothing of it becomes a tag, an attribute or an address. The fields come
// from the same list that the audit is held against, and every field of every form on
// the pages must be in it.
func TestMarkupInEveryFreeText(t *testing.T) {
	if plain(t) {
		return
	}
	marks := map[string]int{}
	x := newRounds(t, func(name string) string {
		marks[name]++
		return fmt.Sprintf(`<script>alert("%s")</script>"><img src=x onerror=alert(1)>' onfocus=alert(1) autofocus x='</title></textarea><svg onload=alert(1)>`, name)
	})
	known := map[string]map[string]bool{} // fields by route
	var texts []string
	for _, c := range changes() {
		texts = append(texts, freeTexts(t, c)...)
		if known[c.route] == nil {
			known[c.route] = map[string]bool{}
		}
		if !strings.HasPrefix(c.body, "{") {
			for pair := range strings.SplitSeq(c.body, "&") {
				name, _, _ := strings.Cut(pair, "=")
				known[c.route][name] = true
			}
		}
	}
	routes, err := auth.Walk(x.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	routeOf := func(path string) string {
		for _, r := range routes {
			if r.Method != http.MethodPost {
				continue
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(parameter.ReplaceAllString(r.Pattern, "PARAMETER")), "PARAMETER", "[^/]+")
			if regexp.MustCompile("^" + pattern + "$").MatchString(path) {
				return "POST " + r.Pattern
			}
		}
		return ""
	}
	seen, read, forms := map[string]bool{}, 0, map[string]bool{}
	look := func(path string) {
		t.Helper()
		w := x.ask("GET", path, "", "admin", nil)
		body := w.Body.String()
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			return
		}
		read++
		for _, bad := range live {
			if i := strings.Index(body, bad); i >= 0 {
				t.Errorf("%s holds %q: ...%s...", path, bad, body[max(0, i-120):min(len(body), i+80)])
			}
		}
		plain := html.UnescapeString(body)
		for _, name := range texts {
			if strings.Contains(plain, `<script>alert("`+name+`")</script>`) {
				seen[name] = true
			}
		}
		for _, m := range formTag.FindAllStringSubmatch(body, -1) {
			action, err := url.PathUnescape(html.UnescapeString(m[1]))
			if err != nil {
				t.Errorf("%s has a form to %q", path, m[1])
				continue
			}
			action, _, _ = strings.Cut(action, "?")
			route := routeOf(action)
			if route == "" {
				t.Errorf("%s has a form to %s, which is no route", path, action)
				continue
			}
			forms[route] = true
			if unaudited()[route] != "" {
				continue // it keeps nothing
			}
			for _, f := range textField.FindAllStringSubmatch(m[2], -1) {
				if name := f[1]; !known[route][name] && !strings.HasPrefix(route, "POST /experiments/") && !(route == "POST /setup/drill" && name == "accept") {
					t.Errorf("the form on %s sends %s to %s, which no test fills in", path, name, route)
				}
			}
		}
	}
	everywhere := func() {
		for _, p := range x.places(routes) {
			look(p)
		}
	}
	for i, c := range changes() {
		if c.before != nil {
			c.before(x)
		}
		if w := x.do(c); w.Code != c.want && !(w.Code == 422 || w.Code == 400) { // a text may be refused for what it holds: then it is not stored
			t.Errorf("%s: %d, want %d: %.300s", c.route, w.Code, c.want, plainOr(w.Body.String()))
		}
		if i%12 == 11 { // some of what is written is taken away again by what comes later
			everywhere()
		}
	}
	everywhere()
	for _, name := range texts {
		if marks[name] == 0 {
			t.Errorf("%q was never sent", name)
		}
		if !seen[name] && unseen[name] == "" {
			t.Errorf("%q is on no page: what is not shown could not have been escaped", name)
		}
	}
	if read < 100 || len(forms) < 20 {
		t.Errorf("only %d pages were read, with forms to %d routes", read, len(forms))
	}
}

// places are the addresses of the pages of the router, with what these rounds left.
func (x *rounds) places(routes []auth.Access) (out []string) {
	fill := map[string][]string{
		"/services/{service}": {"order", "points"}, "/readiness/{service}": {"order"}, "/slos/{id}": {"order-availability"}, "/alerts/{id}": {"i-1", "i-2"},
		"/gamedays/{id}": {x.known["day"], "by-hand"}, "/findings/{key}": {"f-1", "f-2", "f-3", "f-4"}, "/runs/{id}": {x.known["run"]}, "/scenarios/{name}": {"control-run-0", "order-timeout-boundary"},
		"/admin/config/{number}": {"1", "2", "3", "4"},
	}
	for _, r := range routes {
		switch {
		case r.Method != http.MethodGet || strings.HasSuffix(r.Pattern, "/stream") || strings.HasSuffix(r.Pattern, "/plan") || strings.HasPrefix(r.Pattern, "/static"):
		case strings.Contains(r.Pattern, "{"):
			for _, id := range fill[r.Pattern] {
				out = append(out, parameter.ReplaceAllString(r.Pattern, url.PathEscape(id)))
			}
		default:
			out = append(out, r.Pattern)
		}
	}
	return append(out, "/alerts?view=silences", "/alerts?view=all", "/alerts?view=notes", "/gate?view=overrides", "/gate?view=decisions", "/gamedays?view=list", "/now?service=order",
		"/admin/audit?action=freeze", "/admin/audit?action=override", "/admin/audit?action=slo", "/admin/audit?action=change", "/admin/audit?action=alert", "/admin/audit?action=documents", "/admin/audit?action=gameday", "/admin/audit?action=finding", "/admin/audit?action=readiness")
}
