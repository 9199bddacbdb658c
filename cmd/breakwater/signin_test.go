package main

import (
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/internal/store"
)

// cheap makes a hash a matter of microseconds; what it costs is tested in auth.
var cheap = auth.Cost{Memory: 64, Passes: 1, Lanes: 1}

// desk is a control whose pages are served over a real database; its engines rest.
type desk struct {
	t   *testing.T
	c   *control
	db  *pgxpool.Pool
	url string
}

func newDesk(t *testing.T, dsn string, opt controlOptions) *desk {
	t.Helper()
	return deskOf(t, dsn, opt, settings{})
}

func deskOf(t *testing.T, dsn string, opt controlOptions, set settings) *desk {
	t.Helper()
	db, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opt.signin.cost = cheap
	c := &control{set: set, opt: opt, log: slog.New(slog.DiscardHandler), io: streams{err: io.Discard}, db: db, store: store.New(db), metrics: prometheus.NewRegistry()}
	if err := c.build(time.UTC, l); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(c.routes())
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return &desk{t, c, db, srv.URL}
}

// person makes an account that has changed its first password.
func (d *desk) person(name string, role auth.Role, services ...string) (password string) {
	d.t.Helper()
	first, err := d.c.signin.people.Create(d.t.Context(), "test", auth.User{Name: name, Role: role, Services: services})
	if err != nil {
		d.t.Fatal(err)
	}
	password = "a long password of " + strings.ToUpper(name)
	if _, err := d.c.signin.people.ChangePassword(d.t.Context(), name, first, password, "test"); err != nil {
		d.t.Fatal(err)
	}
	return password
}

// browser is somebody at a browser: it keeps cookies and follows nothing by itself.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
	head http.Header // sent with each request
}

