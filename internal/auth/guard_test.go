package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a Store in memory that can be away.
type memory struct {
	mu     sync.Mutex
	tokens []Token
	rows   []Row
	away   error
	reads  int
}

func (m *memory) Tokens(context.Context) ([]Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	return slices.Clone(m.tokens), m.away
}

func (m *memory) AddToken(_ context.Context, t Token) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.tokens, func(o Token) bool { return o.Name == t.Name }) {
		return false, m.away
	}
	m.tokens = append(m.tokens, t)
	return true, m.away
}

func (m *memory) RevokeToken(_ context.Context, name string, at time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tokens {
		if m.tokens[i].Name == name && m.tokens[i].RevokedAt.IsZero() {
			m.tokens[i].RevokedAt = at
			return true, m.away
		}
	}
	return false, m.away
}

func (m *memory) Audit(_ context.Context, e Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		return m.away
	}
	var last Row
	if n := len(m.rows); n > 0 {
		last = m.rows[n-1]
	}
	m.rows = append(m.rows, Next(last.Seq, last.Hash, e))
	return nil
}

func (m *memory) AuditRows(_ context.Context, after int64, limit int) ([]Row, error) {
	i := slices.IndexFunc(m.rows, func(r Row) bool { return r.Seq > after })
	if i < 0 {
		return nil, nil
	}
	return slices.Clone(m.rows[i:min(len(m.rows), i+limit)]), nil
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// issue makes a token and fails the test where that fails.
func issue(t *testing.T, s Store, tok Token) string {
	t.Helper()
	tok.CreatedBy = "test"
	if tok.CreatedAt.IsZero() {
		tok.CreatedAt = time.Now()
	}
	secret, err := Issue(t.Context(), s, tok)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

var whoami = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, From(r.Context()).Name) })

// ask sends one request to h as if it came over a loopback listener.
func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func from(method, host, peer, listener string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	r.Host, r.RemoteAddr = host, peer
	addr := net.TCPAddrFromAddrPort(mustAddr(listener))
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
}

func TestRoleMatrix(t *testing.T) {
	// One row for each role that asks; columns in the order of Roles: what it asks for.
	matrix := map[Role]string{
		//        viewer operator approver admin gateway pipeline
		Viewer:   "y n n n n n",
		Operator: "y y n n n n",
		Approver: "y n y n n n",
		Admin:    "y y y y n n",
		Gateway:  "n n n n y n",
		Pipeline: "n n n n n y",
	}
	m := &memory{}
	g := New(Config{Tokens: m, Log: quiet()})
	if len(matrix) != len(Roles()) {
		t.Fatalf("the matrix has %d rows for %d roles", len(matrix), len(Roles()))
	}
	for _, has := range Roles() {
		secret := issue(t, m, Token{Name: "t-" + string(has), Role: has})
		g.Forget()
		for i, want := range strings.Fields(matrix[has]) {
			needs := Roles()[i]
			r := from("POST", "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
			r.Header.Set("Authorization", "Bearer "+secret)
			w := ask(g.Require(needs)(whoami), r)
			wantStatus := map[string]int{"y": 200, "n": 403}[want]
			if w.Code != wantStatus {
				t.Errorf("%s asks for what needs %s: got %d, want %d", has, needs, w.Code, wantStatus)
			}
		}
		r := from("GET", "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
		r.Header.Set("Authorization", "Bearer "+secret)
		if w := ask(g.Require()(whoami), r); w.Code != 403 {
			t.Errorf("%s asks for what nobody may: got %d, want 403", has, w.Code)
		}
	}
	for _, r := range []Role{"", "root", "Admin"} {
		if r.Includes(r) || r.Includes(Viewer) || Admin.Includes(r) {
			t.Errorf("unknown role %q includes something or is included", r)
		}
	}
}

func TestCredentials(t *testing.T) {
	m := &memory{}
	g := New(Config{Tokens: m, Audit: m, Log: quiet()})
	good := issue(t, m, Token{Name: "web", Role: Viewer})
	past := issue(t, m, Token{Name: "old", Role: Viewer, CreatedAt: time.Now().Add(-2 * time.Hour), ExpiresAt: time.Now().Add(-time.Hour)})
	gone := issue(t, m, Token{Name: "gone", Role: Viewer})
	if err := Revoke(t.Context(), m, "test", "gone", time.Now()); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		set  func(*http.Request)
		want int
		code string
	}{
		{"bearer", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+good) }, 200, ""},
		{"bearer in small letters", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+good) }, 200, ""},
		{"basic, token as password", func(r *http.Request) { r.SetBasicAuth("anyone", good) }, 200, ""},
		{"basic, token as user", func(r *http.Request) { r.SetBasicAuth(good, "") }, 401, "unknown_token"},
		{"nothing", func(*http.Request) {}, 401, "no_token"},
		{"another scheme", func(r *http.Request) { r.Header.Set("Authorization", "Digest "+good) }, 401, "unknown_token"},
		{"empty bearer", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401, "unknown_token"},
		{"one letter short", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+good[:len(good)-1]) }, 401, "unknown_token"},
		{"the name", func(r *http.Request) { r.Header.Set("Authorization", "Bearer web") }, 401, "unknown_token"},
		{"expired", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+past) }, 401, "token_ended"},
		{"revoked", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+gone) }, 401, "token_ended"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := from("GET", "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
			tt.set(r)
			w := ask(g.Require(Viewer)(whoami), r)
			if w.Code != tt.want {
				t.Fatalf("got %d %s, want %d", w.Code, w.Body, tt.want)
			}
			if tt.want == 200 {
				if w.Body.String() != "web" {
					t.Errorf("the handler saw %q", w.Body)
				}
				return
			}
			var p struct {
				Status int
				Code   string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != tt.want || p.Code != tt.code {
				t.Errorf("problem %s, %v, want code %s", w.Body, err, tt.code)
			}
			if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("content type %q", ct)
			}
			if auth := w.Header().Values("WWW-Authenticate"); len(auth) != 2 {
				t.Errorf("a browser is not asked for a password: %q", auth)
			}
		})
	}
}

