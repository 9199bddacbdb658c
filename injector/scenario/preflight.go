package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
)

// The codes by which preflight objects.
const (
	Toothless   = "toothless"    // no timeout is reached
	TooWeak     = "too_weak"     // less than the author asks of it
	ControlRun  = "control-run"  // remark
	FewHits     = "few-hits"     //
	Storm       = "storm"        // retries multiply
	DeadBrake   = "dead-brake"   // a stop condition out of reach
	NoDuring    = "no-during"    // remark
	CannotTrip  = "cannot_trip"  // the breaker does not open
	SlowBlind   = "slow_blind"   // nor by calls that only come late
	TooShort    = "too_short"    // for the breaker to open and try again
	Cost        = "cost"         // more of the budget than is granted
	Radius      = "radius"       // more than limits allow
	OverlapCode = "overlap"      // another run shares a service
	NoFallback  = "no_fallback"  // users see the failure
	NoMatch     = "no_match"     // nobody is hit
	Exempt      = "exempt"       // health, login or control routes
	AlertsAway  = "alerts_away"  // nobody would be told
	Capped      = "capped"       // beyond what gateways allow
	Unsafe      = "unsafe"       // may do something twice
	WillFail    = "will_fail"    // an expectation that the figures contradict
	NoTarget    = "no_objective" // no budget is kept
	CoreShare   = "core_share"   // more of a core service than may be hit at once
	Young       = "no_baseline"  // not measured for long enough
	NoOwner     = "no_owner"     // nobody answers for the target
	NoRoute     = "no_alert_way" // no alert of the target leads to anybody
	ProbeBarred = "probe_barred" // a host that may not be asked
)

// Refusals are the codes that an author may accept.
func Refusals() []string {
	return []string{CannotTrip, SlowBlind, Cost, OverlapCode, NoFallback, NoMatch, AlertsAway, Unsafe, NoTarget, Young, NoOwner, NoRoute}
}

// Warning is what a run would probably not show, or do beside, told before it
// starts. Refuse: it must not start, unless the document says that this is meant.
type Warning struct {
	Code, Text string
	Refuse     bool
}

// grantPPM is what a run may spend of a window's budget where nobody says otherwise.
const grantPPM = 50_000

// coreCapPPM is the share of a core service that a drill may hit where users are real.
const coreCapPPM = 50_000

// alertsWithin is how old the word of the alert feed may be.
const alertsWithin = 2 * time.Minute

// Preflight looks for reasons why s could not show anything, or would do more
// harm than was agreed.
func (s Scenario) Preflight(f Facts) []Warning {
	c := check{s: s, f: f, will: s.Forecast(f)}
	c.strength()
	c.effect()
	c.breaker()
	c.harm()
	c.surroundings()
	return c.out
}

// check is one preflight under way.
type check struct {
	s    Scenario
	f    Facts
	will Forecast
	out  []Warning
}

func (c *check) warn(code, format string, args ...any) {
	c.out = append(c.out, Warning{code, fmt.Sprintf(format, args...), false})
}

// refuse objects wherever users are real, and everywhere where always; what the
// author has accepted is still told.
func (c *check) refuse(always bool, code, format string, args ...any) {
	ok := slices.Contains(c.s.Accept, code)
	c.out = append(c.out, Warning{code, fmt.Sprintf(format, args...), (always || c.f.Prod) && !ok})
}

// strength: whether the faults reach what they are meant to reach.
func (c *check) strength() {
	if c.f.MaxPPM > 0 && c.s.Sample.PPM > c.f.MaxPPM {
		c.refuse(true, Capped, "gateways hit at most %s, and %s are asked for (caps.max_percent of the Gateway document)", percent(c.f.MaxPPM), percent(c.s.Sample.PPM))
	}
	if c.f.Core && c.s.Sample.PPM > coreCapPPM {
		c.refuse(false, CoreShare, "users cannot do without %s: at most %s of it may be hit, and %s are asked for", c.s.Target.Service, percent(coreCapPPM), percent(c.s.Sample.PPM))
	}
	for _, x := range c.s.Faults {
		if most := longest(x.Rule); c.f.MaxLatency > 0 && most > c.f.MaxLatency && x.Rule.Kind == fault.Latency {
			c.refuse(true, Capped, "fault %s waits up to %v, and gateways wait at most %v (caps.max_latency of the Gateway document)", x.ID, most, c.f.MaxLatency)
		}
	}
	for _, x := range c.s.Faults {
		if x.Rule.Kind != fault.Latency || c.f.PerTry == 0 {
			continue
		}
		most := longest(x.Rule)
		switch {
		case most <= c.f.PerTry && !x.Toothless:
			c.refuse(true, Toothless, "fault %s waits %v, and a try may take %v: no timeout is reached (write toothless: allowed if that is meant)", x.ID, most, c.f.PerTry)
		case x.RatioMilli > 0 && most.Milliseconds()*1000 < x.RatioMilli*c.f.PerTry.Milliseconds():
			c.refuse(true, TooWeak, "fault %s waits %v, less than the %g times of %v it is required to", x.ID, most, float64(x.RatioMilli)/1000, c.f.PerTry)
		case most < 2*c.f.PerTry && most > c.f.PerTry:
			c.warn("weak", "fault %s waits %v, less than twice the %v a try may take", x.ID, most, c.f.PerTry)
		}
	}
}