func (d *desk) browser() *browser {
	d.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	b := &browser{t: d.t, base: d.url, head: http.Header{}, http: &http.Client{Jar: jar, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	b.head.Set("Accept", "text/html,application/xhtml+xml")
	b.head.Set("Sec-Fetch-Site", "same-origin")
	d.t.Cleanup(b.http.CloseIdleConnections)
	return b
}

type page struct {
	status int
	head   http.Header
	body   string
}

func (p page) to() string { return p.head.Get("Location") }

func (b *browser) do(method, path string, form url.Values) page {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	for k, v := range b.head {
		r.Header[k] = v
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return b.answer(r)
}

func (b *browser) answer(r *http.Request) page {
	b.t.Helper()
	res, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{res.StatusCode, res.Header, string(text)}
}

func (b *browser) get(path string) page                   { return b.do("GET", path, nil) }
func (b *browser) post(path string, form url.Values) page { return b.do("POST", path, form) }

func (b *browser) signIn(name, password, next string) page {
	return b.post("/signin", url.Values{"name": {name}, "password": {password}, "next": {next}})
}

// cookie is the session's secret as the browser holds it.
func (b *browser) cookie() string {
	u, err := url.Parse(b.base)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range b.http.Jar.Cookies(u) {
		if strings.HasSuffix(c.Name, "breakwater_session") {
			return c.Value
		}
	}
	return ""
}

func (p page) want(t *testing.T, status int, texts ...string) page {
	t.Helper()
	if p.status != status {
		t.Errorf("status %d to %q, want %d\n%.600s", p.status, p.to(), status, p.body)
	}
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(p.body), text) {
			t.Errorf("the page does not say %q", text)
		}
	}
	return p
}

func (p page) leads(t *testing.T, to string) {
	t.Helper()
	if p.status != http.StatusSeeOther || p.to() != to {
		t.Errorf("status %d to %q, want 303 to %q\n%.300s", p.status, p.to(), to, p.body)
	}
}

var shown = regexp.MustCompile(`<code class="secret">([^<]+)</code>`)

// secret is what a page shows once.
func (p page) secret(t *testing.T) string {
	t.Helper()
	m := shown.FindStringSubmatch(p.body)
	if m == nil {
		t.Fatalf("no secret on the page: %d %.600s", p.status, p.body)
	}
	return m[1]
}

// TestUX_R12 is the first day of an installation: the printed password, its
// change, another person, and everything through plain forms.
func TestUX_R12(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	said := &strings.Builder{}
	d.c.io.err = said
	if err := d.c.firstPerson(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`name admin, password (\S+)`).FindStringSubmatch(said.String())
	if m == nil {
		t.Fatalf("the first start says %q", said)
	}
	if err := d.c.firstPerson(t.Context()); err != nil || strings.Count(said.String(), "password") != 1 {
		t.Errorf("a second start prints again: %q, %v", said, err)
	}
	b := d.browser()
	b.get("/gate?all=1").leads(t, "/signin?next=%2Fgate%3Fall%3D1")
	b.get("/signin?next=%2Fgate%3Fall%3D1").want(t, 200, `name="password"`, `value="/gate?all=1"`)
	b.signIn("admin", "wrong", "/gate").want(t, 403, "do not fit", `value="admin"`)
	b.signIn("admin", m[1], "/gate?all=1").leads(t, "/password?next=%2Fgate%3Fall%3D1")
	// Nothing but the change is open until it is done, and it is not a dead end.
	for _, path := range []string{"/", "/admin", "/runs"} {
		b.get(path).leads(t, "/password")
	}
	b.post("/halt", url.Values{}).leads(t, "/password")
	b.get("/password?next=/gate").want(t, 200, "Present password", `value="/gate"`)
	change := func(present, next, again string) page {
		return b.post("/password", url.Values{"present": {present}, "new": {next}, "again": {again}, "next": {"/gate"}})
	}
	change(m[1], "correct horse battery", "correct horse batter").want(t, 422, "not the same")
	change("wrong", "correct horse battery", "correct horse battery").want(t, 422, "present password is not right")
	change(m[1], "short", "short").want(t, 422, "at least 12 characters")
	change(m[1], m[1], m[1]).want(t, 422, "must be another one")
	before := b.cookie()
	change(m[1], "correct horse battery", "correct horse battery").leads(t, "/gate")
	if b.cookie() == before || b.cookie() == "" {
		t.Error("the session's id is the one of before the change")
	}
	b.get("/gate").want(t, 200, "admin", "Sign out", "People")

	// Another person, through the page.
	made := b.post("/admin/users", url.Values{"name": {"Ann"}, "role": {"operator"}, "services": {"order, points"}}).want(t, 200, "The first password of ann", "shown this once")
	first := made.secret(t)
	b.get("/admin").want(t, 200, "ann", "order, points", "first password")
	if strings.Contains(b.get("/admin").body, first) {
		t.Error("the first password is shown twice")
	}
	ann := d.browser()
	ann.signIn("ann", first, "").leads(t, "/password?next=%2F")
	ann.post("/password", url.Values{"present": {first}, "new": {"ann knows this one"}, "again": {"ann knows this one"}}).leads(t, "/")
	ann.get("/").want(t, 200, "ann")
	ann.get("/admin").want(t, 403, "Not allowed", "operator")
	if strings.Contains(ann.get("/").body, `href="/admin/"`) {
		t.Error("an operator is led to the admin's pages")
	}
	// Another role holds at once; disabling signs out at once.
	b.post("/admin/users/ann", url.Values{"role": {"viewer"}}).leads(t, "/admin/?said=changed")
	ann.get("/").want(t, 200, "viewer")
	b.post("/admin/users/ann/disable", nil).leads(t, "/admin/?said=disabled")
	ann.get("/").leads(t, "/signin?next=%2F")
	ann.signIn("ann", "ann knows this one", "").want(t, 403, "do not fit")
	b.post("/admin/users/ann/enable", nil).leads(t, "/admin/?said=enabled")
	ann.signIn("ann", "ann knows this one", "/runs").leads(t, "/runs")
	second := b.post("/admin/users/ann/reset", nil).want(t, 200).secret(t)
	ann.get("/").leads(t, "/signin?next=%2F")
	ann.signIn("ann", second, "/runs").leads(t, "/password?next=%2Fruns")
	b.post("/admin/users/admin/disable", nil).want(t, 409, "last admin")
	b.post("/admin/users/nobody/disable", nil).want(t, 404, "no such user")

	// A token, shown once, works until it is revoked.
	token := b.post("/admin/tokens", url.Values{"name": {"ci"}, "role": {"pipeline"}, "days": {"30"}}).want(t, 200, "The token of ci").secret(t)
	machine := func() int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/api/v1/gate/key", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := b.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if got := machine(); got == 401 || got == 403 {
		t.Errorf("the new token is answered %d", got)
	}
	b.post("/admin/tokens", url.Values{"name": {"ann"}, "role": {"pipeline"}, "days": {"30"}}).want(t, 409, "used before")
	b.post("/admin/tokens", url.Values{"name": {"x"}, "role": {"pipeline"}, "days": {"-1"}}).want(t, 422, "Days must be")
	b.post("/admin/tokens", url.Values{"name": {"x"}, "role": {"root"}, "days": {"1"}}).want(t, 422, "must be one of")
	b.post("/admin/tokens/ci/revoke", nil).leads(t, "/admin/tokens?said=revoked")
	b.get("/admin/tokens").want(t, 200, "revoked")
	if got := machine(); got != 401 {
		t.Errorf("the revoked token is answered %d", got)
	}

	// Who did what.
	b.get("/admin/audit").want(t, 200, "unbroken", "token.revoke", "user.disable", "role operator, order,points", "session.refused")
	b.get("/admin/audit?action=user.&object=ann").want(t, 200, "user.reset")
	d.audited("admin", "user.create", "ann")
	d.audited("admin", "user.change", "ann")
	d.audited("admin", "user.reset", "ann")
	d.audited("admin", "token.issue", "ci")
	d.audited("ann", "user.password", "ann")
	d.audited("ann", "session.open", "ann")
	b.post("/signout", nil).leads(t, "/signin?said=out")
	d.audited("admin", "session.end", "admin")
	b.get("/signin?said=out").want(t, 200, "You are signed out")
	b.get("/").leads(t, "/signin?next=%2F")
	b.post("/halt", url.Values{}).leads(t, "/signin?said=again")
	b.get("/signin?said=again").want(t, 200, "was not done")
}

