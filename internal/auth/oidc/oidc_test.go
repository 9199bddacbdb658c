package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/auth/oidc/oidctest"
)

func client(t *testing.T, p *oidctest.Issuer) *Provider {
	t.Helper()
	c, err := New(Config{Issuer: p.URL, ClientID: "breakwater", Secret: "s3cret", Redirect: "https://breakwater.example/signin/callback", Client: p.Client(),
		Grants: []Grant{{Value: "sre", Role: auth.Admin}, {Value: "shop", Role: auth.Operator, Services: []string{"order"}}, {Value: "staff", Role: auth.Viewer}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// visit is the browser's way to the provider and back.
func visit(t *testing.T, p *oidctest.Issuer, location string) url.Values {
	t.Helper()
	browser := *p.Client()
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := browser.Get(location)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil || back.Host != "breakwater.example" || back.Path != "/signin/callback" {
		t.Fatalf("the provider leads to %v, %v", back, err)
	}
	return back.Query()
}

func TestSignInWithAProvider(t *testing.T) {
	p := oidctest.New(t)
	c := client(t, p)
	for _, tt := range []struct {
		name   string
		claims map[string]any
		role   auth.Role
		scope  string
		says   string // part of the refusal
	}{
		{"the first grant that fits", map[string]any{"groups": []string{"staff", "shop"}}, auth.Operator, "order", ""},
		{"a claim that is one text", map[string]any{"groups": "sre"}, auth.Admin, "", ""},
		{"no group", map[string]any{}, "", "", "has no role here"},
		{"other groups", map[string]any{"groups": []any{"sales", 7, nil}}, "", "", "has no role here"},
		{"a part of a name", map[string]any{"groups": []string{"sre-trainee"}}, "", "", "has no role here"},
		{"no name", map[string]any{"groups": "sre", "preferred_username": ""}, "", "", "says no name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.Claims = tt.claims
			location, ticket, err := c.Start(t.Context(), "/gate")
			if err != nil {
				t.Fatal(err)
			}
			if ticket, err = ParseTicket(ticket.Encode()); err != nil || ticket.Next != "/gate" {
				t.Fatalf("the cookie holds %+v, %v", ticket, err)
			}
			back := visit(t, p, location)
			u, err := c.Finish(t.Context(), ticket, back.Get("state"), back.Get("code"), "")
			if tt.says != "" {
				if refused, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refused.Why, tt.says) {
					t.Errorf("got %v, want a refusal with %q", err, tt.says)
				}
				return
			}
			if err != nil || u.Name != "ann" || u.Role != tt.role || strings.Join(u.Services, ",") != tt.scope || u.Subject != "sub-1" || u.Issuer != p.URL {
				t.Errorf("got %+v, %v", u, err)
			}
		})
	}
}

// What does not belong to this sign-in, or is not the provider's word, lets nobody in.
func TestForgedAnswers(t *testing.T) {
	p := oidctest.New(t)
	c := client(t, p)
	p.Claims = map[string]any{"groups": "sre"}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		forge  func(head, body map[string]any)
		signer *rsa.PrivateKey
		change func(ticket *Ticket, back url.Values)
		says   string
	}{
		{name: "nothing", says: ""},
		{name: "another state", change: func(_ *Ticket, back url.Values) { back.Set("state", random()) }, says: "another sign-in"},
		{name: "no state", change: func(_ *Ticket, back url.Values) { back.Del("state") }, says: "another sign-in"},
		{name: "another browser's verifier", change: func(k *Ticket, _ url.Values) { k.Verifier = random() }, says: "did not accept the code"},
		{name: "another nonce", change: func(k *Ticket, _ url.Values) { k.Nonce = random() }, says: "another sign-in"},
		{name: "no nonce in the token", forge: func(_, body map[string]any) { delete(body, "nonce") }, says: "another sign-in"},
		{name: "a code that was never given", change: func(_ *Ticket, back url.Values) { back.Set("code", "x") }, says: "did not accept the code"},
		{name: "the provider's refusal", change: func(_ *Ticket, back url.Values) { back.Set("error", "access_denied") }, says: "access_denied"},
		{name: "for another client", forge: func(_, body map[string]any) { body["aud"] = "other" }, says: "does not hold"},
		{name: "of another issuer", forge: func(_, body map[string]any) { body["iss"] = "https://evil.example" }, says: "does not hold"},
		{name: "expired", forge: func(_, body map[string]any) { body["exp"] = time.Now().Add(-time.Hour).Unix() }, says: "does not hold"},
		{name: "signed by another key", signer: other, says: "does not hold"},
		{name: "not signed", forge: func(head, _ map[string]any) { head["alg"] = "none" }, says: "does not hold"},
		{name: "signed with a shared secret", forge: func(head, _ map[string]any) { head["alg"] = "HS256" }, says: "does not hold"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.Forge, p.Signer = tt.forge, p.Key
			if tt.signer != nil {
				p.Signer = tt.signer
			}
			location, ticket, err := c.Start(t.Context(), "/")
			if err != nil {
				t.Fatal(err)
			}
			back := visit(t, p, location)
			if tt.change != nil {
				tt.change(&ticket, back)
			}
			_, err = c.Finish(t.Context(), ticket, back.Get("state"), back.Get("code"), back.Get("error"))
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				// A code is good once.
				if _, err := c.Finish(t.Context(), ticket, back.Get("state"), back.Get("code"), ""); err == nil {
					t.Error("the code worked twice")
				}
				return
			}
			if refused, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refused.Why, tt.says) {
				t.Errorf("got %v, want a refusal with %q", err, tt.says)
			}
		})
	}
}

