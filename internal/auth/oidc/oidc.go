// Package oidc signs people in with an OpenID Connect provider: authorization code
// with PKCE, state and nonce, and a table from a claim to our roles.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"breakwater/internal/auth"
)

// Grant gives whoever has Value in the role claim a role, limited to services.
type Grant struct {
	Value    string
	Role     auth.Role
	Services []string // empty: all
}

// ParseGrant reads "value=role" or "value=role:service,service".
func ParseGrant(text string) (Grant, error) {
	at := strings.LastIndex(text, "=")
	if at < 1 {
		return Grant{}, fmt.Errorf("%q: must be VALUE=ROLE or VALUE=ROLE:SERVICE,SERVICE", text)
	}
	role, services, limited := strings.Cut(text[at+1:], ":")
	g := Grant{Value: text[:at], Role: auth.Role(role)}
	if !slices.Contains(auth.PeopleRoles(), g.Role) {
		return Grant{}, fmt.Errorf("%q: role %q must be viewer, operator, approver or admin", text, role)
	}
	if limited {
		g.Services = strings.Split(services, ",")
		if err := auth.CheckServices(g.Services); err != nil {
			return Grant{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	return g, nil
}

// Config is one provider.
type Config struct {
	Issuer, ClientID, Secret string
	// Redirect is the absolute address of our callback, as the provider knows it.
	Redirect string
	// NameClaim and RoleClaim say who it is and to which groups they belong; "" are
	// preferred_username and groups. Scopes are asked for beside openid and profile.
	NameClaim, RoleClaim string
	Scopes               []string
	// Grants are tried in order; who fits none does not get in.
	Grants []Grant
	Client *http.Client // nil: one with a timeout of ten seconds
}

// Provider signs people in. It is safe for concurrent use.
type Provider struct {
	cfg Config

	mu    sync.Mutex
	found *oidc.Provider // nil until the provider was reached once
}

// New returns a Provider. The provider itself is asked when somebody signs in:
// control starts without it.
func New(cfg Config) (*Provider, error) {
	if cfg.Issuer == "" || cfg.ClientID == "" || cfg.Redirect == "" || len(cfg.Grants) == 0 {
		return nil, errors.New("OIDC needs an issuer, a client id, the address of these pages, and at least one grant of a role")
	}
	if cfg.NameClaim == "" {
		cfg.NameClaim = "preferred_username"
	}
	if cfg.RoleClaim == "" {
		cfg.RoleClaim = "groups"
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 10 * time.Second}
	}
	return &Provider{cfg: cfg}, nil
}

// Ticket is what the browser keeps, in a cookie, while it is at the provider's:
// the callback must come from the browser that set out.
type Ticket struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Next     string `json:"to"` // page to go on to; checked again when it is used
}

// TicketFor is how long a ticket lives.
const TicketFor = 10 * time.Minute

// Encode is the ticket as the value of a cookie.
func (t Ticket) Encode() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic("oidc: a ticket did not marshal: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseTicket reads a cookie.
func ParseTicket(value string) (Ticket, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil {
		return Ticket{}, fmt.Errorf("read a ticket: %w", err)
	}
	var t Ticket
	if err := json.Unmarshal(b, &t); err != nil {
		return Ticket{}, fmt.Errorf("read a ticket: %w", err)
	}
	if len(t.State) < 32 || len(t.Nonce) < 32 || len(t.Verifier) < 43 {
		return Ticket{}, errors.New("read a ticket: it is too short to be ours")
	}
	return t, nil
}

// Start returns the provider's page to go to, and the ticket for the way back.
func (p *Provider) Start(ctx context.Context, next string) (location string, t Ticket, err error) {
	config, _, err := p.reach(ctx)
	if err != nil {
		return "", Ticket{}, err
	}
	t = Ticket{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Next: next}
	return config.AuthCodeURL(t.State, oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)), t, nil
}

// RefusedError is a sign-in that the provider, or our table, did not grant. Its
// text is for who tried.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Finish takes what the provider sent back and says who signed in.
func (p *Provider) Finish(ctx context.Context, t Ticket, state, code, problem string) (auth.User, error) {
	if subtle.ConstantTimeCompare([]byte(state), []byte(t.State)) != 1 {
		return auth.User{}, &RefusedError{"this answer belongs to another sign-in; begin again"}
	}
	if problem != "" {
		return auth.User{}, &RefusedError{fmt.Sprintf("the provider says %.80q", problem)}
	}
	config, provider, err := p.reach(ctx)
	if err != nil {
		return auth.User{}, err
	}
	ctx = oidc.ClientContext(ctx, p.cfg.Client)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil && refused.Response.StatusCode < 500 {
		return auth.User{}, &RefusedError{"the provider did not accept the code; begin again"}
	}
	if err != nil {
		return auth.User{}, fmt.Errorf("exchange the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return auth.User{}, &RefusedError{"the provider sent no id token"}
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: p.cfg.ClientID}).Verify(ctx, raw)
	if err != nil {
		return auth.User{}, &RefusedError{"the provider's id token does not hold: " + err.Error()}
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(t.Nonce)) != 1 {
		return auth.User{}, &RefusedError{"the id token belongs to another sign-in; begin again"}
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return auth.User{}, &RefusedError{"the claims cannot be read: " + err.Error()}
	}
	return p.person(id.Issuer, id.Subject, claims)
}

// person makes a user of claims.
func (p *Provider) person(issuer, subject string, claims map[string]any) (auth.User, error) {
	name, _ := claims[p.cfg.NameClaim].(string)
	if name == "" {
		return auth.User{}, &RefusedError{fmt.Sprintf("the claim %s says no name", p.cfg.NameClaim)}
	}
	// An address that the provider did not prove could be anybody's.
	if verified, _ := claims["email_verified"].(bool); p.cfg.NameClaim == "email" && !verified {
		return auth.User{}, &RefusedError{"the provider has not proved that address"}
	}
	has := values(claims[p.cfg.RoleClaim])
	for _, g := range p.cfg.Grants {
		if slices.Contains(has, g.Value) {
			return auth.User{Name: strings.ToLower(name), Role: g.Role, Services: g.Services, Issuer: issuer, Subject: subject}, nil
		}
	}
	return auth.User{}, &RefusedError{fmt.Sprintf("%.80s has no role here: the claim %s has none of the values that grant one", name, p.cfg.RoleClaim)}
}

// values of a claim, which is a text or a list of them.
func values(claim any) []string {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		var out []string
		for _, v := range claim {
			if s, ok := v.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// reach finds the provider's addresses and keys. What was found stays: keys are
// read again by themselves when an unknown one is used.
func (p *Provider) reach(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), p.cfg.Client), 10*time.Second)
		defer cancel()
		found, err := oidc.NewProvider(ctx, p.cfg.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("reach the provider %s: %w", p.cfg.Issuer, err)
		}
		p.found = found
	}
	scopes := append([]string{oidc.ScopeOpenID, "profile"}, p.cfg.Scopes...)
	return &oauth2.Config{ClientID: p.cfg.ClientID, ClientSecret: p.cfg.Secret, RedirectURL: p.cfg.Redirect,
		Endpoint: p.found.Endpoint(), Scopes: scopes}, p.found, nil
}

func random() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}
