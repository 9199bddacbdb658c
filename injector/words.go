package injector

import (
	"math"
	"strconv"
	"strings"
	"time"

	"breakwater/injector/scenario"
)

func sqrt(x float64) float64 { return math.Sqrt(max(x, 0)) }

// words says what an assertion expects.
func words(a scenario.Assertion) string {
	switch a.Measure {
	case scenario.Breaker:
		return "breaker of " + a.Service + " " + strings.ReplaceAll(a.Event, "_", " ")
	case scenario.Alert:
		return "alert " + a.Service + " is " + a.Event
	case scenario.Config:
		return "configuration of every gateway"
	case scenario.Probed:
		return a.Probe.URL + " answers " + a.Probe.Expects()
	}
	of := a.Service
	if a.Cohort != "" {
		of = string(a.Cohort) + " requests of " + a.Service
	}
	if a.Against != "" {
		return "failed share of " + of + " beside that of the " + a.Against
	}
	name := ""
	switch a.Measure {
	case scenario.Success:
		name = "share of good requests of " + of
	case scenario.ErrorRate:
		name = "share of failed requests of " + of
	case scenario.Amplification:
		name = "tries sent for each request of " + of
	case scenario.Retries:
		name = "extra tries over the requests of " + of
	case scenario.Repeats:
		name = "share answered " + scenario.Either(a.Repeated.Statuses) + " of what was asked again of " + of + " after its answer was lost"
	case scenario.Flaps:
		name = "how often the breaker of " + of + " opens again"
	case scenario.Ratio:
		name = a.Part + " of all " + a.Whole
		if of != "" {
			name += " of " + of
		}
		if a.While != "" {
			name += " while the breaker of " + a.While + " is open"
		}
	default:
		name = strings.TrimPrefix(string(a.Measure), "p") + "th percentile latency of " + of
	}
	relation := map[string]string{"<=": "at most", "<": "below", ">=": "at least", ">": "above"}
	return name + " is " + relation[a.Op] + " " + show(a.Measure, a.Limit)
}

// expected is the short form: a relation and a limit, or what has to take place.
func expected(a scenario.Assertion) string {
	within := ""
	if a.Within > 0 {
		within = " within " + after(a.Within)
	}
	switch {
	case a.Probe != nil:
		return "answers " + a.Probe.Expects() + within
	case a.Event != "":
		return strings.ReplaceAll(a.Event, "_", " ") + within
	case a.Against != "":
		return "worse by less than " + show(a.Measure, a.Limit)
	}
	return a.Op + " " + show(a.Measure, a.Limit)
}

// show writes a limit with its unit.
func show(m scenario.Measure, limit int64) string {
	switch {
	case m.Quantile() > 0:
		return took(float64(limit))
	case m == scenario.Flaps:
		return strconv.FormatInt(limit, 10)
	case m == scenario.Amplification:
		return strconv.FormatFloat(float64(limit)/1_000_000, 'f', -1, 64)
	}
	return percent(float64(limit) / 1_000_000)
}

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*100_0000)/10_000, 'f', -1, 64) + " %"
}

func took(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	if d >= 10*time.Second {
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	}
	return strconv.FormatFloat(math.Round(d.Seconds()*1000), 'f', -1, 64) + " ms"
}
