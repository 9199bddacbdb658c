package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

// judgement is one question under way.
type judgement struct {
	r      Request
	f      Facts
	p      Policy
	env    string // that answers
	now    time.Time
	byHand bool
}

func (j *judgement) blank() Decision {
	return Decision{State: slo.Unknown, Burn: map[string]json.Number{}, ValidUntil: j.now.Add(j.p.Valid).UTC(),
		Service: j.r.Service, Env: j.r.Env, Kind: j.r.Kind, Ref: j.r.Ref, IssuedAt: j.now.UTC(), FallbackUntil: j.now.Add(j.p.Fallback).UTC(),
		Policy: j.p.Name, Revision: j.p.Revision()}
}

func (j *judgement) answer(s slo.Status, known bool) Decision {
	d := j.blank()
	if o, ok := j.order(); ok {
		// By hand means whatever the budget says, or does not say.
		j.byHand = true
		if known {
			d.figures(s)
		}
		d.State = slo.Frozen
		why := fmt.Sprintf("%s froze releases of %s %s: %s", o.By, o.Service, slo.Clock(o.At), o.Reason)
		d.ThawAt = utc(o.Until)
		return j.frozen(d, "frozen_by_hand", why, o.At)
	}
	switch {
	case !known && j.r.Env != "" && slices.ContainsFunc(j.f.Statuses, func(s slo.Status) bool { return s.Objective.Service == j.r.Service }):
		return d.say(Unclear, "unknown_env", fmt.Sprintf("Service %s was never seen in environment %s.", j.r.Service, j.r.Env))
	case !known:
		return d.say(Unclear, "unknown_service", fmt.Sprintf("No objective is known for service %q.", j.r.Service))
	case j.now.Sub(s.At) > j.p.Stale:
		d.State = s.Level
		return d.say(Unclear, "stale_evaluation", fmt.Sprintf("The last evaluation is %s old; older than %s proves nothing.", slo.Span(j.now.Sub(s.At)), slo.Span(j.p.Stale)))
	}
	d.figures(s)
	why := fmt.Sprintf("%s: %s", s.Objective.ID, s.Reason)
	if b, ok := j.f.BlameOf(j.r.Service, s.Env); ok && s.Level == slo.Frozen {
		d.ThawAt = thawOf(s)
		return d.say(Allow, "owner_frozen", why, b.Text())
	}
	if s.Level != slo.Frozen {
		if b, ok := j.f.BlamedFor(j.r.Service, s.Env); ok {
			d.State = slo.Frozen
			return j.frozen(d, "owns_failures", b.Text(), b.Since)
		}
		if owner, ok := j.owner(); ok {
			d.State, d.ThawAt = slo.Frozen, thawOf(owner)
			return j.frozen(d, "dependency_frozen", fmt.Sprintf("%s is frozen, and with it whoever depends on it. %s: %s",
				owner.Objective.Service, owner.Objective.ID, owner.Reason), owner.Since)
		}
	}
	switch s.Level {
	case slo.Normal:
		d = d.say(Allow, "budget_ok", why)
	case slo.Warn:
		d = d.say(Allow, "budget_low", why)
	case slo.Emergency:
		d = d.say(Allow, "require_canary", why, "Ship it through a canary: little of the budget is left.")
	case slo.Frozen:
		d.ThawAt = thawOf(s)
		d = j.frozen(d, "budget_exhausted", why, s.Since)
	default:
		// Without any request there is nothing to wait for, and nobody knows anything. What
		// was counted, but proves too little, may be enough in a moment.
		verdict := Hold
		if s.Budget.NoData {
			verdict = Unclear
		}
		return d.say(verdict, cmp.Or(s.Blind, "no_data"), why, "No state is held from before, so nothing can be said yet.")
	}
	if s.Measured == slo.Unknown {
		d.Reasons = append(d.Reasons, "The answer is that of the held state: data is missing at present.")
	}
	for _, rule := range s.Firing() {
		d.Reasons = append(d.Reasons, fmt.Sprintf("The budget burns at %s over %s: %s.", slo.Rate(s.Burn(rule.Long)), slo.Span(rule.Long), rule.Reason))
	}
	return d
}

// order is the freeze by hand that holds, the latest of several.
func (j *judgement) order() (found freeze.Order, ok bool) {
	for _, o := range j.f.Orders {
		if o.Service == j.r.Service && (o.Env == "" || j.env == "" || o.Env == j.env) && o.Live(j.now) && (!ok || o.At.After(found.At)) {
			found, ok = o, true
		}
	}
	return found, ok
}

