package freeze

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
)

// Rules reports whether p rules service in env, closely or not.
func (p Policy) Rules(service, env string) bool {
	_, ok := p.holds(service, env)
	return ok
}

// Document writes p as the document that says it, with all that Decode would fill in:
// what somebody changes should not hang on a default.
func (p Policy) Document() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	list := func(all []string) string { return "[" + strings.Join(all, ", ") + "]" }
	name := p.Name
	if name == "" {
		name = "default"
	}
	line("apiVersion: %s\nkind: %s\nname: %s", apiVersion, kind, name)
	if len(p.Services) > 0 {
		line("services: %s", list(p.Services))
	}
	if len(p.Envs) > 0 {
		line("environments: %s", list(p.Envs))
	}
	switch {
	case p.Closure:
		line("dependants: closure")
	case p.Observed:
		line("dependants: observed")
	case len(p.Dependants) > 0:
		line("dependants: %s", list(p.Dependants))
	}
	if p.Owning.SharePPM > 0 {
		var owners []string
		for _, upstream := range slices.Sorted(maps.Keys(p.Owning.Upstreams)) {
			owners = append(owners, upstream+": "+p.Owning.Upstreams[upstream])
		}
		line("owner: {share: %s, upstreams: {%s}}", percentOf(p.Owning.SharePPM), strings.Join(owners, ", "))
	}
	l := p.Levels
	line("levels: {warn: %s, warn_leave: %s, emergency: %s, emergency_leave: %s}", percentOf(l.WarnPPM), percentOf(l.WarnLeavePPM), percentOf(l.EmergencyPPM), percentOf(l.EmergencyLeavePPM))
	line("thaw: {left: %s, hold: %s, min_freeze: %s}", percentOf(l.ThawPPM), slo.Window(l.Hold), slo.Window(l.MinFreeze))
	line("coverage: %s", percentOf(l.CoveragePPM))
	if len(p.Passes) == 0 {
		line("passes: []")
	} else {
		line("passes:")
	}
	for _, x := range p.Passes {
		line("  - {kind: %s, proof: %s}", x.Kind, list(words(x.Proofs)))
	}
	if len(p.Acts) > 0 {
		line("measures:")
	}
	for _, a := range p.Acts {
		line("  - %s", a.text())
	}
	if len(p.OnUnknown) > 0 {
		line("on_unknown:")
	}
	for _, s := range p.OnUnknown {
		line("  - %s", s.text())
	}
	line("stale: %s\nvalid: %s\nfallback: %s", slo.Window(p.Stale), slo.Window(p.Valid), slo.Window(p.Fallback))
	if p.DryRun {
		line("dry_run: true")
	}
	return b.String()
}

func (a Act) text() string {
	parts := []string{"from: " + string(a.From)}
	if a.Keep != "" {
		parts = append(parts, "shed_below: "+a.Keep)
	}
	if c := a.Limit; c != nil {
		limit := []string{"direction: " + string(c.Direction)}
		if c.FactorPPM > 0 {
			limit = append(limit, "factor: "+percentOf(c.FactorPPM))
		}
		if c.Tokens > 0 {
			limit = append(limit, fmt.Sprintf("rate: %d/%s", c.Tokens, slo.Window(c.Per)))
		}
		if c.Burst > 0 {
			limit = append(limit, fmt.Sprintf("burst: %d", c.Burst))
		}
		parts = append(parts, "limit: {"+strings.Join(limit, ", ")+"}")
	}
	if a.Drills != "" {
		parts = append(parts, "experiments: "+string(a.Drills))
	}
	if a.Deploys != nil {
		parts = append(parts, "deploys: "+a.Deploys.document())
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (s Settle) text() string {
	var parts []string
	if len(s.Envs) > 0 {
		parts = append(parts, "environments: ["+strings.Join(s.Envs, ", ")+"]")
	}
	answer := "deny"
	if s.Allow {
		answer = "allow"
	}
	parts = append(parts, "answer: "+answer)
	if len(s.Except) > 0 {
		parts = append(parts, "except: ["+strings.Join(words(s.Except), ", ")+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Trial is what a policy would have made of one objective, beside the one in force.
type Trial struct {
	Objective, Service, Env string
	Is, Then                slo.Backtest
}

// Sum adds up trials: how often releases would have stopped, and for how long in all.
func Sum(all []Trial) (isFreezes, thenFreezes int, isFrozen, thenFrozen time.Duration) {
	for _, t := range all {
		isFreezes, thenFreezes = isFreezes+t.Is.Freezes, thenFreezes+t.Then.Freezes
		isFrozen, thenFrozen = isFrozen+t.Is.Levels[slo.Frozen], thenFrozen+t.Then.Levels[slo.Frozen]
	}
	return isFreezes, thenFreezes, isFrozen, thenFrozen
}
