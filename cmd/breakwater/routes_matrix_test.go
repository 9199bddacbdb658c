package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
)

// visitor is somebody who asks every route once.
type visitor struct {
	name string
	role auth.Role // "": nobody let them in
	set  func(*http.Request)
	says string // the guard's word where there is no role
	// session: came by a browser, and may see the pages of the own account.
	session bool
}

// guards are the guard's own words of refusal; any other answer is the route's.
var guards = []string{"role", "no_token", "no_session", "session_ended", "unknown_token", "token_ended", "password_change", "cross_origin", "host", "sessions_unavailable", "tokens_unavailable"}

// code is the problem's code, where the answer is a problem. Argo is answered 200
// whatever is wrong, with the code as the reason: see dialect.ArgoAlways.
func code(w *httptest.ResponseRecorder) string {
	var p struct{ Code string }
	for _, word := range guards {
		if w.Code == http.StatusOK && strings.Contains(w.Body.String(), `"decision":"unknown"`) && strings.Contains(w.Body.String(), `"`+word+`"`) {
			return word
		}
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem+json") {
		_ = json.Unmarshal(w.Body.Bytes(), &p) // what is none has no code
	}
	return p.Code
}

// may is which role may what, written out once more and not taken from the code.
var may = map[string][]auth.Role{
	"viewer":   {auth.Viewer, auth.Operator, auth.Approver, auth.Admin},
	"operator": {auth.Operator, auth.Admin},
	"approver": {auth.Approver, auth.Admin},
	"admin":    {auth.Admin},
	"gateway":  {auth.Gateway},
	"pipeline": {auth.Pipeline},
}

var parameter = regexp.MustCompile(`\{[^}]+\}|\*`)

// TestReliability_F28 asks every route of the real router as everybody: each role
// by token and by session, signed out, ended, expired, revoked, before the first
// change of the password. The table of routes is agreed(); a route without a row
// fails in TestRoutesAreGuarded.
func TestReliability_F28(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	visitors := d.visitors()
	rows := agreed()
	routes, err := auth.Walk(d.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	router, asked := d.c.routes(), 0
	for _, route := range routes {
		key := route.Method + " " + route.Pattern
		if key == "GET /static/*" {
			continue // open, and a second time in the pages' own mount
		}
		row, listed := rows[key]
		if !listed {
			t.Errorf("%s has no row in the table", key)
			continue
		}
		for _, a := range visitors {
			w := askAs(router, a, route.Method, parameter.ReplaceAllString(route.Pattern, "1"))
			asked++
			got := code(w)
			want := expected(a, row)
			if want == "" && slices.Contains(guards, got) || want != "" && (got != want || w.Code != 401 && w.Code != 403 && !strings.HasSuffix(key, "/gate/argo")) {
				t.Errorf("%s as %s: %d %q, want %q (%s)", key, a.name, w.Code, got, want, row)
			}
		}
	}
	if asked < len(routes)*10 {
		t.Errorf("only %d questions for %d routes", asked, len(routes))
	}
}

// expected is the guard's word for a, "" where the route itself shall answer.
func expected(a visitor, row string) string {
	switch {
	case row == open:
		return ""
	case a.says == "password_change" && row == signed:
		return ""
	case a.role == "":
		return a.says
	case row == signed && !a.session:
		return "no_session"
	case row == signed:
		return ""
	}
	for part := range strings.FieldsSeq(row) {
		if slices.Contains(may[part], a.role) {
			return ""
		}
	}
	return "role"
}

// askAs sends one request straight to the router. Its context has ended: the guard
// decides all the same, and what stands behind it changes nothing and does not wait.
func askAs(router http.Handler, a visitor, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.Host, r.RemoteAddr = "127.0.0.1:8081", "10.0.0.9:1"
	if a.set != nil {
		a.set(r)
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8081})))
	cancel()
	w := httptest.NewRecorder()
	router.ServeHTTP(w, r.WithContext(ctx))
	return w
}

func bearer(secret string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
}

func holding(secret string) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "breakwater_session", Value: secret}) }
}