// owner is a frozen service that this one freezes with.
func (j *judgement) owner() (slo.Status, bool) {
	var frozen []slo.Status
	for _, s := range j.f.Statuses {
		if s.Level == slo.Frozen && (j.env == "" || s.Env == j.env) && j.now.Sub(s.At) <= j.p.Stale {
			frozen = append(frozen, s)
		}
	}
	if owners := j.f.Owners(j.r.Service, frozen); len(owners) > 0 {
		return owners[0], true
	}
	return slo.Status{}, false
}

func thawOf(s slo.Status) *time.Time {
	if s.ThawAt.IsZero() {
		return nil
	}
	return utc(&s.ThawAt)
}

func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	u := at.UTC()
	return &u
}

// frozen answers under a freeze: by kind, then by override.
func (j *judgement) frozen(d Decision, code, why string, since time.Time) Decision {
	pass, passes := j.p.Pass(j.r.Kind)
	if passes {
		if proof, ok := j.proven(pass); ok {
			d.ProvenBy = proof
			return d.say(Allow, "allowed_kind", why, fmt.Sprintf("Releases are frozen, but a change of kind %s may pass; that it is one is known by %s.", j.r.Kind, means(proof)))
		}
	}
	o, ok, near := freeze.Find(j.f.Overrides, j.r.Service, j.env, j.r.Ref, j.now)
	if ok {
		d.Override = &o.ID
		return d.say(Allow, "override", why, fmt.Sprintf("Override %s lets %.64s out: asked for by %s, granted by %s, %s: %s", o.ID, o.Ref, o.AskedBy, o.GrantedBy, o.Ticket, o.Reason))
	}
	reasons := []string{why, fmt.Sprintf("Releases are frozen since %s; a change of kind %s has to wait.", slo.Clock(since), j.r.Kind)}
	if passes {
		code = "kind_not_proven"
		reasons = append(reasons, fmt.Sprintf("A change of kind %s may pass if it is proven to be one: by %s.", j.r.Kind, listed(pass.Proofs)))
	}
	if near != nil {
		code = near.Code
		reasons = append(reasons, near.Detail)
	}
	thaw := "It thaws once enough budget is back."
	switch {
	case d.ThawAt != nil && j.byHand:
		thaw = fmt.Sprintf("The freeze ends %s.", slo.Clock(*d.ThawAt))
	case j.byHand:
		thaw = "The freeze ends when somebody takes it back."
	case d.ThawAt != nil:
		thaw = fmt.Sprintf("It thaws %s if nothing else fails.", slo.Clock(*d.ThawAt))
	}
	return d.say(Deny, code, append(reasons, thaw)...)
}

// proven looks for one of the proofs that pass asks for.
func (j *judgement) proven(pass freeze.Pass) (freeze.Proof, bool) {
	for _, proof := range pass.Proofs {
		switch proof {
		case freeze.Declared:
			return proof, true
		case freeze.Incident:
			if j.f.Hurts(j.r.Service, j.r.Incident, j.now) {
				return proof, true
			}
		case freeze.History:
			if j.r.Seen == proof || j.f.Ran(j.r.Service, j.env, j.r.Ref) {
				return proof, true
			}
		default:
			if j.r.Seen == proof {
				return proof, true
			}
		}
	}
	return "", false
}

// settle turns an unknown answer into what the policy asks for in writing.
func (j *judgement) settle(d Decision) Decision {
	allow, settled := j.p.Settles(j.env, j.r.Kind)
	if !settled {
		return d
	}
	d.Decision, d.ReasonCode = Deny, "unknown_denied"
	if allow {
		d.Decision, d.ReasonCode = Allow, "unknown_allowed"
	}
	d.Reasons = append(d.Reasons, fmt.Sprintf("Nothing is known; policy %s asks for %s then, for a change of kind %s.", j.p.Name, d.Decision, j.r.Kind))
	return d
}

func means(p freeze.Proof) string {
	return map[freeze.Proof]string{
		freeze.Declared: "the word of whoever asks", freeze.History: "what ran before", freeze.Label: "a label of its code owners",
		freeze.Attested: "a signed attestation", freeze.Incident: "the incident it is linked to",
	}[p]
}

func listed(proofs []freeze.Proof) string {
	text := ""
	for i, p := range proofs {
		switch {
		case i > 0 && i == len(proofs)-1:
			text += " or "
		case i > 0:
			text += ", "
		}
		text += means(p)
	}
	return text
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
	d.RestsOn = freeze.SnapshotOf(s)
}
