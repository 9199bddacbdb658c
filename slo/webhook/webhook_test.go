package webhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// memory is a Seen.
type memory struct {
	mu   sync.Mutex
	seen map[string]*Answer
}

func (m *memory) SeenWebhook(_ context.Context, source, id string, _ time.Time) (bool, *Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, there := m.seen[source+" "+id]
	if !there {
		if m.seen == nil {
			m.seen = map[string]*Answer{}
		}
		m.seen[source+" "+id] = nil
	}
	return !there, a, nil
}

func (m *memory) AnsweredWebhook(_ context.Context, source, id string, a Answer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[source+" "+id] = &a
	return nil
}

// The published example of Standard Webhooks.
func TestSignatureIsTheStandards(t *testing.T) {
	s, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	s.Header(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got := h.Get(Sign); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signed %s", got)
	}
}

func TestReliability_X167(t *testing.T) {
	secret, err := ParseSecret(strings.Repeat("s", 32))
	if err != nil {
		t.Fatal(err)
	}
	effects := 0
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects++
		body, _ := io.ReadAll(r.Body)
		if auth.From(r.Context()).Name != "github" {
			t.Error("it comes as nobody")
		}
		w.Header().Set("Content-Type", "text/x")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(append([]byte{byte('0' + effects)}, body...))
	})
	handler := Receiver{Source: "github", Secret: secret, Who: auth.Principal{Name: "github", Role: auth.Pipeline}, Seen: &memory{}, Now: func() time.Time { return noon }}.Then(next)
	const body = `{"service":"order","kind":"feature"}`
	send := func(id string, at time.Time, signed, sent string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(sent))
		secret.Header(r.Header, id, at, []byte(signed))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	first := send("m-1", noon, body, body)
	if first.Code != 202 || effects != 1 {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	again := send("m-1", noon.Add(time.Second), body, body)
	if again.Code != first.Code || !bytes.Equal(again.Body.Bytes(), first.Body.Bytes()) || again.Header().Get("Content-Type") != "text/x" || effects != 1 {
		t.Errorf("the same id again: %d %q after %d effects, want the same answer and one effect", again.Code, again.Body, effects)
	}
	twice := `{"service":"order","kind":"feature","kind":"rollback"}`
	for name, tt := range map[string]struct {
		id           string
		at           time.Time
		signed, sent string
		want         int
	}{
		"old":                       {"m-2", noon.Add(-Tolerance - time.Second), body, body, 401},
		"from the future":           {"m-2", noon.Add(Tolerance + time.Second), body, body, 401},
		"one space more":            {"m-2", noon, body, strings.Replace(body, ",", ", ", 1), 401},
		"one key twice":             {"m-2", noon, twice, twice, 400},
		"no id":                     {"", noon, body, body, 401},
		"an id that says two":       {"m.2", noon, body, body, 401},
		"signed for another secret": {"m-2", noon, "", body, 401},
	} {
		if w := send(tt.id, tt.at, tt.signed, tt.sent); w.Code != tt.want || effects != 1 {
			t.Errorf("%s: %d after %d effects, want %d and none more", name, w.Code, effects, tt.want)
		}
	}
	t.Run("signed with one secret of two", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
		secret.Header(r.Header, "m-3", noon, []byte(body))
		r.Header.Set(Sign, "v1,AAAA v1a,BBBB "+r.Header.Get(Sign))
		if _, err := secret.Check(r.Header, []byte(body), noon); err != nil {
			t.Error(err)
		}
	})
	if _, err := ParseSecret("short"); err == nil {
		t.Error("a short secret is taken")
	}
}

// Whatever the headers are, only what was signed is believed.
func FuzzCheck(f *testing.F) {
	secret := Secret(strings.Repeat("s", 32))
	f.Add("m-1", "1773144000", "v1,AAAA", []byte("{}"))
	f.Fuzz(func(t *testing.T, id, stamp, sign string, body []byte) {
		h := http.Header{ID: {id}, Timestamp: {stamp}, Sign: {sign}}
		if _, err := secret.Check(h, body, noon); err == nil {
			t.Fatalf("believed %q %q %q", id, stamp, sign)
		}
	})
}
