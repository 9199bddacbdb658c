package store_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector"
)

// A control that is killed never says goodbye: the test just stops driving it.

func TestKilledBeforeInjectionStartsOverOnce(t *testing.T) {
	d := newDrill(t)
	first, second, third, g := d.engine(nil), d.engine(nil), d.engine(nil), newGateway("gw")
	d.poll(first, g)
	id := d.start(first, slowPoints).ID
	d.until(first, id, injector.Baseline, g)

	r := d.until(second, id, injector.Arming, g)
	if r.Starts != 2 {
		t.Errorf("started %d times, want 2", r.Starts)
	}
	r = d.until(third, id, injector.Aborted, g)
	if r.Starts != 2 || r.Verdict != injector.Inconclusive || r.Reason != "engine_lost" || !r.InjectAt.IsZero() {
		t.Errorf("%s %s after %d starts, want inconclusive, engine_lost after 2: %s", r.Verdict, r.Reason, r.Starts, r.Why)
	}
}

func TestKilledWhileInjectingIsNeverResumed(t *testing.T) {
	d := newDrill(t)
	first, second, g := d.engine(nil), d.engine(nil), newGateway("gw")
	d.poll(first, g)
	id := d.start(first, slowPoints).ID
	d.until(first, id, injector.Injecting, g)
	if n := len(g.plan.Faults); n != 1 {
		t.Fatalf("%d faults in the plan, want 1", n)
	}
	// No engine ticks; any control still serves the plan. The fault is in it for
	// one lease and not a second longer.
	alive := 0
	for range 20 {
		d.pass(time.Second)
		d.poll(second, g)
		alive += len(g.plan.Faults)
	}
	if alive == 0 || alive > 15 {
		t.Errorf("the fault outlived its engine by %d s, want at most 15", alive)
	}
	r := d.until(second, id, injector.Aborted, g)
	if r.Verdict != injector.Inconclusive || r.Reason != "engine_lost" {
		t.Errorf("%s %s: %s, want inconclusive, engine_lost", r.Verdict, r.Reason, r.Why)
	}
	// The first comes back to life and must not touch what was taken from it.
	d.tick(first)
	if r := d.run(id); r.State != injector.Aborted {
		t.Errorf("state %s after the dead came back, want aborted", r.State)
	}
}

func TestEpochFencesTheOldOwner(t *testing.T) {
	d := newDrill(t)
	first, second, g := d.engine(nil), d.engine(nil), newGateway("gw")
	d.poll(first, g)
	id := d.start(first, slowPoints).ID
	before := d.until(first, id, injector.Baseline, g)
	d.pass(injector.LeaseFor + time.Second)
	d.tick(second)
	err := d.Move(t.Context(), injector.Move{Run: id, Epoch: before.Epoch, From: injector.Arming, To: injector.Baseline, At: before.DueAt})
	if !errors.Is(err, injector.ErrFenced) {
		t.Errorf("a write under the old epoch gave %v, want ErrFenced", err)
	}
	if after := d.run(id); after.Epoch <= before.Epoch {
		t.Errorf("epoch went from %d to %d, want it to rise", before.Epoch, after.Epoch)
	}
}

func TestGatewayGoneIsProvenByItsLease(t *testing.T) {
	d := newDrill(t)
	e, g, dead := d.engine(nil), newGateway("gw"), newGateway("dies")
	d.poll(e, g)
	d.poll(e, dead)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g, dead)
	r := d.until(e, id, injector.Aborted, g)
	if r.Reason != "gateway_lost" || r.Verdict != injector.Inconclusive {
		t.Errorf("%s %s, want inconclusive, gateway_lost", r.Verdict, r.Reason)
	}
	for _, x := range r.Receipts {
		if x.RemovedAt.IsZero() || x.ByLease != (x.Gateway == "dies") {
			t.Errorf("receipt %+v: want removal by word of gw and by lease of the dead one", x)
		}
	}
}

func TestGatewayThatRestartsEndsTheRun(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	again := newGateway("gw")
	again.boot = "gw-2"
	r := d.until(e, id, injector.Aborted, again)
	if r.Reason != "gateway_lost" {
		t.Errorf("reason %s, want gateway_lost", r.Reason)
	}
}

