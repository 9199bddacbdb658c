package store_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector"
	"breakwater/injector/scenario"
)

// Tests of the control side of public bugs of such tools, by the case list of the
// specification.

func (d *drill) events(id string) string {
	d.t.Helper()
	all, err := d.Events(d.t.Context(), id)
	d.must(err)
	var b strings.Builder
	for _, e := range all {
		b.WriteString(e.Kind + " " + e.Text + "\n")
	}
	return b.String()
}

func verdictOf(r injector.Run, id string) injector.Assertion {
	i := slices.IndexFunc(r.Assertions, func(a injector.Assertion) bool { return a.ID == id })
	if i < 0 {
		return injector.Assertion{}
	}
	return r.Assertions[i]
}

// C25: what is over has affected nobody since, was given back by every gateway, and
// its target has recovered. Else it is not called completed.
func TestChaos_C25_completedMeansRecovered(t *testing.T) {
	d := newDrill(t)
	e, g, deaf := d.engine(nil), newGateway("gw"), newGateway("deaf")
	d.poll(e, g)
	d.poll(e, deaf)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Recovering, g, deaf)
	// One gateway speaks and says that it still holds the rule.
	held := deaf.plan
	for range 60 {
		d.pass(time.Second)
		g.serve()
		d.poll(e, g)
		r := deaf.receipt()
		r.Armed = []plan.Armed{{Run: id, Fault: "lat", Hash: "x", PPM: 300_000}}
		d.must(d.SaveReceipt(t.Context(), d.at, r))
		d.tick(e)
	}
	if r := d.run(id); r.State != injector.Recovering {
		t.Fatalf("the run is %s while a gateway holds its rule, want recovering", r.State)
	}
	deaf.plan = held
	hits := d.run(id).Injected
	r := d.until(e, id, injector.Completed, g, deaf)
	for _, x := range r.Receipts {
		if x.RemovedAt.IsZero() {
			t.Errorf("receipt %+v, want it given back", x)
		}
	}
	points, err := d.Tallies(t.Context(), "points", id, r.RecoverAt.Add(2*time.Second), r.EndedAt.Add(time.Hour))
	d.must(err)
	for _, p := range points {
		if p.Injected > 0 {
			t.Errorf("%d tries were hit at %s, after the end", p.Injected, p.At)
		}
	}
	if hits != 0 && r.Injected < hits {
		t.Errorf("%d hits became %d", hits, r.Injected)
	}
}

// C27: a run whose gateway is dead can be aborted, ends within the lease, and can
// be deleted.
func TestChaos_C27_deadTargetCanBeAbortedAndDeleted(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	if err := e.Desk().Delete(t.Context(), id, "anna"); !errors.Is(err, injector.ErrStep) {
		t.Errorf("deleting a run under way gave %v, want a refusal", err)
	}
	d.must(e.Desk().Abort(t.Context(), id, "anna"))
	began := d.at
	r := d.until(e, id, injector.Aborted) // nobody polls any more
	if took := r.EndedAt.Sub(began); took > injector.LeaseFor+2*time.Second {
		t.Errorf("it took %v to end, want the lease of 15 s", took)
	}
	if !r.Receipts[0].ByLease || !strings.Contains(d.events(id), "receipt gateway gw gave no word") {
		t.Errorf("receipts %+v, want removal proven by the lease and told:\n%s", r.Receipts, d.events(id))
	}
	if rec := ask(mux(e), "DELETE", "/api/v1/experiments/"+id, "", ""); rec.Code != http.StatusNoContent {
		t.Fatalf("delete: %d %s", rec.Code, rec.Body)
	}
	if _, err := d.Run(t.Context(), id); !errors.Is(err, injector.ErrNotFound) {
		t.Errorf("the deleted run is %v", err)
	}
	if rec := ask(mux(e), "DELETE", "/api/v1/experiments/"+id, "", ""); rec.Code != http.StatusNotFound {
		t.Errorf("deleted twice: %d", rec.Code)
	}
}

// C28: a gateway that restarts in the middle has no fault, and the run ends once.
func TestChaos_C28_restartedGatewayEndsTheRun(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	again := newGateway("gw")
	again.boot = "gw-2"
	r := d.until(e, id, injector.Aborted, again)
	if r.Reason != string(injector.ByGateway) || r.Verdict != injector.Inconclusive || len(again.plan.Faults) != 0 {
		t.Errorf("%s %s, %d faults in the plan; want inconclusive, gateway_lost and none", r.Verdict, r.Reason, len(again.plan.Faults))
	}
	before := d.events(id)
	for range 20 {
		d.pass(time.Second)
		d.poll(e, again)
		d.tick(e)
	}
	if after := d.events(id); after != before {
		t.Errorf("it goes on:\n%s", strings.TrimPrefix(after, before))
	}
}

