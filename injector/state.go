package injector

import (
	"errors"
	"fmt"
	"slices"
)

// Trigger is what moves a run from one state to another.
type Trigger string

// The triggers.
const (
	Submit  Trigger = "submit"  // the author is done
	Approve Trigger = "approve" // somebody else agrees, or a policy does
	Reject  Trigger = "reject"
	Cancel  Trigger = "cancel" // taken back before anything was armed
	Skip    Trigger = "skip"   // a guard says not now: budget, overlap, freeze, halt
	Expire  Trigger = "expire" // the start deadline passed
	Arm     Trigger = "arm"    // a control claimed it
	Rearm   Trigger = "rearm"  // another control starts it over, before any injection
	Armed   Trigger = "armed"  // every live gateway holds it at 0 %
	Inject  Trigger = "inject" // the steady state held
	Quit    Trigger = "quit"   // the steady state did not hold: nothing was injected
	Over    Trigger = "over"   // the duration is over
	Stopped Trigger = "stop"   // stop condition, kill switch, lease, gateway, budget, person
	Gone    Trigger = "gone"   // removal is proven at every gateway
	Broken  Trigger = "broken" // the engine or a gateway cannot do it
)

// ErrStep means that a trigger has no place in a state.
var ErrStep = errors.New("no such step")

// steps is the whole machine. There is no pause: a run that waits holds its
// faults without a promise of when they end.
var steps = map[State]map[Trigger]State{
	Draft:           {Submit: PendingApproval, Cancel: Cancelled},
	PendingApproval: {Approve: Scheduled, Reject: Rejected, Cancel: Cancelled, Expire: Expired, Skip: Skipped},
	Scheduled:       {Arm: Arming, Cancel: Cancelled, Skip: Skipped, Expire: Expired},
	Arming:          {Armed: Baseline, Rearm: Arming, Stopped: Aborting, Broken: EngineError},
	Baseline:        {Inject: Injecting, Quit: Completed, Rearm: Arming, Stopped: Aborting},
	Injecting:       {Over: Recovering, Stopped: Aborting},
	Recovering:      {Gone: Completed, Stopped: Aborting},
	Aborting:        {Stopped: Aborting, Gone: Aborted},
}

// Step is the state that follows s on t, or ErrStep. A stop of a run that has
// ended changes nothing and is no mistake: stopping is idempotent.
func Step(s State, t Trigger) (State, error) {
	if next, ok := steps[s][t]; ok {
		return next, nil
	}
	if s.Ended() && (t == Stopped || t == Cancel) {
		return s, nil
	}
	return s, fmt.Errorf("%s in state %s: %w", t, s, ErrStep)
}

// Ended reports whether nothing follows s.
func (s State) Ended() bool {
	return slices.Contains([]State{Completed, Aborted, Rejected, Cancelled, Skipped, Expired, EngineError}, s)
}

// Active reports whether a run in s has, or may soon have, a rule at a gateway.
func (s State) Active() bool {
	return s == Arming || s == Baseline || s == Injecting || s == Recovering || s == Aborting
}

// Known reports whether s is a state at all.
func (s State) Known() bool {
	_, ok := steps[s]
	return ok || s.Ended()
}
