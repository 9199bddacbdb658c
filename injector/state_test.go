package injector

import (
	"errors"
	"testing"
)

func TestStep(t *testing.T) {
	tests := []struct {
		from State
		on   Trigger
		want State // "" means refused
	}{
		{Draft, Submit, PendingApproval},
		{PendingApproval, Approve, Scheduled},
		{PendingApproval, Reject, Rejected},
		{PendingApproval, Expire, Expired},
		{PendingApproval, Arm, ""}, // nobody starts what nobody approved
		{Scheduled, Arm, Arming},
		{Scheduled, Skip, Skipped},
		{Scheduled, Expire, Expired},
		{Scheduled, Inject, ""},
		{Arming, Armed, Baseline},
		{Arming, Inject, ""}, // not without a steady state
		{Arming, Rearm, Arming},
		{Arming, Broken, EngineError},
		{Baseline, Inject, Injecting},
		{Baseline, Quit, Completed},
		{Baseline, Rearm, Arming},
		{Injecting, Over, Recovering},
		{Injecting, Stopped, Aborting},
		{Injecting, Rearm, ""}, // never resumed, never started over
		{Injecting, Gone, ""},  // nothing is completed without recovering
		{Recovering, Gone, Completed},
		{Recovering, Inject, ""},
		{Recovering, Stopped, Aborting},
		{Aborting, Stopped, Aborting},
		{Aborting, Gone, Aborted},
		{Aborting, Inject, ""}, // abort wins every race
		{Aborting, Over, ""},
		{Completed, Stopped, Completed}, // stopping is idempotent
		{Aborted, Stopped, Aborted},
		{Cancelled, Cancel, Cancelled},
		{Completed, Arm, ""},
		{"paused", Arm, ""},
	}
	for _, tt := range tests {
		got, err := Step(tt.from, tt.on)
		switch {
		case tt.want == "" && !errors.Is(err, ErrStep):
			t.Errorf("%s on %s gave %s, %v, want a refusal", tt.on, tt.from, got, err)
		case tt.want != "" && (err != nil || got != tt.want):
			t.Errorf("%s on %s gave %s, %v, want %s", tt.on, tt.from, got, err, tt.want)
		}
	}
}

// TestEveryRunEnds walks the machine: from each state an end can be reached, and
// no end has a way out.
func TestEveryRunEnds(t *testing.T) {
	for from := range steps {
		if from.Ended() {
			t.Errorf("%s is an end and has steps", from)
		}
		seen, todo := map[State]bool{from: true}, []State{from}
		ends := false
		for len(todo) > 0 {
			s := todo[0]
			todo = todo[1:]
			for _, next := range steps[s] {
				ends = ends || next.Ended()
				if !next.Known() {
					t.Errorf("%s leads to %s, which is no state", s, next)
				}
				if !seen[next] {
					seen[next] = true
					todo = append(todo, next)
				}
			}
		}
		if !ends {
			t.Errorf("from %s no end is reached", from)
		}
		if from.Active() {
			if _, err := Step(from, Stopped); err != nil {
				t.Errorf("%s cannot be stopped: %v", from, err)
			}
		}
	}
}