// C37: what is expected afterwards is looked at after the recovery, and stands there.
func TestChaos_C37_afterIsAfter(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	r := d.until(e, id, injector.Recovering, g)
	if a := verdictOf(r, "a1"); a.Result != injector.Pending {
		t.Errorf("before the recovery a1 is %+v, want pending", a)
	}
	r = d.until(e, id, injector.Completed, g)
	a := verdictOf(r, "a1")
	if a.Phase != "after" || a.Result != injector.Pass || a.N == 0 || a.From.Before(r.Receipts[0].RemovedAt) || a.Until.Before(a.From) {
		t.Errorf("a1 is %+v, want it passed on what came after %s", a, r.Receipts[0].RemovedAt)
	}
	for id, phase := range map[string]string{"s1": "steady", "d1": "during"} {
		if a := verdictOf(r, id); a.Phase != phase || a.Result != injector.Pass {
			t.Errorf("%s is %+v", id, a)
		}
	}
}

// C40: a gateway that is gone and a fault that is provably gone with it spoil no
// verdict; they are told.
func TestChaos_C40_cleanupIsANote(t *testing.T) {
	d := newDrill(t)
	e, g, dying := d.engine(nil), newGateway("gw"), newGateway("dying")
	d.poll(e, g)
	d.poll(e, dying)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g, dying)
	for range 12 {
		d.pass(time.Second)
		for _, x := range []*gateway{g, dying} {
			x.serve()
			d.poll(e, x)
		}
		d.tick(e)
	}
	r := d.until(e, id, injector.Completed, g) // the other never says goodbye
	if r.Verdict != injector.Passed || !strings.Contains(d.events(id), "receipt gateway dying gave no word") {
		t.Errorf("%s: %s, want passed with a note:\n%s", r.Verdict, r.Why, d.events(id))
	}
}

// C42: where the hypothesis breaks, the fault is taken back all the same.
func TestChaos_C42_faultsAreTakenBackWhenTheHypothesisBreaks(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.badPer = 20
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	r := d.until(e, id, injector.Aborted, g)
	if r.Verdict != injector.Failed || r.Reason != string(injector.ByCondition) {
		t.Errorf("%s %s, want failed by its stop condition", r.Verdict, r.Reason)
	}
	if len(r.Receipts) != 1 || r.Receipts[0].RemovedAt.IsZero() || r.Receipts[0].ByLease || len(g.plan.Faults) > 0 {
		t.Errorf("receipts %+v, want one that was given back by word", r.Receipts)
	}
}

// C44: a rule that is refused once it is to hit somebody says so, and is no pass.
func TestChaos_C44_refusedWhenItIsToHit(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	g.refuse = "share 300000 ppm is over this gateway's cap"
	r := d.until(e, id, injector.Aborted, g)
	if r.Verdict != injector.Inconclusive || r.Reason != string(injector.ByRefusal) || !strings.Contains(d.events(id), "over this gateway's cap") {
		t.Errorf("%s (%s): %s\n%s", r.Verdict, r.Reason, r.Why, d.events(id))
	}
}

// C45: an expectation that broke during the injection fails the run.
func TestChaos_C45_brokenExpectationFails(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.badPer = 5 // 10 %, below the brake
	d.poll(e, g)
	r := d.until(e, d.start(e, slowPoints).ID, injector.Completed, g)
	if a := verdictOf(r, "d1"); r.Verdict != injector.Failed || a.Result != injector.Fail || !strings.HasPrefix(r.Why, "d1") {
		t.Errorf("%s: %s, d1 %+v", r.Verdict, r.Why, a)
	}
}

// C46: a target that stays broken after the fault has gone fails the run.
func TestChaos_C46_brokenAfterwardsFails(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Recovering, g)
	for range 40 {
		d.pass(time.Second)
		g.serve()
		g.tally("", "order").Good -= 20
		g.tally("", "order").Bad += 20
		d.poll(e, g)
		d.tick(e)
	}
	r := d.run(id)
	if a := verdictOf(r, "a1"); r.State != injector.Completed || r.Verdict != injector.Failed || a.Result != injector.Fail || !strings.HasPrefix(r.Why, "a1") {
		t.Errorf("%s %s: %s, a1 %+v", r.State, r.Verdict, r.Why, a)
	}
}

