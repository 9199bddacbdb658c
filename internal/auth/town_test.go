package auth

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// cheap makes a hash a matter of microseconds.
var cheap = Cost{Memory: 64, Passes: 1, Lanes: 1}

// town is a PeopleStore in memory that can be away.
type town struct {
	memory
	mu       sync.Mutex
	users    map[string]User
	sessions map[Hash]Session
	looked   int // reads of sessions
}

func newTown() *town { return &town{users: map[string]User{}, sessions: map[Hash]Session{}} }

func (s *town) Users(context.Context) ([]User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.users)), s.away
}

func (s *town) User(_ context.Context, name string) (User, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.users[name]
	return u, ok && s.away == nil, s.away
}

func (s *town) UserOf(_ context.Context, issuer, subject string) (User, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.users {
		if u.Issuer == issuer && u.Subject == subject {
			return u, true, s.away
		}
	}
	return User{}, false, s.away
}

func (s *town) AddUser(_ context.Context, u User) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.users[u.Name]; taken {
		return false, s.away
	}
	s.users[u.Name] = u
	return true, s.away
}

func (s *town) SaveUser(_ context.Context, u User) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[u.Name] = u
	if !u.Live() {
		maps.DeleteFunc(s.sessions, func(_ Hash, v Session) bool { return v.Name == u.Name })
	}
	return s.away
}

func (s *town) SavePassword(_ context.Context, name, hash string, mustChange bool, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[name]
	u.Password, u.MustChange, u.PasswordAt = hash, mustChange, at
	s.users[name] = u
	maps.DeleteFunc(s.sessions, func(_ Hash, v Session) bool { return v.Name == name })
	return s.away
}

func (s *town) Rehash(_ context.Context, name, old, hash string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.users[name]; u.Password == old {
		u.Password = hash
		s.users[name] = u
	}
	return s.away
}

func (s *town) AddSession(_ context.Context, v Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[v.ID] = v
	return s.away
}

func (s *town) Session(_ context.Context, id Hash) (Session, User, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked++
	v, ok := s.sessions[id]
	return v, s.users[v.Name], ok && s.away == nil, s.away
}

func (s *town) SeeSession(_ context.Context, id Hash, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.sessions[id]
	v.SeenAt = at
	s.sessions[id] = v
	return s.away
}

func (s *town) EndSession(_ context.Context, id Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
	return s.away
}

func (s *town) EndSessionsBefore(context.Context, time.Time, time.Time) error { return s.away }

// folk are People over a town, with ann as operator who has a password of her own.
func folk(t *testing.T, cost Cost) (*town, *People, string) {
	t.Helper()
	s := newTown()
	p, err := NewPeople(PeopleConfig{Store: s, Cost: cost, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	password, err := p.Create(t.Context(), "test", User{Name: "ann", Role: Operator, Services: []string{"order"}})
	if err != nil {
		t.Fatal(err)
	}
	u := s.users["ann"]
	u.MustChange = false
	s.users["ann"] = u
	return s, p, password
}

// visit asks a guarded handler with a session's cookie.
func visit(g *Guard, secret, method string, roles ...Role) *httptest.ResponseRecorder {
	r := from(method, "127.0.0.1:8081", "10.0.0.9:1", "10.0.0.1:8081")
	if secret != "" {
		r.AddCookie(&http.Cookie{Name: plainCookie, Value: secret})
	}
	return ask(g.Require(roles...)(whoami), r)
}
