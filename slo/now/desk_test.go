package now

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

// books is a ledger that may go away, and the evaluation that stays in memory.
type books struct {
	away     bool
	evidence map[string]Evidence
	statuses []slo.Status
}

func (b *books) NowEvidence(_ context.Context, service, env string, at time.Time) (Evidence, error) {
	if b.away {
		return Evidence{}, errors.New("connection refused")
	}
	e := b.evidence[service]
	e.Service, e.Env, e.At = service, env, at
	return e, nil
}

func (b *books) Statuses() []slo.Status { return b.statuses }

func status(service string, bad, valid int64) slo.Status {
	return slo.Status{Objective: slo.Objective{ID: service + "-availability", Service: service, TargetPPB: 999_500_000, Window: 30 * 24 * time.Hour}, Env: "prod", Level: slo.Normal, DataUntil: noon,
		Burns: []slo.Burn{{Window: 5 * time.Minute, Bad: bad, Valid: valid, RateMilli: 240_000}}}
}

func ask(t *testing.T, d *Desk, query string, who auth.Principal) (Answer, int) {
	t.Helper()
	r := httptest.NewRequest("GET", "/api/v1/now"+query, nil)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
	var a Answer
	if w.Code == 200 {
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
	}
	return a, w.Code
}

func TestTheDeskAnswers(t *testing.T) {
	at := noon.Add(50 * time.Second)
	b := &books{evidence: map[string]Evidence{"order": failing(100, append(instances(16, 16, 16, 16, 18, 18), facet(ByKind, errorsKind, 100, 100, 0), facet(ByCaller, "web", 100, 300, 9000))...),
		"stock": failing(60, append(instances(60, 0, 0, 0, 0, 0), facet(ByKind, errorsKind, 60, 60, 0))...), "coupon": {Minutes: minutesOf(repeat(20, [2]int64{600, 0})...)}},
		statuses: []slo.Status{status("coupon", 0, 3000), status("order", 300, 3000), status("stock", 100, 3000)}}
	order := b.evidence["order"]
	order.Dependencies = []Dependency{{Service: "stock", Hits: 95, Total: 200, WasTotal: 9000}}
	b.evidence["order"] = order
	d := &Desk{Ledger: b, Source: b, Clock: func() time.Time { return at }, Measures: func(string, string) []string { return []string{"sheddable requests are shed"} }}
	viewer := auth.Principal{Name: "eve", Role: auth.Viewer}

	a, code := ask(t, d, "", viewer)
	if code != 200 || a.Situation == nil || a.Situation.Service != "stock" || len(a.Others) != 1 || a.Others[0].Service != "order" || len(a.Services) != 3 || a.Services[2].Service != "coupon" {
		t.Fatalf("%d: whom others wait for goes first: %+v", code, a)
	}
	if a, _ := ask(t, d, "?service=coupon", viewer); a.Situation.State != Fine || len(a.Situation.Causes) != 0 {
		t.Errorf("coupon is %+v", a.Situation)
	}
	if _, code := ask(t, d, "?service=order", auth.Principal{Name: "eve", Role: auth.Viewer, Services: []string{"coupon"}}); code != 403 {
		t.Errorf("out of scope: %d", code)
	}
	if a, _ := ask(t, d, "", auth.Principal{Name: "eve", Role: auth.Viewer, Services: []string{"coupon"}}); len(a.Services) != 1 || a.Situation.Service != "coupon" {
		t.Errorf("what is out of scope is not listed: %+v", a.Services)
	}
	text := a.Others[0].Text()
	for _, want := range []string{"order is failing since 12:00:20Z", "WHO IS HIT", "BY WHAT MEASURE", "WHAT PROTECTS", "sheddable requests are shed", "1. dependency"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if first := strings.Index(text, "WHO IS HIT"); first < 0 || first > strings.Index(text, "BY WHAT MEASURE") || strings.Index(text, "BY WHAT MEASURE") > strings.Index(text, "WHAT PROTECTS") || strings.Index(text, "WHAT PROTECTS") > strings.Index(text, "LIKELY CAUSES") {
		t.Errorf("the three answers go first:\n%s", text)
	}
}

// With the database away the desk says what it knew, and until when.
func TestTheDeskRemembers(t *testing.T) {
	at := noon.Add(50 * time.Second)
	b := &books{evidence: map[string]Evidence{"order": failing(100, append(instances(0, 98, 0, 2, 0, 0), facet(ByKind, errorsKind, 100, 100, 0))...), "coupon": {Minutes: minutesOf([2]int64{600, 0})}},
		statuses: []slo.Status{status("coupon", 0, 3000), status("order", 300, 3000), status("stock", 0, 3000)}}
	d := &Desk{Ledger: b, Source: b, Clock: func() time.Time { return at }}
	d.Tick(t.Context(), at)
	d.Tick(t.Context(), at) // the calm ones in turn
	b.away = true
	at = at.Add(20 * time.Minute)
	d.Tick(t.Context(), at)
	s := d.Situation(t.Context(), "order", "prod")
	if !s.Stale || s.State != Hit || len(s.Causes) == 0 || s.Causes[0].Subject != "order-2" || !strings.HasPrefix(s.Headline, "The database is away, data reaches until 12:00:49Z.") {
		t.Errorf("%+v", s)
	}
	if s := d.Situation(t.Context(), "unheard", "prod"); !s.Stale || s.State != NoData || s.Who.HitPPM != nil || s.Who.Text != "no data" {
		t.Errorf("what was never seen is no data: %+v", s)
	}
}

// A quiet or silent service is not fine, and not at 0 %.
func TestUX_R2_NoDataIsSaid(t *testing.T) {
	s := Assess(Evidence{Service: "order", Env: "prod", Until: noon.Add(-time.Hour)}, []slo.Status{{Objective: slo.Objective{ID: "o", Service: "order", TargetPPB: 999_000_000}, Budget: slo.Budget{NoData: true}, Level: slo.Unknown}}, noon)
	b, err := json.Marshal(s)
	if err != nil || s.State != NoData || s.Who.HitPPM != nil || s.Measure.SuccessPPM != nil || s.Measure.RemainingPPM != nil || s.Since != nil {
		t.Errorf("%s, %v", b, err)
	}
	if !strings.Contains(s.Text(), "reports reach until 11:00:00Z") || strings.Contains(s.Text(), "NaN") {
		t.Errorf("the text is\n%s", s.Text())
	}
}

// An outage that is over is over on the page and in the list, and who is hit still comes first.
func TestWhatIsOverIsNotFirst(t *testing.T) {
	over := minutesOf(append(append(repeat(20, [2]int64{600, 0}), [2]int64{600, 300}), repeat(4, [2]int64{600, 0})...)...)
	d := &Desk{Ledger: &books{evidence: map[string]Evidence{"order": {Minutes: over, Until: noon.Add(50 * time.Second)}, "stock": failing(60)}},
		Source: &books{statuses: []slo.Status{status("order", 300, 3000), status("stock", 60, 3000)}}, Clock: func() time.Time { return noon.Add(50 * time.Second) }, Env: "prod"}
	a := d.Answer(t.Context(), "", "", func(string) bool { return true })
	if a.Situation.Service != "stock" || a.Situation.State != Hit || len(a.Others) != 1 || a.Others[0].State != Fine {
		t.Fatalf("first %s, %s; then %+v", a.Situation.Service, a.Situation.State, a.Others)
	}
	if who := a.Others[0].Who; who.HitPPM == nil || *who.HitPPM != 0 {
		t.Errorf("order is fine, and %s", who.Text)
	}
	if s := a.Services; s[0].Service != "order" || s[0].State != Fine || s[1].State != Hit {
		t.Errorf("the list says %+v", s)
	}
}

// Between the last report and the end of ten minutes nobody complains, since nobody
// speaks: that is no data either, on the page of a service and in the list of all.
func TestSilenceIsNotFine(t *testing.T) {
	minutes := minutesOf(repeat(20, [2]int64{600, 0})...)
	for _, tt := range []struct {
		name   string
		since  time.Duration // the last minute, before now
		until  time.Duration // reports, before now; 0: nobody reports
		state  State
		silent bool
	}{
		{"all is heard", 30 * time.Second, time.Second, Fine, false},
		{"a quiet service of a gateway that reports", 6 * time.Minute, time.Second, Fine, false},
		{"no gateway, and minutes of another way", 2 * time.Minute, 0, Fine, false},
		{"no gateway for four minutes", 4 * time.Minute, 0, NoData, true},
		{"a gateway that is far behind", 6 * time.Minute, 6 * time.Minute, NoData, true},
		{"nothing for long", 11 * time.Minute, time.Second, NoData, false},
	} {
		at := noon.Add(tt.since)
		e := Evidence{Service: "order", Env: "prod", At: at, Minutes: minutes}
		if tt.until > 0 {
			e.Until = at.Add(-tt.until)
		}
		s := Assess(e, nil, at)
		if s.State != tt.state || s.Silent != tt.silent || s.Silent && (s.Who.HitPPM != nil || !strings.Contains(s.Headline, "no gateway has reported for three minutes")) {
			t.Errorf("%s: %s, silent %v, %s, want %s, %v", tt.name, s.State, s.Silent, s.Headline, tt.state, tt.silent)
		}
	}
	for after, want := range map[time.Duration]State{3 * time.Minute: Fine, 4 * time.Minute: NoData} {
		d := &Desk{Source: &books{statuses: []slo.Status{status("order", 0, 3000)}}, Clock: func() time.Time { return noon.Add(after) }}
		if list := d.briefs(); list[0].State != want {
			t.Errorf("%v after the last report it is %s in the list, want %s", after, list[0].State, want)
		}
	}
}

// Names that clients choose are no markup.
func TestMarkdownIsPlain(t *testing.T) {
	s := Assess(failing(90, facet(ByCaller, "[x](http://evil)*", 90, 100, 900), facet(ByCaller, "web", 0, 400, 9000), facet(ByKind, errorsKind, 90, 90, 0)), nil, noon.Add(50*time.Second))
	if text := s.Markdown(); strings.Contains(strings.ReplaceAll(text, `\[`, ""), "[x") || !strings.Contains(text, `\[x](http://evil)\*`) {
		t.Errorf("%s", text)
	}
}
