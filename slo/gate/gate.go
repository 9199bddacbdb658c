// Package gate answers whether a change may go out, from the same evaluation
// that pages and alerts show. Missing data is never an allow.
package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"breakwater/slo"
)

// Kind is what sort of change asks.
type Kind string

// The kinds. Feature is assumed where none is named: it is the strictest.
const (
	Feature        Kind = "feature"
	ConfigChange   Kind = "config"
	Dependency     Kind = "dependency"
	ReliabilityFix Kind = "reliability_fix"
	SecurityFix    Kind = "security_fix"
	Rollback       Kind = "rollback"
	Scale          Kind = "scale"
	Experiment     Kind = "experiment"
)

// Kinds lists them all.
func Kinds() []Kind {
	return []Kind{Feature, ConfigChange, Dependency, ReliabilityFix, SecurityFix, Rollback, Scale, Experiment}
}

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
}

// Policy is how states become answers.
type Policy struct {
	// WhenFrozen are the kinds that pass a freeze.
	WhenFrozen []Kind
	// Stale is the age from which an evaluation says nothing any more.
	Stale time.Duration
	// Valid is how long an answer may be relied on.
	Valid time.Duration
}

// DefaultPolicy lets through a freeze what ends or eases an outage.
func DefaultPolicy() Policy {
	return Policy{WhenFrozen: []Kind{Rollback, Scale, SecurityFix, ReliabilityFix}, Stale: time.Minute, Valid: time.Minute}
}

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
}

// Record is a decision with its question, as it is kept.
type Record struct {
	Request  Request
	Decision Decision
	At       time.Time
}

// Decide answers r from the statuses of an evaluation. It is pure: the id and the
// record are the caller's business.
func Decide(r Request, statuses []slo.Status, p Policy, now time.Time) Decision {
	d := Decision{State: slo.Unknown, Burn: map[string]json.Number{}, ValidUntil: now.Add(p.Valid).UTC()}
	mine := slices.DeleteFunc(slices.Clone(statuses), func(s slo.Status) bool {
		return s.Objective.Service != r.Service || r.Env != "" && s.Env != r.Env
	})
	s, ok := slo.Worst(mine)
	switch {
	case !ok && r.Env != "" && slices.ContainsFunc(statuses, func(s slo.Status) bool { return s.Objective.Service == r.Service }):
		return d.say(Unclear, "unknown_env", fmt.Sprintf("Service %s was never seen in environment %s.", r.Service, r.Env))
	case !ok:
		return d.say(Unclear, "unknown_service", fmt.Sprintf("No objective is known for service %q.", r.Service))
	case now.Sub(s.At) > p.Stale:
		d.State = s.Level
		return d.say(Unclear, "stale_evaluation", fmt.Sprintf("The last evaluation is %s old; older than %s proves nothing.", slo.Span(now.Sub(s.At)), slo.Span(p.Stale)))
	}
	d.figures(s)
	why := fmt.Sprintf("%s: %s", s.Objective.ID, s.Reason)
	switch s.Level {
	case slo.Normal:
		d = d.say(Allow, "budget_ok", why)
	case slo.Warn:
		d = d.say(Allow, "budget_low", why)
	case slo.Emergency:
		d = d.say(Allow, "require_canary", why, "Ship it through a canary: little of the budget is left.")
	case slo.Frozen:
		d = p.frozen(d, r.Kind, s, why)
	default:
		code := "no_data"
		if !s.Budget.NoData {
			code = "low_coverage"
		}
		return d.say(Hold, code, why, "No state is held from before, so nothing can be said yet.")
	}
	if s.Measured == slo.Unknown {
		d.Reasons = append(d.Reasons, "The answer is that of the held state: data is missing at present.")
	}
	for _, rule := range s.Firing() {
		d.Reasons = append(d.Reasons, fmt.Sprintf("The budget burns at %s over %s: %s.", slo.Rate(s.Burn(rule.Long)), slo.Span(rule.Long), rule.Reason))
	}
	return d
}

func (p Policy) frozen(d Decision, kind Kind, s slo.Status, why string) Decision {
	if !s.ThawAt.IsZero() {
		at := s.ThawAt.UTC()
		d.ThawAt = &at
	}
	if slices.Contains(p.WhenFrozen, kind) {
		return d.say(Allow, "allowed_kind", why, fmt.Sprintf("Releases are frozen, but a change of kind %s may pass.", kind))
	}
	thaw := "It thaws once enough budget is back."
	if d.ThawAt != nil {
		thaw = fmt.Sprintf("It thaws %s if nothing else fails.", slo.Clock(*d.ThawAt))
	}
	return d.say(Deny, "budget_exhausted", why, fmt.Sprintf("Releases are frozen since %s; a change of kind %s has to wait.", slo.Clock(s.Since), kind), thaw)
}

func (d Decision) say(v Verdict, code string, reasons ...string) Decision {
	d.Decision, d.ReasonCode, d.Reasons = v, code, reasons
	return d
}

func (d *Decision) figures(s slo.Status) {
	d.State = s.Level
	if !s.Budget.NoData {
		left := json.Number(slo.Ratio(s.Budget.RemainingPPM))
		d.Remaining = &left
	}
	coverage := json.Number(slo.Ratio(s.CoveragePPM))
	d.Coverage = &coverage
	for _, w := range slo.BurnWindows() {
		if b := s.Burn(w); !b.NoData {
			d.Burn[slo.Window(w)] = json.Number(slo.Ratio(b.RateMilli * 1000))
		}
	}
}
