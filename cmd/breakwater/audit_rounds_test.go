package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/injector/scenario"
	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
)

// rounds is a control in which all of them can be done.
type rounds struct {
	*desk
	router http.Handler
	dir    string
	known  map[string]string
	text   func(name string) string // fills a free text in
	tables string                   // the question after all that is kept but the audit
}

func newRounds(t *testing.T, text func(string) string) *rounds {
	t.Helper()
	x := &rounds{desk: deskOf(t, pgtest.DSN(t), controlOptions{}, settings{env: "prod", config: t.TempDir()}), text: text, known: map[string]string{}}
	x.router, x.dir = x.c.routes(), x.c.set.config
	write(t, filepath.Join(x.dir, "gw.yaml"), goodDocument)
	write(t, filepath.Join(x.dir, "slo.yaml"), promiseOfOrder)
	write(t, filepath.Join(x.dir, "drills.yaml"), drillDocs)
	for _, name := range []string{"control-run-0", "order-timeout-boundary"} {
		write(t, filepath.Join(x.dir, name+".yaml"), accepting(string(mustRead(t, "../../scenarios/"+name+".yaml"))))
	}
	now, err := x.c.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := x.c.importDocuments(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := x.c.slo.Tick(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for _, role := range auth.Roles() {
		secret, err := auth.Issue(t.Context(), x.c.store, auth.Token{Name: "t-" + string(role), Role: role, CreatedBy: "test", CreatedAt: now})
		if err != nil {
			t.Fatal(err)
		}
		x.known["token "+string(role)] = secret
	}
	x.known["password"] = x.person("kim", auth.Viewer)
	x.known["scenario"] = accepting(strings.Replace(string(mustRead(t, "../../scenarios/control-run-0.yaml")), "id: control-run-0", "id: from-the-editor", 1))
	x.known["policy"] = "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: shop\nservices: [shop]\n"
	x.known["another"] = strings.ReplaceAll(x.known["policy"], "shop", "points")
	for name, at := range map[string]time.Duration{"yesterday": -24 * time.Hour, "today": -time.Hour, "tomorrow": 24 * time.Hour} {
		x.known[name] = now.Add(at).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	for id, class := range map[string]string{"i-1": "errors", "i-2": "budget"} {
		body, _ := json.Marshal(map[string]any{"id": id, "service": "order", "env": "prod", "class": class, "tier": "L1", "severity": "page", "opened_at": now, "last_seen": now})
		if _, err := x.db.Exec(t.Context(), `insert into alert_incident (id, service, env, class, tier, severity, title, opened_at, body) values ($1, 'order', 'prod', $4, 'L1', 'page', '', $2, $3::jsonb)`, id, now, string(body), class); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"f-1", "f-2", "f-3", "f-4"} {
		if _, err := x.db.Exec(t.Context(), `insert into finding (id, service, scenario, assertion, title, expected, seen, severity, owner, state, due_at, opened_at, text, hash, config, run, last_run)
values ($1, 'points', $1, 'd1', 'errors', '<= 3 %', '12 %', 'high', 'team', 'open', $2, $2, '', '', '', 'r', 'r')`, id, now); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := x.db.Query(t.Context(), `select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition and relname not in ('audit', 'goose_db_version') order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	var each []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		each = append(each, fmt.Sprintf(`select '%s=' || md5(coalesce(string_agg(t::text, '|' order by t::text), '')) as x from "%s" t`, name, name))
	}
	if err := rows.Err(); err != nil || len(each) < 30 {
		t.Fatalf("%d tables, %v", len(each), err)
	}
	x.tables = `select string_agg(x, E'\n' order by x) from (` + strings.Join(each, " union all ") + `) as all_of_them`
	for _, s := range []string{`create function refuse_audit() returns trigger language plpgsql as $$ begin raise exception 'the audit is away'; end $$`,
		`create trigger away before insert on audit for each row execute function refuse_audit()`} {
		if _, err := x.db.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	x.auditAway(false)
	return x
}

// accepting lets a scenario start in a house without traffic.
func accepting(text string) string {
	return text + "accept: [" + strings.Join(scenario.Refusals(), ", ") + "]\n"
}

// auditAway makes each row of the audit fail, or not.
func (x *rounds) auditAway(away bool) {
	x.t.Helper()
	s := `alter table audit disable trigger away`
	if away {
		s = `alter table audit enable trigger away`
	}
	if _, err := x.db.Exec(x.t.Context(), s); err != nil {
		x.t.Fatal(err)
	}
}

// state is all that is kept: every table but the audit, and the documents.
func (x *rounds) state() string {
	x.t.Helper()
	var text string
	if err := x.db.QueryRow(x.t.Context(), x.tables).Scan(&text); err != nil {
		x.t.Fatal(err)
	}
	err := fs.WalkDir(os.DirFS(x.dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var b []byte
			if b, err = os.ReadFile(filepath.Join(x.dir, name)); err == nil {
				text += fmt.Sprintf("\nfile %s=%x", name, sha256.Sum256(b))
			}
		}
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return text
}

// differing names what is not alike in two states.
func differing(a, b string) string {
	was := strings.Split(a, "\n")
	var out []string
	for line := range strings.SplitSeq(b, "\n") {
		if !slices.Contains(was, line) {
			name, _, _ := strings.Cut(line, "=")
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// newest keeps the number of the newest revision of the documents.
func (x *rounds) newest() {
	r, err := documentDesk{x.c}.newest(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	x.known["newest"] = fmt.Sprint(r.Number)
}

// ended lets the engine see that what was stopped is over.
func (x *rounds) ended() {
	if _, err := x.db.Exec(x.t.Context(), `update gameday set ended_at = coalesce(ended_at, clock_timestamp())`); err != nil {
		x.t.Fatal(err)
	}
}

// look keeps what a page of the API says.
func (x *rounds) look(path, name, of string) {
	x.t.Helper()
	w := x.ask("GET", path, "", "admin", nil)
	m := regexp.MustCompile(of).FindStringSubmatch(w.Body.String())
	if m == nil {
		x.t.Fatalf("no %s in %s: %d %.1000s", name, path, w.Code, w.Body)
	}
	x.known[name] = m[1]
}

var placeholder = regexp.MustCompile(`<([a-z]+)>`)

// fill puts in what is known, and free texts; as is how each is written there.
func (x *rounds) fill(text string, as func(string) string) string {
	text = regexp.MustCompile(`¶([^¶]*)¶`).ReplaceAllStringFunc(text, func(m string) string { return as(x.text(strings.Trim(m, "¶"))) })
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		v, ok := x.known[strings.Trim(m, "<>")]
		if !ok {
			return m
		}
		return as(v)
	})
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return strings.TrimSuffix(strings.TrimPrefix(string(b), `"`), `"`)
}

// ask sends one request as who holds a role's token, or with kim's session.
func (x *rounds) ask(method, path, body, as string, set func(*http.Request)) *httptest.ResponseRecorder {
	x.t.Helper()
	kind, how := "application/x-www-form-urlencoded", url.QueryEscape
	switch {
	case strings.HasPrefix(body, "{"):
		kind, how = "application/json", inJSON
	case strings.HasPrefix(body, "api"):
		kind, how = "application/yaml", func(s string) string { return s }
	}
	r := httptest.NewRequest(method, x.fill(path, url.QueryEscape), strings.NewReader(x.fill(body, how)))
	r.Host, r.RemoteAddr = "127.0.0.1:8081", "10.0.0.9:1"
	r.Header.Set("Content-Type", kind)
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	switch as {
	case "nobody":
	case "kim":
		holding(x.known["session"])(r)
	default:
		bearer(x.known["token "+as])(r)
	}
	if set != nil {
		set(r)
	}
	w := httptest.NewRecorder()
	x.router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8081}))))
	for _, c := range w.Result().Cookies() {
		if strings.HasSuffix(c.Name, "breakwater_session") && c.Value != "" {
			x.known["session"] = c.Value
		}
	}
	return w
}

// rows are those of the audit since, but for refusals of the guard.
func (x *rounds) rows(since int64) (rows []auth.Row, last int64) {
	x.t.Helper()
	all, err := x.c.store.AuditRows(x.t.Context(), since, 1000)
	if err != nil {
		x.t.Fatal(err)
	}
	last = since
	for _, r := range all {
		last = r.Seq
		if r.Action != "request.denied" {
			rows = append(rows, r)
		}
	}
	return rows, last
}

// do makes a change, and keeps what later ones need of the answer.
func (x *rounds) do(c change) *httptest.ResponseRecorder {
	x.t.Helper()
	method, path, _ := strings.Cut(c.route, " ")
	if c.path != "" {
		path = c.path
	}
	w := x.ask(method, path, c.body, c.as, nil)
	if c.keep != "" {
		text := w.Body.String() + "\n" + w.Header().Get("Location")
		if m := regexp.MustCompile(c.of).FindStringSubmatch(text); m != nil {
			x.known[c.keep] = m[1]
		}
	}
	return w
}
