package report

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

// books is a keeper in memory.
type books struct {
	corrections []slo.Correction
	causes      []slo.Cause
	deploys     []slo.Deploy
	ends        []slo.DeployEnd
	tested      slo.Objective
	policy      slo.Policy
	dry         bool
	actor       string
	err         error
}

func (b *books) Attribution(context.Context, slo.Objective, string, time.Time, time.Time) ([]slo.Portion, error) {
	return slo.Attribute([]slo.Failed{{At: noon, Bad: 2}, {At: noon, Experiment: "r-1", Bad: 1}}, nil), b.err
}

func (b *books) Backtest(_ context.Context, o slo.Objective, p slo.Policy, _ string, from, to time.Time) (slo.Backtest, error) {
	b.tested, b.policy = o, p
	return slo.Try(o, p, []slo.Slot{{At: from, For: time.Minute, Valid: 100, Bad: 50}}, from, to, time.Hour), b.err
}

func (b *books) Recompute(_ context.Context, _ slo.Objective, _ string, _ time.Time, dry bool, actor string, now time.Time) (slo.Recomputation, error) {
	b.dry, b.actor = dry, actor
	return slo.Recomputation{At: now, DryRun: dry, Sums: []slo.Difference{{Span: "hour", At: noon, StoredGood: 1, Good: 2}}}, b.err
}

func (b *books) Corrections(context.Context, string, int) ([]slo.Correction, error) {
	return append([]slo.Correction(nil), b.corrections...), b.err
}

func (b *books) AddCorrection(_ context.Context, c slo.Correction) error {
	b.corrections = append(b.corrections, c)
	return b.err
}

func (b *books) RevokeCorrection(_ context.Context, id, actor, _ string, at time.Time) (bool, error) {
	for i := range b.corrections {
		if c := &b.corrections[i]; c.ID == id && c.RevokedAt.IsZero() {
			c.RevokedAt, c.RevokedBy = at, actor
			return true, nil
		}
	}
	return false, b.err
}

func (b *books) AddCause(_ context.Context, c slo.Cause, _ time.Time) error {
	b.causes = append(b.causes, c)
	return b.err
}

func (b *books) BeginDeploy(_ context.Context, d slo.Deploy, _ func([]slo.Deploy) bool, now time.Time) (slo.Deploy, bool, error) {
	d.ID, d.Begun = "dp-1", now
	b.deploys = append(b.deploys, d)
	return d, true, b.err
}

func (b *books) EndDeploy(_ context.Context, e slo.DeployEnd, _ time.Time) (int, error) {
	b.ends = append(b.ends, e)
	return len(b.deploys), b.err
}

func (b *books) Revisions(context.Context, string, int) ([]slo.Objective, error) {
	return []slo.Objective{{ID: "order-availability", TargetPPB: 990_000_000, Revision: 1, Since: noon}}, b.err
}

// desk asks as ada, whose scope is order alone.
func desk(t *testing.T, b *books, method, path, body string) (int, map[string]any) {
	t.Helper()
	d := NewDesk(newFake(), b, slo.DefaultPolicy(), func() time.Time { return noon })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /slos/{id}/attribution", d.Attribution)
	mux.HandleFunc("GET /slos/{id}/backtest", d.Backtest)
	mux.HandleFunc("GET /slos/{id}/revisions", d.Revisions)
	mux.HandleFunc("POST /slos/{id}/recompute", d.Recompute)
	mux.HandleFunc("/slos/{id}/corrections", d.Correct)
	mux.HandleFunc("/slos/{id}/corrections/{correction}", d.Correct)
	mux.HandleFunc("POST /events/deploys", d.Mark(slo.ByDeploy))
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "ada", Role: auth.Operator, Services: []string{"order"}}))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	var out map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatalf("%s %s answered %d %q", method, path, w.Code, w.Body)
		}
	}
	return w.Code, out
}

