package auth

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Session is a browser that a person signed in with.
type Session struct {
	ID        Hash // of the secret in the cookie
	Name      string
	Source    string // network it was opened from
	CreatedAt time.Time
	SeenAt    time.Time
	ExpiresAt time.Time
}

// How long a session lives: unused, and at most.
const (
	IdleFor    = 12 * time.Hour
	SessionFor = 7 * 24 * time.Hour
	// seenEvery is how exactly the last use is kept: not a write a request.
	seenEvery = time.Minute
)

// Live reports whether the session is good at now.
func (s Session) Live(now time.Time) bool {
	return now.Before(s.ExpiresAt) && now.Before(s.SeenAt.Add(IdleFor))
}

// Sessions is where sessions are kept, for all controls of a database.
type Sessions interface {
	// AddSession also notes that the person signed in.
	AddSession(ctx context.Context, s Session) error
	// Session finds a session and its person.
	Session(ctx context.Context, id Hash) (Session, User, bool, error)
	SeeSession(ctx context.Context, id Hash, at time.Time) error
	EndSession(ctx context.Context, id Hash) error
	// EndSessionsBefore ends those that expired, or were not seen since.
	EndSessionsBefore(ctx context.Context, expired, unseen time.Time) error
}

// open makes a session with an id of its own and ends the browser's former one.
func (p *People) open(ctx context.Context, u User, addr, old, how string) (string, error) {
	if err := p.audit(ctx, u.Name, "session.open", u.Name, "by "+how+", from "+addr); err != nil {
		return "", err
	}
	if old != "" {
		if err := p.end(ctx, HashOf(old)); err != nil {
			return "", err
		}
	}
	secret, now := NewSecret(), p.now()
	s := Session{ID: HashOf(secret), Name: u.Name, Source: addr, CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(SessionFor)}
	if err := p.cfg.Store.AddSession(ctx, s); err != nil {
		return "", fmt.Errorf("open a session of %s: %w", u.Name, err)
	}
	return secret, nil
}

// SignOut ends the session of a secret. Where there is none, nothing is to do.
func (p *People) SignOut(ctx context.Context, secret string) error {
	id := HashOf(secret)
	_, u, found, err := p.cfg.Store.Session(ctx, id)
	if err != nil {
		return fmt.Errorf("sign out: %w", err)
	}
	if found {
		if err := p.audit(ctx, u.Name, "session.end", u.Name, "signed out"); err != nil {
			return err
		}
	}
	return p.end(ctx, id)
}

func (p *People) end(ctx context.Context, id Hash) error {
	p.recall.forget(func(k Hash, _ remembered) bool { return k == id })
	if err := p.cfg.Store.EndSession(ctx, id); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// Tidy removes sessions that ended by themselves.
func (p *People) Tidy(ctx context.Context) error {
	now := p.now()
	p.recall.forget(func(_ Hash, r remembered) bool { return !r.session.Live(now) })
	if err := p.cfg.Store.EndSessionsBefore(ctx, now, now.Add(-IdleFor)); err != nil {
		return fmt.Errorf("remove ended sessions: %w", err)
	}
	return nil
}

func (p *People) forgetUser(name string) {
	p.recall.forget(func(_ Hash, r remembered) bool { return r.user.Name == name })
}

// remembered is a session that the store confirmed.
type remembered struct {
	session Session
	user    User
	goodAt  time.Time // when the store said so
	triedAt time.Time // when it was asked last, with or without an answer
}

// recall holds sessions that were good a moment ago: a page asks for many things
// at once, and people must be able to read on while the database is away.
type recall struct {
	mu    sync.Mutex
	known map[Hash]remembered
}

const (
	// sessionFor is how long an answer of the store is used: as long as that of tokens.
	sessionFor = tokensFor
	// blindFor is how long a session goes on while the store is away. It cannot be
	// revoked then; an outage longer than this needs a token.
	blindFor = time.Hour
	// sessionsKept bounds the memory; more people are asked for each time.
	sessionsKept = 10_000
)

func (m *recall) get(id Hash) (remembered, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.known[id]
	return r, ok
}

func (m *recall) put(id Hash, r remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.known[id]; there || len(m.known) < sessionsKept {
		m.known[id] = r
	}
}

func (m *recall) forget(which func(Hash, remembered) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range m.known {
		if which(id, r) {
			delete(m.known, id)
		}
	}
}

// who finds the person of a secret; found is false where the session is over or
// never was.
func (p *People) who(ctx context.Context, secret string) (u User, found bool, err error) {
	id, now := HashOf(secret), p.now()
	r, known := p.recall.get(id)
	if known && now.Sub(r.triedAt) < sessionFor {
		return r.user, r.session.Live(now), nil
	}
	s, u, found, err := p.read(ctx, id)
	switch {
	case err != nil && known && now.Sub(r.goodAt) < blindFor:
		p.cfg.Log.Warn("sessions cannot be read, what is remembered holds", "err", err)
		r.triedAt = now
		p.recall.put(id, r)
		return r.user, r.session.Live(now), nil
	case err != nil:
		return User{}, false, err
	case !found || !u.Live() || !s.Live(now):
		p.recall.forget(func(k Hash, _ remembered) bool { return k == id })
		return User{}, false, nil
	}
	if now.Sub(s.SeenAt) >= seenEvery {
		if err := p.see(ctx, id, now); err != nil {
			p.cfg.Log.Warn("the use of a session was not noted", "err", err)
		} else {
			s.SeenAt = now
		}
	}
	p.recall.put(id, remembered{s, u, now, now})
	return u, true, nil
}

func (p *People) read(ctx context.Context, id Hash) (Session, User, bool, error) {
	// One caller's hanging up must not count as the store being away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokensWait)
	defer cancel()
	select {
	case p.reads <- struct{}{}:
		defer func() { <-p.reads }()
	case <-ctx.Done():
		return Session{}, User{}, false, fmt.Errorf("read a session: too many at once: %w", ctx.Err())
	}
	return p.cfg.Store.Session(ctx, id)
}

func (p *People) see(ctx context.Context, id Hash, now time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokensWait)
	defer cancel()
	return p.cfg.Store.SeeSession(ctx, id, now)
}

// The cookie's name. The prefix makes a browser refuse it unless this very host
// set it over TLS, so that no sister host and no plain connection can plant one
// (RFC 6265bis, section 4.1.3.2).
const plainCookie = "breakwater_session"

// CookieName is under which name a session, or another short secret of the
// sign-in, is kept in the browser.
func CookieName(plain string, secure bool) string {
	if secure {
		return "__Host-" + plain
	}
	return plain
}

// SetCookie hands the secret of a session to the browser; "" takes it away.
func SetCookie(w http.ResponseWriter, secret string, secure bool) {
	c := &http.Cookie{Name: CookieName(plainCookie, secure), Value: secret, Path: "/", MaxAge: int(SessionFor / time.Second),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
	if secret == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// SessionSecret is the secret that a request's cookie holds; "": it holds none.
func SessionSecret(r *http.Request, secure bool) string {
	c, err := r.Cookie(CookieName(plainCookie, secure))
	// Another length was never ours, and is not worth a read of the store.
	if err != nil || len(c.Value) != len(Prefix)+43 {
		return ""
	}
	return c.Value
}
