package store_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
	"breakwater/injector/search"
)

// edge looks for how late points may be.
const edge = `apiVersion: breakwater/v1
kind: Scenario
id: edge-of-points
target: {service: points}
sample: {percent: "100%"}
phases: {baseline: 2s, inject: 3s, recover: 1s}
faults: [{id: lat, latency: {dist: fixed, value: 5s}}]
hypothesis:
  steady: [{id: s1, sli: order.success, op: ">=", value: "99%"}]
  during: [{id: d1, sli: order.error_rate, op: "<=", value: "3%"}]
stop: [{sli: order.error_rate, op: ">", value: "50%", for: 60s}]
search: {knob: faults.lat.latency.value, from: 5s, to: 0s, resolution: 1s, when: failed}
`

// found drives the world until search id has ended.
func (d *drill) found(e *injector.Engine, id string, gs ...*gateway) injector.Search {
	d.t.Helper()
	for range 1200 {
		s, err := d.Search(d.t.Context(), id)
		d.must(err)
		if s.Ended() {
			return s
		}
		d.second(e, gs...)
	}
	s, _ := d.Search(d.t.Context(), id)
	d.t.Fatalf("search %s never ended: %+v", id, s)
	return s
}

// second is one second of the world.
func (d *drill) second(e *injector.Engine, gs ...*gateway) {
	d.t.Helper()
	d.pass(time.Second)
	for _, g := range gs {
		g.serve()
		d.poll(e, g)
	}
	d.tick(e)
	for _, g := range gs {
		d.poll(e, g)
	}
}

// probing drives the world until the probe after n others is in state.
func (d *drill) probing(e *injector.Engine, id string, n int, state injector.State, gs ...*gateway) injector.Search {
	d.t.Helper()
	for range 300 {
		d.second(e, gs...)
		s, err := d.Search(d.t.Context(), id)
		d.must(err)
		if len(s.Probes) == n && s.Run != "" && d.run(s.Run).State == state {
			return s
		}
	}
	s, _ := d.Search(d.t.Context(), id)
	d.t.Fatalf("the probe after %d never came to %s: %+v", n, state, s)
	return s
}

func (d *drill) seek(e *injector.Engine) injector.Search {
	d.t.Helper()
	s, err := e.Desk().Seek(d.t.Context(), "", edge, "anna")
	d.must(err)
	return s
}

func TestChaos_B4_search(t *testing.T) {
	d := newDrill(t)
	var worse []injector.Assertion
	e, g := injector.New(injector.Config{Ledger: d, Log: quiet(), Actor: func(context.Context) string { return "anna" },
		Worse: func(_ context.Context, _ injector.Search, a injector.Assertion) error {
			worse = append(worse, a)
			return nil
		}}), newGateway("gw")
	g.badPer, g.bears = 10, 1900
	d.poll(e, g)
	first := d.found(e, d.seek(e).ID, g)
	if first.Verdict != search.Found || first.Pass > 1900 || first.Fail <= 1900 || first.Fail-first.Pass > 1000 || first.Change != search.Fresh {
		t.Fatalf("%s: %s, between %d and %d (%s)", first.Verdict, first.Why, first.Pass, first.Fail, first.Change)
	}
	if first.Probes[0].Value != 5000 || first.Probes[0].Result != search.Fail {
		t.Errorf("the first probe is %+v, want the shock", first.Probes[0])
	}
	for _, p := range first.Probes {
		r := d.run(p.Run)
		if r.Search != first.ID || r.Knob != p.Value || r.Hash != first.Hash || p.Injected == 0 || r.Receipts[0].RemovedAt.IsZero() || len(r.Assertions) != 2 {
			t.Errorf("probe %+v is run %+v: want a whole run of the same document, leased and given back", p, r)
		}
		if r.BaselineAt.IsZero() || r.InjectAt.Sub(r.BaselineAt) < 2*time.Second || r.InjectAt.Before(first.StartedAt) {
			t.Errorf("probe %s has no baseline of its own", p.Run)
		}
	}

	// The same system again: the boundary is where it was.
	second := d.found(e, d.seek(e).ID, g)
	if second.Change != search.Same || second.Previous != first.ID || len(worse) != 0 {
		t.Errorf("the second search says %s of %s, worse %v", second.Change, second.Previous, worse)
	}
	// It has become worse by more than the resolution, and every promise still holds at rest.
	g.bears = 700
	third := d.found(e, d.seek(e).ID, g)
	if third.Change != search.Worse || len(worse) != 1 || worse[0].ID != "boundary" || worse[0].Result != injector.Fail || !strings.Contains(third.Why, "before: bears") {
		t.Errorf("a boundary that fell from 1900 to 700 ms is %s: %s; told %+v", third.Change, third.Why, worse)
	}
	// It bears the shock.
	g.bears = 10_000
	fourth := d.found(e, d.seek(e).ID, g)
	if fourth.Verdict != search.Holds || fourth.Change != search.Better || len(fourth.Probes) != 2 || !strings.HasPrefix(fourth.Why, "holds at 5000 ms") {
		t.Errorf("a system that bears the shock: %s, %s, %d probes, %s", fourth.Verdict, fourth.Why, len(fourth.Probes), fourth.Change)
	}
}

