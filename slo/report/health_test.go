package report

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

type healthLedger struct {
	rows     []slo.HealthRow
	facts    slo.HealthFacts
	services []string
	err      error
}

func (l *healthLedger) HealthRows(context.Context, string, string, time.Time, time.Time) ([]slo.HealthRow, error) {
	return append([]slo.HealthRow(nil), l.rows...), l.err
}

func (l *healthLedger) HealthFacts(_ context.Context, _, _ string, services []string, _, _ time.Time) (slo.HealthFacts, error) {
	l.services = services
	return l.facts, nil
}

func healthRows(service string, at time.Time) []slo.HealthRow {
	return []slo.HealthRow{
		{Service: service, Env: "prod", Upstream: "points", At: at, Counts: slo.HealthCounts{Requests: 10_000}},
		{Service: service, Env: "prod", Upstream: "points", At: at, Status: 503, Reason: "throttled", Counts: slo.HealthCounts{Retried: 200, Retries: 200, Recovered: 24, Failed: 176}},
	}
}

func askHealth(t *testing.T, d *HealthDesk, query string, services ...string) (int, Scores) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/health-scores"+query, nil)
	r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "reader", Role: auth.Viewer, Services: services}))
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	var out Scores
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return w.Code, out
}

func TestHealthScoresOverTheWire(t *testing.T) {
	l := &healthLedger{rows: append(healthRows("order", noon.Add(-10*time.Minute)), healthRows("order", noon.Add(-5*time.Minute))...)}
	d := &HealthDesk{Ledger: l, Now: func() time.Time { return noon }, Documents: func(_ context.Context, upstream string) ([]slo.HealthRoute, []string) {
		return []slo.HealthRoute{{Name: upstream + "-route", Enabled: true, MaxRetries: 1, OnStatus: []int{503}}}, []string{"gw.yaml:1:1: odd"}
	}}
	code, out := askHealth(t, d, "?audit=true")
	if code != 200 || len(out.Scores) != 1 {
		t.Fatalf("%d %+v", code, out)
	}
	h := out.Scores[0]
	if h.Upstream != "points" || h.ScorePPM == nil || *h.ScorePPM/100 != 5250 && *h.ScorePPM/100 != 5251 || h.Healthy || !h.Alarm || !h.Sure || h.Counts.Retried != 400 {
		t.Errorf("%+v", h)
	}
	if *h.ScorePPM+h.Deducted.Trigger+h.Deducted.Useless+h.Deducted.Load != 1_000_000 {
		t.Errorf("score %d and deductions %+v are no million", *h.ScorePPM, h.Deducted)
	}
	if len(h.Audit) != 2 || h.Audit[0].Code != "retry_on_status" || h.Audit[0].ScorePPM == nil || *h.Audit[0].ScorePPM != 1_000_000 || h.Audit[1].Code != "config" {
		t.Errorf("audit %+v", h.Audit)
	}
	// Without being asked for, no audit is made; a scope sees its own services only.
	if _, out := askHealth(t, d, ""); len(out.Scores[0].Audit) != 0 {
		t.Errorf("audit %+v", out.Scores[0].Audit)
	}
	if _, out := askHealth(t, d, "", "cart"); len(out.Scores) != 0 {
		t.Errorf("cart sees %+v", out.Scores)
	}
	if _, out := askHealth(t, d, "?audit=true", "order"); len(out.Scores) != 1 || len(l.services) != 1 || l.services[0] != "order" {
		t.Errorf("order sees %+v, asked for %v", out.Scores, l.services)
	}
	for query, want := range map[string]int{"?window=1m": 400, "?window=2d": 400, "?window=x": 400, "?audit=maybe": 400, "?window=24h": 200} {
		if code, _ := askHealth(t, d, query); code != want {
			t.Errorf("%s answers %d, want %d", query, code, want)
		}
	}
	l.err = errors.New("away")
	if code, _ := askHealth(t, d, ""); code != 503 {
		t.Errorf("without a ledger it answers %d", code)
	}
}

// An alarm is told once, when it begins, with its audit; and again after it ended.
func TestHealthWatchTellsOnce(t *testing.T) {
	bad := append(healthRows("order", noon.Add(-10*time.Minute)), healthRows("order", noon.Add(-5*time.Minute))...)
	l := &healthLedger{rows: bad}
	var told []Health
	w := &Watch{Desk: &HealthDesk{Ledger: l, Now: func() time.Time { return noon }}, Told: func(h Health) { told = append(told, h) }}
	for _, rows := range [][]slo.HealthRow{bad, bad, bad[:1], bad} {
		l.rows = rows
		if err := w.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 2 || told[0].Upstream != "points" || len(told[0].Audit) == 0 {
		t.Errorf("told %+v", told)
	}
}
