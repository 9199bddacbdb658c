package injector

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector/scenario"
)

// Faults are the rules that gateways hold for r now. Before injection they are
// armed at 0 %: that a gateway took the rule is known before anybody is hit.
func Faults(r Run, sc scenario.Scenario) []plan.Leased {
	ppm := int64(0)
	switch r.State {
	case Injecting:
		ppm = sc.Sample.PPM
	case Arming, Baseline:
	default:
		return nil
	}
	if len(sc.Target.Calls) > 0 {
		return nil // routes without names: a rule without them would hit all
	}
	seed := sc.Sample.Seed
	if seed == "auto" {
		seed = r.ID
	}
	ttl := int64(plan.FaultTTLMS)
	if sc.Limits.TTL > 0 {
		ttl = min(ttl, sc.Limits.TTL.Milliseconds())
	}
	var out []plan.Leased
	for _, f := range sc.Faults {
		rule := f.Rule
		rule.ID, rule.Run, rule.Seed, rule.PPM, rule.Target = f.ID, r.ID, seed, ppm, sc.Target.Rule()
		rule.Key, rule.RampMS, rule.First = sc.Sample.Key, sc.Sample.Ramp.Milliseconds(), sc.Sample.First
		out = append(out, plan.Leased{Fault: rule, TTLMS: ttl, Hash: plan.HashOf(rule)})
	}
	return out
}

// Compose makes the plan of the live runs and measures, without its numbers, and
// the hash by which a changed plan is told from the same.
func Compose(runs []Run, measures []plan.Measure, parse func(Run) (scenario.Scenario, error)) (plan.Plan, string) {
	p := plan.Plan{Faults: []plan.Leased{}, Measures: []plan.Measure{}}
	p.Measures = append(p.Measures, measures...)
	var epoch int64
	for _, r := range runs {
		epoch = max(epoch, r.Epoch)
		sc, err := parse(r)
		if err != nil {
			continue // its engine ends the run; nobody is hit by what cannot be read
		}
		p.Faults = append(p.Faults, Faults(r, sc)...)
	}
	slices.SortFunc(p.Faults, func(a, b plan.Leased) int {
		return cmp.Or(cmp.Compare(a.Fault.Run, b.Fault.Run), cmp.Compare(a.Fault.ID, b.Fault.ID))
	})
	slices.SortFunc(p.Measures, func(a, b plan.Measure) int { return cmp.Compare(a.ID, b.ID) })
	return p, hashJSON(struct {
		Plan  plan.Plan
		Epoch int64
	}{p, epoch})
}

// hashJSON names a value by its content.
func hashJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("injector: plain values did not marshal: " + err.Error())
	}
	return hashText(string(text))
}

func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// armed reports how g stands to the rules want: all armed, or refused and why.
func armed(g Gateway, want []plan.Leased) (all bool, refused string) {
	for _, w := range want {
		for _, no := range g.Refused {
			if no.Run == w.Fault.Run && no.Fault == w.Fault.ID && (no.Hash == "" || no.Hash == w.Hash) {
				return false, no.Reason
			}
		}
		has := slices.ContainsFunc(g.Armed, func(a plan.Armed) bool {
			return a.Run == w.Fault.Run && a.Fault == w.Fault.ID && a.Hash == w.Hash
		})
		if !has {
			return false, ""
		}
	}
	return true, ""
}

// gone tells whether the rules of run are proven away from g: by its word on a
// plan that no longer names them, or by a lease it can no longer hold. Seconds
// beyond the lease pay for the way from the answer to the gateway and back.
func gone(g Gateway, run string, at Stamped, now time.Time) (proven, byLease bool) {
	holds := slices.ContainsFunc(g.Armed, func(a plan.Armed) bool { return a.Run == run })
	if !holds && g.Epoch >= at.Epoch && g.Revision >= at.Revision {
		return true, false
	}
	// A gateway that still polls renews its lease with each answer, but only of
	// what the answer names; what it says it holds is believed.
	if silent := now.Sub(g.At); silent >= LeaseFor+time.Second {
		return true, true
	}
	return false, false
}
