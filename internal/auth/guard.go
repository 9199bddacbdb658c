package auth

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Config shapes a Guard.
type Config struct {
	Tokens Tokens
	// Audit gets a row for each refused change; nil: none is written.
	Audit Auditor
	// Hosts are the names, beside localhost and plain addresses, under which this
	// server may be asked. A name that is not listed is refused: it is how a page
	// elsewhere would reach us through a rebound DNS name.
	Hosts []string
	// People lets in whoever has a session; nil: nobody signs in here.
	People *People
	// Secure reports whether a request came over TLS, to us or to a proxy before
	// us; nil: never. It rules under which name the session's cookie is looked for.
	Secure func(*http.Request) bool
	// Page answers a refused page request of a person with a page; nil: everybody
	// gets a problem document.
	Page func(w http.ResponseWriter, r *http.Request, status int, detail string)
	// OpenLoopback lets in, as operator "demo", whoever asks from this machine, on
	// a loopback listener, under a loopback name. For the demo only.
	OpenLoopback bool
	Log          *slog.Logger // nil: slog.Default
}

// Guard lets requests in by token and role. It is safe for concurrent use.
type Guard struct {
	cfg   Config
	cross *http.CrossOriginProtection

	mu     sync.Mutex
	tokens []Token
	readAt time.Time // when tokens were read, or reading was last tried
	known  bool      // tokens were read at least once

	denials bucket
}

// New returns a Guard.
func New(cfg Config) *Guard {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Secure == nil {
		cfg.Secure = func(*http.Request) bool { return false }
	}
	return &Guard{cfg: cfg, cross: http.NewCrossOriginProtection()}
}

// Require lets through principals that hold one of roles, and puts them into the
// request's context for From. Without roles nobody passes.
func (g *Guard) Require(roles ...Role) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return &required{guard: g, roles: roles, next: next} }
}

// RequireSession lets through whoever signed in, also those who must change their
// password before anything else. It is for the pages of the account itself.
func (g *Guard) RequireSession() func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return &required{guard: g, roles: []Role{Viewer}, session: true, next: next}
	}
}

// Open lets anybody in who asks under a name of ours, and no form of another
// origin. It is for the sign-in itself.
func (g *Guard) Open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.outside(r); why != nil {
			g.refuse(w, r, Principal{}, *why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Hosts refuses requests under a foreign host name. Require does so by itself;
// Hosts is for what anybody may read.
func (g *Guard) Hosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.hostAllowed(r.Host) {
			g.refuse(w, r, Principal{}, foreignHost(r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Forget drops what is remembered of the tokens, so that a revocation made here
// holds with the next request.
func (g *Guard) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.readAt = time.Time{}
}

type required struct {
	guard   *Guard
	roles   []Role
	session bool // only a session will do, and one that must change its password too
	next    http.Handler
}

func (q *required) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, why := q.guard.admit(r, q)
	if why != nil {
		q.guard.refuse(w, r, p, *why)
		return
	}
	q.next.ServeHTTP(w, r.WithContext(With(r.Context(), p)))
}

// outside is what is refused whoever asks; nil: nothing.
func (g *Guard) outside(r *http.Request) *refusal {
	if !g.hostAllowed(r.Host) {
		return new(foreignHost(r.Host))
	}
	// A browser sends cookies and Basic credentials, and reaches loopback, on behalf
	// of any page it shows; a change must come from a page of ours or from no browser.
	if err := g.cross.Check(r); err != nil {
		return &refusal{http.StatusForbidden, "cross_origin", "the request comes from a page of another origin", ""}
	}
	return nil
}

// admit decides one request; a nil refusal lets it in.
func (g *Guard) admit(r *http.Request, q *required) (Principal, *refusal) {
	if why := g.outside(r); why != nil {
		return Principal{}, why
	}
	p, mustChange, why := g.who(r)
	switch {
	case why != nil:
		return p, why
	case q.session && p.Via != BySession:
		return p, &refusal{http.StatusUnauthorized, "no_session", "this is for who signed in with a browser", p.Name}
	case mustChange && !q.session:
		return p, &refusal{http.StatusForbidden, "password_change", "change the first password at /password before anything else", p.Name}
	case !p.May(q.roles...):
		return p, &refusal{http.StatusForbidden, "role", "role " + string(p.Role) + " may not do this", p.Name}
	}
	return p, nil
}

func (g *Guard) who(r *http.Request) (p Principal, mustChange bool, why *refusal) {
	secret, given := secretOf(r)
	if !given {
		return g.withoutToken(r)
	}
	t, found, err := g.find(r.Context(), secret)
	switch {
	case err != nil:
		g.cfg.Log.Error("tokens cannot be read", "err", err)
		return p, false, &refusal{http.StatusServiceUnavailable, "tokens_unavailable", "tokens cannot be read at the moment", ""}
	case !found:
		return p, false, &refusal{http.StatusUnauthorized, "unknown_token", "the token is not known", ""}
	case !t.Live(time.Now()):
		return p, false, &refusal{http.StatusUnauthorized, "token_ended", "the token has expired or was revoked", t.Name}
	}
	return t.Principal(), false, nil
}

// withoutToken looks for a session, and then whether this is the demo's machine.
func (g *Guard) withoutToken(r *http.Request) (p Principal, mustChange bool, why *refusal) {
	why = &refusal{http.StatusUnauthorized, "no_token", "sign in, or send a token: Authorization: Bearer bw_..., or as the password of HTTP Basic", ""}
	if g.cfg.People != nil {
		if secret := SessionSecret(r, g.cfg.Secure(r)); secret != "" {
			u, found, err := g.cfg.People.who(r.Context(), secret)
			switch {
			case found:
				return u.Principal(), u.MustChange, nil
			case err != nil:
				g.cfg.Log.Error("sessions cannot be read", "err", err)
				why = &refusal{http.StatusServiceUnavailable, "sessions_unavailable", "sessions cannot be read at the moment; a token works", ""}
			default:
				why = &refusal{http.StatusUnauthorized, "session_ended", "the session is over: sign in again", ""}
			}
		}
	}
	if g.cfg.OpenLoopback && fromLoopback(r) {
		return Principal{Name: "demo", Role: Operator, Via: ByLoopback}, false, nil
	}
	return p, false, why
}

// How long a list of tokens is used before it is read again, and how long a
// request waits for that.
const (
	tokensFor  = 2 * time.Second
	tokensWait = time.Second
)

// list returns the tokens. With the store away the last list goes on serving: a
// token cannot be revoked then either, its expiry is looked at each time, and an
// operator must be able to stop a fault just when the database is in trouble.
func (g *Guard) list(ctx context.Context) ([]Token, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known && time.Since(g.readAt) < tokensFor {
		return g.tokens, nil
	}
	// One caller's hanging up must not count as the store being away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokensWait)
	defer cancel()
	tokens, err := g.cfg.Tokens.Tokens(ctx)
	if err != nil {
		if !g.known {
			return nil, err
		}
		g.cfg.Log.Warn("tokens cannot be read, the last list holds", "err", err)
		g.readAt = time.Now()
		return g.tokens, nil
	}
	g.tokens, g.known, g.readAt = tokens, true, time.Now()
	return g.tokens, nil
}