func TestLookingBack(t *testing.T) {
	b := &books{}
	const from = "?from=2026-03-09T12:00:00Z&to=2026-03-10T12:00:00Z"
	code, body := desk(t, b, "GET", "/slos/order-availability/attribution"+from, "")
	if kinds, _ := body["by_kind"].([]any); code != 200 || body["bad_events"] != 3.0 || len(kinds) != 5 || kinds[0].(map[string]any)["share_ppm"] != 333_333.0 || kinds[4].(map[string]any)["share_ppm"] != 666_667.0 {
		t.Errorf("attribution: %d %v", code, body)
	}
	code, body = desk(t, b, "GET", "/slos/order-availability/backtest"+from+"&target=99.9&window=28d&warn=50&hold=5m", "")
	if code != 200 || b.tested.TargetPPB != 999_000_000 || b.tested.Window != 28*24*time.Hour || b.policy.WarnPPM != 500_000 || b.policy.Hold != 5*time.Minute ||
		body["freezes"] != 1.0 || body["target_percent"] != "99.9" {
		t.Errorf("backtest: %d %v with %+v", code, body, b.policy)
	}
	for _, query := range []string{"&target=100", "&target=x", "&window=1s", "&window=x", "&warn=0", "&hold=x", "&from=yesterday", "&from=2026-03-11T12:00:00Z"} {
		if code, body := desk(t, b, "GET", "/slos/order-availability/backtest?to=2026-03-10T12:00:00Z"+query, ""); code != 400 {
			t.Errorf("%s answered %d %v, want 400", query, code, body)
		}
	}
	if code, body := desk(t, b, "GET", "/slos/order-availability/revisions", ""); code != 200 || len(body["revisions"].([]any)) != 1 {
		t.Errorf("revisions: %d %v", code, body)
	}
	b.err = fmt.Errorf("composites: %w", slo.ErrTerms)
	if code, _ := desk(t, b, "GET", "/slos/order-availability/attribution"+from, ""); code != 422 {
		t.Errorf("a question that makes no sense is answered %d, want 422", code)
	}
	b.err = fmt.Errorf("connection refused")
	if code, _ := desk(t, b, "GET", "/slos/order-availability/attribution"+from, ""); code != 503 {
		t.Errorf("with the ledger away: %d, want 503", code)
	}
	if code, _ := desk(t, &books{}, "GET", "/slos/coupon-availability/attribution"+from, ""); code != 404 {
		t.Errorf("out of scope: %d, want 404", code)
	}
}

// Recomputing changes nothing unless it is said to.
func TestRecomputeIsDryUnlessSaid(t *testing.T) {
	b := &books{}
	for query, dry := range map[string]bool{"": true, "?dry_run=true": true, "?dry_run=false": false} {
		code, body := desk(t, b, "POST", "/slos/order-availability/recompute"+query, "")
		if code != 200 || b.dry != dry || b.actor != "ada" || body["dry_run"] != dry || body["changes"] != true || len(body["wrong_sums"].([]any)) != 1 {
			t.Errorf("%q: %d %v, dry %v", query, code, body, b.dry)
		}
	}
	if code, _ := desk(t, b, "POST", "/slos/order-availability/recompute?dry_run=perhaps", ""); code != 400 {
		t.Errorf("perhaps is answered %d", code)
	}
}

func TestCorrectionsOverTheWire(t *testing.T) {
	b := &books{}
	const good = `{"from":"2026-03-10T09:00:00Z","to":"2026-03-10T10:00:00Z","reason":"upgrade","ticket":"OPS-7"}`
	code, body := desk(t, b, "POST", "/slos/order-availability/corrections", good)
	if code != 201 || len(b.corrections) != 1 || b.corrections[0].Author != "ada" || b.corrections[0].Mode != slo.Remove || b.corrections[0].Objective != "order-availability" {
		t.Fatalf("%d %v, kept %+v", code, body, b.corrections)
	}
	id, _ := body["id"].(string)
	for text, want := range map[string]int{
		`{"from":"2026-03-10T10:00:00Z","to":"2026-03-10T09:00:00Z","reason":"x"}`:                 422,
		`{"from":"2026-03-10T09:00:00Z","to":"2026-03-10T10:00:00Z"}`:                              422,
		`{"from":"2026-03-10T09:00:00Z","to":"2026-03-10T10:00:00Z","reason":"x","mode":"delete"}`: 422,
		`{"from":"soon"}`: 400, `{"until":1}`: 400, ``: 400,
	} {
		if code, body := desk(t, b, "POST", "/slos/order-availability/corrections", text); code != want || len(b.corrections) != 1 {
			t.Errorf("%s answered %d %v, want %d", text, code, body, want)
		}
	}
	b.corrections = append(b.corrections, slo.Correction{ID: "c-other", Service: "order", Objective: "order-latency"})
	code, body = desk(t, b, "GET", "/slos/order-availability/corrections", "")
	if list, _ := body["corrections"].([]any); code != 200 || len(list) != 1 {
		t.Errorf("listed: %d %v", code, body)
	}
	if code, _ := desk(t, b, "DELETE", "/slos/order-availability/corrections/c-other", ""); code != 404 {
		t.Errorf("another SLO's correction: %d, want 404", code)
	}
	for i, want := range []int{204, 404} {
		if code, _ := desk(t, b, "DELETE", "/slos/order-availability/corrections/"+id+"?reason=mistake", ""); code != want || b.corrections[0].RevokedBy != "ada" {
			t.Errorf("revoked %d times: %d, want %d", i+1, code, want)
		}
	}
}

