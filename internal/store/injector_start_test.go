package store_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/injector"
)

// deaf is a ledger of which the halt cannot be read so many times.
type deaf struct {
	*drill
	times int
}

func (b *deaf) Halt(ctx context.Context) (injector.Halt, error) {
	if b.times > 0 {
		b.times--
		return injector.Halt{}, errors.New("the connection was cut")
	}
	return b.drill.Halt(ctx)
}

// What cannot be read for a moment is no reason to skip what is due, nor to end what
// another control has armed.
func TestAMomentWithoutAnAnswerSkipsNothing(t *testing.T) {
	d := newDrill(t)
	b := &deaf{drill: d, times: 2}
	e, g := injector.New(injector.Config{Ledger: b, Log: quiet()}), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	for range 3 {
		d.pass(time.Second)
		_ = e.Tick(t.Context(), d.at) // fails twice, and says so
	}
	if r := d.run(id); r.State != injector.Arming {
		t.Fatalf("%s (%s), want it to begin once the halt can be read", r.State, r.Reason)
	}
	// Its control dies; the next one cannot read the halt when it takes it over.
	d.until(e, id, injector.Baseline, g)
	b2 := &deaf{drill: d, times: 1}
	e2 := injector.New(injector.Config{Ledger: b2, Log: quiet()})
	d.pass(injector.LeaseFor + time.Second)
	d.poll(e2, g)
	_ = e2.Tick(t.Context(), d.at)
	if r := d.run(id); r.State != injector.Baseline {
		t.Fatalf("%s (%s), want it untouched", r.State, r.Reason)
	}
	d.pass(time.Second)
	d.tick(e2)
	if r := d.run(id); r.State != injector.Arming || !strings.Contains(d.events(id), "started over") {
		t.Errorf("%s (%s), want it started over:\n%s", r.State, r.Reason, d.events(id))
	}
}

// A control that has just started knows no budget yet. What is due then is not skipped
// for that: it is decided once there is a reading, or by a control that has one.
func TestNothingIsDecidedBeforeAnythingIsKnown(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	d.load(day("svc", "* * * * *") + "auto_approve: {budget_spent: \"5%\"}\n")
	d.pass(time.Minute)
	var known atomic.Bool
	e := injector.New(injector.Config{Ledger: d, Log: quiet(), Ready: known.Load, Budgets: maybe{&known}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for range 15 {
		<-look.C
		if all := d.decided("svc"); len(all) > 0 {
			t.Fatalf("%+v was decided without a reading", all)
		}
	}
	known.Store(true)
	for range 300 {
		<-look.C
		if all := d.decided("svc"); len(all) > 0 {
			if all[0].skipped != "" || all[0].runs != 1 {
				t.Errorf("%+v, want it started", all)
			}
			return
		}
	}
	t.Error("nothing was decided in 30 s")
}

// maybe are budgets that are known at some time.
type maybe struct{ known *atomic.Bool }

func (m maybe) Budget(string) injector.Budget {
	return injector.Budget{Known: m.known.Load(), Allowed: 1000, RemainingPPM: 900_000, TargetPPB: 999_000_000}
}