func TestChaos_B4_followsAFailedRun(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.badPer, g.bears = 10, 700
	d.poll(e, g)
	r := d.until(e, d.start(e, edge).ID, injector.Completed, g)
	if r.Verdict != injector.Failed {
		t.Fatalf("%s: %s", r.Verdict, r.Why)
	}
	all, err := e.Desk().Boundaries(t.Context(), "edge-of-points", 10)
	d.must(err)
	if len(all) != 1 || all[0].Follows != r.ID || len(all[0].Probes) != 1 || all[0].Probes[0].Result != search.Fail || all[0].Probes[0].Injected == 0 {
		t.Fatalf("after the failed run: %+v", all)
	}
	s := d.found(e, all[0].ID, g)
	if s.Verdict != search.Found || s.Pass > 700 || s.Fail <= 700 {
		t.Errorf("%s: %s", s.Verdict, s.Why)
	}
	if all, _ = e.Desk().Boundaries(t.Context(), "", 10); len(all) != 1 {
		t.Errorf("%d searches, want one: a probe begins none", len(all))
	}
	if !strings.Contains(d.events(r.ID), "the search "+s.ID) {
		t.Errorf("the run does not tell of its search:\n%s", d.events(r.ID))
	}
}

// A search whose control is gone is never resumed, by it or another one.
func TestChaos_B4_engineLost(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.badPer, g.bears = 10, 1900
	d.poll(e, g)
	id := d.seek(e).ID
	d.probing(e, id, 2, injector.Injecting, g)
	other := d.engine(nil) // and e does nothing any more
	s := d.found(other, id, g)
	if s.Verdict != search.Undone || s.Reason != string(injector.ByEngine) || len(s.Probes) > 3 {
		t.Fatalf("%s %s after %d probes, want undone for engine_lost", s.Verdict, s.Reason, len(s.Probes))
	}
	for range 40 {
		d.second(other, g)
	}
	active, err := d.ActiveRuns(t.Context())
	d.must(err)
	if len(active) != 0 || len(g.plan.Faults) != 0 {
		t.Errorf("runs %v and %d faults go on", active, len(g.plan.Faults))
	}
}

// The same of one that waits between two probes.
func TestChaos_B4_engineLostBetweenProbes(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.badPer = 10
	d.poll(e, g)
	s := d.probing(e, d.seek(e).ID, 0, injector.Recovering, g)
	d.turn("points", "gw", "", d.at, "closed", "open")
	for len(s.Probes) == 0 {
		d.second(e, g)
		var err error
		s, err = d.Search(t.Context(), s.ID)
		d.must(err)
		if d.at.Sub(s.StartedAt) > 5*time.Minute {
			t.Fatalf("the first probe never ended: %+v", s)
		}
	}
	d.turn("points", "gw", "", d.at, "open", "closed")
	d.pass(injector.LeaseFor + time.Second)
	other := d.engine(nil)
	done := d.found(other, s.ID, g)
	if done.Reason != string(injector.ByEngine) || len(done.Probes) != 1 {
		t.Errorf("%s %s after %d probes, want engine_lost after one", done.Verdict, done.Reason, len(done.Probes))
	}
	// Who had it writes no more.
	if err := d.SaveSearch(t.Context(), s); !errors.Is(err, injector.ErrFenced) {
		t.Errorf("the old owner's write gave %v", err)
	}
}

