package gate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// shelf keeps decisions as a database does.
type shelf struct {
	keeper
	asked Search
}

func (s *shelf) Decisions(_ context.Context, q Search) (out []Record, _ error) {
	s.asked = q
	for _, r := range slices.Backward(s.kept) {
		if q.ID == "" || q.ID == r.Decision.DecisionID {
			out = append(out, r)
		}
	}
	return out, s.err
}

func TestDecisionsCanBeLookedUp(t *testing.T) {
	s := &shelf{}
	g := New(Config{Source: fixed{status(slo.Frozen, 80)}, Keeper: s, Book: &book{}, Now: func() time.Time { return noon }})
	serve(g, "service=order&env=prod&ref=abc")
	look := func(h http.HandlerFunc, query, id string, services ...string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/gate/decisions?"+query, nil)
		r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "ann", Role: auth.Viewer, Services: services}))
		r.SetPathValue("id", id)
		w := httptest.NewRecorder()
		h(w, r)
		return w.Code, w.Body.String()
	}
	code, text := look(LogHandler(s), "service=order&limit=7&before=2026-03-10T13:00:00Z", "", "order")
	var list struct{ Decisions []Logged }
	if err := json.Unmarshal([]byte(text), &list); err != nil || code != 200 || len(list.Decisions) != 1 || list.Decisions[0].By != "ci" || list.Decisions[0].Answer.Ref != "abc" || !list.Decisions[0].At.Equal(noon) {
		t.Fatalf("%d %s, %v", code, text, err)
	}
	if q := s.asked; q.Service != "order" || q.Limit != 7 || !q.Before.Equal(noon.Add(time.Hour)) || !slices.Equal(q.Services, []string{"order"}) {
		t.Errorf("searched for %+v", q)
	}
	id := list.Decisions[0].Answer.DecisionID
	if code, text := look(LoggedHandler(s), "", id); code != 200 || !strings.Contains(text, `"decision_id":"`+id+`"`) {
		t.Errorf("by its id: %d %s", code, text)
	}
	if code, _ := look(LoggedHandler(s), "", "d-none"); code != 404 {
		t.Errorf("an id that nobody knows: %d", code)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "before=yesterday"} {
		if code, _ := look(LogHandler(s), bad, ""); code != 400 {
			t.Errorf("?%s: %d", bad, code)
		}
	}
	s.err = errors.New("away")
	if code, text := look(LogHandler(s), "", ""); code != 503 || strings.Contains(text, "decisions\":[]") {
		t.Errorf("with the database away: %d %s", code, text)
	}
	if code, _ := look(LoggedHandler(s), "", id); code != 503 {
		t.Errorf("one of them, with the database away: %d", code)
	}
}

// J3: a dry run is answered alike and leaves nothing behind.
func TestUX_J3_ADryRunHasNoEffect(t *testing.T) {
	k, b := &keeper{}, &book{known: freeze.Known{Overrides: []freeze.Override{granted(nil)}}}
	g := New(Config{Source: fixed{status(slo.Frozen, 60)}, Book: b, Keeper: k, Now: func() time.Time { return noon }})
	var dry, plain Decision
	for query, into := range map[string]*Decision{"&dry_run=true": &dry, "&dry_run=false": &plain} {
		if err := json.Unmarshal(serve(g, "service=order&env=prod&ref=sha-a"+query).Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	if !dry.DryRun || dry.DecisionID != "" || dry.Signature != nil || dry.Override != nil || !strings.Contains(strings.Join(dry.Reasons, " "), "nothing was recorded") {
		t.Errorf("a dry run answers %+v", dry)
	}
	if dry.Decision != plain.Decision || dry.ReasonCode != plain.ReasonCode || plain.DryRun || plain.DecisionID == "" || plain.Override == nil {
		t.Errorf("answered %s %s, without dry run %s %s", dry.Decision, dry.ReasonCode, plain.Decision, plain.ReasonCode)
	}
	if len(k.kept) != 1 || b.known.Overrides[0].Used != 1 {
		t.Errorf("%d kept, override used %d times, want the one that was no dry run", len(k.kept), b.known.Overrides[0].Used)
	}
	if w := serve(g, "service=order&dry_run=maybe"); w.Code != 400 {
		t.Errorf("dry_run=maybe: %d", w.Code)
	}
}
