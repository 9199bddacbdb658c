// Package gate answers whether a change may go out, from the same evaluation
// that pages and alerts show. Missing data is never an allow.
package gate

import (
	"encoding/json"
	"fmt"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

// Kind is what sort of change asks.
type Kind = freeze.Kind

// The kinds. Feature is assumed where none is named: it is the strictest.
const (
	Feature        = freeze.Feature
	ConfigChange   = freeze.ConfigChange
	Dependency     = freeze.Dependency
	ReliabilityFix = freeze.ReliabilityFix
	SecurityFix    = freeze.SecurityFix
	Rollback       = freeze.Rollback
	Scale          = freeze.Scale
	Experiment     = freeze.Experiment
)

// Kinds lists them all.
func Kinds() []Kind { return freeze.Kinds() }

// Verdict is the one word of an answer.
type Verdict string

// The verdicts.
const (
	Allow   Verdict = "allow"
	Deny    Verdict = "deny"
	Hold    Verdict = "hold"
	Unclear Verdict = "unknown"
)

// Request is one question: may this change of this service go out?
type Request struct {
	Service string
	Env     string // "": the worst of all environments answers
	Kind    Kind
	Ref     string // what is to go out: a commit, an image

	// How the kind is proven: a word of freeze.Key.Attest, an incident, or what
	// whoever asks on behalf of a platform has seen for itself.
	Attestation string
	Incident    string
	Seen        freeze.Proof
	// Once names the change where it may be asked about again and again: asked
	// twice, it uses an override once.
	Once string
	// DryRun asks without any effect: nothing is kept, no override is used.
	DryRun bool
	// Standing asks how things stand and not about one deploy, as a list of freezes does:
	// no cap on deploys holds it up, and it takes no slot.
	Standing bool
}

// Policy is how states become answers.
type Policy = freeze.Policy

// DefaultPolicy lets through a freeze what ends or eases an outage.
func DefaultPolicy() Policy { return freeze.Default() }

// Decision is the answer, exactly as it is written to whoever asked. Remaining
// and Coverage are ratios (1 is all), burn rates are multiples of the rate that
// spends exactly the budget; a figure that was not measured is null.
type Decision struct {
	Decision   Verdict                `json:"decision"`
	State      slo.Level              `json:"state"`
	ReasonCode string                 `json:"reason_code"`
	Reasons    []string               `json:"reasons"`
	Remaining  *json.Number           `json:"remaining"`
	Burn       map[string]json.Number `json:"burn"`
	Coverage   *json.Number           `json:"coverage"`
	ThawAt     *time.Time             `json:"thaw_at"`
	Override   *string                `json:"override"` // id of the override that let it pass
	DecisionID string                 `json:"decision_id"`
	ValidUntil time.Time              `json:"valid_until"`

	// The question, so that an answer speaks for itself.
	Service  string    `json:"service"`
	Env      string    `json:"env"`
	Kind     Kind      `json:"kind"`
	Ref      string    `json:"ref"`
	IssuedAt time.Time `json:"issued_at"`
	// FallbackUntil is until when this answer may stand in while control is away.
	FallbackUntil time.Time `json:"fallback_until"`
	// ProvenBy is how the kind was proven, where that was asked for.
	ProvenBy freeze.Proof `json:"proven_by,omitempty"`
	// Would is the answer that a dry run did not give.
	Would    Verdict `json:"would,omitempty"`
	Policy   string  `json:"policy"`
	Revision string  `json:"policy_revision"`
	// DryRun: it was asked without any effect, so there is no id and no signature.
	DryRun bool `json:"dry_run,omitempty"`
	// RestsOn are the integers it was decided on; null: there were none.
	RestsOn *freeze.Snapshot `json:"rests_on"`
	// Slot is there where a policy caps deploys of the service.
	Slot      *Slot             `json:"slot,omitempty"`
	Signature *freeze.Signature `json:"signature"` // null: not signed

	raw []byte // as it came over the wire
}

// Record is a decision with its question, as it is kept.
type Record struct {
	Request  Request
	Decision Decision
	At       time.Time
	By       string // who asked
}

// Facts are what a decision rests on beside the question.
type Facts struct {
	Statuses []slo.Status
	freeze.Known
}

// Decide answers r under one policy, as a page shows it: nobody has overridden
// anything.
func Decide(r Request, statuses []slo.Status, p Policy, now time.Time) Decision {
	p.Services, p.Envs = nil, nil
	return Judge(r, Facts{Statuses: statuses, Known: freeze.Known{Policies: []Policy{p}}}, now)
}

// Judge answers r. It is pure: the id, the record, the signature, the use of an
// override and the taking of a slot are the caller's business.
func Judge(r Request, f Facts, now time.Time) Decision {
	d, c := judge(r, f, now)
	return c.look(d, freeze.Under(f.Deploys, now))
}

// judge is Judge, and tells what caps a deploy that may go out otherwise.
func judge(r Request, f Facts, now time.Time) (Decision, capped) {
	if r.Kind == "" {
		r.Kind = Feature
	}
	j := judgement{r: r, f: f, now: now}
	var mine []slo.Status
	for i := range f.Statuses { // which are long, and many
		if s := &f.Statuses[i]; s.Objective.Service == r.Service && (r.Env == "" || s.Env == r.Env) {
			mine = append(mine, *s)
		}
	}
	s, ok := slo.Worst(mine)
	j.env = r.Env
	if j.env == "" {
		j.env = s.Env
	}
	j.p = freeze.For(f.Policies, r.Service, j.env)
	d := j.answer(s, ok)
	if d.Decision == Unclear {
		d = j.settle(d)
	}
	if j.p.DryRun && d.Decision != Allow && !j.byHand {
		d.Would, d.Decision = d.Decision, Allow
		d.ReasonCode = "dry_run"
		d.Reasons = append(d.Reasons, fmt.Sprintf("Policy %s only watches: without its dry_run the answer would be %s.", j.p.Name, d.Would))
	}
	return d, j.capped(d)
}
