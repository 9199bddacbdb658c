package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/spf13/pflag"

	"breakwater/internal/auth"
	"breakwater/internal/auth/oidc"
	"breakwater/web"
)

// signinOptions are the flags of the sign-in.
type signinOptions struct {
	issuer, clientID, secretFile string
	name, nameClaim, roleClaim   string
	grants, scopes               []string
	cost                         auth.Cost // of passwords; zero: what auth recommends
}

func (o *signinOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.issuer, "oidc-issuer", env("OIDC_ISSUER", ""), "OIDC provider people may sign in with; empty: passwords only (BREAKWATER_OIDC_ISSUER)")
	f.StringVar(&o.clientID, "oidc-client-id", env("OIDC_CLIENT_ID", ""), "our client id at the provider (BREAKWATER_OIDC_CLIENT_ID)")
	f.StringVar(&o.secretFile, "oidc-secret-file", env("OIDC_SECRET_FILE", ""), "file with the client secret, readable by its owner alone; empty: a public client (BREAKWATER_OIDC_SECRET_FILE)")
	f.StringVar(&o.name, "oidc-name", env("OIDC_NAME", "single sign-on"), "what the button calls the provider (BREAKWATER_OIDC_NAME)")
	f.StringVar(&o.nameClaim, "oidc-name-claim", env("OIDC_NAME_CLAIM", "preferred_username"), "claim that names the person (BREAKWATER_OIDC_NAME_CLAIM)")
	f.StringVar(&o.roleClaim, "oidc-role-claim", env("OIDC_ROLE_CLAIM", "groups"), "claim whose values grant roles (BREAKWATER_OIDC_ROLE_CLAIM)")
	f.StringArrayVar(&o.grants, "oidc-role", fieldsOf(env("OIDC_ROLES", "")), "VALUE=ROLE or VALUE=ROLE:SERVICE,SERVICE; the first that fits; may be repeated (BREAKWATER_OIDC_ROLES, set apart by blanks)")
	f.StringSliceVar(&o.scopes, "oidc-scope", fieldsOf(env("OIDC_SCOPES", "")), "scope to ask for beside openid and profile; may be repeated (BREAKWATER_OIDC_SCOPES)")
}

func fieldsOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Fields(text)
}

// provider is nil where none is configured.
func (o *signinOptions) provider(pages string) (*oidc.Provider, error) {
	if o.issuer == "" {
		if o.clientID != "" || o.secretFile != "" || len(o.grants) > 0 {
			return nil, errors.New("--oidc-issuer: must be set where other --oidc flags are")
		}
		return nil, nil
	}
	if u, err := url.Parse(o.issuer); err != nil || u.Scheme != "https" && !ownMachine(u) || u.Host == "" {
		return nil, fmt.Errorf("--oidc-issuer: must be an https URL, got %q", o.issuer)
	}
	if pages == "" {
		return nil, errors.New("--pages: must be set for --oidc-issuer: the provider sends people back there")
	}
	cfg := oidc.Config{Issuer: o.issuer, ClientID: o.clientID, Redirect: pages + "/signin/callback", NameClaim: o.nameClaim, RoleClaim: o.roleClaim, Scopes: o.scopes}
	if o.secretFile != "" {
		secret, err := ownersFile(o.secretFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-secret-file: %w", err)
		}
		cfg.Secret = secret
	}
	for _, text := range o.grants {
		g, err := oidc.ParseGrant(text)
		if err != nil {
			return nil, fmt.Errorf("--oidc-role: %w", err)
		}
		cfg.Grants = append(cfg.Grants, g)
	}
	p, err := oidc.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("--oidc-client-id, --oidc-role: %w", err)
	}
	return p, nil
}

// ownMachine: a provider on this machine needs no TLS to be reached safely.
func ownMachine(u *url.URL) bool {
	name := u.Hostname()
	return u.Scheme == "http" && (name == "localhost" || name == "127.0.0.1" || name == "::1")
}

// ownersFile reads a secret that nobody but the owner can read.
func ownersFile(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others (mode %04o): chmod 600 it", file, info.Mode().Perm())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// signin is the sign-in as control serves it.
type signin struct {
	people *auth.People
	door   web.Door
	oidc   *oidc.Provider // nil: none is configured
}

func (c *control) newSignin() error {
	people, err := auth.NewPeople(auth.PeopleConfig{Store: c.store, Cost: c.opt.signin.cost, Log: c.log})
	if err != nil {
		return err
	}
	provider, err := c.opt.signin.provider(c.pagesAt)
	if err != nil {
		return exit(exitUsage, err)
	}
	c.signin = signin{people: people, oidc: provider, door: web.Door{People: people, Secure: secureAt(c.pagesAt)}}
	if provider != nil {
		c.signin.door.Provider = c.opt.signin.name
	}
	return nil
}

// secureAt reports whether a request came over TLS: to us, or to a proxy that says
// so or serves the name people use. Who lies about it only hides their own cookie.
func secureAt(pages string) func(*http.Request) bool {
	host := ""
	if u, err := url.Parse(pages); err == nil && u.Scheme == "https" {
		host = u.Host
	}
	return func(r *http.Request) bool {
		return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" || host != "" && strings.EqualFold(r.Host, host)
	}
}

// signinRoutes are the ways in, open to everybody, and the pages of one's account.
func (c *control) signinRoutes(r chi.Router) {
	open, signed := r.With(c.guard.Open), r.With(c.guard.RequireSession())
	door := c.signin.door
	open.Method(http.MethodGet, "/signin", c.pages.SignInPage(door))
	open.Method(http.MethodPost, "/signin", c.pages.SignIn(door))
	open.Get("/signin/oidc", c.goToProvider)
	open.Get("/signin/callback", c.backFromProvider)
	open.Method(http.MethodPost, "/signout", c.pages.SignOut(door))
	open.Method(http.MethodGet, "/static/*", c.pages.Static())
	signed.Method(http.MethodGet, "/password", c.pages.PasswordPage(door))
	signed.Method(http.MethodPost, "/password", c.pages.Password(door))
	r.With(c.guard.Require(auth.Admin)).Mount("/admin", c.pages.Admin(web.Accounts{
		People: c.signin.people, Tokens: c.store, Audit: c.store, Chain: auth.NewChain(c.store), Forget: c.guard.Forget, System: c.system, Documents: documentDesk{c},
	}))
}

// firstPerson makes the account that a new database begins with, and says its
// password this once: beside the first token, wherever that goes.
func (c *control) firstPerson(ctx context.Context) error {
	password, err := c.signin.people.FirstPerson(ctx)
	if err != nil || password == "" {
		return err
	}
	if c.opt.tokenFile != "" {
		return auth.WriteSecret(filepath.Join(filepath.Dir(c.opt.tokenFile), "first-admin.password"), password)
	}
	fmt.Fprintf(c.io.err, "first sign-in, shown this once: name %s, password %s\n", auth.FirstUser, password)
	return nil
}

// tidySessions removes sessions that ended by themselves, until ctx ends.
func (c *control) tidySessions(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Minute)
	defer tick.Stop()
	for {
		if err := c.signin.people.Tidy(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("ended sessions are kept", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
