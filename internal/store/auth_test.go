package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/internal/store"
)

func TestTokensAreKept(t *testing.T) {
	s := store.New(pgtest.Pool(t))
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secret, err := auth.Issue(t.Context(), s, auth.Token{Name: "ci", Role: auth.Pipeline, Services: []string{"order", "points"},
		CreatedBy: "ann", CreatedAt: now, ExpiresAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := s.Tokens(t.Context())
	if err != nil || len(tokens) != 1 {
		t.Fatalf("got %v, %v", tokens, err)
	}
	got := tokens[0]
	if got.Hash != auth.HashOf(secret) || got.Role != auth.Pipeline || fmt.Sprint(got.Services) != "[order points]" || got.CreatedBy != "ann" ||
		!got.CreatedAt.Equal(now) || !got.ExpiresAt.Equal(now.Add(time.Hour)) || !got.RevokedAt.IsZero() {
		t.Errorf("got %+v", got)
	}
	if _, err := auth.Issue(t.Context(), s, auth.Token{Name: "ci", Role: auth.Viewer, CreatedAt: now}); !errors.Is(err, auth.ErrTaken) {
		t.Errorf("same name: got %v, want ErrTaken", err)
	}
	if err := auth.Revoke(t.Context(), s, "ann", "ci", now.Add(time.Minute)); err != nil {
		t.Error(err)
	}
	if err := auth.Revoke(t.Context(), s, "ann", "ci", now.Add(time.Minute)); !errors.Is(err, auth.ErrNoToken) {
		t.Errorf("revoked twice: got %v, want ErrNoToken", err)
	}
	if tokens, err = s.Tokens(t.Context()); err != nil || tokens[0].Live(now.Add(2*time.Minute)) {
		t.Errorf("still live, or %v", err)
	}
}

// Two controls start on an empty database at once: one admin, one printed secret.
func TestFirstAdminOnce(t *testing.T) {
	s := store.New(pgtest.Pool(t))
	secrets := make([]string, 4)
	var wg sync.WaitGroup
	for i := range secrets {
		wg.Go(func() {
			var err error
			if secrets[i], err = auth.FirstAdmin(t.Context(), s, time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, secret := range secrets {
		if secret != "" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d secrets were made, want 1", n)
	}
}

func TestAuditChain(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	// Writers from several connections, and texts that PostgreSQL would refuse.
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				if err := s.Audit(t.Context(), auth.Entry{Actor: fmt.Sprint("w", w), Action: "test.write", Object: "x\x00y", Detail: fmt.Sprint(i, "\xff")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	report, err := auth.Verify(t.Context(), s)
	if err != nil || report.Rows != 100 {
		t.Fatalf("got %+v, %v, want 100 rows", report, err)
	}
	for _, sql := range []string{`update audit set actor = 'bob' where seq = 7`, `delete from audit where seq = 100`, `truncate audit`} {
		if _, err := db.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: went through", sql)
		}
	}
	// Whoever owns the database can take the trigger away; the chain still tells.
	if _, err := db.Exec(t.Context(), `alter table audit disable trigger audit_append_only`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `update audit set actor = 'bob' where seq = 7`); err != nil {
		t.Fatal(err)
	}
	_, err = auth.Verify(t.Context(), s)
	if broken, ok := errors.AsType[*auth.BrokenError](err); !ok || broken.Seq != 7 {
		t.Errorf("got %v, want row 7 to be broken", err)
	}
}
