package main

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/web"
)

// elsewhere are addresses that lead to another host, or look as if they did, in the ways
// browsers read them.
var elsewhere = []string{"https://evil.example/", "//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, `/%5cevil.example`, "/%2f/evil.example", "/%2f%2fevil.example", "%2f%2fevil.example",
	"/\t/evil.example", "/./\n/evil.example", "javascript:alert(1)", "data:text/html,x", "http:evil.example", "//user@evil.example", "/.//evil.example", "/a/..//evil.example", "https:///evil.example"}

var pageAddress = regexp.MustCompile(`\s(?:href|action|formaction|src)="([^"]*)"`)

// leavesTo is the first address of an answer that leads to another host, read as a browser does: control
// characters away, backslashes as slashes.
func leavesTo(base *url.URL, p page) string {
	all := []string{p.to()}
	for _, m := range pageAddress.FindAllStringSubmatch(p.body, -1) {
		all = append(all, html.UnescapeString(m[1]))
	}
	for _, a := range all {
		if strings.HasPrefix(a, "#") {
			continue // a symbol or a place on this page
		}
		clean := strings.ReplaceAll(strings.Map(func(r rune) rune {
			if r == '\t' || r == '\n' || r == '\r' {
				return -1
			}
			return r
		}, strings.TrimSpace(a)), `\`, "/")
		to, err := base.Parse(clean)
		if err != nil || to.Host != base.Host || to.Scheme != base.Scheme || strings.HasPrefix(clean, "//") {
			return a
		}
	}
	return ""
}

// TestNoAddressLeadsElsewhere asks each page of the router with addresses of another host in every parameter that
// takes one, or might, and under paths that look like one: no redirect, link, form or script leads there.
func TestNoAddressLeadsElsewhere(t *testing.T) {
	if plain(t) {
		return
	}
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	password := d.person("ann", auth.Admin)
	b := d.browser()
	b.signIn("ann", password, "").leads(t, "/")
	base, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	routes, err := auth.Walk(d.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	look := func(path string) {
		t.Helper()
		asked++
		if p := b.get(path); p.status >= 500 || leavesTo(base, p) != "" {
			t.Errorf("GET %s: %d, leads to %q", path, p.status, leavesTo(base, p))
		}
	}
	takes := strings.Fields("next back return to url redirect r q at zone view service env slo from day state kind lang theme fragment format")
	for _, r := range routes {
		if r.Method != http.MethodGet || slices.ContainsFunc(noPages, func(p string) bool { return strings.HasPrefix(r.Pattern, p) }) {
			continue
		}
		for i, bad := range elsewhere {
			if i%6 != len(r.Pattern)%6 { // each page some of them, all of them somewhere
				continue
			}
			q := url.Values{}
			for _, name := range takes {
				q.Set(name, bad)
			}
			path := parameter.ReplaceAllString(r.Pattern, "1")
			look(path + "?" + q.Encode())
			if strings.Contains(r.Pattern, "{") {
				look(parameter.ReplaceAllString(r.Pattern, url.PathEscape(bad)))
			}
		}
	}
	for _, path := range []string{"//evil.example/x", "///evil.example", `/\evil.example`, "/%5cevil.example", "/%2f%2fevil.example", "//evil.example/services/order", "/services//evil.example"} {
		look(path)
	}
	if asked < 150 {
		t.Errorf("only %d addresses were asked", asked)
	}
	// The ways in: all that takes a next keeps to it only where it is one of ours.
	for i, bad := range elsewhere {
		q := "?next=" + url.QueryEscape(bad)
		out := d.browser()
		answers := map[string]page{"GET /signin": out.get("/signin" + q), "GET /password": b.get("/password" + q), "GET /signin/oidc": out.get("/signin/oidc" + q), "POST /signout": out.post("/signout"+q, url.Values{"next": {bad}}),
			"POST /password": b.post("/password", url.Values{"present": {password}, "new": {"x"}, "again": {"y"}, "next": {bad}})}
		if i%6 == 0 { // tries are counted
			answers["POST /signin"] = d.browser().signIn("ann", password, bad)
			answers["POST /signin?next"] = d.browser().post("/signin"+q, url.Values{"name": {"ann"}, "password": {password}})
			answers["POST /signin, wrong"] = out.signIn("nobody", "x", bad)
		}
		for what, p := range answers {
			if to := leavesTo(base, p); p.status >= 500 || to != "" {
				t.Errorf("%s with next %q: %d, leads to %q", what, bad, p.status, to)
			}
			for _, m := range regexp.MustCompile(`name="next" value="([^"]*)"`).FindAllStringSubmatch(p.body, -1) {
				if v := html.UnescapeString(m[1]); leavesTo(base, page{head: http.Header{"Location": {v}}}) != "" {
					t.Errorf("%s keeps next %q in its form", what, v)
				}
			}
		}
	}
	if p := b.post("/password", url.Values{"present": {password}, "new": {password + "2"}, "again": {password + "2"}, "next": {"//evil.example"}}); p.status != 303 || leavesTo(base, p) != "" {
		t.Errorf("the changed password leads to %d %q", p.status, p.to())
	}
}

// FuzzLocalPath: whatever stands in a link to the sign-in, what follows it stays here,
// and is kept as it is when asked for a second time.
func FuzzLocalPath(f *testing.F) {
	for _, s := range elsewhere {
		f.Add(s)
	}
	f.Add("/slos/order-availability?r=7d#x")
	base := &url.URL{Scheme: "http", Host: "here.example"}
	f.Fuzz(func(t *testing.T, next string) {
		got := web.LocalPath(next)
		if to := leavesTo(base, page{head: http.Header{"Location": {got}}}); to != "" || !strings.HasPrefix(got, "/") {
			t.Errorf("next %q leads to %q", next, got)
		}
		if again := web.LocalPath(got); again != got {
			t.Errorf("next %q becomes %q, and that %q", next, got, again)
		}
	})
}
