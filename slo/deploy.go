package slo

import (
	"time"
)

// Deploy is one that is under way, or was. Where a policy caps how many may be under
// way at the same time it holds a slot, and that is a lease: whoever began it may have
// died, so it counts as ended at Until unless it is heard of again.
type Deploy struct {
	ID      string `json:"id"`
	Service string `json:"service"`
	Env     string `json:"env"` // "": all
	Ref     string `json:"ref"`
	Kind    string `json:"kind,omitempty"`
	By      string `json:"by"`
	// Decision is what let it begin; "": control was told of it, and not asked.
	Decision string `json:"decision_id,omitempty"`
	// Key names the change: asked about twice it holds one slot.
	Key     string        `json:"-"`
	Begun   time.Time     `json:"begun_at"`
	Until   time.Time     `json:"until"`
	Ended   *time.Time    `json:"ended_at"`
	Outcome DeployOutcome `json:"outcome,omitempty"` // "": it is under way
}

// DeployOutcome is how a deploy ended.
type DeployOutcome string

// The outcomes.
const (
	DeploySucceeded DeployOutcome = "succeeded"
	DeployFailed    DeployOutcome = "failed"
	// DeployLapsed: nobody told of its end in time.
	DeployLapsed DeployOutcome = "lapsed"
	// DeployRefused: it had a slot and was not let out for another reason.
	DeployRefused DeployOutcome = "refused"
)

// Bounds of how long a deploy that is not heard of counts as under way.
const (
	DeployLasts    = 30 * time.Minute // unless said
	MinDeployLasts = time.Minute
	MaxDeployLasts = 24 * time.Hour
)

// DeployKey names a change by what is to go out; where that is not said, by what its
// pipeline calls it. "": nothing names it.
func DeployKey(ref, once string) string {
	switch {
	case ref != "":
		return "ref/" + ref
	case once != "":
		return "once/" + once
	}
	return ""
}

// Live reports whether d is under way at now, as far as anybody has told.
func (d Deploy) Live(now time.Time) bool { return d.Ended == nil && now.Before(d.Until) }

// In reports whether d goes to env; "" is all environments, on both sides.
func (d Deploy) In(env string) bool { return d.Env == "" || env == "" || d.Env == env }

// Same reports whether d and e are one change of one service.
func (d Deploy) Same(e Deploy) bool {
	return d.Service == e.Service && d.In(e.Env) && d.Key == e.Key && d.Key != ""
}

// DeployEnd tells that a deploy is over. Ref or Key names it.
type DeployEnd struct {
	Service, Env, Ref, Key string
	Outcome                DeployOutcome
	By                     string
	// IfHeld leaves alone what holds no slot: whoever tells does not know whether it was
	// asked about here.
	IfHeld bool
}
