package report

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

type reviewLedger struct{ *fake }

func (l reviewLedger) BudgetAt(_ context.Context, o slo.Objective, _ string, _ time.Time) (slo.Budget, error) {
	return slo.Weigh(o, slo.Tally{Good: 99_990, Bad: 10}), l.err
}

func (reviewLedger) Points(context.Context, slo.Objective, string, time.Time, time.Time, time.Duration) ([]slo.Point, error) {
	return nil, nil
}

func (reviewLedger) Attribution(context.Context, slo.Objective, string, time.Time, time.Time) ([]slo.Portion, error) {
	return nil, nil
}

func (reviewLedger) Transitions(context.Context, string, time.Time, int) ([]slo.Transition, error) {
	return nil, nil
}

func TestReviewHandler(t *testing.T) {
	f := newFake()
	d := &ReviewDesk{Source: f, Ledger: reviewLedger{f}, Now: func() time.Time { return noon }}
	ask := func(query string, services ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/reports/budget"+query, nil)
		r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "reader", Role: auth.Viewer, Services: services}))
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w
	}
	for query, want := range map[string]struct {
		code int
		has  string
	}{
		"":                               {200, `"from":"2026-03-02T00:00:00Z"`}, // noon is a Tuesday: the week before
		"?at=2026-03-10":                 {200, `"counted_until":"2026-03-10T11:59:00Z"`},
		"?at=2026-03-10T00:00:00Z":       {200, `"open":true`},
		"?period=quarter&at=2026-02-01":  {200, `"from":"2026-01-01T00:00:00Z"`},
		"?zone=America/New_York":         {200, `"from":"2026-03-02T05:00:00Z"`},
		"?format=html":                   {200, "<h1>Week 10 of 2026</h1>"},
		"?format=md&team=&service=order": {200, "# Error budgets, Week 10 of 2026"},
		"?period=day":                    {400, "must be week, month or quarter"},
		"?zone=Mars":                     {400, "IANA"},
		"?at=yesterday":                  {400, "2026-03-10"},
		"?at=2026-03-20":                 {400, "must have begun"},
		"?format=pdf":                    {400, "must be json, md or html"},
		"?service=nobody":                {404, "no such SLO"},
	} {
		if w := ask(query); w.Code != want.code || !strings.Contains(w.Body.String(), want.has) {
			t.Errorf("%s answers %d %.300s, want %d with %q", query, w.Code, w.Body, want.code, want.has)
		}
	}
	if w := ask("", "order"); strings.Contains(w.Body.String(), "coupon") || !strings.Contains(w.Body.String(), "order-availability") {
		t.Errorf("a scope of order sees %s", w.Body)
	}
	f.err = context.DeadlineExceeded
	if w := ask(""); w.Code != 503 {
		t.Errorf("without a ledger it answers %d", w.Code)
	}
}
