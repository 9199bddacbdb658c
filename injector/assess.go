package injector

import (
	"fmt"
	"time"

	"breakwater/injector/scenario"
	"breakwater/internal/histogram"
)

// assess judges one assertion.
func assess(r Run, a scenario.Assertion, phase string, o Observations) Assertion {
	out := Assertion{ID: a.ID, Phase: phase, Text: words(a), Expected: expected(a), Optional: a.Optional, Result: NoData, Seen: "nothing"}
	if !reached(r, phase) {
		out.Result, out.Seen = Pending, "nothing: the run did not get there"
		return out
	}
	if o.Error != "" {
		out.Result, out.Seen = Errored, o.Error
		return out
	}
	from, until := spanOf(r, phase, o.Now)
	out.From, out.Until = from, until
	switch a.Measure {
	case scenario.Breaker, scenario.Flaps:
		return tripped(out, a, o)
	case scenario.Alert:
		return alerted(out, a, o)
	case scenario.Config:
		return served(out, r, a, o)
	}
	s, ok := o.Seen[a.ID]
	if !ok {
		return out
	}
	if !s.From.IsZero() {
		out.From, out.Until = s.From, s.Until
	}
	if s.Missing != "" {
		out.Seen = s.Missing
		return out
	}
	switch {
	case a.Measure == scenario.Probed:
		out.N, out.Seen, out.Result = 1, s.Asked, Fail
		if s.Met {
			out.Result = Pass
		}
		return out
	case a.Against != "":
		return compared(out, a, s)
	case a.Measure == scenario.Success:
		return share(out, a, s.Good, s.Good+s.Bad)
	case a.Measure == scenario.ErrorRate:
		return share(out, a, s.Bad, s.Good+s.Bad)
	case a.Measure == scenario.Ratio || a.Measure == scenario.Repeats:
		return share(out, a, s.Part, s.Whole)
	case a.Measure.Quantile() > 0:
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
	of := "requests"
	if a.Whole == scenario.Attempts {
		of = "tries"
	}
	out.Seen = fmt.Sprintf("%s of %d %s", percent(float64(k)/float64(n)), n, of)
	switch {
	case n < a.MinRequests:
		out.Seen += fmt.Sprintf(", fewer than %d", a.MinRequests)
	case metShare(a.Op, k, n, a.Limit):
		out.Result = Pass
	case beyond(a.Op, k, n, a.Limit):
		out.Result = Fail
	default:
		out.Seen += ", too few to tell"
	}
	return out
}

// compared: that a share is not worse by the margin has to be beyond doubt, as has
// that it is. A difference that is merely not proven shows nothing (ICH E9,
// Statistical principles for clinical trials, section 3.3.2).
func compared(out Assertion, a scenario.Assertion, s Seen) Assertion {
	n, m := s.Good+s.Bad, s.RefGood+s.RefBad
	if out.N = n; n == 0 || m == 0 {
		out.Seen = fmt.Sprintf("%d requests beside %d of the %s", n, m, a.Against)
		return out
	}
	least, most := worse(s.Bad, n, s.RefBad, m)
	out.Seen = fmt.Sprintf("%s of %d requests failed, %s of %d of the %s: worse by %s to %s",
		percent(float64(s.Bad)/float64(n)), n, percent(float64(s.RefBad)/float64(m)), m, a.Against, percent(least), percent(most))
	margin := float64(a.Limit) / 1_000_000
	switch {
	case min(n, m) < a.MinRequests:
		out.Seen += fmt.Sprintf(", fewer than %d", a.MinRequests)
	case most < margin:
		out.Result = Pass
	case least >= margin:
		out.Result = Fail
	default:
		out.Seen += ", too few to tell"
	}
	return out
}

// quantile judges a percentile by its order-statistic interval.
func quantile(out Assertion, a scenario.Assertion, bins histogram.Bins) Assertion {
	n := bins.Count()
	out.N = n
	if n == 0 {
		out.Seen = "no whole minute with requests"
		return out
	}
	q := float64(a.Measure.Quantile()) / 1000
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
