package gate

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

func TestMemoryStandsInWhileControlIsAway(t *testing.T) {
	key, err := freeze.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	s := status(slo.Normal, 1)
	now := noon
	g := New(Config{Source: fixed{s}, Keeper: &keeper{}, Book: &book{key: &key}, Now: func() time.Time { return now }})
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/gate/key", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"public_key":"` + key.Public() + `"}`))
	})
	mux.HandleFunc("/api/v1/gate/decision", func(w http.ResponseWriter, r *http.Request) {
		q, err := Question(r.URL.Query())
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(g.Answer(r.Context(), q))
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	m := Memory{Dir: t.TempDir()}
	r := Request{Service: "order", Env: "prod", Kind: Feature, Ref: "v1"}
	if _, err := m.Last(r, noon); err == nil {
		t.Error("nothing is kept, yet something stands in")
	}
	if err := m.Learn(t.Context(), srv.URL, ""); err != nil {
		t.Fatal(err)
	}
	d, err := Ask(t.Context(), srv.URL, "", r)
	if err != nil || d.Signature == nil {
		t.Fatal(d, err)
	}
	if err := m.Keep(d); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		r    Request
		at   time.Time
		want bool
	}{
		"after 14 minutes":    {r, noon.Add(14 * time.Minute), true},
		"after 15":            {r, noon.Add(15 * time.Minute), false},
		"long before":         {r, noon.Add(-time.Hour), false},
		"another commit":      {Request{Service: "order", Env: "prod", Kind: Feature, Ref: "v2"}, noon, false},
		"another environment": {Request{Service: "order", Env: "test", Kind: Feature, Ref: "v1"}, noon, false},
	} {
		last, err := m.Last(tt.r, tt.at)
		if (err == nil) != tt.want || tt.want && (last.Decision != Allow || !strings.Contains(strings.Join(last.Reasons, " "), "Control is away")) {
			t.Errorf("%s: %+v, %v", name, last.Reasons, err)
		}
	}
	// An answer that rests on an override is signed, too, and never stands in.
	override := d
	override.Override, override.Signature, override.raw = new(string), nil, nil
	if override.Signature, err = key.Sign(override); err != nil {
		t.Fatal(err)
	}
	if override.raw, err = json.Marshal(override); err != nil {
		t.Fatal(err)
	}
	if err := m.Keep(override); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Last(r, noon); err == nil || !strings.Contains(err.Error(), "override") {
		t.Errorf("an answer by override stands in: %v", err)
	}
	altered := strings.Replace(string(d.raw), `"allow"`, `"deny" `, 1)
	if err := write(m.file(d.question()), []byte(altered)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Last(r, noon); err == nil || !strings.Contains(err.Error(), "altered") {
		t.Errorf("an altered decision stands in: %v", err)
	}
	// Somebody else in control's place is not believed.
	other, _ := freeze.NewKey(append(make([]byte, 31), 1))
	key = other
	if d, err = Ask(t.Context(), srv.URL, "", r); err != nil {
		t.Fatal(err)
	}
	if err := m.Keep(d); err == nil {
		t.Error("a decision by another key is kept")
	}
}
