package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignIn(t *testing.T) {
	s, p, password := folk(t, cheap)
	for _, tt := range []struct {
		name, user, password string
		want                 error
	}{
		{"right", "ann", password, nil}, {"in capitals, with a blank", " ANN ", password, nil},
		{"wrong", "ann", password + "x", ErrCredentials}, {"nobody", "bob", password, ErrCredentials}, {"empty", "ann", "", ErrCredentials},
		{"a megabyte", "ann", strings.Repeat("x", 1<<20), ErrCredentials},
	} {
		t.Run(tt.name, func(t *testing.T) {
			secret, u, err := p.SignIn(t.Context(), tt.user, tt.password, "10.0.0.7:1", "")
			if !errors.Is(err, tt.want) || (err == nil) != (u.Name == "ann" && strings.HasPrefix(secret, Prefix)) {
				t.Errorf("got %q, %+v, %v", secret, u, err)
			}
		})
	}
	last := s.rows[len(s.rows)-1]
	if last.Action != "session.refused" || last.Actor != "ann" {
		t.Errorf("a refused sign-in left %+v", last)
	}
	for _, r := range s.rows {
		if strings.Contains(fmt.Sprint(r), password) || strings.Contains(r.Actor, "bob") {
			t.Errorf("the audit holds what was typed: %+v", r)
		}
	}
	// Disabled, and without a password at all: the same answer.
	if err := p.Disable(t.Context(), "root", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7:1", ""); !errors.Is(err, ErrCredentials) {
		t.Errorf("disabled: %v", err)
	}
}

// An unknown name costs as much as a known one: the same number of hashes of the
// same cost, told by what they are compared with.
func TestUnknownNamesTakeTheSameWork(t *testing.T) {
	s, p, _ := folk(t, cheap)
	if p.decoy.cost != p.cfg.Cost {
		t.Errorf("the decoy costs %+v, a password %+v", p.decoy.cost, p.cfg.Cost)
	}
	// Both paths wait for the same work: with all places taken, neither answers.
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	u := s.users["ann"]
	u.Name, u.DisabledAt = "gone", time.Now()
	s.users["gone"] = u
	s.users["elsewhere"] = User{Name: "elsewhere", Role: Viewer, Issuer: "x", Subject: "y"}
	for _, name := range []string{"ann", "nobody", "gone", "elsewhere"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.compare(ctx, name, "guess"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s was answered without work: %v", name, err)
		}
	}
}

func TestPasswordsAreHashedAnewWhenTheCostRises(t *testing.T) {
	s, p, password := folk(t, cheap)
	dearer := Cost{Memory: 128, Passes: 2, Lanes: 1}
	p.cfg.Cost = dearer
	for range 2 {
		if _, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7", ""); err != nil {
			t.Fatal(err)
		}
		h, err := parseHashed(s.users["ann"].Password)
		if err != nil || h.cost != dearer || !h.matches(password) {
			t.Errorf("kept with %+v, %v", h.cost, err)
		}
	}
	n := 0
	for _, r := range s.rows {
		if r.Action == "user.rehash" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("hashed anew %d times, want once", n)
	}
	// Falling is no reason: an old binary beside a new one must not undo it.
	p.cfg.Cost = cheap
	if _, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7", ""); err != nil {
		t.Fatal(err)
	}
	if h, _ := parseHashed(s.users["ann"].Password); h.cost != dearer {
		t.Errorf("now %+v", h.cost)
	}
}

func TestTriesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, password := folk(t, cheap)
		try := func(name, password, addr string) error {
			_, _, err := p.SignIn(t.Context(), name, password, addr, "")
			return err
		}
		limited := func(err error) bool { _, is := errors.AsType[*TooManyError](err); return is }
		for range 50 { // good ones do not count
			if err := try("ann", password, "10.0.0.1:5"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range triesPerName {
			// From anywhere: the name is what is guessed.
			if err := try("ann", "guess", fmt.Sprintf("10.0.%d.1:5", i)); !errors.Is(err, ErrCredentials) {
				t.Fatalf("try %d: %v", i+1, err)
			}
		}
		if err := try("ann", password, "10.9.9.9:5"); !limited(err) {
			t.Errorf("the right password after the limit: %v; a guess could be told by it", err)
		}
		time.Sleep(namePause)
		if err := try("ann", password, "10.9.9.9:5"); err != nil {
			t.Errorf("after the pause: %v", err)
		}
		// By address: one guess for each of many names. An IPv6 neighbour is no other.
		for i := range triesPerAddr {
			if err := try(fmt.Sprint("name", i), "guess", fmt.Sprintf("[2001:db8::%x]:5", i+1)); !errors.Is(err, ErrCredentials) {
				t.Fatalf("try %d: %v", i+1, err)
			}
		}
		if err := try("ann", password, "[2001:db8::ffff]:5"); !limited(err) {
			t.Errorf("the neighbour: %v", err)
		}
		if err := try("ann", password, "[2001:db8:0:1::1]:5"); err != nil {
			t.Errorf("another network: %v", err)
		}
		// With the store away nothing was guessed.
		s := p.cfg.Store.(*town)
		s.away = errors.New("connection refused")
		for range 2 * triesPerName {
			if err := try("ann", password, "10.5.5.5:5"); limited(err) || err == nil {
				t.Fatalf("away: %v", err)
			}
		}
	})
}

