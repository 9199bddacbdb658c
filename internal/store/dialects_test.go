package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/slo/gate/dialect"
)

func TestWhatWaitsAtGitHub(t *testing.T) {
	s := New(pgtest.Pool(t))
	now := sloNoon
	p := dialect.Pending{Key: "deployment/acme/shop/42/production/501", Kind: "deployment", Repo: "acme/shop", Run: 42, Environment: "production", SHA: "abc", Service: "order", Env: "prod", At: now}
	for i, want := range []bool{true, false} {
		if added, err := s.AddPending(t.Context(), p, now); err != nil || added != want {
			t.Fatalf("added %d: %v, %v", i, added, err)
		}
	}
	// Replicas that look at the same moment: one gets it.
	var got atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			due, err := s.ClaimPending(t.Context(), now, 10)
			if err != nil {
				t.Error(err)
			}
			got.Add(int64(len(due)))
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		t.Fatalf("claimed %d times", got.Load())
	}
	claim := func(at time.Time, want int) []dialect.Pending {
		t.Helper()
		due, err := s.ClaimPending(t.Context(), at, 10)
		if err != nil || len(due) != want {
			t.Fatalf("at %s: %d, %v, want %d", at, len(due), err, want)
		}
		return due
	}
	// Whoever claimed it has died: a minute later somebody else gets it.
	claim(now.Add(59*time.Second), 0)
	due := claim(now.Add(61*time.Second), 1)
	due[0].Reports, due[0].Told = 3, "deny budget_exhausted"
	if err := s.DeferPending(t.Context(), due[0], now.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	claim(now.Add(119*time.Second), 0)
	back := claim(now.Add(2*time.Minute), 1)
	if back[0] != due[0] {
		t.Errorf("%+v, want %+v", back[0], due[0])
	}
	if err := s.ClosePending(t.Context(), back[0], "approved", now.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	claim(now.Add(time.Hour), 0)
	// Known for as long as GitHub could tell of it again, and then forgotten.
	if added, err := s.AddPending(t.Context(), p, now.Add(31*24*time.Hour)); err != nil || added {
		t.Errorf("what is over begins anew: %v, %v", added, err)
	}
	claim(now.Add(61*24*time.Hour), 0)
	if added, err := s.AddPending(t.Context(), p, now.Add(61*24*time.Hour)); err != nil || !added {
		t.Errorf("it is kept for ever: %v, %v", added, err)
	}
	if err := s.ClosePending(t.Context(), p, "whatever", now); err == nil {
		t.Error("an outcome that is none is taken")
	}
}
