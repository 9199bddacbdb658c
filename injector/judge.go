package injector

import (
	"fmt"
	"slices"
	"time"

	"breakwater/injector/scenario"
	"breakwater/internal/histogram"
)

// Seen is what was counted of one service over one span.
type Seen struct {
	Good, Bad, Attempts int64
	// Hist holds latencies of the whole minutes within the span; empty where
	// there is none.
	Hist histogram.Bins
	// Part of Whole is what a ratio is of; Missing says why there is none.
	Part, Whole int64
	Missing     string
	// RefGood and RefBad are what it is compared with.
	RefGood, RefBad int64
	// From and Until are the span.
	From, Until time.Time
	// Asked is what a probe was answered, Met whether that is as it should be; "": it
	// was not asked.
	Asked string
	Met   bool
}

// Observations are all figures a verdict rests on: per phase ("steady",
// "during", "after") and assertion id, what was seen of its service.
type Observations struct {
	Seen map[string]Seen // by assertion id
	// Attempts reached the fault layer while the fault was armed, Injected were hit.
	Attempts, Injected int64
	// Armed: every live gateway gave a receipt for the very rule.
	Armed bool
	// Error says why nothing could be read; then nothing is judged as passed.
	Error string

	// Now is when it was observed.
	Now time.Time
	// Breakers are the changes of each service's breaker, from well before the run.
	Breakers map[string][]Transition
	// Gateways are those that held the rule, Heard is how far the events of the
	// furthest behind of them reach.
	Gateways []string
	Heard    time.Time
	// Alerts that fired since the run began, and how far the feed reaches; zero:
	// there is no feed.
	Alerts      []Alert
	AlertsHeard time.Time
	// Served is the configuration of each gateway now.
	Served []Gateway
	Parts  []Part
}

// minInjected is the least number of hits that shows anything, and minShare the
// least part of those expected that must have been made.
const (
	minInjected = 30
	minShare    = 0.95
)

// Judge says what r proved: pass only on numbers that say so.
//
// In this order: without effect there is nothing to judge; a broken expectation
// or a stop condition fails; missing data is never a pass.
func Judge(r Run, sc scenario.Scenario, o Observations) (Verdict, string, []Assertion) {
	var all []Assertion
	for _, phase := range Phases(sc) {
		for _, a := range phase.List {
			x := assess(r, a, phase.Name, o)
			if x.Result == Fail {
				x.Weakness, x.Right = sc.Weakness(phase.Name, a)
			}
			all = append(all, x)
		}
	}
	v, why := verdict(r, sc, o, all)
	return v, why, all
}

// Phase is one part of a hypothesis.
type Phase struct {
	Name string
	List []scenario.Assertion
}

// Phases lists the parts of the hypothesis of sc in the order of time.
func Phases(sc scenario.Scenario) []Phase {
	return []Phase{{"steady", sc.Steady}, {"during", sc.During}, {"after", sc.After}}
}

func reached(r Run, phase string) bool {
	switch phase {
	case "steady":
		return !r.BaselineAt.IsZero()
	case "during":
		return !r.InjectAt.IsZero()
	}
	return !r.RecoverAt.IsZero()
}

func verdict(r Run, sc scenario.Scenario, o Observations, all []Assertion) (Verdict, string) {
	has := func(x Result) *Assertion {
		i := slices.IndexFunc(all, func(a Assertion) bool { return a.Result == x && !a.Optional })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	if r.InjectAt.IsZero() {
		return beforeInjection(r, sc, o, all)
	}
	control := sc.Sample.PPM == 0
	if control && o.Injected > 0 {
		return Failed, fmt.Sprintf("a control run at 0 %% injected %d tries", o.Injected)
	}
	effect := control || o.Armed && o.Injected > 0
	if r.State == Aborting || r.State == Aborted {
		if v := stopVerdict(Reason(r.Reason)); v != Failed || effect {
			return v, r.Reason + ": stopped early"
		}
	}
	if !effect {
		return Inconclusive, "no_effect: " + noEffect(o)
	}
	if a := has(Fail); a != nil {
		return Failed, fmt.Sprintf("%s: expected %s, saw %s", a.ID, a.Expected, a.Seen)
	}
	// A share is a hash: over n tries it strays by sqrt(np(1-p)), and that is no
	// lack of effect.
	if !control && float64(o.Injected) < leastInjected(o.Attempts, sc.Sample.PPM) {
		return Inconclusive, fmt.Sprintf("no_effect: %d of %d tries were hit, too few to show anything", o.Injected, o.Attempts)
	}
	if o.Error != "" {
		return Inconclusive, "no_data: " + o.Error
	}
	for _, missing := range []Result{NoData, Errored, Pending} {
		if a := has(missing); a != nil {
			return Inconclusive, fmt.Sprintf("no_data: %s: expected %s, saw %s", a.ID, a.Expected, a.Seen)
		}
	}
	if len(all) == 0 {
		return Inconclusive, "no_data: nothing was expected"
	}
	if control {
		return Passed, "everything held and nothing was injected"
	}
	return Passed, fmt.Sprintf("everything held while %d of %d tries were hit", o.Injected, o.Attempts)
}

// notSteady is why nothing is injected into a system that is not well.
const notSteady = "steady_state_not_met"

func beforeInjection(r Run, sc scenario.Scenario, o Observations, all []Assertion) (Verdict, string) {
	if r.State == Baseline || r.State == Completed {
		for _, a := range all {
			if a.Phase == "steady" && a.Result != Pass && !a.Optional {
				return Inconclusive, fmt.Sprintf("steady_state_not_met: %s: expected %s, saw %s", a.ID, a.Expected, a.Seen)
			}
		}
	}
	if why := openBefore(sc, o); why != "" {
		return Inconclusive, "steady_state_not_met: " + why
	}
	reason := r.Reason
	if reason == "" {
		reason = "nothing was injected"
	}
	return Inconclusive, reason
}

func noEffect(o Observations) string {
	switch {
	case !o.Armed:
		return "not every gateway confirmed the rule"
	case o.Attempts == 0:
		return "no try of the target reached the fault"
	}
	return fmt.Sprintf("none of %d tries was hit", o.Attempts)
}

func leastInjected(attempts, ppm int64) float64 {
	expected := float64(attempts) * float64(ppm) / 1_000_000
	slack := 3 * sqrt(expected*(1-float64(ppm)/1_000_000))
	return max(minInjected, min(expected*minShare, expected-slack))
}