// What a gateway's events say reaches the verdict, with rows to look at.
const tripping = `apiVersion: breakwater/v1
kind: Scenario
id: tripping
target: {service: points}
sample: {percent: "100%"}
phases: {baseline: 5s, inject: 40s, recover: 5s}
faults: [{id: err, error: {status: 503}}]
hypothesis:
  steady: [{id: s1, sli: order.success, op: ">=", value: "99%"}]
  during:
    - {id: d1, breaker: points, event: opened, within: 10s}
    - {id: d2, ratio: degraded/matched, while: "breaker(points)=open", op: ">=", value: "95%"}
    - {id: d3, config: unchanged}
  after: [{id: a1, breaker: points, event: closed, within: 60s}]
stop: [{sli: order.error_rate, op: ">", value: "20%", for: 5s}]
`

func TestBreakerEventsReachTheVerdict(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.config = "abcdef12"
	d.poll(e, g)
	id := d.start(e, tripping).ID
	r := d.until(e, id, injector.Injecting, g)
	opened := r.InjectAt.Add(4 * time.Second)
	d.turn("points", "gw", "", opened, "closed", "open")
	d.turn("points", "gw", "10.0.0.1:80", opened, "open", "closed") // an endpoint's own
	g.degrades = true
	d.until(e, id, injector.Recovering, g)
	g.degrades = false
	d.turn("points", "gw", "", d.at.Add(3*time.Second), "half_open", "closed")
	for range 30 {
		d.heard("gw", d.at)
		d.pass(time.Second)
		g.serve()
		d.poll(e, g)
		d.tick(e)
	}
	r = d.run(id)
	if r.State != injector.Completed || r.Verdict != injector.Passed {
		t.Fatalf("%s %s: %s\n%+v", r.State, r.Verdict, r.Why, r.Assertions)
	}
	if a := verdictOf(r, "d1"); len(a.Rows) != 1 || !a.Rows[0].At.Equal(opened) {
		t.Errorf("d1 rests on %+v, want the one opening", a.Rows)
	}
	if a := verdictOf(r, "d2"); a.N < 1000 || !strings.HasPrefix(a.Seen, "100 %") {
		t.Errorf("d2 saw %s of %d", a.Seen, a.N)
	}
	if i := slices.IndexFunc(r.Cohorts, func(p injector.Part) bool { return p.Phase == "during" && p.Cohort == scenario.Exposed }); i < 0 {
		t.Errorf("no exposed cohort in %+v", r.Cohorts)
	}
	var out struct {
		Evidence string `json:"evidence"`
		Rows     []struct {
			Text string `json:"text"`
		} `json:"rows"`
		Points []struct {
			Degraded int64 `json:"degraded"`
		} `json:"points"`
		Exchanges []struct {
			RequestID string   `json:"request_id"`
			Faults    []string `json:"faults"`
		} `json:"exchanges"`
	}
	d.touched(id, "req-7", "err")
	decode(t, ask(mux(e), "GET", "/api/v1/experiments/"+id+"/evidence/d1", "", ""), &out)
	if out.Evidence != "/api/v1/experiments/"+id+"/evidence/d1" || len(out.Rows) != 1 || len(out.Points) == 0 || out.Points[0].Degraded == 0 ||
		len(out.Exchanges) != 1 || out.Exchanges[0].RequestID != "req-7" || out.Exchanges[0].Faults[0] != "err" {
		t.Errorf("evidence %+v", out)
	}
	if rec := ask(mux(e), "GET", "/api/v1/experiments/"+id+"/evidence/nothing", "", ""); rec.Code != http.StatusNotFound {
		t.Errorf("evidence of nothing: %d", rec.Code)
	}
}

// Without events nothing that would stand in them is taken for not having happened.
func TestLateEventsAreWaitedForAndThenNoData(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.config = "abcdef12"
	d.poll(e, g)
	r := d.until(e, d.start(e, tripping).ID, injector.Completed, g)
	if a := verdictOf(r, "d1"); r.Verdict != injector.Inconclusive || a.Result != injector.NoData {
		t.Errorf("%s: %s, d1 %+v", r.Verdict, r.Why, a)
	}
}
