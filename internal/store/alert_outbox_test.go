package store_test

import (
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/internal/store"
	"breakwater/slo/alert"
)

// X-A2, notifications: a control that dies between taking a message and saying that
// it was sent leaves it to the next one, under the same key: told twice rather than
// not at all, and never by two at once.
func TestReliability_A2_NotificationsOverAKill(t *testing.T) {
	s := store.New(pgtest.Pool(t))
	d := alert.Delivery{Receiver: "oncall/webhook"}
	d.ID = "m-1"
	if err := s.Enqueue(t.Context(), []alert.Delivery{d}); err != nil {
		t.Fatal(err)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const lease = 30 * time.Second
	take := func(at time.Time) []alert.Job {
		t.Helper()
		jobs, err := s.TakeMessages(t.Context(), at, lease, 10)
		if err != nil {
			t.Fatal(err)
		}
		return jobs
	}
	first := take(now)
	if len(first) != 1 || first[0].Delivery.ID != "m-1" {
		t.Fatalf("took %+v, want the one message", first)
	}
	if again := take(now.Add(lease / 2)); len(again) != 0 {
		t.Errorf("another control took %+v, which is being sent", again)
	}
	// The first one is killed here: nobody says what came of it.
	second := take(now.Add(lease + time.Second))
	if len(second) != 1 || second[0].ID != first[0].ID || second[0].Delivery.ID != first[0].Delivery.ID {
		t.Fatalf("after the lease took %+v, want %+v again", second, first)
	}
	if err := s.MessageDone(t.Context(), second[0], alert.Result{At: now.Add(lease + time.Second), Outcome: "sent"}); err != nil {
		t.Fatal(err)
	}
	if rest := take(now.Add(time.Hour)); len(rest) != 0 {
		t.Errorf("what was sent is taken again: %+v", rest)
	}
}
