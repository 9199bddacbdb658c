package report

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"breakwater/internal/auth"
	"breakwater/slo"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

type fake struct {
	statuses []slo.Status
	health   slo.Health
	budget   slo.Budget
	err      error
	asked    time.Time
}

func (f *fake) Statuses() []slo.Status { return append([]slo.Status(nil), f.statuses...) }
func (f *fake) Health() slo.Health     { return f.health }
func (f *fake) BudgetAt(_ context.Context, _ slo.Objective, _ string, at time.Time) (slo.Budget, error) {
	f.asked = at
	return f.budget, f.err
}

func status(service string, t slo.Tally, level slo.Level) slo.Status {
	o := slo.Objective{ID: service + "-availability", Service: service, Title: "Good answers", TargetPPB: 900_000_000, Window: 30 * 24 * time.Hour, Text: "kind: SLO\n"}
	s := slo.Status{Objective: o, Env: "prod", At: noon, DataUntil: noon.Add(-2 * time.Second), Budget: slo.Weigh(o, t), CoveragePPM: 999_999,
		Level: level, Measured: level, Since: noon.Add(-time.Hour), Reason: "because."}
	for _, w := range slo.BurnWindows() {
		s.Burns = append(s.Burns, slo.Burning(o, w, t))
	}
	return s
}

func newFake() *fake {
	return &fake{health: slo.Health{LastAt: noon}, statuses: []slo.Status{
		status("coupon", slo.Tally{}, slo.Unknown),
		status("order", slo.Tally{Good: 933, Bad: 67, ChaosBad: 10, Neutral: 5}, slo.Warn),
	}}
}

// get asks as somebody whose scope is services; no services is all.
func get(t *testing.T, f *fake, path string, services ...string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "reader", Role: auth.Viewer, Services: services}))
	w := httptest.NewRecorder()
	Handler(f, f).ServeHTTP(w, r)
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s answered %d %q: %v", path, w.Code, w.Body, err)
	}
	if want := "application/json"; w.Code == 200 && w.Header().Get("Content-Type") != want || w.Code != 200 && w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s answered %d as %s", path, w.Code, w.Header().Get("Content-Type"))
	}
	return w.Code, body
}

func TestServices(t *testing.T) {
	f := newFake()
	f.health.AwaySince = noon.Add(time.Second)
	code, body := get(t, f, "/api/v1/services")
	list, _ := body["services"].([]any)
	if code != 200 || len(list) != 2 || list[1].(map[string]any)["state"] != "warn" || body["database_away_since"] != "2026-03-10T12:00:01Z" {
		t.Errorf("answered %d %v", code, body)
	}
	if _, body = get(t, f, "/api/v1/services", "order"); len(body["services"].([]any)) != 1 {
		t.Errorf("in the scope of order: %v", body)
	}
	if _, body = get(t, f, "/api/v1/slos", "nobody"); len(body["slos"].([]any)) != 0 {
		t.Errorf("in nobody's scope: %v", body)
	}
}

func TestOneSLO(t *testing.T) {
	code, body := get(t, newFake(), "/api/v1/slos/order-availability")
	budget, _ := body["budget"].(map[string]any)
	if code != 200 || budget["remaining_ppm"] != 330_000.0 || budget["spent_ppm"] != 670_000.0 || budget["chaos_spent_ppm"] != 100_000.0 ||
		budget["allowed_events"] != 100.0 || body["target_percent"] != "90" || body["thaw_at"] != nil || body["document"] != "kind: SLO\n" {
		t.Errorf("answered %d %v", code, body)
	}
	explained := false
	for _, l := range body["explain"].([]any) {
		explained = explained || l.(map[string]any)["id"] == "remaining" && l.(map[string]any)["value"] == "33\u202f%"
	}
	if !explained {
		t.Errorf("what is left is not explained: %v", body["explain"])
	}
	_, body = get(t, newFake(), "/api/v1/slos/coupon-availability")
	if budget := body["budget"].(map[string]any); budget["remaining_ppm"] != nil || budget["no_data"] != true {
		t.Errorf("without data the budget is %v, want null", budget)
	}
	for _, path := range []string{"/api/v1/slos/nobody", "/api/v1/slos/order-availability?env=test", "/api/v1/elsewhere"} {
		if code, _ := get(t, newFake(), path); code != 404 {
			t.Errorf("%s answered %d, want 404", path, code)
		}
	}
	if code, _ := get(t, newFake(), "/api/v1/slos/order-availability", "coupon"); code != 404 {
		t.Errorf("out of scope answered %d, want 404", code)
	}
}

func TestBudgetAtAnInstant(t *testing.T) {
	f := newFake()
	f.budget = slo.Weigh(f.statuses[1].Objective, slo.Tally{Good: 100})
	code, body := get(t, f, "/api/v1/slos/order-availability/budget")
	if code != 200 || body["budget"].(map[string]any)["remaining_ppm"] != 330_000.0 || body["at"] != "2026-03-10T11:59:58Z" {
		t.Errorf("now: %d %v", code, body)
	}
	code, body = get(t, f, "/api/v1/slos/order-availability/budget?at=2026-03-09T12:00:00%2B01:00")
	if code != 200 || body["budget"].(map[string]any)["remaining_ppm"] != 1_000_000.0 || !f.asked.Equal(noon.Add(-25*time.Hour)) {
		t.Errorf("then: %d %v, asked for %v", code, body, f.asked)
	}
	for query, want := range map[string]int{"at=yesterday": 400, "at=2026-03-11T12:00:00Z": 400} {
		if code, _ := get(t, f, "/api/v1/slos/order-availability/budget?"+query); code != want {
			t.Errorf("?%s answered %d, want %d", query, code, want)
		}
	}
	f.err = errors.New("away")
	if code, _ := get(t, f, "/api/v1/slos/order-availability/budget?at=2026-03-09T12:00:00Z"); code != 503 {
		t.Errorf("with the ledger away: %d, want 503", code)
	}
}

func TestNobodyReadsNothing(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(newFake(), nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/slos", nil))
	if strings.Contains(w.Body.String(), "order") {
		t.Errorf("somebody who was not let in reads %s", w.Body)
	}
}

func TestMetricsAreTheSameFigures(t *testing.T) {
	m := NewMetrics(newFake())
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	// coupon has no data, so it has no sample: not 0, not 1, not NaN.
	want := `
# HELP breakwater_slo_budget_remaining_ratio Share of the error budget that is left; below 0 the promise is broken.
# TYPE breakwater_slo_budget_remaining_ratio gauge
breakwater_slo_budget_remaining_ratio{env="prod",service="order",slo="order-availability"} 0.33
# HELP breakwater_slo_burn_rate Burn rate; 1 spends exactly the budget in the objective's window.
# TYPE breakwater_slo_burn_rate gauge
breakwater_slo_burn_rate{env="prod",service="order",slo="order-availability",window="1d"} 0.67
breakwater_slo_burn_rate{env="prod",service="order",slo="order-availability",window="1h"} 0.67
breakwater_slo_burn_rate{env="prod",service="order",slo="order-availability",window="3d"} 0.67
breakwater_slo_burn_rate{env="prod",service="order",slo="order-availability",window="5m"} 0.67
breakwater_slo_burn_rate{env="prod",service="order",slo="order-availability",window="6h"} 0.67
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "breakwater_slo_budget_remaining_ratio", "breakwater_slo_burn_rate"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m, "breakwater_slo_state"); n != 10 {
		t.Errorf("%d states are shown, want all five of both", n)
	}
}