// visitors are everybody there is.
func (d *desk) visitors() []visitor {
	d.t.Helper()
	ctx, now := d.t.Context(), time.Now()
	token := func(t auth.Token) string {
		t.CreatedBy = "test"
		secret, err := auth.Issue(ctx, d.c.store, t)
		if err != nil {
			d.t.Fatal(err)
		}
		return secret
	}
	session := func(name, password string) string {
		secret, _, err := d.c.signin.people.SignIn(ctx, name, password, "10.0.0.9:1", "")
		if err != nil {
			d.t.Fatal(err)
		}
		return secret
	}
	out := []visitor{
		{name: "nobody", says: "no_token"},
		{name: "a forged session", says: "session_ended", set: holding(auth.NewSecret())},
		{name: "a session as token", says: "unknown_token", set: bearer(auth.NewSecret())},
		{name: "an unknown token", says: "unknown_token", set: bearer("bw_x")},
		{name: "an expired token", says: "token_ended", set: bearer(token(auth.Token{Name: "past", Role: auth.Admin, CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(-time.Hour)}))},
	}
	gone := token(auth.Token{Name: "gone", Role: auth.Admin, CreatedAt: now})
	if err := auth.Revoke(ctx, d.c.store, "test", "gone", now.Add(-time.Second)); err != nil {
		d.t.Fatal(err)
	}
	out = append(out, visitor{name: "a revoked token", says: "token_ended", set: bearer(gone)})
	for _, role := range auth.Roles() {
		out = append(out, visitor{name: "token of " + string(role), role: role, set: bearer(token(auth.Token{Name: "t-" + string(role), Role: role, CreatedAt: now}))})
	}
	for _, role := range auth.PeopleRoles() {
		name := "p-" + string(role)
		out = append(out, visitor{name: "session of " + string(role), role: role, session: true, set: holding(session(name, d.person(name, role)))})
	}
	first, err := d.c.signin.people.Create(ctx, "test", auth.User{Name: "new", Role: auth.Admin})
	if err != nil {
		d.t.Fatal(err)
	}
	out = append(out, visitor{name: "before the first change", says: "password_change", session: true, set: holding(session("new", first))})
	ended := session("p-viewer", "a long password of P-VIEWER")
	if err := d.c.signin.people.SignOut(ctx, ended); err != nil {
		d.t.Fatal(err)
	}
	d.c.guard.Forget()
	return append(out, visitor{name: "signed out", says: "session_ended", set: holding(ended)})
}

// TestReliability_X163: who may not is told 401 or 403, and a row says that they tried.
func TestReliability_X163(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	router := d.c.routes()
	for _, a := range d.visitors() {
		want := map[bool]int{true: 401, false: 403}[a.role == "" && a.says != "password_change"]
		if a.role == auth.Operator || a.role == auth.Admin {
			continue // may
		}
		w := askAs(router, a, "POST", "/api/v1/experiments")
		if w.Code != want {
			t.Errorf("%s starts a drill: %d, want %d", a.name, w.Code, want)
		}
	}
	rows, err := d.c.store.AuditTail(t.Context(), 1<<62, auth.Entry{Action: "request.denied", Object: "POST /api/v1/experiments"}, 100)
	if err != nil || len(rows) < 10 { // the first ten at once, then one a second
		t.Errorf("%d rows of refusals, %v", len(rows), err)
	}
	who := map[string]bool{}
	for _, r := range rows {
		who[r.Actor] = true
	}
	if !who["unknown"] || !who["past"] || !who["t-viewer"] {
		t.Errorf("the rows name %v", who)
	}
	// Nobody approves their own: the engine's own tests hold that for drills and
	// overrides; here that a person and their token are told apart by name.
	if _, err := auth.Issue(t.Context(), d.c.store, auth.Token{Name: "p-approver", Role: auth.Approver, CreatedAt: time.Now()}); err == nil {
		t.Error("a token took a person's name")
	}
}

// TestReliability_X170: a page of another origin, or under another name, changes
// nothing and reads nothing, with whatever the browser sends along.
func TestReliability_X170(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	router := d.c.routes()
	routes, err := auth.Walk(router)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := d.c.signin.people.SignIn(t.Context(), "boss", d.person("boss", auth.Admin), "10.0.0.9:1", "")
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, route := range routes {
		path := parameter.ReplaceAllString(route.Pattern, "1")
		ask := func(how string, set func(*http.Request), want string) {
			t.Helper()
			w := askAs(router, visitor{set: func(r *http.Request) {
				holding(secret)(r)
				r.Header.Set("Content-Type", "text/plain") // what a form can send without asking first
				set(r)
			}}, route.Method, path)
			if got := code(w); w.Code != 403 && !strings.HasSuffix(path, "/gate/argo") || got != want {
				t.Errorf("%s %s, %s: %d %q, want 403 %q", route.Method, path, how, w.Code, got, want)
			}
		}
		ask("under a foreign name", func(r *http.Request) { r.Host = "evil.example:8081" }, "host")
		if route.Method == http.MethodGet || route.Method == http.MethodHead {
			continue
		}
		changed++
		for how, head := range map[string][2]string{"another site": {"Sec-Fetch-Site", "cross-site"}, "a sister": {"Sec-Fetch-Site", "same-site"},
			"an old browser": {"Origin", "https://evil.example"}, "a sandbox": {"Origin", "null"}} {
			ask(how, func(r *http.Request) { r.Header.Set(head[0], head[1]) }, "cross_origin")
		}
	}
	if changed < 20 {
		t.Errorf("only %d routes change anything", changed)
	}
	// The gateway's admin port, which halts faults without asking who it is.
	g := gateway.New(gateway.Config{Name: "gw", Env: "test", Log: slog.New(slog.DiscardHandler)})
	for _, set := range []func(*http.Request){func(r *http.Request) { r.Host = "evil.example:15000" }, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }} {
		r := httptest.NewRequest("POST", "http://127.0.0.1:15000/faults/resume", strings.NewReader("x"))
		r.Header.Set("Content-Type", "text/plain")
		set(r)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 15000})))
		w := httptest.NewRecorder()
		g.Admin().ServeHTTP(w, r)
		if w.Code != 403 && w.Code != 421 {
			t.Errorf("the gateway's admin port answers %d %s", w.Code, w.Body)
		}
	}
}

