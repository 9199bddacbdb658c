package web

import (
	"strings"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

// expectation says an assertion as the injector does; other languages make the frequent
// ones, a measure with its limit, of the same parts.
func (l lang) expectation(a scenario.Assertion) (text, short string) {
	text, short = injector.Said(a)
	if l.words == nil || a.Against != "" || a.Cohort != "" {
		return l.tell(text), l.tell(short)
	}
	name := ""
	switch a.Measure {
	case scenario.Success:
		name = l.say("share of good requests of %s", a.Service)
	case scenario.ErrorRate:
		name = l.say("share of failed requests of %s", a.Service)
	case scenario.Amplification:
		name = l.say("tries sent for each request of %s", a.Service)
	case scenario.Retries:
		name = l.say("extra tries over the requests of %s", a.Service)
	case scenario.Flaps:
		name = l.say("how often the breaker of %s opens again", a.Service)
	default:
		if a.Measure.Quantile() == 0 {
			return l.tell(text), l.tell(short)
		}
		name = l.say("%s latency of %s", strings.ToUpper(string(a.Measure)), a.Service)
	}
	limit := strings.TrimPrefix(short, a.Op+" ")
	switch a.Op {
	case "<=":
		return l.say("%s is at most %s", name, limit), short
	case "<":
		return l.say("%s is below %s", name, limit), short
	case ">=":
		return l.say("%s is at least %s", name, limit), short
	case ">":
		return l.say("%s is above %s", name, limit), short
	}
	return l.tell(text), l.tell(short)
}
