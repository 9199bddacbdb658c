package store

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/webhook"
)

// A whole incident: minutes fail, the engine looks, the outbox sends through a
// receiver that is broken at first, people acknowledge, and it ends.
func TestAnIncidentFromItsFirstMinuteToItsEnd(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	importAll(t, s, sloObjective(30*24*time.Hour))
	at := func(m int) time.Time { return sloNoon.Add(time.Duration(m) * time.Minute) }
	addGateway(t, db, "gw", at(-120), sloNoon, sloNoon)
	for m := -100; m < 0; m++ {
		bad := int64(0)
		if m >= -5 {
			bad = 40
		}
		addMinutes(t, db, minute{service: "order", route: "a", at: at(m), good: 200 - bad, bad: bad})
	}
	for _, f := range []struct {
		dimension, value string
		bad, total       int64
	}{{"code", "50003", 140, 140}, {"endpoint", "10.0.0.1:80", 120, 200}, {"endpoint", "10.0.0.2:80", 80, 800}} {
		exec(t, db, `insert into facet_minute (service, env, dimension, value, at, good, bad, total) values ('order', 'prod', @d, @v, @at, @good, @bad, @total)`,
			pgx.StrictNamedArgs{"d": f.dimension, "v": f.value, "at": at(-3), "good": f.total - f.bad, "bad": f.bad, "total": f.total})
	}
	exec(t, db, `insert into event (service, env, at, kind, gateway, experiment, request_id, body)
values ('', 'prod', @at, 'config', 'gw', '', '', jsonb_build_object('config', jsonb_build_object('revision', 'rev-9', 'effective', @e::text)))`,
		pgx.StrictNamedArgs{"at": at(-20), "e": `{"upstreams":[{"name":"order","endpoints":[{"address":"10.0.0.1:80","instance":"order-1","rack":"A"},{"address":"10.0.0.2:80","rack":"B"}]}]}`})
	exec(t, db, `insert into event (service, env, at, kind, gateway, experiment, request_id, body)
values ('order', 'prod', @at, 'transition', 'gw', '', '', jsonb_build_object('transition', jsonb_build_object('policy', 'breaker', 'service', 'order', 'from', 'closed', 'to', 'open', 'reason', 'half failed')))`,
		pgx.StrictNamedArgs{"at": at(-2)})
	if err := s.AddCause(t.Context(), slo.Cause{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v8", From: at(-6), Actor: "ci"}, sloNoon); err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	var got []string
	broken := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		var e struct {
			Type string
			Data struct{ Lines []string }
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &e); err != nil {
			t.Error(err)
		}
		got = append(got, e.Type+"\n"+strings.ReplaceAll(strings.Join(e.Data.Lines, "\n"), "\u202f", " "))
	}))
	defer srv.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	source := &statuses{}
	engine := alert.New(alert.Config{Source: source, Ledger: s, Outbox: s})
	engine.Route([]alert.Route{{Name: "all", Least: alert.Ticket, Receivers: []alert.Receiver{{Name: "hook", Type: alert.Webhook, URL: srv.URL, SecretFile: secret, AllowPrivate: true}}}})
	look := func(now time.Time) {
		t.Helper()
		evaluator := slo.NewEvaluator(s, slo.Config{})
		if err := evaluator.Tick(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		source.set(evaluator.Statuses())
		if err := engine.Tick(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	send := func(now time.Time) int {
		t.Helper()
		n, err := engine.Send(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	look(sloNoon)
	open, err := s.Incidents(t.Context(), alert.Question{Open: true, Before: at(60), Limit: 10})
	if err != nil || !slices.ContainsFunc(open, func(i alert.Incident) bool { return i.Class == alert.Errors && i.Severity == alert.Page }) {
		t.Fatalf("%+v, %v", open, err)
	}
	page := open[slices.IndexFunc(open, func(i alert.Incident) bool { return i.Class == alert.Errors })]
	text := strings.ReplaceAll(strings.Join(page.Context.Lines(), "\n"), "\u202f", " ")
	for _, want := range []string{"50003: 70 %", "rack A: 60 % of failures vs 20 % of traffic (lift 3.0)", "instance order-1: 60 %", "Last deploy v8, 6 min ago by ci",
		"Last configuration rev-9", "Protects now: breaker of order is open"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
	if len(page.Facts) != 1 || !strings.Contains(page.Facts[0].Text, "breaker of order is open") {
		t.Errorf("facts %+v", page.Facts)
	}
	// Broken, it is tried again later; two senders never take the same.
	if n := send(sloNoon); n != 1 {
		t.Fatalf("%d messages due, want one", n)
	}
	if n := send(sloNoon); n != 0 {
		t.Errorf("%d tried at once again", n)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	if n := send(sloNoon.Add(2 * time.Second)); n != 1 || len(got) != 1 || !strings.HasPrefix(got[0], "breakwater.incident.opened") {
		t.Fatalf("%d sent, got %q", n, got)
	}

	desk := alert.NewDesk(engine, s, func() time.Time { return at(1) })
	r := chi.NewRouter()
	r.Post("/alerts/{id}/ack", desk.Ack)
	r.Get("/alerts/{id}", desk.Show)
	r.Get("/alerts", desk.List)
	r.Post("/silences", desk.Silence)
	r.Get("/silences", desk.Silences)
	r.Delete("/silences/{id}", desk.Unsilence)
	r.Post("/alerts/facts", desk.Tell)
	do := func(method, path, body string) *httptest.ResponseRecorder {
		q := httptest.NewRequest(method, path, strings.NewReader(body))
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q.WithContext(auth.With(q.Context(), auth.Principal{Name: "ada", Role: auth.Operator, Services: []string{"order"}})))
		return w
	}
	if w := do("POST", "/alerts/"+page.ID+"/ack", `{"note":"on it"}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"acked_by":"ada"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n := send(at(1)); n != 1 || !strings.HasPrefix(got[len(got)-1], "breakwater.incident.acknowledged") {
		t.Errorf("%d sent, got %q", n, got)
	}
	if w := do("POST", "/alerts/facts", `{"service":"order","env":"prod","key":"pool","text":"pool of points is full"}`); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	look(at(1))
	w := do("GET", "/alerts/"+page.ID, "")
	for _, want := range []string{"pool of points is full", `"outcome":"failed"`, `"outcome":"sent"`, "attempt 1: answered 502", `"outcome":"acknowledged"`, `"outcome":"queued"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is missing from why: %s", want, w.Body)
		}
	}
	if w := do("POST", "/alerts/none/ack", ""); w.Code != 404 {
		t.Errorf("an unknown one: %d", w.Code)
	}
	for body, want := range map[string]int{
		`{"service":"order","until":"` + at(60).Format(time.RFC3339) + `","reason":"planned"}`:       201,
		`{"service":"points","until":"` + at(60).Format(time.RFC3339) + `","reason":"planned"}`:      403,
		`{"until":"` + at(60).Format(time.RFC3339) + `","reason":"all of it"}`:                       403,
		`{"service":"order","until":"` + at(60*24*40).Format(time.RFC3339) + `","reason":"planned"}`: 422,
		`{"service":"order","until":"` + at(60).Format(time.RFC3339) + `"}`:                          422,
	} {
		if w := do("POST", "/silences", body); w.Code != want {
			t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	var list struct{ Silences []alert.Silence }
	if err := json.Unmarshal(do("GET", "/silences", "").Body.Bytes(), &list); err != nil || len(list.Silences) != 1 {
		t.Fatal(list, err)
	}
	if w := do("DELETE", "/silences/"+list.Silences[0].ID, ""); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do("GET", "/alerts?tier=L3", ""); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}

	// Clean traffic ends it, and its end is told once.
	for m := range 30 {
		addMinutes(t, db, minute{service: "order", route: "a", at: at(m), good: 200})
	}
	addGateway(t, db, "gw2", at(-120), at(30), at(30))
	exec(t, db, `update gateway set until_at = @at, last_ack = @at`, pgx.StrictNamedArgs{"at": at(30)})
	exec(t, db, `update gateway_boot set until_at = @at`, pgx.StrictNamedArgs{"at": at(30)})
	look(at(30))
	for send(at(30).Add(time.Minute)) > 0 {
	}
	if last := got[len(got)-1]; !strings.HasPrefix(last, "breakwater.incident.resolved") || len(got) != 3 {
		t.Errorf("in all %d messages, the last %q", len(got), last)
	}
	if _, err := auth.Verify(t.Context(), s); err != nil {
		t.Error(err)
	}
	if err := s.PruneAlerts(t.Context(), at(60*24*500)); err != nil {
		t.Error(err)
	}
}

type statuses struct {
	mu   sync.Mutex
	last []slo.Status
}

func (s *statuses) Statuses() []slo.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.last)
}

func (s *statuses) set(list []slo.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = list
}

func TestAWebhookIsAnsweredOnceOverTheDatabase(t *testing.T) {
	s := New(pgtest.Pool(t))
	first, was, err := s.SeenWebhook(t.Context(), "github", "m-1", sloNoon)
	if err != nil || !first || was != nil {
		t.Fatal(first, was, err)
	}
	if first, was, err = s.SeenWebhook(t.Context(), "github", "m-1", sloNoon.Add(time.Second)); err != nil || first || was != nil {
		t.Errorf("while it is answered: %v %v %v", first, was, err)
	}
	if err := s.AnsweredWebhook(t.Context(), "github", "m-1", webhook.Answer{Status: 202, Type: "text/plain", Body: []byte("ok")}); err != nil {
		t.Fatal(err)
	}
	if first, was, err = s.SeenWebhook(t.Context(), "github", "m-1", sloNoon.Add(time.Hour)); err != nil || first || was == nil || was.Status != 202 || string(was.Body) != "ok" {
		t.Errorf("afterwards: %v %+v %v", first, was, err)
	}
	if first, _, err = s.SeenWebhook(t.Context(), "gitlab", "m-1", sloNoon); err != nil || !first {
		t.Errorf("the same id of another source: %v %v", first, err)
	}
	// One that a dead process took is taken again.
	if _, _, err := s.SeenWebhook(t.Context(), "github", "m-2", sloNoon); err != nil {
		t.Fatal(err)
	}
	if first, _, err = s.SeenWebhook(t.Context(), "github", "m-2", sloNoon.Add(2*time.Minute)); err != nil || !first {
		t.Errorf("never answered: %v %v", first, err)
	}
}
