package freeze

import (
	"context"
	"testing"
	"time"

	"breakwater/internal/auth"
)

type trail []OverrideMove

func (t trail) OverrideMoves(_ context.Context, since, until time.Time) (out []OverrideMove, _ error) {
	for _, m := range t {
		if !m.At.Before(since) && m.At.Before(until) {
			out = append(out, m)
		}
	}
	return out, nil
}

func TestOverridesByQuarter(t *testing.T) {
	at := func(month time.Month, day int) time.Time { return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC) }
	m := func(action, actor, service string, when time.Time) OverrideMove {
		return OverrideMove{Action: "override." + action, Actor: actor, AskedBy: "ann", Service: service, At: when}
	}
	all := trail{m("ask", "ann", "order", at(1, 1)), m("grant", "bob", "order", at(2, 1)), m("use", "gate", "order", at(2, 2)), m("use", "gate", "order", at(2, 3)), m("revoke", "cy", "order", at(3, 1)),
		m("ask", "ann", "coupon", at(2, 1)), m("ask", "dan", "order", at(1, 1).Add(-time.Second)), m("close", "system", "order", at(2, 1))}
	d := deskOf(nil, Known{})
	ctx := auth.With(t.Context(), auth.Principal{Name: "x", Role: auth.Viewer, Services: []string{"order"}})
	got, err := d.Quarters(ctx, all)
	if err != nil || len(got) != quartersShown || got[0].Name != "Q1 2026" || !got[0].Open || got[1].Name != "Q4 2025" || got[1].Open || !got[0].From.Equal(at(1, 1)) || !got[0].To.Equal(at(4, 1)) {
		t.Fatalf("%+v, %v", got, err)
	}
	q := got[0]
	if q.Asked != 1 || q.Granted != 1 || q.Used != 2 || q.Revoked != 1 || len(q.People) != 2 || q.People[0] != (OverridePerson{"ann", 1, 0, 2}) || q.People[1] != (OverridePerson{"bob", 0, 1, 0}) {
		t.Errorf("%+v", q.OverrideCount)
	}
	if p := got[1]; p.Asked != 1 || len(p.People) != 1 || p.People[0].Who != "dan" {
		t.Errorf("the quarter before: %+v", p.OverrideCount)
	}
}