func (d *desk) audited(actor, action, object string) {
	d.t.Helper()
	rows, err := d.c.store.AuditTail(d.t.Context(), 1<<62, auth.Entry{Actor: actor, Action: action, Object: object}, 1)
	if err != nil || len(rows) == 0 {
		d.t.Errorf("no row says that %s did %s on %s, %v", actor, action, object, err)
	}
}

// A secret that somebody planted in the browser before is not the one of the
// session: the id is new at each sign-in, and the old one ends.
func TestSessionFixation(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	password := d.person("ann", auth.Viewer)
	evil := d.person("eve", auth.Viewer)
	attacker, victim := d.browser(), d.browser()
	attacker.signIn("eve", evil, "").leads(t, "/")
	planted := attacker.cookie()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{planted, auth.NewSecret(), "x"} {
		victim.http.Jar.SetCookies(u, []*http.Cookie{{Name: "breakwater_session", Value: value, Path: "/"}})
		victim.signIn("ann", password, "").leads(t, "/")
		if got := victim.cookie(); got == value || len(got) < 40 {
			t.Errorf("after the sign-in the cookie is %q", got)
		}
		victim.get("/").want(t, 200, "ann")
	}
	attacker.get("/").leads(t, "/signin?next=%2F")
}

// Many controls serve one database: a session of one holds at all of them, and its
// end too, within two seconds.
func TestSessionsAreOfAllControls(t *testing.T) {
	dsn := pgtest.DSN(t)
	one, two := newDesk(t, dsn, controlOptions{}), newDesk(t, dsn, controlOptions{})
	password := one.person("ann", auth.Viewer)
	b := one.browser()
	b.signIn("ann", password, "").leads(t, "/")
	at := func(d *desk) *browser { b.base = d.url; return b } // cookies know no port
	at(two).get("/").want(t, 200, "ann")
	at(one).post("/signout", nil).leads(t, "/signin?said=out")
	b.http.Jar.SetCookies(&url.URL{Scheme: "http", Host: "127.0.0.1"}, nil)
	at(one).get("/").leads(t, "/signin?next=%2F")
}

func TestNextLeadsNowhereElse(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	password := d.person("ann", auth.Viewer)
	for _, next := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "/%2f/evil.example",
		"http:evil.example", "/ /evil.example", "/\t/evil.example", "///evil.example", "/signout", "/signin?next=/", "", "evil", "/.//evil.example"} {
		b := d.browser()
		p := b.signIn("ann", password, next)
		if p.status != 303 || !strings.HasPrefix(p.to(), "/") || strings.HasPrefix(p.to(), "//") || strings.Contains(p.to(), "\\") || strings.Contains(p.to(), "sign") {
			t.Errorf("next %q leads to %d %q", next, p.status, p.to())
		}
		if u, err := url.Parse(d.url); err == nil {
			if to, err := u.Parse(p.to()); err != nil || to.Host != u.Host {
				t.Errorf("next %q leads to %v, %v", next, to, err)
			}
		}
	}
}

// Guessing is slow, by name and by address, and tells nothing.
func TestGuessingIsSlow(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	d.person("ann", auth.Viewer)
	b := d.browser()
	for _, name := range []string{"ann", "nobody"} {
		for i := range 6 {
			p := b.signIn(name, fmt.Sprint("guess", i), "")
			if want := map[bool]int{true: 403, false: 429}[i < 5]; p.status != want {
				t.Errorf("try %d for %s is %d, want %d", i+1, name, p.status, want)
			}
			if p.status == 429 && (p.head.Get("Retry-After") == "" || !strings.Contains(p.body, "Wait ")) {
				t.Error("it does not say how long to wait")
			}
		}
	}
}
