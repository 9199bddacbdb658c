package dialect

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

var noon = time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)

// world is a real gate over a scripted evaluation and book, with every dialect.
type world struct {
	mu        sync.Mutex
	now       time.Time
	statuses  []slo.Status
	known     freeze.Known
	kept      []gate.Record
	keepErr   error
	used      map[string]bool
	marks     []slo.Cause
	ends      []slo.DeployEnd
	endErr    error
	principal auth.Principal
	gate      *gate.Gate
	desk      *Desk
}

func newWorld(level slo.Level) *world {
	w := &world{now: noon, used: map[string]bool{}, principal: auth.Principal{Name: "ci", Role: auth.Pipeline}}
	w.set(level)
	w.gate = gate.New(gate.Config{Source: w, Keeper: w, Book: w, Now: w.clock})
	w.desk = New(Config{Gate: w.gate, Source: w, Marks: w, Now: w.clock})
	return w
}

// set makes the state of order: bad of 100 000 failed at 99.95 %.
func (w *world) set(level slo.Level) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bad := map[slo.Level]int64{slo.Normal: 1, slo.Warn: 21, slo.Emergency: 41, slo.Frozen: 80}[level]
	o := slo.Objective{ID: "order-availability", Service: "order", TargetPPB: 999_500_000, Window: 30 * 24 * time.Hour}
	s := slo.Status{Objective: o, Env: "prod", At: w.now, DataUntil: w.now, Budget: slo.Weigh(o, slo.Tally{Good: 100_000 - bad, Bad: bad}), CoveragePPM: 1_000_000,
		Level: level, Measured: level, Since: w.now.Add(-time.Hour), Reason: "because."}
	if level == slo.Frozen {
		s.ThawAt = w.now.Add(3*time.Hour + 20*time.Second)
	}
	w.statuses = []slo.Status{s}
}

// blind takes the evaluation away, as a database that is away for a minute does.
func (w *world) blind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.statuses {
		w.statuses[i].At = w.now.Add(-10 * time.Minute)
	}
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
	for i := range w.statuses {
		w.statuses[i].At = w.now
	}
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }
func (w *world) Statuses() []slo.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]slo.Status(nil), w.statuses...)
}
func (w *world) Known() freeze.Known     { w.mu.Lock(); defer w.mu.Unlock(); return w.known }
func (w *world) Key() (freeze.Key, bool) { return freeze.Key{}, false }
func (w *world) Use(_ context.Context, id, once, _ string, _ time.Time) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used[id+" "+once] = true
	return true, nil
}
func (w *world) SaveDecision(_ context.Context, r gate.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keepErr == nil {
		w.kept = append(w.kept, r)
	}
	return w.keepErr
}
func (w *world) AddCause(_ context.Context, c slo.Cause, _ time.Time) error {
	w.marks = append(w.marks, c)
	return nil
}

func (w *world) EndDeploy(_ context.Context, e slo.DeployEnd, _ time.Time) (int, error) {
	w.ends = append(w.ends, e)
	return 1, w.endErr
}

// routes is as control mounts them, behind somebody who was let in.
func (w *world) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(rw, r.WithContext(auth.With(r.Context(), w.principal)))
		})
	})
	r.Route("/api/v1/gate", func(r chi.Router) {
		r.With(ArgoAlways).HandleFunc("/argo", w.desk.Argo)
		r.Post("/flagger/confirm", w.desk.FlaggerConfirm)
		r.Post("/flagger/rollback", w.desk.FlaggerRollback)
		r.Post("/flagger/event", w.desk.FlaggerEvent)
		r.Post("/spinnaker", w.desk.Spinnaker)
		r.Get("/spinnaker/{ticket}", w.desk.SpinnakerStatus)
		r.Get("/gitlab/freeze_periods", w.desk.GitLab)
		r.Get("/kubernetes/policy", w.desk.Policy)
		r.Get("/kubernetes/freezes", w.desk.Freezes)
		r.Post("/platform", w.desk.Platform)
		r.Method(http.MethodGet, "/decision", w.gate.Handler())
	})
	return r
}

func (w *world) send(method, path, text string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://control:8081"+path, strings.NewReader(text))
	rec := httptest.NewRecorder()
	w.routes().ServeHTTP(rec, r)
	return rec
}

func into[T any](t *testing.T, rec *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	return v
}