// TestTokensOfOneServiceStayThere: each route that acts on a service refuses a
// token of another one.
func TestTokensOfOneServiceStayThere(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	for _, role := range []auth.Role{auth.Operator, auth.Approver, auth.Admin, auth.Pipeline} {
		secret, err := auth.Issue(t.Context(), d.c.store, auth.Token{Name: "points-" + string(role), Role: role, Services: []string{"points"}, CreatedAt: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		d.c.guard.Forget()
		for _, q := range []struct{ role, method, path, body string }{
			{"operator", "POST", "/api/v1/freezes/order", `{"reason":"because of a test","until":"2099-01-01T00:00:00Z"}`},
			{"operator", "DELETE", "/api/v1/freezes/order?reason=because", ``},
			{"operator", "POST", "/api/v1/freezes/order/override", `{"reason":"because of a test","for":"1h","ref":"x"}`},
			{"operator approver", "POST", "/api/v1/freezes/order/attest", `{"reason":"because of a test"}`},
			{"operator approver", "POST", "/api/v1/readiness/order", `{"item":"versions","yes":true,"evidence":"where it is written"}`},
			{"operator pipeline", "POST", "/api/v1/events/deploys", `{"service":"order","ref":"v1","at":"2026-01-01T00:00:00Z"}`},
			{"operator pipeline", "POST", "/api/v1/events/incidents", `{"service":"order","ref":"i","at":"2026-01-01T00:00:00Z","title":"x"}`},
			{"admin", "GET", "/admin/", ``}, {"admin", "POST", "/admin/users", ``}, {"admin", "POST", "/admin/tokens", ``}, {"admin", "GET", "/admin/audit", ``},
		} {
			if !slices.Contains(strings.Fields(q.role), string(role)) && role != auth.Admin || role == auth.Admin && q.role == "pipeline" {
				continue
			}
			r := httptest.NewRequest(q.method, q.path, strings.NewReader(q.body))
			r.Host, r.RemoteAddr = "127.0.0.1:8081", "10.0.0.9:1"
			r.Header.Set("Content-Type", "application/json")
			bearer(secret)(r)
			w := httptest.NewRecorder()
			d.c.routes().ServeHTTP(w, r)
			if w.Code != 403 && w.Code != 404 {
				t.Errorf("%s of points: %s %s is %d %.200s", role, q.method, q.path, w.Code, w.Body)
			}
		}
	}
}

// TestPagesThatChangeAskForAnOperator: pages are one mount for whoever reads, so
// each form on them that does more than stop must ask for an operator by itself.
func TestPagesThatChangeAskForAnOperator(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	b := d.browser()
	b.signIn("ann", d.person("ann", auth.Viewer), "").leads(t, "/")
	forms := 0
	for key, row := range agreed() {
		method, path, _ := strings.Cut(key, " ")
		if method == http.MethodGet || row != "viewer" || strings.HasPrefix(path, "/api/") || path == "/halt" || path == "/runs/{id}/abort" || path == "/gamedays/{id}/abort" || path == "/experiments/check" || strings.HasPrefix(path, "/simulator") /* start nothing */ || strings.HasSuffix(path, "/revoke") /* to close a gate is the safe side */ {
			continue
		}
		forms++
		if p := b.do(method, parameter.ReplaceAllString(path, "1"), url.Values{"reason": {"because"}, "note": {"x"}}); p.status != http.StatusForbidden {
			t.Errorf("a viewer's %s is %d to %q, want 403", key, p.status, p.to())
		}
	}
	if forms < 4 {
		t.Errorf("only %d forms", forms)
	}
}
