package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/retrylog"
	"breakwater/slo"
)

// records is what a database would have.
type records struct {
	moves    []slo.Transition
	measures []Measure
	turns    []retrylog.Transition
	err      error
}

func (r records) Transitions(context.Context, string, time.Time, int) ([]slo.Transition, error) {
	return r.moves, r.err
}
func (r records) Measures(context.Context, string, time.Time, int) ([]Measure, error) {
	return r.measures, r.err
}
func (r records) MeasureTurns(context.Context, time.Time) ([]retrylog.Transition, error) {
	return r.turns, r.err
}

type evaluated []slo.Status

func (e evaluated) Statuses() []slo.Status { return e }

func deskOf(statuses []slo.Status, known Known) *Desk {
	b := NewBook(nil, nil)
	b.policies, b.known = known.Policies, known
	return NewDesk(evaluated(statuses), b, nil, func() time.Time { return noon })
}

func TestFreezesThatWereAndAre(t *testing.T) {
	hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	move := func(service string, n int, from, to slo.Level) slo.Transition {
		return slo.Transition{Service: service, Objective: service + "-availability", Env: "prod", At: hour(n), From: from, To: to, Reason: string(from) + " to " + string(to)}
	}
	until, ended := hour(-1), hour(-2)
	frozen := at("order", slo.Frozen, 0)
	frozen.FrozenAt = hour(-5)
	old := at("points", slo.Frozen, 0)
	old.FrozenAt = hour(-1000)
	d := deskOf([]slo.Status{frozen, old, at("coupon", slo.Normal, 0)}, Known{Orders: []Order{
		{ID: "f-1", Service: "coupon", By: "ann", Reason: "sale day", At: hour(-3), Until: &until},
		{ID: "f-2", Service: "coupon", By: "ann", Reason: "by mistake", At: hour(-4), EndedBy: "bob", EndedAt: &ended},
		{ID: "f-3", Service: "coupon", By: "ann", Reason: "long ago", At: hour(-900), Until: &until},
	}})
	// As the store has them: newest first.
	history := records{moves: []slo.Transition{
		move("order", -5, slo.Emergency, slo.Frozen),
		move("search", -6, slo.Unknown, slo.Emergency), // what became unknown while frozen was not over
		move("order", -8, slo.Frozen, slo.Emergency),
		move("order", -9, slo.Unknown, slo.Frozen),
		move("order", -9, slo.Frozen, slo.Unknown),
		move("order", -12, slo.Emergency, slo.Frozen),
		move("payment", -20, slo.Frozen, slo.Normal), // began before
	}}
	ctx := auth.With(t.Context(), auth.Principal{Name: "ann", Role: auth.Viewer})
	list, err := d.Frozen(ctx, history, "", hour(-24))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		text := s.Service + " " + s.From.Format("02T15") + "-"
		if s.To != nil {
			text += s.To.Format("02T15")
		}
		if s.Earlier {
			text += " earlier"
		}
		if s.By != "" {
			text += " by " + s.By + ", " + s.Ended
		}
		got = append(got, text)
	}
	want := []string{"coupon 10T09-10T11 by ann, its time was over", "coupon 10T08-10T10 by ann, taken back by bob", "order 10T07-", "order 10T00-10T04",
		"coupon 09T12-10T11 earlier by ann, its time was over", "payment 09T12-09T16 earlier", "points 09T12- earlier"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	ask := func(query string, services ...string) (int, string) {
		r := httptest.NewRequest("GET", "/api/v1/freezes/history?"+query, nil)
		r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "ci", Role: auth.Pipeline, Services: services}))
		w := httptest.NewRecorder()
		d.History(history)(w, r)
		return w.Code, w.Body.String()
	}
	if code, text := ask("service=order&days=7", "order", "points"); code != 200 || strings.Count(text, `"service":"order"`) != 2 || strings.Contains(text, "points") {
		t.Errorf("of one service: %d %s", code, text)
	}
	if code, text := ask("", "points"); code != 200 || strings.Count(text, `"service":`) != 1 {
		t.Errorf("out of scope: %d %s", code, text)
	}
	if code, _ := ask("days=8"); code != 400 {
		t.Errorf("of eight days: %d", code)
	}
	history.err = errors.New("away")
	if code, _ := ask(""); code != 503 {
		t.Errorf("with the database away: %d, not an empty list", code)
	}
}

