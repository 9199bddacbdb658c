package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"breakwater/gateway"
	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
)

// hostile are texts that would become markup, an attribute or an address where
// somebody forgot to escape them. Each names the place it was put in.
func hostile(place string) []string {
	return []string{
		`<script>alert("` + place + `")</script>`,
		`"><img src=x onerror=alert(1)>` + place,
		`' onfocus=alert(1) autofocus x='` + place,
		`javascript:alert("` + place + `")`,
		`{{.}}</title></textarea></select><svg onload=alert(1)>` + place,
	}
}

// live is what a page must never hold unescaped.
var live = []string{"<script>alert", "<img src=x", "<svg onload", `href="javascript:`, `action="javascript:`, `src="javascript:`, "' onfocus=alert(1)", `" onfocus=`}

// TestReliability_X172 puts markup into every free-text field of the forms and of
// the API that a page may show, and reads every page of the router. Names of
// upstreams and services as gateways and documents send them are put into every
// page by TestStoredMarkupIsEscaped of package web.
func TestReliability_X172(t *testing.T) {
	if plain(t) {
		return
	}
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	b := d.browser()
	b.signIn("boss", d.person("boss", auth.Admin), "").leads(t, "/")
	d.person("ann", auth.Viewer)
	if _, err := auth.Issue(t.Context(), d.c.store, auth.Token{Name: "ci", Role: auth.Pipeline, CreatedBy: hostile("made by")[0], CreatedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	seen := func(how, path string, p page) {
		t.Helper()
		if !strings.HasPrefix(p.head.Get("Content-Type"), "text/html") {
			// Whatever is no page must not be taken for one by a browser that guesses.
			if ct := p.head.Get("Content-Type"); p.body != "" && (ct == "" || p.head.Get("X-Content-Type-Options") != "nosniff" && strings.HasPrefix(ct, "text/plain") && strings.Contains(p.body, "<script>alert")) {
				t.Errorf("%s %s: %q is sent as %q", how, path, p.body[:min(len(p.body), 80)], ct)
			}
			return
		}
		for _, bad := range live {
			if i := strings.Index(p.body, bad); i >= 0 {
				t.Errorf("%s %s holds %q: ...%s...", how, path, bad, p.body[max(0, i-80):min(len(p.body), i+80)])
			}
		}
		if csp := p.head.Get("Content-Security-Policy"); !strings.Contains(csp, "script-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s %s: the policy is %q", how, path, csp)
		}
	}
	fields := map[string][]string{ // forms
		"/signin": {"name", "password", "next"}, "/password": {"present", "new", "again", "next"},
		"/admin/users": {"name", "role", "services"}, "/admin/users/ann": {"role", "services"},
		"/admin/tokens": {"name", "role", "services", "days"},
	}
	for path, names := range fields {
		for _, field := range names {
			for _, text := range hostile(field) {
				form := url.Values{"name": {"x"}, "role": {"viewer"}, "days": {"1"}, "new": {"a new password"}, "again": {"a new password"}, "present": {"x"}}
				form.Set(field, text)
				who := b
				if path == "/signin" { // a good sign-in would end the session
					who = d.browser()
				}
				seen("POST", path+" "+field, who.post(path, form))
			}
		}
	}
	for _, pattern := range []string{"/admin/users/%s", "/admin/users/%s/reset", "/admin/users/%s/disable", "/admin/tokens/%s/revoke", "/runs/%s/abort"} {
		for _, text := range hostile("path") {
			path := fmt.Sprintf(pattern, url.PathEscape(text))
			seen("POST", path, b.post(path, url.Values{"role": {"viewer"}}))
		}
	}
	// The API's free texts, each a valid request but for the text.
	api := []struct{ method, path, body string }{
		{"POST", "/api/v1/freezes/order", `{"reason":%s,"until":"2099-01-01T00:00:00Z"}`},
		{"POST", "/api/v1/freezes/order/override", `{"reason":%s,"ref":%[1]s}`},
		{"POST", "/api/v1/freezes/order/attest", `{"reason":%s,"note":%[1]s}`},
		{"POST", "/api/v1/silences", `{"service":"order","reason":%s,"comment":%[1]s}`},
		{"POST", "/api/v1/alerts/facts", `{"service":"order","text":%s}`},
		{"POST", "/api/v1/events/deploys", `{"service":"order","ref":%s,"title":%[1]s}`},
		{"POST", "/api/v1/events/incidents", `{"service":%s,"ref":%[1]s,"title":%[1]s}`},
		{"POST", "/api/v1/experiments", `{"scenario":%s,"reason":%[1]s}`},
		{"POST", "/api/v1/gamedays/x/notes", `{"text":%s}`},
		{"POST", "/api/v1/findings/x/close", `{"reason":%s}`},
		{"POST", "/api/v1/readiness/order", `{"item":"versions","yes":true,"evidence":%s}`},
		{"POST", "/api/v1/slos/x/corrections", `{"reason":%s}`},
		{"DELETE", "/api/v1/halt", `{"reason":%s}`},
	}
	for _, q := range api {
		for _, text := range hostile(q.path) {
			body := fmt.Sprintf(q.body, fmt.Sprintf("%q", text))
			seen(q.method, q.path, b.send(q.method, q.path, "application/json", body))
		}
	}
	seen("GET", "/nothing", b.get("/"+url.PathEscape(hostile("lost")[0])))

	routes, err := auth.Walk(d.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, route := range routes {
		if route.Method != http.MethodGet || strings.HasSuffix(route.Pattern, "/stream") || strings.HasSuffix(route.Pattern, "/plan") || strings.HasPrefix(route.Pattern, "/static") {
			continue
		}
		for _, text := range append(hostile("query"), "1") {
			path := parameter.ReplaceAllString(route.Pattern, url.PathEscape(text))
			query := url.Values{}
			for _, name := range []string{"q", "state", "view", "r", "theme", "service", "env", "next", "said", "actor", "action", "object", "before", "slo", "kind"} {
				query.Set(name, text)
			}
			seen("GET", path+"?...", b.get(path+"?"+query.Encode()))
			seen("GET", path, b.get(path))
			read++
		}
	}
	if read < 100 {
		t.Errorf("only %d pages were read", read)
	}
	// It was stored: what is not there could not have been escaped.
	b.get("/admin/audit?action=request").want(t, 200)
	b.get("/admin/audit?action=freeze").want(t, 200, `<script>alert("/api/v1/freezes/order")</script>`)
	b.get("/admin/tokens").want(t, 200, `<script>alert("made by")</script>`)
}

// send is a request of a script on our own page.
func (b *browser) send(method, path, kind, body string) page {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.answer(r)
}

// TestReliability_X174: what a stranger chooses becomes no label. A hundred
// thousand methods, hosts and paths make at most fifty series.
func TestReliability_X174(t *testing.T) {
	if plain(t) {
		return
	}
	reg := prometheus.NewRegistry()
	g := gateway.New(gateway.Config{Name: "gw", Env: "test", Metrics: reg, Log: slog.New(slog.DiscardHandler)})
	handler := g.Handler()
	series := func() (n int) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	before := series()
	const strangers = 100_000
	for i := range strangers {
		r := httptest.NewRequest(fmt.Sprintf("M%d", i), fmt.Sprintf("/p%d", i), nil)
		r.Host = fmt.Sprintf("h%d.example", i)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if made := series() - before; made > 50 {
		t.Errorf("%d strangers made %d series, want at most 50", strangers, made)
	}
}