func TestThrottleKeepsBoundedMemory(t *testing.T) {
	now := time.Unix(0, 0)
	th := newThrottle(2, time.Minute)
	for i := range 3 * throttleKeys {
		th.take(fmt.Sprint(i), now)
	}
	if len(th.full) > throttleKeys+1 {
		t.Errorf("%d keys are kept", len(th.full))
	}
	if ok, _ := th.take("one more", now); ok {
		t.Error("with all places taken a new key is not limited")
	}
	if ok, _ := th.take("one more", now.Add(time.Hour)); !ok {
		t.Error("an hour later it is")
	}
}

func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, password := folk(t, cheap)
		g := New(Config{Tokens: s, Audit: s, People: p, Log: quiet()})
		signIn := func() string {
			secret, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7", "")
			if err != nil {
				t.Fatal(err)
			}
			return secret
		}
		get := func(secret string) int { return visit(g, secret, "GET", Viewer).Code }
		idle := signIn()
		time.Sleep(IdleFor - time.Minute)
		if got := get(idle); got != 200 {
			t.Errorf("after almost 12 h: %d", got)
		}
		time.Sleep(IdleFor - time.Minute)
		if got := get(idle); got != 200 {
			t.Errorf("almost 12 h after its last use: %d", got)
		}
		time.Sleep(IdleFor)
		if got := get(idle); got != 401 {
			t.Errorf("12 h without use: %d", got)
		}
		used, began := signIn(), time.Now()
		for time.Since(began) < SessionFor-time.Hour {
			time.Sleep(time.Hour)
			if got := get(used); got != 200 {
				t.Fatalf("used each hour, after %s: %d", time.Since(began), got)
			}
		}
		time.Sleep(time.Hour)
		if got := get(used); got != 401 {
			t.Errorf("after seven days of use: %d", got)
		}
		// A hundred requests at once are one read.
		burst := signIn()
		s.looked = 0
		for range 100 {
			get(burst)
		}
		if s.looked != 1 {
			t.Errorf("100 requests read the session %d times, want once", s.looked)
		}
		// Another control ends it: known here within two seconds.
		delete(s.sessions, HashOf(burst))
		time.Sleep(sessionFor)
		if got := get(burst); got != 401 {
			t.Errorf("ended elsewhere two seconds ago: %d", got)
		}
		// Here it holds at once: signing out, another password, another role.
		out, reset, demoted := signIn(), "", ""
		get(out)
		if err := p.SignOut(t.Context(), out); err != nil || get(out) != 401 {
			t.Errorf("signed out: %v", err)
		}
		demoted = signIn()
		get(demoted)
		if err := p.Change(t.Context(), "root", "ann", Viewer, nil); err != nil {
			t.Fatal(err)
		}
		if w := visit(g, demoted, "POST", Operator); w.Code != 403 {
			t.Errorf("demoted: %d", w.Code)
		}
		reset = signIn()
		get(reset)
		if _, err := p.Reset(t.Context(), "root", "ann", ""); err != nil {
			t.Fatal(err)
		}
		if get(reset) != 401 || get(demoted) != 401 {
			t.Error("a new password leaves sessions")
		}
	})
}

// With the database away who is known reads on, for an hour; nobody new gets in.
func TestStoreAwayForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, password := folk(t, cheap)
		g := New(Config{Tokens: s, Audit: s, People: p, Log: quiet()})
		known, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7", "")
		if err != nil {
			t.Fatal(err)
		}
		stranger, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7", "")
		if err != nil {
			t.Fatal(err)
		}
		visit(g, known, "GET", Viewer)
		s.away = errors.New("connection refused")
		time.Sleep(30 * time.Minute)
		if got := visit(g, known, "GET", Viewer).Code; got != 200 {
			t.Errorf("known, half an hour into the outage: %d", got)
		}
		if got := visit(g, known, "POST", Viewer).Code; got != 200 {
			t.Errorf("stopping needs no more than that: %d", got)
		}
		if got := visit(g, stranger, "GET", Viewer).Code; got != 503 {
			t.Errorf("a session this control never saw: %d, want 503", got)
		}
		if _, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7", ""); err == nil || errors.Is(err, ErrCredentials) {
			t.Errorf("a new sign-in: %v", err)
		}
		time.Sleep(30 * time.Minute)
		if got := visit(g, known, "GET", Viewer).Code; got != 503 {
			t.Errorf("after an hour: %d, want 503", got)
		}
		s.away = nil
		time.Sleep(sessionFor)
		if got := visit(g, known, "GET", Viewer).Code; got != 200 {
			t.Errorf("when it is back: %d", got)
		}
	})
}