func TestMarkers(t *testing.T) {
	b := &books{}
	if code, body := desk(t, b, "POST", "/events/deploys", `{"service":"order","env":"prod","ref":"v8"}`); code != 204 || len(b.causes) != 1 || !b.causes[0].From.Equal(noon) || b.causes[0].Kind != slo.ByDeploy {
		t.Errorf("%d %v, noted %+v", code, body, b.causes)
	}
	for text, want := range map[string]int{
		`{"service":"coupon","ref":"v8"}`: 403, `{"service":"order"}`: 422, `{"service":"order","ref":"v","at":"2026-03-10T13:00:00Z"}`: 422,
		`{"service":"order","ref":"v","end_at":"2026-03-10T11:00:00Z"}`: 422, `nonsense`: 400,
	} {
		if code, _ := desk(t, b, "POST", "/events/deploys", text); code != want || len(b.causes) != 1 {
			t.Errorf("%s answered %d, want %d", text, code, want)
		}
	}
}

func TestADeployIsToldOfFromBeginToEnd(t *testing.T) {
	b := &books{}
	code, body := desk(t, b, "POST", "/events/deploys", `{"service":"order","env":"prod","ref":"v8","phase":"begin"}`)
	if code != 201 || body["id"] != "dp-1" || body["until"] != "2026-03-10T12:30:00Z" || len(b.deploys) != 1 || b.deploys[0].Key != "ref/v8" || b.deploys[0].By != "ada" {
		t.Errorf("%d %v, noted %+v", code, body, b.deploys)
	}
	if code, body := desk(t, b, "POST", "/events/deploys", `{"service":"order","ref":"v9","phase":"begin","lasts_seconds":7200}`); code != 201 || body["until"] != "2026-03-10T14:00:00Z" {
		t.Errorf("%d %v", code, body)
	}
	if code, body := desk(t, b, "POST", "/events/deploys", `{"service":"order","env":"prod","ref":"v8","phase":"end","outcome":"failed"}`); code != 200 || body["ended"] != 2.0 || b.ends[0].Outcome != slo.DeployFailed {
		t.Errorf("%d %v, %+v", code, body, b.ends)
	}
	if code, _ := desk(t, b, "POST", "/events/deploys", `{"service":"order","ref":"v8","phase":"end"}`); code != 200 || b.ends[1].Outcome != slo.DeploySucceeded {
		t.Errorf("%d, %+v", code, b.ends)
	}
	for _, wrong := range []string{`"phase":"middle"`, `"phase":"begin","lasts_seconds":5`, `"phase":"begin","lasts_seconds":9223372036854775807`, `"phase":"end","outcome":"lapsed"`, `"phase":"end","lasts_seconds":60`,
		`"outcome":"failed"`, `"phase":"begin","at":"2026-03-10T11:00:00Z"`} {
		if code, _ := desk(t, b, "POST", "/events/deploys", `{"service":"order","ref":"v8",`+wrong+`}`); code != 422 {
			t.Errorf("%s answered %d", wrong, code)
		}
	}
	if code, _ := desk(t, b, "POST", "/events/deploys", `{"service":"coupon","ref":"v8","phase":"begin"}`); code != 403 || len(b.deploys) != 2 || len(b.ends) != 2 || len(b.causes) != 0 {
		t.Errorf("%d, %+v", code, b)
	}
}