// A page elsewhere reaches a server on this machine by a DNS name that it lets
// point to 127.0.0.1 (CVE-2024-28224 and its kin), or by sending the visitor's
// browser straight to the address.
func TestOpenLoopback(t *testing.T) {
	tests := []struct {
		name                 string
		open                 bool
		method               string
		host, peer, listener string
		header, value        string
		wantGet              int
	}{
		{"this machine", true, "GET", "127.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081", "", "", 200},
		{"by name", true, "POST", "localhost:8081", "127.0.0.1:5000", "127.0.0.1:8081", "", "", 200},
		{"IPv6", true, "GET", "[::1]:8081", "[::1]:5000", "[::1]:8081", "", "", 200},
		{"IPv4 in IPv6", true, "GET", "127.0.0.1:8081", "[::ffff:127.0.0.1]:5000", "[::ffff:127.0.0.1]:8081", "", "", 200},
		{"not asked for", false, "GET", "127.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081", "", "", 401},
		{"another machine", true, "GET", "127.0.0.1:8081", "10.0.0.9:5000", "127.0.0.1:8081", "", "", 401},
		{"listening to all", true, "GET", "127.0.0.1:8081", "127.0.0.1:5000", "10.0.0.1:8081", "", "", 401},
		{"asked by its address", true, "GET", "10.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081", "", "", 401},
		{"a rebound name", true, "GET", "evil.example:8081", "127.0.0.1:5000", "127.0.0.1:8081", "", "", 403},
		{"a name that begins well", true, "GET", "localhost.evil.example", "127.0.0.1:5000", "127.0.0.1:8081", "", "", 403},
		{"no name", true, "GET", "", "127.0.0.1:5000", "127.0.0.1:8081", "", "", 403},
		{"behind a proxy", true, "GET", "127.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081", "X-Forwarded-For", "1.2.3.4", 401},
		{"a form on another site", true, "POST", "127.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081", "Sec-Fetch-Site", "cross-site", 403},
		{"an old browser's form", true, "POST", "127.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081", "Origin", "http://evil.example", 403},
		{"our own form", true, "POST", "127.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081", "Sec-Fetch-Site", "same-origin", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := New(Config{Tokens: &memory{}, OpenLoopback: tt.open, Log: quiet()})
			r := from(tt.method, tt.host, tt.peer, tt.listener)
			if tt.header != "" {
				r.Header.Set(tt.header, tt.value)
			}
			w := ask(g.Require(Operator)(whoami), r)
			if w.Code != tt.wantGet {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, tt.wantGet)
			}
			if w.Code == 200 && w.Body.String() != "demo" {
				t.Errorf("let in as %q, want demo", w.Body)
			}
			if a := ask(g.Require(Admin)(whoami), r); a.Code == 200 {
				t.Error("the demo's visitor is an admin")
			}
		})
	}
	t.Run("a wrong token is not better than none", func(t *testing.T) {
		g := New(Config{Tokens: &memory{}, OpenLoopback: true, Log: quiet()})
		r := from("GET", "127.0.0.1:8081", "127.0.0.1:5000", "127.0.0.1:8081")
		r.Header.Set("Authorization", "Bearer bw_wrong")
		if w := ask(g.Require(Viewer)(whoami), r); w.Code != 401 {
			t.Errorf("got %d, want 401", w.Code)
		}
	})
}