func TestGuardStopsOnErrors(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	g.badPer = 25
	r := d.until(e, id, injector.Aborted, g)
	if r.Verdict != injector.Failed || r.Reason != "stop_condition" {
		t.Errorf("%s %s: %s, want failed, stop_condition", r.Verdict, r.Reason, r.Why)
	}
	if took := r.RecoverAt.Sub(r.InjectAt); took > 10*time.Second {
		t.Errorf("stopped after %v of half the orders failing, want at most 10 s", took)
	}
}

func TestReliability_X160_stopWinsOverStart(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Baseline, g)
	d.must(e.Desk().HaltAll(t.Context(), "anna"))
	d.poll(e, g)
	if len(g.plan.Faults) != 0 {
		t.Errorf("the plan after the halt names %d faults", len(g.plan.Faults))
	}
	// The engine had read the run as baseline and now wants to inject.
	r := d.run(id)
	err := d.Move(t.Context(), injector.Move{Run: id, Epoch: r.Epoch, From: injector.Baseline, To: injector.Injecting, At: r.DueAt})
	if !errors.Is(err, injector.ErrFenced) {
		t.Errorf("starting after the stop gave %v, want ErrFenced", err)
	}
	d.must(e.Desk().HaltAll(t.Context(), "anna"))
	d.must(e.Desk().Abort(t.Context(), id, "anna"))
	r = d.until(e, id, injector.Aborted, g)
	if r.Reason != "halt" || r.Verdict != injector.Inconclusive {
		t.Errorf("%s %s, want inconclusive, halt", r.Verdict, r.Reason)
	}
	if _, _, err := e.Desk().Start(t.Context(), "", slowPoints, "anna"); !errors.Is(err, injector.ErrHalted) {
		t.Errorf("a start under the halt gave %v, want ErrHalted", err)
	}
	d.must(e.Desk().Resume(t.Context(), "anna"))
	d.start(e, slowPoints)
}

func TestChaos_C59_overlapIsRefused(t *testing.T) {
	d := newDrill(t)
	var audited []string
	e := injector.New(injector.Config{Ledger: d, Audit: func(_ context.Context, _, action, _, _ string) error {
		audited = append(audited, action)
		return nil
	}})
	d.start(e, slowPoints)
	req := httptest.NewRequest(http.MethodPost, "/api/v1/experiments", strings.NewReader(slowPoints))
	rec := httptest.NewRecorder()
	e.API().Create(rec, req)
	if rec.Code != http.StatusConflict || rec.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("a second start gave %d %s, want 409", rec.Code, rec.Body)
	}
	if len(audited) != 2 {
		t.Errorf("audited %v, want both starts", audited)
	}
}

func TestPlanWakesAtOnce(t *testing.T) {
	d := newDrill(t)
	e, other, g := d.engine(nil), d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	answer := make(chan plan.Plan)
	go func() {
		// Another control holds the poll; the abort is made at the first.
		var next plan.Plan
		req := httptest.NewRequest(http.MethodGet, pathOf(g.plan)+"&wait=20s", nil)
		rec := httptest.NewRecorder()
		other.PlanHandler().ServeHTTP(rec, req)
		decode(t, rec, &next)
		answer <- next
	}()
	stopped := time.Now()
	d.must(e.Desk().Abort(t.Context(), id, "anna"))
	next := <-answer
	if took := time.Since(stopped); took > time.Second {
		t.Errorf("the abort took %v to the plan, want at most 1 s", took)
	}
	if len(next.Faults) != 0 || next.Revision <= g.plan.Revision || next.Epoch < g.plan.Epoch {
		t.Errorf("plan %d/%d with %d faults after %d/%d, want a later one with none",
			next.Epoch, next.Revision, len(next.Faults), g.plan.Epoch, g.plan.Revision)
	}
}

func TestPlanIsNotServedFromMemory(t *testing.T) {
	d := newDrill(t)
	e := d.engine(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the ledger cannot be read
	rec := httptest.NewRecorder()
	e.PlanHandler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/plan", nil))
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("without a ledger the plan gave %d, want 503", rec.Code)
	}
}
