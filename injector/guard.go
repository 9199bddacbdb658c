package injector

import (
	"fmt"
	"time"

	"breakwater/injector/scenario"
)

// Reason is why a run was stopped, skipped or broken, as a word that does not change.
type Reason string

// The reasons. What a drill showed about the system fails it; what happened to
// the drill itself leaves it open.
const (
	ByCondition Reason = "stop_condition"
	ByBudget    Reason = "budget_cap"

	ByHalt     Reason = "halt"
	ByUser     Reason = "user"
	ByGateway  Reason = "gateway_lost"
	BySilence  Reason = "feed_silent"
	ByFreeze   Reason = "freeze"
	ByRadius   Reason = "blast_radius"
	ByTrouble  Reason = "engine_error"
	BySkew     Reason = "clock_skew"
	ByRefusal  Reason = "refused"
	ByEngine   Reason = "engine_lost"
	NoGateway  Reason = "no_gateway"
	NoArming   Reason = "arming_timeout"
	BadText    Reason = "bad_document"
	Missed     Reason = "missed"
	Overlap    Reason = "overlap"
	Blackout   Reason = "blackout"
	Halted     Reason = "halted"
	NoBudget   Reason = "budget"
	NoReading  Reason = "budget_unknown"
	NoDocument Reason = "no_document"
	Earlier    Reason = "earlier_run"
)

// stopVerdict is what an early stop proves. Never a pass.
func stopVerdict(r Reason) Verdict {
	if r == ByCondition || r == ByBudget {
		return Failed
	}
	return Inconclusive
}

// View is what the guard sees of a run under way.
type View struct {
	Now     time.Time
	Run     Run
	Series  map[string][]Point // by service: all of its traffic, in order of time
	Hit     []Point            // requests that the run's faults touched
	Budgets map[string]Budget
	Tenants int64 // that are known to have been hit
	// Fresh is the newest word of the gateway that has been silent for longest.
	Fresh time.Time
}

// Stop says that a run must end now, and why.
type Stop struct {
	Reason Reason
	Text   string
}

// Guard decides whether v must stop. It uses burn rates over two windows with a
// floor of failures, never a test of significance: asked each second, such a
// test would stop every run in the end.
func Guard(sc scenario.Scenario, v View) (Stop, bool) {
	if silent := v.Now.Sub(v.Fresh); silent >= LeaseFor {
		return Stop{BySilence, fmt.Sprintf("no tallies for %d s", int(silent/time.Second))}, true
	}
	if s, hit := mute(sc, v); hit {
		return s, true
	}
	if v.Budgets[sc.Target.Service].Frozen {
		return Stop{ByFreeze, sc.Target.Service + " is frozen"}, true
	}
	for _, service := range sc.Services() { // what a run only watches suffers too
		if why := v.Budgets[service].Stop; why != "" {
			return Stop{ByFreeze, why}, true
		}
	}
	if s, hit := tooWide(sc, v); hit {
		return s, true
	}
	for _, c := range sc.Stop {
		if s, hit := condition(sc, c, v); hit {
			return s, true
		}
	}
	if v.Run.CapPPM > 0 {
		return overBudget(sc, v.Run.CapPPM, v)
	}
	return Stop{}, false
}

// expectedLeast is how many requests have to be missing before their absence says
// something: by chance so many fail to come once in 20,000 times.
const expectedLeast = 10

// mute finds a brake that has gone blind: a service that a stop condition watches, of
// which nothing is counted any more although its baseline was busy.
func mute(sc scenario.Scenario, v View) (Stop, bool) {
	r := v.Run
	usual := r.InjectAt.Sub(r.BaselineAt)
	if r.InjectAt.IsZero() || usual <= 0 {
		return Stop{}, false
	}
	for _, c := range sc.Stop {
		if c.Service == "" {
			continue
		}
		series := v.Series[c.Service]
		n := sum(series, r.BaselineAt, r.InjectAt)
		if (n.Good+n.Bad)*int64(LeaseFor/time.Millisecond) < expectedLeast*usual.Milliseconds() {
			continue
		}
		if now := sum(series, v.Now.Add(-LeaseFor), v.Now); now.Good+now.Bad == 0 {
			return Stop{BySilence, fmt.Sprintf("nothing was counted of %s for %d s, where %d requests came in the %v before: its stop condition is blind",
				c.Service, int(LeaseFor/time.Second), n.Good+n.Bad, usual.Round(time.Second))}, true
		}
	}
	return Stop{}, false
}

func condition(sc scenario.Scenario, c scenario.Stop, v View) (Stop, bool) {
	switch c.Kind {
	case scenario.StopBurn:
		return burning(c, v)
	case scenario.StopErrors:
		return failing(c, v)
	case scenario.StopAmplification:
		return multiplying(c, v)
	}
	return overBudget(sc, c.PPM, v)
}

