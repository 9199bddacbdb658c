package main

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"breakwater/internal/auth"
	"breakwater/internal/auth/oidc"
	"breakwater/internal/auth/oidc/oidctest"
	"breakwater/internal/pgtest"
)

// TestSignInElsewhere goes the whole way: our page, a real provider over TLS, and
// back into a session.
func TestSignInElsewhere(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{})
	b := d.browser()
	b.get("/signin/oidc").want(t, 404) // not configured
	b.get("/signin/callback?code=x&state=y").want(t, 404)

	p := oidctest.New(t)
	provider, err := oidc.New(oidc.Config{Issuer: p.URL, ClientID: "breakwater", Secret: "s3cret", Redirect: d.url + "/signin/callback", Client: p.Client(),
		Grants: []oidc.Grant{{Value: "shop", Role: auth.Operator, Services: []string{"order"}}}})
	if err != nil {
		t.Fatal(err)
	}
	d.c.signin.oidc = provider
	p.Claims = map[string]any{"groups": []string{"shop"}}
	// there is the browser's visit to the provider; it returns the way back.
	there := func(b *browser, next string) string {
		t.Helper()
		out := b.get("/signin/oidc?next=" + url.QueryEscape(next))
		if out.status != 303 || !strings.HasPrefix(out.to(), p.URL+"/authorize?") {
			t.Fatalf("led to %d %q", out.status, out.to())
		}
		at := *p.Client()
		at.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		res, err := at.Get(out.to())
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		back, ours := strings.CutPrefix(res.Header.Get("Location"), d.url)
		if !ours {
			t.Fatalf("the provider leads to %q", res.Header.Get("Location"))
		}
		return back
	}
	back := there(b, "/gate")
	// Another browser cannot finish it: that is how somebody would be signed in as
	// the attacker.
	d.browser().get(back).want(t, 422, "did not begin a sign-in")
	b.get(back).leads(t, "/gate")
	b.get("/").want(t, 200, "ann", "operator", "Sign out")
	b.get("/admin").want(t, 403)
	d.audited("ann", "user.create", "ann")
	d.audited("ann", "session.open", "ann")
	b.get(back).want(t, 422, "did not begin a sign-in") // once
	d.browser().get(there(b, "//evil.example")).want(t, 422)
	b.get(there(b, "//evil.example")).leads(t, "/")
	p.Claims = map[string]any{"groups": []string{"sales"}}
	other := d.browser()
	other.get(there(other, "/")).want(t, 422, "has no role here")
	if other.cookie() != "" {
		t.Error("who has no role got a session")
	}
	// A password is not asked of who has none.
	other.signIn("ann", "", "").want(t, 403, "do not fit")
}

func TestOIDCFlags(t *testing.T) {
	dir := t.TempDir()
	secret, readable := filepath.Join(dir, "secret"), filepath.Join(dir, "readable")
	for name, mode := range map[string]os.FileMode{secret: 0o600, readable: 0o644} {
		if err := os.WriteFile(name, []byte("s3cret\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	good := signinOptions{issuer: "https://login.example", clientID: "breakwater", secretFile: secret, grants: []string{"sre=admin"}}
	with := func(change func(*signinOptions)) signinOptions {
		o := good
		change(&o)
		return o
	}
	const pages = "https://breakwater.example"
	for _, tt := range []struct {
		name  string
		o     signinOptions
		pages string
		says  string
	}{
		{"whole", good, pages, ""},
		{"on this machine", with(func(o *signinOptions) { o.issuer = "http://127.0.0.1:5556" }), pages, ""},
		{"none", signinOptions{}, "", ""},
		{"no issuer", with(func(o *signinOptions) { o.issuer = "" }), pages, "--oidc-issuer"},
		{"in the clear", with(func(o *signinOptions) { o.issuer = "http://login.example" }), pages, "must be an https URL"},
		{"no pages", good, "", "--pages"},
		{"no client", with(func(o *signinOptions) { o.clientID = "" }), pages, "client id"},
		{"no grant", with(func(o *signinOptions) { o.grants = nil }), pages, "grant"},
		{"a bad grant", with(func(o *signinOptions) { o.grants = []string{"sre=root"} }), pages, "--oidc-role"},
		{"a secret for all", with(func(o *signinOptions) { o.secretFile = readable }), pages, "can be read by others"},
		{"no secret there", with(func(o *signinOptions) { o.secretFile = filepath.Join(dir, "none") }), pages, "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := tt.o.provider(tt.pages)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) || (p != nil) != (err == nil && tt.o.issuer != "") {
				t.Errorf("got %v, %v, want %q", p, err, tt.says)
			}
		})
	}
}
