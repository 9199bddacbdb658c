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
			all = append(all, assess(a, phase.Name, o, reached(r, phase.Name)))
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
		i := slices.IndexFunc(all, func(a Assertion) bool { return a.Result == x })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	if r.InjectAt.IsZero() {
		return beforeInjection(r, all)
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

func beforeInjection(r Run, all []Assertion) (Verdict, string) {
	if r.State == Baseline || r.State == Completed {
		for _, a := range all {
			if a.Phase == "steady" && a.Result != Pass {
				return Inconclusive, fmt.Sprintf("steady_state_not_met: %s: expected %s, saw %s", a.ID, a.Expected, a.Seen)
			}
		}
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

// assess judges one assertion.
func assess(a scenario.Assertion, phase string, o Observations, reached bool) Assertion {
	out := Assertion{ID: a.ID, Phase: phase, Text: words(a), Expected: a.Op + " " + show(a.Measure, a.Limit), Result: NoData, Seen: "nothing"}
	if !reached {
		out.Result, out.Seen = Pending, "nothing: the run did not get there"
		return out
	}
	if o.Error != "" {
		out.Result, out.Seen = Errored, o.Error
		return out
	}
	s, ok := o.Seen[a.ID]
	if !ok {
		return out
	}
	switch a.Measure {
	case scenario.Success:
		return share(out, a, s.Good, s.Good+s.Bad)
	case scenario.ErrorRate:
		return share(out, a, s.Bad, s.Good+s.Bad)
	case scenario.P95:
		return quantile(out, a, s.Hist)
	}
	return tries(out, a, s)
}

// share: pass if enough was seen and the estimate holds; fail if even the bound
// breaks the limit; between the two more data is needed.
func share(out Assertion, a scenario.Assertion, k, n int64) Assertion {
	out.N = n
	if n == 0 {
		return out
	}
	out.Seen = fmt.Sprintf("%s of %d requests", percent(float64(k)/float64(n)), n)
	switch {
	case n < a.MinRequests:
		out.Seen += fmt.Sprintf(", fewer than %d", a.MinRequests)
	case metShare(a.Op, k, n, a.Limit):
		out.Result = Pass
	case !met(a.Op, wilson(k, n, upper(a.Op)), float64(a.Limit)/1_000_000):
		out.Result = Fail
	default:
		out.Seen += ", too few to tell"
	}
	return out
}

// quantile judges the 95th percentile by its order-statistic interval.
func quantile(out Assertion, a scenario.Assertion, bins histogram.Bins) Assertion {
	n := bins.Count()
	out.N = n
	if n == 0 {
		out.Seen = "no whole minute with requests"
		return out
	}
	const q = 0.95
	at := bins.Quantile(q, 0)
	out.Seen = fmt.Sprintf("%s over %d requests", took(at.US), n)
	stray := z * sqrt(q*(1-q)/float64(n))
	bound := bins.Quantile(min(max(q+stray, 0), 1), 0)
	if upper(a.Op) {
		bound = bins.Quantile(max(q-stray, 0), 0)
	}
	switch {
	case n < a.MinRequests:
		out.Seen += fmt.Sprintf(", fewer than %d", a.MinRequests)
	case met(a.Op, at.US, float64(a.Limit)) && !(at.Over && upper(a.Op)):
		out.Result = Pass
	case !met(a.Op, bound.US, float64(a.Limit)):
		out.Result = Fail
	default:
		out.Seen += ", too few to tell"
	}
	return out
}

// tries judges amplification, tries for each request, and retries, the extra ones.
func tries(out Assertion, a scenario.Assertion, s Seen) Assertion {
	n := s.Good + s.Bad
	out.N = n
	if n == 0 {
		return out
	}
	k, limit := s.Attempts, a.Limit
	out.Seen = fmt.Sprintf("%.2f tries for each of %d requests", float64(k)/float64(n), n)
	if a.Measure == scenario.Retries {
		k = max(k-n, 0)
		out.Seen = fmt.Sprintf("%s more tries over %d requests", percent(float64(k)/float64(n)), n)
	}
	switch {
	case n < a.MinRequests:
		out.Seen += fmt.Sprintf(", fewer than %d", a.MinRequests)
	case s.Attempts == 0:
		out.Seen = fmt.Sprintf("no count of tries over %d requests", n)
	case metShare(a.Op, k, n, limit):
		out.Result = Pass
	default:
		// Both are counts of the same requests, not a sample: no interval.
		out.Result = Fail
	}
	return out
}

// span is a helper of the engine: the trailing window, not before from.
func span(from, to time.Time, window time.Duration) (since, until time.Time) {
	if window > 0 && to.Add(-window).After(from) {
		return to.Add(-window), to
	}
	return from, to
}
