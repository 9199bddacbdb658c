package scenario

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
)

// harm: what the run costs, and whom.
func (c *check) harm() {
	s, f, will := c.s, c.f, c.will
	service := s.Target.Service
	if f.Retries > 2 {
		c.warn(Storm, "%d retries multiply the traffic of a failing upstream", f.Retries)
	}
	granted := cmp.Or(f.CapPPM, grantPPM)
	for _, x := range s.Stop {
		if x.Kind == StopBudget {
			granted = min(granted, x.PPM)
		}
	}
	if b, ok := f.Budgets[service]; ok && will.BudgetPPM >= 0 {
		if will.BudgetPPM > granted {
			c.refuse(false, Cost, "about %d requests of %s will fail, %s of its budget: %s are granted", will.Failures, service, percent(will.BudgetPPM), percent(granted))
		}
		if will.BudgetPPM > b.RemainingPPM {
			c.refuse(false, Cost, "about %d requests of %s will fail, %s of its budget: %s of it are left", will.Failures, service, percent(will.BudgetPPM), percent(max(b.RemainingPPM, 0)))
		}
	}
	if hit := f.rate(s.Target) * 1000 * float64(s.Sample.PPM) / 1_000_000; s.Limits.AffectedMilli > 0 && hit > float64(s.Limits.AffectedMilli) {
		c.refuse(true, Radius, "about %.4g requests a second will be hit, more than the %g of max_affected_rps", hit/1000, float64(s.Limits.AffectedMilli)/1000)
	}
	if s.Limits.Tenants > 0 && will.Users > s.Limits.Tenants {
		c.refuse(true, Radius, "about %d tenants will be hit, more than the %d of max_tenants", will.Users, s.Limits.Tenants)
	}
	var bare []string
	for _, r := range f.aimed(s.Target) {
		if !r.Fallback && !r.NoFaults {
			bare = append(bare, r.Name)
		}
	}
	if len(bare) > 0 && will.FinalPPM > 0 {
		c.refuse(false, NoFallback, "nothing stands in for an answer of %s: about %s of its requests will fail", strings.Join(bare, ", "), percent(will.FinalPPM))
	}
	for _, x := range s.Faults {
		if x.Rule.Phase == fault.AfterUpstream || x.Rule.Kind == fault.Duplicate {
			c.unsafe(x)
		}
	}
	c.contradicted()
}

// unsafe: what an upstream has done and nobody was told of is done again.
func (c *check) unsafe(x Fault) {
	safe := []string{"GET", "HEAD", "OPTIONS"}
	if m := c.s.Target.Methods; len(m) > 0 && !slices.ContainsFunc(m, func(m string) bool { return !slices.Contains(safe, m) }) {
		return
	}
	c.refuse(false, Unsafe, "fault %s lets the upstream act and then repeats it or loses its answer: it must be proven that the same request twice does no harm (or target methods that are safe)", x.ID)
}

// contradicted finds expectations that the figures speak against. That each
// request of the target serves one of the service that is watched is a guess, and
// said to be one.
func (c *check) contradicted() {
	f, will := c.f, c.will
	target := f.rate(c.s.Target)
	if will.TryFailPPM == 0 || target == 0 {
		return
	}
	for _, a := range c.s.During {
		fails := will.UserFailPPM
		if a.Service != c.s.Target.Service {
			watched := f.rate(Target{Service: a.Service})
			if _, known := f.Traffic[a.Service]; !known || watched == 0 {
				continue
			}
			fails = int64(float64(fails) * min(target/watched, 1))
		}
		switch {
		case a.Cohort != "" || a.Against != "":
		case a.Measure == ErrorRate && fails > a.Limit && (a.Op == "<=" || a.Op == "<"),
			a.Measure == Success && 1_000_000-fails < a.Limit && (a.Op == ">=" || a.Op == ">"):
			c.warn(WillFail, "%s will most likely fail: about %s of %s fail, unless a breaker or a fallback of whoever asks helps", a.ID, percent(fails), a.Service)
		case a.Measure == Amplification && a.Service == c.s.Target.Service && will.AmplificationMilli*1000 > a.Limit && (a.Op == "<=" || a.Op == "<"):
			c.warn(WillFail, "%s will most likely fail: about %g tries for each request", a.ID, float64(will.AmplificationMilli)/1000)
		}
	}
}

// never is older than any word of a feed that lives.
const never = 10 * 365 * 24 * time.Hour

// surroundings: what else goes on, and whether brakes and alarms work.
func (c *check) surroundings() {
	s, f := c.s, c.f
	for _, o := range f.Overlaps {
		c.refuse(false, OverlapCode, "%s is under way and shares %s with this run: neither could tell whose effect it sees", o.Run, o.Service)
	}
	if f.Alerts != nil && *f.Alerts > never {
		c.refuse(false, AlertsAway, "the alert feed was never heard: nobody would be told")
	} else if f.Alerts != nil && *f.Alerts > alertsWithin {
		c.refuse(false, AlertsAway, "the alert feed was last heard %v ago: nobody would be told", f.Alerts.Round(1e9))
	}
	for _, x := range s.Stop {
		target := f.TargetPPB[x.Service]
		if x.Kind != StopBurn || target == 0 {
			continue
		}
		// Everything failing burns 1 / (1 - target).
		if most := 1_000_000_000 * 1000 / max(1_000_000_000-target, 1); x.OverMilli >= most {
			c.warn(DeadBrake, "a burn rate over %d is never reached by %s: all requests failing burns %d", x.OverMilli/1000, x.Service, most/1000)
		}
	}
	if len(f.Barred) > 0 {
		c.refuse(true, ProbeBarred, "probes may not ask %s: control allows no such host (--probe-host)", strings.Join(f.Barred, ", "))
	}
	c.ready()
	if f.TargetPPB != nil && f.Prod && f.TargetPPB[s.Target.Service] == 0 {
		c.refuse(false, NoTarget, "%s has no objective: what the drill costs is not kept", s.Target.Service)
	}
}

// baselineFor is how long a service must have been measured: two of each weekday.
const baselineFor = 14 * 24 * time.Hour

// ready: a drill comes last, after a service is watched and somebody answers for it.
func (c *check) ready() {
	f, service := c.f, c.s.Target.Service
	if f.History != nil && *f.History < baselineFor {
		c.refuse(false, Young, "%s has been measured for %d days, and 14 are needed to know what is usual", service, int(*f.History/(24*time.Hour)))
	}
	if !f.Readied {
		return
	}
	if f.Owner == "" {
		c.refuse(false, NoOwner, "no document says who answers for %s (owner of its Service)", service)
	}
	if !f.Alerted {
		c.refuse(false, NoRoute, "no AlertRoute leads alerts of %s to anybody", service)
	}
}

// Services lists every service that s hits, watches or could stop for, once.
func (s Scenario) Services() []string {
	var out []string
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	add(s.Target.Service)
	for _, list := range [][]Assertion{s.Steady, s.During, s.After} {
		for _, a := range list {
			if a.Measure != Alert {
				add(a.Service)
			}
			add(a.While)
		}
	}
	for _, x := range s.Stop {
		add(x.Service)
	}
	return out
}
