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
	return &Guard{cfg: cfg, cross: http.NewCrossOriginProtection()}
}

// Require lets through principals that hold one of roles, and puts them into the
// request's context for From. Without roles nobody passes.
func (g *Guard) Require(roles ...Role) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return &required{g, roles, next} }
}

// Hosts refuses requests under a foreign host name. Require does so by itself;
// Hosts is for what anybody may read.
func (g *Guard) Hosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.hostAllowed(r.Host) {
			g.refuse(w, r, foreignHost(r.Host))
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
	guard *Guard
	roles []Role
	next  http.Handler
}

func (q *required) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, why := q.guard.admit(r, q.roles)
	if why != nil {
		q.guard.refuse(w, r, *why)
		return
	}
	q.next.ServeHTTP(w, r.WithContext(With(r.Context(), p)))
}

// admit decides one request; a nil refusal lets it in.
func (g *Guard) admit(r *http.Request, roles []Role) (Principal, *refusal) {
	if !g.hostAllowed(r.Host) {
		return Principal{}, new(foreignHost(r.Host))
	}
	// A browser sends Basic credentials, and reaches loopback, on behalf of any
	// page it shows; a change must come from a page of ours or from no browser.
	if err := g.cross.Check(r); err != nil {
		return Principal{}, &refusal{http.StatusForbidden, "cross_origin", "the request comes from a page of another origin", ""}
	}
	p, why := g.who(r)
	if why != nil {
		return p, why
	}
	if !p.May(roles...) {
		return p, &refusal{http.StatusForbidden, "role", "role " + string(p.Role) + " may not do this", p.Name}
	}
	return p, nil
}

func (g *Guard) who(r *http.Request) (Principal, *refusal) {
	secret, given := secretOf(r)
	if !given {
		if g.cfg.OpenLoopback && fromLoopback(r) {
			return Principal{Name: "demo", Role: Operator}, nil
		}
		return Principal{}, &refusal{http.StatusUnauthorized, "no_token", "send a token: Authorization: Bearer bw_..., or as the password of HTTP Basic", ""}
	}
	t, found, err := g.find(r.Context(), secret)
	switch {
	case err != nil:
		g.cfg.Log.Error("tokens cannot be read", "err", err)
		return Principal{}, &refusal{http.StatusServiceUnavailable, "tokens_unavailable", "tokens cannot be read at the moment", ""}
	case !found:
		return Principal{}, &refusal{http.StatusUnauthorized, "unknown_token", "the token is not known", ""}
	case !t.Live(time.Now()):
		return Principal{}, &refusal{http.StatusUnauthorized, "token_ended", "the token has expired or was revoked", t.Name}
	}
	return t.Principal(), nil
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
