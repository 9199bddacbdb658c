package store_test

import (
	"log/slog"
	"testing"
	"time"

	"breakwater/injector"
)

// A control that has just started and knows no budget yet starts nothing, and still
// ends what a dead one left running: it must not hit users while nobody watches.
func TestAControlThatKnowsNothingYetStillEndsWhatRuns(t *testing.T) {
	d := newDrill(t)
	first, g := d.engine(nil), newGateway("gw")
	ready := false
	blind := injector.New(injector.Config{Ledger: d, Log: slog.New(slog.DiscardHandler), Ready: func() bool { return ready }})
	second := func(n int) {
		t.Helper()
		d.pass(time.Second)
		if err := blind.Second(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		d.poll(blind, g)
	}
	d.poll(first, g)
	id := d.start(first, slowPoints).ID
	d.until(first, id, injector.Injecting, g)
	for range 60 { // always its first second: it never gets to know anything
		second(0)
	}
	if r := d.run(id); r.State != injector.Aborted || r.Reason != "engine_lost" || len(g.plan.Faults) != 0 {
		t.Fatalf("left by a dead control it is %s (%s), and %d faults are in the plan", r.State, r.Reason, len(g.plan.Faults))
	}

	// What would begin something waits: a run that is due, and one to be started over.
	id = d.start(first, slowPoints).ID
	second(0)
	second(1)
	if r := d.run(id); r.State != injector.Scheduled {
		t.Errorf("it was started as %s by a control that knows nothing", r.State)
	}
	d.until(first, id, injector.Baseline, g)
	for range 30 {
		second(0)
	}
	if r := d.run(id); r.State != injector.Baseline || r.Starts != 1 {
		t.Errorf("it was started over, %s after %d starts, by a control that knows nothing", r.State, r.Starts)
	}
	ready = true
	for range 3 {
		second(2)
	}
	if r := d.run(id); r.Starts != 2 {
		t.Errorf("now that something is known it is %s after %d starts", r.State, r.Starts)
	}
}

// It does not wait for ever: why nothing is started has to be written down.
func TestAControlWaitsForKnowledgeSomeSeconds(t *testing.T) {
	d := newDrill(t)
	g := newGateway("gw")
	never := injector.New(injector.Config{Ledger: d, Log: slog.New(slog.DiscardHandler), Ready: func() bool { return false }})
	d.poll(never, g)
	id := d.start(d.engine(nil), slowPoints).ID
	for n := range 14 {
		d.pass(time.Second)
		d.must(never.Second(t.Context(), n))
		d.poll(never, g)
	}
	if r := d.run(id); r.State != injector.Scheduled {
		t.Fatalf("it is %s", r.State)
	}
	d.pass(time.Second)
	d.must(never.Second(t.Context(), 15))
	if r := d.run(id); r.State == injector.Scheduled {
		t.Error("a quarter of a minute later it still waits")
	}
}