func TestHosts(t *testing.T) {
	g := New(Config{Tokens: &memory{}, Hosts: []string{"breakwater.example"}, Log: quiet()})
	for host, want := range map[string]int{
		"breakwater.example": 200, "Breakwater.Example:443": 200, "localhost": 200, "192.0.2.7:8081": 200, "[2001:db8::1]": 200,
		"evil.example": 403, "sub.breakwater.example": 403, "breakwater.example.evil.example": 403, "": 403,
	} {
		r := from("GET", host, "10.0.0.9:1", "10.0.0.1:8081")
		if w := ask(g.Hosts(whoami), r); w.Code != want {
			t.Errorf("host %q: got %d, want %d", host, w.Code, want)
		}
	}
}

// With the database away the tokens known before go on working, expiry included;
// a guard that never saw any says 503, not that the token is wrong.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		secret := issue(t, m, Token{Name: "web", Role: Viewer, ExpiresAt: time.Now().Add(time.Hour)})
		g := New(Config{Tokens: m, Log: quiet()})
		get := func(g *Guard) int {
			r := from("GET", "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
			r.Header.Set("Authorization", "Bearer "+secret)
			return ask(g.Require(Viewer)(whoami), r).Code
		}
		if got := get(g); got != 200 {
			t.Fatalf("got %d, want 200", got)
		}
		m.away = errors.New("connection refused")
		if got := get(New(Config{Tokens: m, Log: quiet()})); got != 503 {
			t.Errorf("a guard that knows no token: got %d, want 503", got)
		}
		time.Sleep(30 * time.Minute)
		if got := get(g); got != 200 {
			t.Errorf("with the store away: got %d, want 200", got)
		}
		time.Sleep(30 * time.Minute)
		if got := get(g); got != 401 {
			t.Errorf("after its expiry, with the store away: got %d, want 401", got)
		}
	})
}

func TestRevocationHoldsWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		secret := issue(t, m, Token{Name: "web", Role: Viewer})
		g := New(Config{Tokens: m, Log: quiet()})
		get := func() int {
			r := from("GET", "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
			r.Header.Set("Authorization", "Bearer "+secret)
			return ask(g.Require(Viewer)(whoami), r).Code
		}
		for range 100 {
			if got := get(); got != 200 {
				t.Fatalf("got %d, want 200", got)
			}
		}
		if m.reads != 1 {
			t.Errorf("100 requests at once read the tokens %d times, want 1", m.reads)
		}
		if err := Revoke(t.Context(), m, "test", "web", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := get(); got != 401 {
			t.Errorf("2 s after another process revoked it: got %d, want 401", got)
		}
	})
}

// A refused change is audited, reading is not, and a flood writes little.
func TestDenialsAreAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		viewer := issue(t, m, Token{Name: "eve", Role: Viewer})
		m.rows = nil
		g := New(Config{Tokens: m, Audit: m, Log: quiet()})
		do := func(method, secret string) {
			r := from(method, "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
			if secret != "" {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
			ask(g.Require(Operator)(whoami), r)
		}
		do("GET", viewer)
		if len(m.rows) != 0 {
			t.Fatalf("reading was audited: %+v", m.rows)
		}
		do("POST", viewer)
		if len(m.rows) != 1 || m.rows[0].Actor != "eve" || m.rows[0].Action != "request.denied" || !strings.Contains(m.rows[0].Detail, "403 role") {
			t.Fatalf("a viewer's POST left %+v", m.rows)
		}
		for range 1000 {
			do("POST", "")
		}
		if len(m.rows) != bucketSize {
			t.Errorf("1001 refused changes at once left %d rows, want %d", len(m.rows), bucketSize)
		}
		time.Sleep(time.Second)
		do("DELETE", "bw_guess")
		last := m.rows[len(m.rows)-1]
		if last.Actor != "unknown" || !strings.Contains(last.Detail, "991 more were not written") {
			t.Errorf("the next row does not say how many are missing: %+v", last)
		}
	})
}
