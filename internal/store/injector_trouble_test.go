package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
)

// broken is a ledger of which one part cannot be read.
type broken struct {
	*drill
	what string
}

func (b *broken) fails(what string) error {
	if b.what == what {
		return errors.New("no " + what)
	}
	return nil
}

func (b *broken) Tallies(ctx context.Context, service, run string, since, until time.Time) ([]injector.Point, error) {
	if err := b.fails("tallies"); err != nil {
		return nil, err
	}
	return b.drill.Tallies(ctx, service, run, since, until)
}

func (b *broken) BreakerTurns(ctx context.Context, service string, since, until time.Time) ([]injector.Transition, error) {
	if err := b.fails("turns"); err != nil {
		return nil, err
	}
	return b.drill.BreakerTurns(ctx, service, since, until)
}

func (b *broken) Gateways(ctx context.Context) ([]injector.Gateway, error) {
	if err := b.fails("gateways"); err != nil {
		return nil, err
	}
	return b.drill.Gateways(ctx)
}

func (b *broken) ActiveRuns(ctx context.Context) ([]injector.Active, error) {
	if err := b.fails("active runs"); err != nil {
		return nil, err
	}
	return b.drill.ActiveRuns(ctx)
}

// C38: whatever the engine fails at, the run ends, says why, and soon.
func TestChaos_C38_engineErrorEndsTheRun(t *testing.T) {
	for _, tt := range []struct {
		in   injector.State
		what string
		end  injector.State
		soon time.Duration
	}{
		{injector.Scheduled, "active runs", injector.Skipped, injector.LeaseFor},
		{injector.Arming, "gateways", injector.EngineError, injector.LeaseFor},
		{injector.Baseline, "gateways", injector.Aborted, 2 * injector.LeaseFor},
		{injector.Baseline, "turns", injector.Aborted, injector.LeaseFor},
		{injector.Injecting, "tallies", injector.Aborted, injector.LeaseFor},
		{injector.Injecting, "gateways", injector.Aborted, 2 * injector.LeaseFor},
		{injector.Recovering, "turns", injector.Aborted, 2 * injector.LeaseFor},
		{injector.Aborting, "tallies", injector.Aborted, injector.LeaseFor},
	} {
		t.Run(string(tt.in)+" without "+tt.what, func(t *testing.T) {
			d := newDrill(t)
			b := &broken{drill: d}
			e, g := injector.New(injector.Config{Ledger: b, Log: quiet()}), newGateway("gw")
			d.poll(e, g)
			id := d.start(e, slowPoints).ID
			if tt.in == injector.Aborting {
				d.until(e, id, injector.Injecting, g)
				d.must(e.Desk().Abort(t.Context(), id, "anna"))
			} else if tt.in != injector.Scheduled {
				d.until(e, id, tt.in, g)
			}
			b.what = tt.what
			began := d.at
			for range 60 {
				d.pass(time.Second)
				g.serve()
				d.poll(e, g)
				_ = e.Tick(t.Context(), d.at) // fails, and says so
				d.poll(e, g)
				if d.run(id).State.Ended() {
					break
				}
			}
			r := d.run(id)
			if r.State != tt.end || r.Verdict == injector.Passed || r.Reason == "" || r.State != injector.Skipped && !strings.Contains(r.Why+d.events(id), "no "+tt.what) && tt.in != injector.Aborting {
				t.Errorf("%s, %s (%s): %s; want %s and the error:\n%s", r.State, r.Verdict, r.Reason, r.Why, tt.end, d.events(id))
			}
			if took := r.EndedAt.Sub(began); took > tt.soon+injector.HeartbeatEvery {
				t.Errorf("it took %v", took)
			}
			if len(g.plan.Faults) > 0 {
				t.Error("its fault is still in the plan")
			}
		})
	}
}