// What a browser holds, and where it is led.
func TestCookiesAndLeads(t *testing.T) {
	s, p, password := folk(t, cheap)
	secure := false
	g := New(Config{Tokens: s, Audit: s, People: p, Log: quiet(), Secure: func(*http.Request) bool { return secure }})
	secret, _, err := p.SignIn(t.Context(), "ann", password, "10.0.0.7", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, secure := range []bool{false, true} {
		w := httptest.NewRecorder()
		SetCookie(w, secret, secure)
		text := w.Header().Get("Set-Cookie")
		for _, part := range []string{"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=604800"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %s", text, part)
			}
		}
		if strings.HasPrefix(text, "__Host-") != secure || strings.Contains(text, "Secure") != secure || strings.Contains(text, "Domain") {
			t.Errorf("secure %v: %q", secure, text)
		}
	}
	// Over TLS the plain name is nobody's: any sister host could have planted it.
	secure = true
	if got := visit(g, secret, "GET", Viewer).Code; got != 401 {
		t.Errorf("the plain cookie over TLS: %d, want 401", got)
	}
	secure = false
	browse := func(method, path string, set func(*http.Request)) *httptest.ResponseRecorder {
		r := from(method, "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
		r.URL.Path = path
		r.Header.Set("Accept", "text/html,*/*;q=0.8")
		if set != nil {
			set(r)
		}
		return ask(g.Require(Viewer)(whoami), r)
	}
	if w := browse("GET", "/gate", nil); w.Code != 303 || w.Header().Get("Location") != "/signin?next=%2Fgate" {
		t.Errorf("a page, signed out: %d %q", w.Code, w.Header().Get("Location"))
	}
	if w := browse("POST", "/halt", nil); w.Code != 303 || w.Header().Get("Location") != "/signin?said=again" {
		t.Errorf("a form, signed out: %d %q", w.Code, w.Header().Get("Location"))
	}
	if w := browse("GET", "/api/v1/slos", nil); w.Code != 401 {
		t.Errorf("the API, signed out: %d", w.Code)
	}
	if w := browse("GET", "/", func(r *http.Request) { r.Header.Set("Authorization", "Bearer bw_x") }); w.Code != 401 {
		t.Errorf("a page, wrong token: %d", w.Code)
	}
	if w := browse("GET", "/api/v1/stream", func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "cors") }); len(w.Header().Values("WWW-Authenticate")) != 1 {
		t.Errorf("a stream would open the browser's own window: %q", w.Header().Values("WWW-Authenticate"))
	}
	cross := func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: plainCookie, Value: secret})
		r.Header.Set("Origin", "https://evil.example")
	}
	if w := browse("POST", "/halt", cross); w.Code != 403 {
		t.Errorf("another origin's form with the cookie: %d", w.Code)
	}
	u := s.users["ann"]
	u.MustChange = true
	s.users["ann"] = u
	p.forgetUser("ann")
	if w := browse("GET", "/gate", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: plainCookie, Value: secret}) }); w.Header().Get("Location") != "/password" {
		t.Errorf("before the first change: %d %q", w.Code, w.Header().Get("Location"))
	}
}

// Who a provider vouches for is known by subject, never by a name of somebody here.
func TestVouched(t *testing.T) {
	s, p, _ := folk(t, cheap)
	in := func(u User) (User, error) {
		u.Issuer = "https://login.example"
		_, got, err := p.SignInVouched(t.Context(), u, "10.0.0.7", "")
		return got, err
	}
	if _, err := in(User{Name: "ann", Subject: "1", Role: Admin}); err == nil || !strings.Contains(err.Error(), "belongs to another account") {
		t.Errorf("somebody took over a local account: %v", err)
	}
	got, err := in(User{Name: "Bea", Subject: "2", Role: Viewer})
	if err != nil || got.Name != "bea" || got.CreatedBy != "bea" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got, err := in(User{Name: "renamed", Subject: "2", Role: Operator, Services: []string{"order"}}); err != nil || got.Name != "bea" || s.users["bea"].Role != Operator {
		t.Errorf("the provider's new role and name: %+v, %v", got, err)
	}
	if _, err := in(User{Name: "bea", Subject: "3", Role: Admin}); err == nil {
		t.Error("another subject took the name")
	}
	for _, bad := range []User{{Name: "x y", Subject: "4", Role: Viewer}, {Name: "system", Subject: "5", Role: Viewer}, {Name: "z", Subject: "", Role: Viewer}, {Name: "z", Subject: "6", Role: Gateway}} {
		if _, err := in(bad); err == nil {
			t.Errorf("%+v was let in", bad)
		}
	}
	if _, _, err := p.SignIn(t.Context(), "bea", "", "10.0.0.7", ""); !errors.Is(err, ErrCredentials) {
		t.Errorf("bea signs in without a password: %v", err)
	}
	if err := p.Disable(t.Context(), "root", "bea"); err != nil {
		t.Fatal(err)
	}
	if _, err := in(User{Name: "bea", Subject: "2", Role: Admin}); err == nil || !strings.Contains(err.Error(), "disabled") {
		t.Errorf("disabled here: %v", err)
	}
}