// burning: a burn of 1 spends the whole budget in its window, so the rate is the
// share of failures over the share that is allowed. All on integers.
func burning(c scenario.Stop, v View) (Stop, bool) {
	b := v.Budgets[c.Service]
	allowed := 1_000_000_000 - b.TargetPPB
	if !b.Known || allowed <= 0 {
		return Stop{}, false
	}
	for _, w := range c.Windows {
		n := sum(v.Series[c.Service], v.Now.Add(-w), v.Now)
		valid := n.Good + n.Bad
		if n.Bad < c.MinBad || valid == 0 || n.Bad*1_000_000_000/allowed*1000 <= c.OverMilli*valid {
			return Stop{}, false
		}
	}
	n := sum(v.Series[c.Service], v.Now.Add(-c.Windows[0]), v.Now)
	return Stop{ByCondition, fmt.Sprintf("%s burns its budget over %g times too fast: %d of %d requests failed in %v",
		c.Service, float64(c.OverMilli)/1000, n.Bad, n.Good+n.Bad, c.Windows[0])}, true
}

// failing looks at the span c.For of the injection, once it has passed.
func failing(c scenario.Stop, v View) (Stop, bool) {
	if v.Now.Sub(v.Run.InjectAt) < c.For {
		return Stop{}, false
	}
	n := sum(v.Series[c.Service], v.Now.Add(-c.For), v.Now)
	left, right := n.Bad*1_000_000, c.PPM*(n.Good+n.Bad)
	if n.Bad < c.MinBad || left < right || left == right && !c.Reached {
		return Stop{}, false
	}
	return Stop{ByCondition, fmt.Sprintf("%s failed %d of %d requests in %v, more than %s",
		c.Service, n.Bad, n.Good+n.Bad, c.For, percent(float64(c.PPM)/1_000_000))}, true
}

// multiplying looks at the tries that requests cost over c.For, once it has passed.
func multiplying(c scenario.Stop, v View) (Stop, bool) {
	if v.Now.Sub(v.Run.InjectAt) < c.For {
		return Stop{}, false
	}
	n := sum(v.Series[c.Service], v.Now.Add(-c.For), v.Now)
	left, right := n.Attempts*1000, c.OverMilli*(n.Good+n.Bad)
	if n.Attempts-n.Good-n.Bad < c.MinBad || left < right || left == right && !c.Reached {
		return Stop{}, false
	}
	return Stop{ByCondition, fmt.Sprintf("%s cost %d tries for %d requests in %v, more than %g each",
		c.Service, n.Attempts, n.Good+n.Bad, c.For, float64(c.OverMilli)/1000)}, true
}

// radiusOver is the span over which hits a second are counted: two polls, so that
// one that came late is no burst.
const radiusOver = 10 * time.Second

// tooWide finds a run that hits more than it may. What it showed of the system is
// nothing: the run was wrong.
func tooWide(sc scenario.Scenario, v View) (Stop, bool) {
	if sc.Limits.Tenants > 0 && v.Tenants > sc.Limits.Tenants {
		return Stop{ByRadius, fmt.Sprintf("%d tenants were hit, more than %d", v.Tenants, sc.Limits.Tenants)}, true
	}
	if sc.Limits.AffectedMilli == 0 || v.Now.Sub(v.Run.InjectAt) < radiusOver {
		return Stop{}, false
	}
	hit := sum(v.Hit, v.Now.Add(-radiusOver), v.Now).Injected
	if hit*1000 <= sc.Limits.AffectedMilli*int64(radiusOver/time.Second) {
		return Stop{}, false
	}
	return Stop{ByRadius, fmt.Sprintf("%d tries were hit in %v, more than %g a second", hit, radiusOver, float64(sc.Limits.AffectedMilli)/1000)}, true
}

func overBudget(sc scenario.Scenario, ppm int64, v View) (Stop, bool) {
	for _, service := range sc.Services() {
		b := v.Budgets[service]
		if !b.Known {
			continue
		}
		if spent := Spent(sc, service, v); spent > 0 && spent*1_000_000 > ppm*b.Allowed {
			return Stop{ByBudget, fmt.Sprintf("the run cost %s %d failures, more than %s of its budget of %d",
				service, spent, percent(float64(ppm)/1_000_000), b.Allowed)}, true
		}
	}
	return Stop{}, false
}

// Spent is how many failures of a service the run of v caused: those beyond what
// the baseline lets expect, or, of the target, those its faults touched where
// these are more.
func Spent(sc scenario.Scenario, service string, v View) int64 {
	r := v.Run
	if r.InjectAt.IsZero() {
		return 0
	}
	before := sum(v.Series[service], r.BaselineAt, r.InjectAt)
	during := sum(v.Series[service], r.InjectAt.Add(settle), v.Now)
	extra := during.Bad
	if valid := before.Good + before.Bad; valid > 0 {
		extra -= (during.Good + during.Bad) * before.Bad / valid
	}
	if service == sc.Target.Service {
		extra = max(extra, sum(v.Hit, r.InjectAt, v.Now).Bad)
	}
	return max(extra, 0)
}

// settle is how long the poll may take that every gateway makes when its plan
// changes: what it reports then still happened before.
const settle = time.Second

// sum adds the points of (since, until].
func sum(points []Point, since, until time.Time) Point {
	var out Point
	for _, p := range points {
		if p.At.After(since) && !p.At.After(until) {
			out.Good += p.Good
			out.Bad += p.Bad
			out.Attempts += p.Attempts
			out.Injected += p.Injected
			out.Degraded += p.Degraded
		}
	}
	return out
}