func TestChaos_B4_isStopped(t *testing.T) {
	for _, tt := range []struct {
		how    string
		stop   func(d *drill, e *injector.Engine, s injector.Search) error
		reason injector.Reason
	}{
		{"the search is ended", func(d *drill, e *injector.Engine, s injector.Search) error {
			return e.Desk().Abandon(d.t.Context(), s.ID, "bert")
		}, injector.ByUser},
		{"its probe is aborted", func(d *drill, e *injector.Engine, s injector.Search) error {
			return e.Desk().Abort(d.t.Context(), s.Run, "bert")
		}, injector.ByUser},
		{"everything is halted", func(d *drill, e *injector.Engine, _ injector.Search) error {
			return e.Desk().HaltAll(d.t.Context(), "bert")
		}, injector.ByHalt},
	} {
		t.Run(tt.how, func(t *testing.T) {
			d := newDrill(t)
			e, g := d.engine(nil), newGateway("gw")
			g.badPer = 10
			d.poll(e, g)
			s := d.probing(e, d.seek(e).ID, 0, injector.Injecting, g)
			d.must(tt.stop(d, e, s))
			d.must(tt.stop(d, e, s)) // again: the same
			done := d.found(e, s.ID, g)
			if done.Verdict != search.Undone || done.Reason != string(tt.reason) || len(done.Probes) != 1 {
				t.Errorf("%s %s after %d probes: %s", done.Verdict, done.Reason, len(done.Probes), done.Why)
			}
			if len(g.plan.Faults) != 0 {
				t.Errorf("%d faults go on", len(g.plan.Faults))
			}
		})
	}
}

// A probe waits until the breaker is closed again, and has to afford itself.
func TestChaos_B4_coolsDownAndAffords(t *testing.T) {
	d := newDrill(t)
	money := &budgets{Known: true, TargetPPB: 999_000_000, Allowed: 1000, RemainingPPM: 1_000_000}
	e, g := d.engine(money), newGateway("gw")
	g.badPer = 10
	d.poll(e, g)
	id := d.seek(e).ID
	s := d.probing(e, id, 0, injector.Recovering, g)
	d.turn("points", "gw", "", d.at, "closed", "open")
	for range 20 {
		d.second(e, g)
	}
	runs, err := d.Runs(t.Context(), 100)
	d.must(err)
	if s, _ = d.Search(t.Context(), id); len(s.Probes) != 1 || s.Run != "" || len(runs) != 1 {
		t.Fatalf("it goes on over an open breaker: %+v", s)
	}
	d.turn("points", "gw", "", d.at, "open", "closed")
	for range 10 {
		d.second(e, g)
	}
	if s, _ = d.Search(t.Context(), id); s.Run == "" {
		t.Fatalf("it does not go on once the breaker is closed: %+v", s)
	}
	money.Frozen = true
	if s = d.found(e, id, g); s.Reason != string(injector.ByFreeze) {
		t.Errorf("a frozen service ends it by %s: %s", s.Reason, s.Why)
	}
}