func TestAnAddressMustBeProved(t *testing.T) {
	c := &Provider{cfg: Config{NameClaim: "email", RoleClaim: "groups", Grants: []Grant{{Value: "sre", Role: auth.Viewer}}}}
	for _, verified := range []any{nil, false, "true", true} {
		_, err := c.person("i", "s", map[string]any{"email": "ann@example.com", "groups": "sre", "email_verified": verified})
		if (err == nil) != (verified == true) {
			t.Errorf("email_verified %v: %v", verified, err)
		}
	}
}

// Control starts without the provider, and finds it when it is there.
func TestTheProviderMayComeLater(t *testing.T) {
	p := oidctest.New(t)
	c := client(t, p)
	real := c.cfg.Client.Transport
	down := errors.New("down")
	c.cfg.Client = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if down != nil {
			return nil, down
		}
		return real.RoundTrip(r)
	})}
	if _, _, err := c.Start(t.Context(), "/"); err == nil {
		t.Fatal("it started at a provider that is not there")
	}
	down = nil
	if _, _, err := c.Start(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestParseGrant(t *testing.T) {
	for text, want := range map[string]*Grant{
		"sre=admin": {Value: "sre", Role: auth.Admin}, "cn=a,dc=b=viewer": {Value: "cn=a,dc=b", Role: auth.Viewer},
		"shop=operator:order,points": {Value: "shop", Role: auth.Operator, Services: []string{"order", "points"}},
		"sre":                        nil, "=admin": nil, "sre=root": nil, "sre=gateway": nil, "sre=": nil, "sre=operator:": nil, "sre=operator:a,,b": nil, "sre=operator:<b>": nil,
	} {
		got, err := ParseGrant(text)
		if (err == nil) != (want != nil) || err == nil && (got.Value != want.Value || got.Role != want.Role || !slices.Equal(got.Services, want.Services)) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// What a browser sends as its ticket is either refused or comes back as it was.
func FuzzParseTicket(f *testing.F) {
	f.Add(Ticket{State: random(), Nonce: random(), Verifier: random(), Next: "/gate"}.Encode())
	f.Add("e30")
	f.Add("")
	f.Fuzz(func(t *testing.T, value string) {
		k, err := ParseTicket(value)
		if err != nil {
			return
		}
		if again, err := ParseTicket(k.Encode()); err != nil || again != k {
			t.Errorf("%q: %+v became %+v, %v", value, k, again, err)
		}
	})
}
