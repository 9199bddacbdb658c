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

	"breakwater/internal/auth"
	"breakwater/slo/freeze"
)

// chain is what an audit says of overrides.
type chain struct {
	moves []freeze.OverrideMove
	err   error
}

func (c chain) OverrideMoves(_ context.Context, since, until time.Time) (out []freeze.OverrideMove, _ error) {
	for _, m := range c.moves {
		if !m.At.Before(since) && m.At.Before(until) {
			out = append(out, m)
		}
	}
	return out, c.err
}

// slo.md C1: overrides used per quarter are on the report, the same count as the API of
// the gate gives.
func TestSLO_C1_OverridesAreOnTheReport(t *testing.T) {
	move := func(action, actor, service string, day int) freeze.OverrideMove {
		return freeze.OverrideMove{Action: "override." + action, Actor: actor, AskedBy: "ann", Service: service, At: time.Date(2026, 1, day, 12, 0, 0, 0, time.UTC)}
	}
	c := chain{moves: []freeze.OverrideMove{move("ask", "ann", "order", 2), move("grant", "bob", "order", 2), move("use", "gate", "order", 3), move("use", "gate", "order", 4),
		move("ask", "ann", "coupon", 5), move("ask", "ann", "order", -5)}}
	f := newFake()
	d := &ReviewDesk{Source: f, Ledger: reviewLedger{f}, Trail: &c, Now: func() time.Time { return noon }}
	ask := func(query string, services ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/reports/budget?period=quarter&at=2026-02-01"+query, nil)
		r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "reader", Role: auth.Viewer, Services: services}))
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w
	}
	var out Review
	if err := json.Unmarshal(ask("").Body.Bytes(), &out); err != nil || out.Overrides == nil {
		t.Fatal(out.Overrides, err)
	}
	whole := freeze.CountOverrides(c.moves[:5], nil)
	if got := *out.Overrides; got.Asked != 2 || got.Granted != 1 || got.Used != 2 || got.Asked != whole.Asked || len(got.People) != 2 || got.People[0] != (freeze.OverridePerson{Who: "ann", Asked: 2, Used: 2}) {
		t.Errorf("%+v, want %+v", got, whole)
	}
	for _, w := range []*httptest.ResponseRecorder{ask("", "order"), ask("&service=order")} {
		out = Review{}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Overrides == nil || out.Overrides.Asked != 1 || out.Overrides.Used != 2 {
			t.Errorf("of order alone: %+v, %v", out.Overrides, err)
		}
	}
	for format, want := range map[string][]string{
		"md":   {"**Freezes passed.** 2 overrides asked for, 1 granted, used 2 times; by the audit.", "| ann | 2 | 0 | 2 |"},
		"html": {"<h3>Freezes passed</h3>", "2 overrides asked for, 1 granted, used 2 times; by the audit.", `<tr><td>ann</td><td class="n">2</td><td class="n">0</td><td class="n">2</td></tr>`},
	} {
		text := ask("&format=" + format).Body.String()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("as %s it lacks %q", format, w)
			}
		}
	}
	c.moves = nil
	if text := ask("&format=md").Body.String(); !strings.Contains(text, "Nobody asked for an override, and none was used.") {
		t.Errorf("without any: %s", text)
	}
	c.err = errors.New("away")
	if w := ask(""); w.Code != 503 {
		t.Errorf("without the audit it answers %d", w.Code)
	}
}