func TestWhatProtectsIsShownWithItsEnd(t *testing.T) {
	p := Default()
	p.Name = "shop"
	p.Acts = []Act{{From: slo.Emergency, Drills: RefuseDrills}, {From: slo.Frozen, Keep: KeepDefault, Limit: &LimitChange{Direction: Tighten, FactorPPM: 500_000}}}
	frozen, blind := at("order", slo.Frozen, 0), at("points", slo.Frozen, 3*time.Minute)
	frozen.ThawAt = noon.Add(4 * time.Hour)
	over := noon.Add(-time.Hour)
	m := func(id, service string, kind MeasureKind, seen time.Duration, change func(*Measure)) Measure {
		x := Measure{ID: id, Kind: kind, Service: service, Env: "prod", State: slo.Frozen, Policies: []string{"shop"}, From: noon.Add(-2 * time.Hour), SeenAt: noon.Add(-seen)}
		if change != nil {
			change(&x)
		}
		return x
	}
	turn := func(minutes int, gateway, service, from, to string) retrylog.Transition {
		return retrylog.Transition{At: noon.Add(time.Duration(minutes) * time.Minute), Gateway: gateway, Env: "prod", Service: service, From: from, To: to}
	}
	archive := records{measures: []Measure{
		m("m-1", "order", Shed, 0, func(m *Measure) { m.Keep = KeepDefault }),
		m("m-2", "order", Limit, 0, func(m *Measure) { m.Limit = p.Acts[1].Limit }),
		m("m-3", "order", RefuseAll, 0, nil),
		m("m-4", "points", Shed, 3*time.Minute, func(m *Measure) { m.Keep = KeepDefault }),
		m("m-5", "points", RefuseAll, 11*time.Minute, nil),
		m("m-6", "order", Shed, 0, func(m *Measure) { m.Keep, m.DryRun = KeepCritical, true }),
		m("m-7", "order", Shed, 0, func(m *Measure) { m.EndedAt, m.Ended = &over, "over" }),
	}, turns: []retrylog.Transition{
		turn(-110, "gw-1", "order", "none", "shed"), turn(-110, "gw-2", "order", "none", "shed"), turn(-100, "gw-2", "order", "shed", "none"),
		turn(-90, "gw-1", "order", "none", "limit_tighten"), turn(-90, "gw-3", "points", "none", "shed"),
	}}
	d := deskOf([]slo.Status{frozen, blind}, Known{Policies: []Policy{p}})
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/api/v1/measures", nil)
	d.Measures(archive)(w, r.WithContext(auth.With(r.Context(), auth.Principal{Name: "ann", Role: auth.Viewer})))
	var answer struct{ Measures []Shown }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Measures) != 7 {
		t.Fatal(err, w.Body)
	}
	var got []string
	for _, s := range answer.Measures {
		text := s.ID + " from " + string(s.HoldsFrom)
		if s.Live {
			text += " live"
		}
		if s.UntilAt != nil {
			text += " until " + s.UntilAt.Format("15:04")
		}
		if s.LapsesAt != nil {
			text += " lapses " + s.LapsesAt.Format("15:04")
		}
		if s.Blind {
			text += " blind"
		}
		got = append(got, strings.TrimSpace(text+" "+strings.Join(s.Gateways, ",")))
	}
	want := []string{"m-1 from frozen live until 16:00 lapses 12:10 gw-1", "m-2 from frozen live until 16:00 lapses 12:10 gw-1", "m-3 from emergency live lapses 12:10",
		"m-4 from frozen live lapses 12:07 blind gw-3", "m-5 from emergency lapses 11:59 blind", "m-6 from frozen until 16:00 lapses 12:10", "m-7 from frozen"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if list, err := d.Protecting(t.Context(), archive, "", noon); err != nil || len(list) != 0 {
		t.Errorf("nobody sees %v, %v", list, err)
	}
	archive.err = errors.New("away")
	w = httptest.NewRecorder()
	if d.Measures(archive)(w, r); w.Code != 503 {
		t.Errorf("with the database away: %d", w.Code)
	}
}

// What a policy is written as says the same again.
func TestAPolicyAsItsDocument(t *testing.T) {
	texts := []string{document, "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: a\ndependants: closure\nowner: {upstreams: {pool: points}}\npasses: []\n",
		`apiVersion: breakwater/v1
kind: FreezePolicy
name: b
dependants: [cart, checkout]
owner: {share: 62.5%}
levels: {warn: 0.0125%, warn_leave: 0%, emergency: 99.9999%}
measures:
  - {from: warn, experiments: refuse}
  - {from: emergency, limit: {direction: relax, factor: 150%}}
  - {from: frozen, shed_below: critical, experiments: stop, limit: {direction: tighten, rate: 50/10s, burst: 20}}
`}
	for _, text := range texts {
		first, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(first[0].Document())
		if err != nil || len(again) != 1 || again[0].Revision() != first[0].Revision() {
			t.Errorf("%v\n%s", err, first[0].Document())
		}
	}
	p := Default()
	again, err := parse(p.Document())
	if p.Name = "default"; err != nil || again[0].Revision() != p.Revision() {
		t.Errorf("the default: %v\n%s", err, Default().Document())
	}
}
