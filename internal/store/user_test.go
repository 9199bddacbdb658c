package store_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/internal/store"
)

// cheap makes a hash a matter of microseconds; what it costs is tested in auth.
var cheap = auth.Cost{Memory: 64, Passes: 1, Lanes: 1}

func people(t *testing.T, s *store.Store) *auth.People {
	t.Helper()
	p, err := auth.NewPeople(auth.PeopleConfig{Store: s, Cost: cheap})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPeopleAreKept(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	p := people(t, s)
	ctx := t.Context()
	if _, err := p.Create(ctx, "root", auth.User{Name: "boss", Role: auth.Admin}); err != nil {
		t.Fatal(err)
	}
	password, err := p.Create(ctx, "boss", auth.User{Name: "ann", Role: auth.Operator, Services: []string{"order", "points"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(ctx, "boss", auth.User{Name: "ann", Role: auth.Viewer}); !errors.Is(err, auth.ErrTaken) {
		t.Errorf("the same name again: %v, want ErrTaken", err)
	}
	if _, err := auth.Issue(ctx, s, auth.Token{Name: "ann", Role: auth.Viewer, CreatedAt: time.Now()}); !errors.Is(err, auth.ErrTaken) {
		t.Errorf("a token with a person's name: %v, want ErrTaken", err)
	}
	if _, err := auth.Issue(ctx, s, auth.Token{Name: "ci", Role: auth.Viewer, CreatedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(ctx, "boss", auth.User{Name: "ci", Role: auth.Viewer}); !errors.Is(err, auth.ErrTaken) {
		t.Errorf("a person with a token's name: %v, want ErrTaken", err)
	}
	secret, u, err := p.SignIn(ctx, " Ann ", password, "10.0.0.7:51", "")
	if err != nil || !u.MustChange || u.Role != auth.Operator || !slices.Equal(u.Services, []string{"order", "points"}) {
		t.Fatalf("got %+v, %v", u, err)
	}
	v, u, found, err := s.Session(ctx, auth.HashOf(secret))
	if err != nil || !found || v.Name != "ann" || v.Source != "10.0.0.7" || u.Password != "" || u.SignedInAt.IsZero() || !v.ExpiresAt.Equal(v.CreatedAt.Add(auth.SessionFor)) {
		t.Fatalf("got %+v of %+v, %v, %v", v, u, found, err)
	}
	var kept int
	if err := db.QueryRow(ctx, `select count(*) from session where id = convert_to($1, 'UTF8') or name = $1`, secret).Scan(&kept); err != nil || kept != 0 {
		t.Errorf("the secret itself is kept (%d), %v", kept, err)
	}
	if err := s.SeeSession(ctx, v.ID, v.SeenAt.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if again, _, _, _ := s.Session(ctx, v.ID); !again.SeenAt.Equal(v.SeenAt.Add(time.Hour)) {
		t.Errorf("seen at %s", again.SeenAt)
	}
	// Unused, and too old: both go; one that is neither stays.
	if err := s.EndSessionsBefore(ctx, v.ExpiresAt.Add(-time.Second), v.SeenAt.Add(time.Hour-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, _, found, _ := s.Session(ctx, v.ID); !found {
		t.Error("a live session was tidied away")
	}
	if err := s.EndSessionsBefore(ctx, v.ExpiresAt, v.CreatedAt); err != nil {
		t.Fatal(err)
	}
	if _, _, found, _ := s.Session(ctx, v.ID); found {
		t.Error("an expired session is kept")
	}
	if _, found, err := s.User(ctx, "nobody\x00\xff"); found || err != nil {
		t.Errorf("a name with a NUL: %v, %v", found, err)
	}
}

func TestPasswordAndDisablingEndSessions(t *testing.T) {
	s := store.New(pgtest.Pool(t))
	p := people(t, s)
	ctx := t.Context()
	for _, name := range []string{"boss", "ann"} {
		if _, err := p.Create(ctx, "root", auth.User{Name: name, Role: auth.Admin}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		do   func() error
	}{
		{"reset", func() error { _, err := p.Reset(ctx, "boss", "ann", ""); return err }},
		{"disable", func() error { return p.Disable(ctx, "boss", "ann") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := p.Enable(ctx, "boss", "ann"); err != nil {
				t.Fatal(err)
			}
			password, err := p.Reset(ctx, "boss", "ann", "")
			if err != nil {
				t.Fatal(err)
			}
			secret, _, err := p.SignIn(ctx, "ann", password, "10.0.0.7", "")
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.do(); err != nil {
				t.Fatal(err)
			}
			if _, _, found, err := s.Session(ctx, auth.HashOf(secret)); found || err != nil {
				t.Errorf("the session outlives it, or %v", err)
			}
			if _, _, err := p.SignIn(ctx, "ann", password, "10.0.0.7", ""); !errors.Is(err, auth.ErrCredentials) {
				t.Errorf("the password of before: %v", err)
			}
		})
	}
	if err := s.AddSession(ctx, auth.Session{ID: auth.HashOf("x"), Name: "ann", CreatedAt: time.Now(), SeenAt: time.Now(), ExpiresAt: time.Now()}); err == nil {
		t.Error("who was disabled while the password was compared gets a session")
	}
}

// Admins who disable one another at once leave one; an admin of some services is none.
func TestTheLastAdminStays(t *testing.T) {
	s := store.New(pgtest.Pool(t))
	p := people(t, s)
	ctx := t.Context()
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		if _, err := p.Create(ctx, "root", auth.User{Name: name, Role: auth.Admin}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Create(ctx, "root", auth.User{Name: "part", Role: auth.Admin, Services: []string{"order"}}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	results := make([]error, len(names))
	for i, name := range names {
		wg.Go(func() {
			switch i % 3 {
			case 0:
				results[i] = p.Disable(ctx, "root", name)
			case 1:
				results[i] = p.Change(ctx, "root", name, auth.Viewer, nil)
			default:
				results[i] = p.Change(ctx, "root", name, auth.Admin, []string{"order"})
			}
		})
	}
	wg.Wait()
	refused := 0
	for _, err := range results {
		if errors.Is(err, auth.ErrLastAdmin) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused != 1 {
		t.Errorf("%d were refused, want one", refused)
	}
	if err := p.Disable(ctx, "root", "nobody"); !errors.Is(err, auth.ErrNoUser) {
		t.Errorf("got %v, want ErrNoUser", err)
	}
}

// Two controls start on an empty database at once: one account, one password.
func TestFirstPersonOnce(t *testing.T) {
	s := store.New(pgtest.Pool(t))
	passwords := make([]string, 4)
	var wg sync.WaitGroup
	for i := range passwords {
		p := people(t, s)
		wg.Go(func() {
			var err error
			if passwords[i], err = p.FirstPerson(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, password := range passwords {
		if password == "" {
			continue
		}
		n++
		if _, u, err := people(t, s).SignIn(t.Context(), "admin", password, "::1", ""); err != nil || !u.MustChange || u.Role != auth.Admin {
			t.Errorf("the printed password: %+v, %v", u, err)
		}
	}
	if n != 1 {
		t.Errorf("%d passwords were made, want 1", n)
	}
}

func TestAuditTail(t *testing.T) {
	s := store.New(pgtest.Pool(t))
	ctx := t.Context()
	for _, e := range []auth.Entry{{Actor: "ann", Action: "run.abort", Object: "r-1"}, {Actor: "bob", Action: "run.approve", Object: "r-12"}, {Actor: "ann", Action: "token.issue", Object: "ci"}} {
		if err := s.Audit(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		before int64
		like   auth.Entry
		limit  int
		want   []int64
	}{
		{1 << 60, auth.Entry{}, 10, []int64{3, 2, 1}},
		{1 << 60, auth.Entry{}, 2, []int64{3, 2}},
		{2, auth.Entry{}, 2, []int64{1}},
		{1 << 60, auth.Entry{Actor: "ann"}, 10, []int64{3, 1}},
		{1 << 60, auth.Entry{Action: "run."}, 10, []int64{2, 1}},
		{1 << 60, auth.Entry{Object: "-1"}, 10, []int64{2, 1}},
		{1 << 60, auth.Entry{Object: "%", Action: "_"}, 10, nil},
		{1 << 60, auth.Entry{Actor: "\x00\xff"}, 10, nil},
	} {
		rows, err := s.AuditTail(ctx, tt.before, tt.like, tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, r := range rows {
			got = append(got, r.Seq)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d %+v: got %v, want %v", tt.before, tt.like, got, tt.want)
		}
	}
}