// effect: whether anybody is hit.
func (c *check) effect() {
	s, f := c.s, c.f
	if s.Sample.PPM == 0 {
		c.warn(ControlRun, "percent is 0%%: nothing is injected, the run proves that nothing else changes")
	}
	if f.rate(s.Target) > 0 && s.Sample.PPM > 0 && c.will.Hits < 30 {
		c.warn(FewHits, "about %d tries will be hit, and a verdict needs 30: inject longer or a larger share", c.will.Hits)
	}
	if f.Week != nil && *f.Week == 0 {
		c.refuse(false, NoMatch, "the target matched no request in the last 7 days")
	}
	for _, name := range s.Target.Routes {
		i := slices.IndexFunc(f.Routes, func(r Route) bool { return r.Name == name })
		switch {
		case len(f.Routes) > 0 && i < 0:
			c.refuse(false, NoMatch, "%s is no route of %s", name, s.Target.Service)
		case i >= 0 && f.Routes[i].NoFaults:
			c.refuse(true, Exempt, "route %s is marked no_faults, as health, login and control routes are: nothing is ever injected there", name)
		}
	}
	if all := f.aimed(s.Target); len(s.Target.Routes) == 0 && len(all) > 0 && !slices.ContainsFunc(all, func(r Route) bool { return !r.NoFaults }) {
		c.refuse(true, Exempt, "every route of %s is marked no_faults: nothing is ever injected there", s.Target.Service)
	}
	if len(s.During) == 0 {
		c.warn(NoDuring, "nothing is expected while the fault is on: the verdict will not say whether users were protected")
	}
}

// breaker: whether it can trip at all by what is injected, in the time there is.
func (c *check) breaker() {
	s, f, b := c.s, c.f, c.f.Breaker
	expects := func(list []Assertion, event string) bool {
		return slices.ContainsFunc(list, func(a Assertion) bool {
			return a.Measure == Breaker && a.Event == event && a.Service == s.Target.Service
		})
	}
	if b == nil || s.Sample.PPM == 0 || c.will.TryFailPPM == 0 && !expects(s.During, Opened) {
		return
	}
	if c.will.TryFailPPM == 0 && !b.Off && s.late() {
		if why := c.slowBlind(b); why != "" {
			c.refuse(false, SlowBlind, "the breaker of %s is expected to open, and %s", s.Target.Service, why)
		}
	} else if why := c.cannotTrip(b); why != "" {
		if expects(s.During, Opened) {
			c.refuse(false, CannotTrip, "the breaker of %s is expected to open, and %s", s.Target.Service, why)
		} else {
			c.warn(CannotTrip, "the breaker of %s will not open: %s", s.Target.Service, why)
		}
	}
	windows := time.Duration(max(b.Windows, 1)) * b.Window
	if least := windows + b.OpenFor; s.Phases.Inject < least && !b.Off {
		c.warn(TooShort, "the injection of %v is shorter than the %v in which the breaker opens and tries again (%v and %v)", s.Phases.Inject, least, windows, b.OpenFor)
	}
	if t := f.Retries * max(f.Layers, 1); t > 2 && f.Layers > 1 {
		c.warn(Storm, "%d retries on each of %d hops multiply the traffic of a failing upstream", f.Retries, f.Layers)
	}
}

// slowBlind says why calls that come late, and do not fail, leave the breaker closed.
func (c *check) slowBlind(b *BreakerRule) string {
	most := longest(c.s.Faults[0].Rule)
	switch {
	case b.SlowPPM == 0:
		return fmt.Sprintf("calls are only %v late: it counts what fails, and nothing does (slow_after and slow_rate of the breaker)", most)
	case b.SlowAfter > most:
		return fmt.Sprintf("a call is slow to it after %v, and these are %v late", b.SlowAfter, most)
	case c.s.Sample.PPM < b.SlowPPM:
		return fmt.Sprintf("%s of calls are late, and it asks for %s", percent(c.s.Sample.PPM), percent(b.SlowPPM))
	}
	return ""
}

// cannotTrip says why the breaker stays closed, or "".
func (c *check) cannotTrip(b *BreakerRule) string {
	rate, final := c.f.rate(c.s.Target), c.will.FinalPPM
	share := ""
	switch calls := int64(rate * b.Window.Seconds()); {
	case b.Off:
		return "it is switched off"
	case b.Never != "":
		return b.Never
	case rate > 0 && calls < b.MinRequests:
		share = fmt.Sprintf("%d calls in its window of %v are fewer than the %d it asks for", calls, b.Window, b.MinRequests)
	case b.ErrorPPM > 0 && (final < b.ErrorPPM || b.Above && final == b.ErrorPPM):
		share = fmt.Sprintf("%s of requests fail for good, and it asks for %s", percent(final), percent(b.ErrorPPM))
	}
	row := ""
	if b.Row > 0 && rate > 0 && c.will.RowChance < 0.05 {
		row = fmt.Sprintf("%d failures in a row among %d requests, of which %s fail, have a chance of %.2g", b.Row, c.will.Requests, percent(final), c.will.RowChance)
	}
	switch {
	case b.Row == 0:
		return share
	case b.And && row != "":
		return row
	case b.And:
		return share
	case row != "" && (share != "" || b.ErrorPPM == 0):
		return strings.TrimPrefix(share+", and "+row, ", and ")
	}
	return ""
}

func percent(ppm int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".") + " %"
}
