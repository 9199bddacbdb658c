package store

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// frozen is an evaluation of order in a freeze.
type frozen struct{ at time.Time }

func (f frozen) Statuses() []slo.Status {
	o := slo.Objective{ID: "order-availability", Service: "order", TargetPPB: 999_500_000, Window: 30 * 24 * time.Hour, Revision: 3}
	return []slo.Status{{Objective: o, Env: "prod", At: f.at, DataUntil: f.at, Level: slo.Frozen, Measured: slo.Frozen, Since: f.at.Add(-time.Hour),
		Budget: slo.Weigh(o, slo.Tally{Good: 99_920, Bad: 80}), CoveragePPM: 1_000_000, Reason: "spent."}}
}

// T33 over the database and the wire: ask, grant, use, and the ways in which it is no.
func TestSLO_T33_OverTheWire(t *testing.T) {
	s := New(pgtest.Pool(t))
	now := sloNoon
	clock := func() time.Time { return now }
	book := freeze.NewBook(s, nil)
	if err := book.Tick(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	desk := freeze.NewDesk(frozen{now}, book, s, clock)
	g := gate.New(gate.Config{Source: frozen{now}, Keeper: s, Book: book, Now: clock})
	r := chi.NewRouter()
	r.Post("/freezes/{service}/override", desk.Ask)
	r.Post("/freezes/{service}/override/{id}/grant", desk.Grant)
	r.Post("/freezes/{service}/override/{id}/revoke", desk.Revoke)
	r.Post("/freezes/{service}", desk.On)
	r.Delete("/freezes/{service}", desk.Off)
	r.Get("/freezes", desk.List)
	as := func(who, method, path, body string) *httptest.ResponseRecorder {
		q := httptest.NewRequest(method, path, strings.NewReader(body))
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q.WithContext(auth.With(q.Context(), auth.Principal{Name: who, Role: auth.Approver})))
		return w
	}
	ask := func(ref, until string) string {
		t.Helper()
		w := as("ada", "POST", "/freezes/order/override", `{"env":"prod","ref":"`+ref+`","reason":"customers cannot pay","ticket":"INC-7","max_uses":2,"expires_at":"`+until+`"}`)
		if w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var o freeze.Override
		if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		return o.ID
	}
	until := now.Add(time.Hour).Format(time.RFC3339)
	id := ask("sha-a", until)
	answer := func(ref, want string) {
		t.Helper()
		if d := g.Answer(t.Context(), gate.Request{Service: "order", Env: "prod", Kind: gate.Feature, Ref: ref}); d.ReasonCode != want || (d.Decision == gate.Allow) != (want == "override") {
			t.Errorf("%s: %s %s, want %s", ref, d.Decision, d.ReasonCode, want)
		}
	}
	answer("sha-a", "override_pending")
	if w := as("ada", "POST", "/freezes/order/override/"+id+"/grant", ""); w.Code != 403 || !strings.Contains(w.Body.String(), freeze.CodeSelfApproval) {
		t.Errorf("self-approval: %d %s", w.Code, w.Body)
	}
	if w := as("bob", "POST", "/freezes/order/override/"+id+"/grant", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"granted_by":"bob"`) {
		t.Fatalf("grant: %d %s", w.Code, w.Body)
	}
	answer("sha-b", "override_other_ref")
	answer("sha-a", "override")
	answer("sha-a", "override")
	answer("sha-a", "override_used_up")
	// What is known may be old: the database has the last word.
	answer("sha-a", "override_used_up")

	other := ask("sha-c", until)
	as("bob", "POST", "/freezes/order/override/"+other+"/grant", "")
	as("eve", "POST", "/freezes/order/override/"+other+"/revoke", "")
	answer("sha-c", "override_revoked")
	third := ask("sha-d", now.Add(time.Minute).Format(time.RFC3339))
	as("bob", "POST", "/freezes/order/override/"+third+"/grant", "")
	now = now.Add(time.Minute)
	g = gate.New(gate.Config{Source: frozen{now}, Keeper: s, Book: book, Now: clock})
	answer("sha-d", "override_expired")

	// By hand, and back.
	if w := as("ada", "POST", "/freezes/order", `{"env":"prod","reason":"sale day"}`); w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	answer("sha-z", "frozen_by_hand")
	if w := as("ada", "DELETE", "/freezes/order", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := as("ada", "DELETE", "/freezes/order", ""); w.Code != 409 {
		t.Errorf("off twice: %d %s", w.Code, w.Body)
	}
	if w := as("ada", "GET", "/freezes", ""); !strings.Contains(w.Body.String(), `"state":"frozen"`) || !strings.Contains(w.Body.String(), id) {
		t.Errorf("%s", w.Body)
	}

	// Who did what stands in a chain that proves itself.
	if err := book.Tick(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	rows, err := s.AuditRows(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, row := range rows {
		seen[row.Action]++
	}
	for action, want := range map[string]int{"override.ask": 3, "override.denied": 1, "override.grant": 3, "override.use": 2, "override.revoke": 1, "override.close": 2, "freeze.on": 1, "freeze.off": 1} {
		if seen[action] != want {
			t.Errorf("%d rows of %s, want %d", seen[action], action, want)
		}
	}
	if _, err := auth.Verify(t.Context(), s); err != nil {
		t.Error(err)
	}
	// What the quarter's report counts is that chain.
	moves, err := s.OverrideMoves(t.Context(), sloNoon.Add(-time.Hour), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if c := freeze.CountOverrides(moves, nil); c.Asked != 3 || c.Granted != 3 || c.Used != 2 || c.Revoked != 1 || c.People[0] != (freeze.OverridePerson{Who: "ada", Asked: 3, Used: 2}) {
		t.Errorf("counted %+v", c)
	}
	// The key outlives the process.
	again := freeze.NewBook(s, nil)
	if err := again.Tick(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	a, _ := book.Key()
	b, ok := again.Key()
	if !ok || a.ID != b.ID {
		t.Error("another start has another key")
	}
}

func TestAnOverrideIsUsedAsOftenAsGrantedByHoweverManyAtOnce(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	o := freeze.Override{ID: "o-1", Service: "order", Ref: "sha", Reason: "customers cannot pay", Ticket: "INC-7", AskedBy: "ada", AskedAt: sloNoon, ExpiresAt: sloNoon.Add(time.Hour), MaxUses: 3}
	if err := s.AddOverride(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if used, err := s.UseOverride(t.Context(), "o-1", "", "d", sloNoon); used || err != nil {
		t.Fatalf("used before it is granted: %v, %v", used, err)
	}
	// Even a program without rules cannot grant what the same person asked for.
	if done, err := s.GrantOverride(t.Context(), "o-1", "ada", nil, sloNoon); done || err != nil {
		t.Errorf("granted to oneself: %v, %v", done, err)
	}
	if _, err := db.Exec(t.Context(), `update freeze_override set granted_by = 'ada', granted_at = asked_at`); err == nil {
		t.Error("the table takes a grant of one's own")
	}
	if done, err := s.GrantOverride(t.Context(), "o-1", "bob", nil, sloNoon); !done || err != nil {
		t.Fatal(done, err)
	}
	var used atomic.Int64
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			once := ""
			if i < 6 {
				once = "run-1" // six questions about one change
			}
			ok, err := s.UseOverride(t.Context(), "o-1", once, "d-"+string(rune('a'+i)), sloNoon)
			if err != nil {
				t.Error(err)
			}
			if ok {
				used.Add(1)
			}
		})
	}
	group.Wait()
	var count, rows int64
	if err := db.QueryRow(t.Context(), `select used, (select count(*) from freeze_override_use) from freeze_override`).Scan(&count, &rows); err != nil || count != 3 || rows != 3 {
		t.Errorf("used %d times in %d rows, %v", count, rows, err)
	}
	if n := used.Load(); n < 3 || n > 8 { // two others, and up to six times the one change
		t.Errorf("%d questions were let through", n)
	}
	if _, err := db.Exec(t.Context(), `update audit set detail = 'x'`); err == nil {
		t.Error("the audit can be rewritten")
	}
	exec(t, db, `alter table audit disable trigger audit_append_only`, nil)
	exec(t, db, `update audit set detail = 'x' where seq = @seq`, pgx.StrictNamedArgs{"seq": 2})
	if _, err := auth.Verify(t.Context(), s); err == nil {
		t.Error("an altered audit proves itself")
	} else if broken, ok := errors.AsType[*auth.BrokenError](err); !ok || broken.Seq != 2 {
		t.Errorf("broken at %v", err)
	}
}