func TestSearchByAPI(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	m := mux(e)
	rec := ask(m, "POST", "/api/v1/searches", "text/yaml", edge)
	if rec.Code != http.StatusCreated {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	id := strings.TrimPrefix(rec.Header().Get("Location"), "/api/v1/searches/")
	if rec := ask(m, "POST", "/api/v1/searches", "text/yaml", edge); rec.Code != http.StatusConflict {
		t.Errorf("a second search of the same service: %d %s", rec.Code, rec.Body)
	}
	if rec := ask(m, "POST", "/api/v1/searches", "text/yaml", slowPoints); rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "search block") {
		t.Errorf("a scenario that looks for nothing: %d %s", rec.Code, rec.Body)
	}
	done := d.found(e, id, g)
	if done.Verdict != search.Holds {
		t.Fatalf("%s: %s", done.Verdict, done.Why)
	}
	rec = ask(m, "GET", "/api/v1/searches/"+id, "", "")
	for _, want := range []string{`"state":"ended"`, `"verdict":"holds"`, `"hard":"5000 ms"`, `"settings":"`, `"change":"first"`} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s is not in %s", want, rec.Body)
		}
	}
	if rec := ask(m, "GET", "/api/v1/searches?scenario=edge-of-points", "", ""); !strings.Contains(rec.Body.String(), id) {
		t.Errorf("list: %s", rec.Body)
	}
	if rec := ask(m, "GET", "/api/v1/searches/s-none", "", ""); rec.Code != http.StatusNotFound {
		t.Errorf("an unknown search: %d", rec.Code)
	}
	if rec := ask(m, "POST", "/api/v1/searches/"+id+"/abort", "", ""); rec.Code != http.StatusOK {
		t.Errorf("the abort of one that has ended: %d %s", rec.Code, rec.Body)
	}
}

// A system that is not well at rest is waited for: its baselines are no probes.
func TestChaos_B4_waitsForTheBand(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	s := d.probing(e, d.seek(e).ID, 0, injector.Recovering, g)
	for range 40 { // nobody calls: nothing shows that the promises hold
		d.pass(time.Second)
		d.poll(e, g)
		d.tick(e)
		d.poll(e, g)
	}
	runs, err := d.Runs(t.Context(), 100)
	d.must(err)
	s, err = d.Search(t.Context(), s.ID)
	d.must(err)
	if s.Ended() || len(s.Probes) > 1 || len(runs) < 4 {
		t.Fatalf("after 40 s without traffic: %d probes, %d runs, %s", len(s.Probes), len(runs), s.Why)
	}
	if s = d.found(e, s.ID, g); s.Verdict != search.Holds {
		t.Errorf("%s: %s", s.Verdict, s.Why)
	}
}

func TestSearchesAreFenced(t *testing.T) {
	d := newDrill(t)
	s := injector.Search{ID: "s-1", Scenario: "x", Service: "points", Text: "text", Owner: "a", StartedAt: d.at}
	d.must(d.AddSearch(t.Context(), s, d.at))
	if err := d.AddSearch(t.Context(), injector.Search{ID: "s-2", Service: "points", Owner: "b", StartedAt: d.at}, d.at); !errors.Is(err, injector.ErrOverlap) {
		t.Errorf("a second one on the service gave %v", err)
	}
	d.must(d.StopSearch(t.Context(), "s-1", "user"))
	mine, left, err := d.HoldSearches(t.Context(), "a", d.at.Add(10*time.Second))
	if err != nil || len(mine) != 1 || len(left) != 0 || mine[0].Stop != "user" || mine[0].Text != "text" {
		t.Fatalf("%+v %+v %v", mine, left, err)
	}
	if mine, left, err = d.HoldSearches(t.Context(), "b", d.at.Add(20*time.Second)); err != nil || len(mine)+len(left) != 0 {
		t.Errorf("another owner gets %v %v, %v before the lease is over", mine, left, err)
	}
	if _, left, err = d.HoldSearches(t.Context(), "b", d.at.Add(25*time.Second)); err != nil || len(left) != 1 {
		t.Errorf("another owner gets %v, %v once it is over", left, err)
	}
	if err := d.SaveSearch(t.Context(), s); !errors.Is(err, injector.ErrFenced) {
		t.Errorf("the old owner's write gave %v", err)
	}
	if mine, left, err = d.HoldSearches(t.Context(), "a", d.at.Add(26*time.Second)); err != nil || len(mine)+len(left) != 0 {
		t.Errorf("the old owner gets %v %v, %v", mine, left, err)
	}
	if _, err := d.Search(t.Context(), "s-9"); !errors.Is(err, injector.ErrNotFound) {
		t.Errorf("an unknown one gave %v", err)
	}
	if err := d.StopSearch(t.Context(), "s-9", "user"); !errors.Is(err, injector.ErrStep) {
		t.Errorf("the stop of an unknown one gave %v", err)
	}
}
