package gateway

import (
	"slices"
	"strings"

	"breakwater/gateway/config"
	"breakwater/gateway/policy/retry"
)

// relies lists the fields of upstream's answers that cfg speaks of: those of the
// conditions of routes that lead there, those of its contract, and those that are
// read of every answer.
func relies(cfg *config.Config, upstream string) []reliance {
	var l relianceList
	name, _, _ := strings.Cut(upstream, "/") // a subset is spoken of by the whole
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		leads := r.Upstream == name || slices.ContainsFunc(r.Split, func(b config.Branch) bool { return b.Upstream == name })
		if leads && r.Retry.Active() {
			l.policy(&r.Retry, r.Name)
		}
	}
	for _, c := range cfg.Contracts {
		for _, a := range c.Answers {
			if c.Upstream == name && a.Header != "" {
				l.add(reliance{Names: []string{a.Header}, Value: a.Value, Statuses: []int{a.Status}}, "")
			}
		}
	}
	for _, header := range []string{"Retry-After", "X-Backend-Status", "X-RateLimit-Remaining", "X-Breakwater-Outcome"} {
		if !slices.ContainsFunc(l, func(r reliance) bool { return r.named(header) }) {
			l.add(reliance{Names: []string{header}}, "")
		}
	}
	return l
}

type relianceList []reliance

// add takes r in, once for all routes that say the same.
func (l *relianceList) add(r reliance, route string) {
	i := slices.IndexFunc(*l, r.equal)
	if i < 0 {
		i = len(*l)
		*l = append(*l, r)
	}
	if at := &(*l)[i]; route != "" && !slices.Contains(at.By, route) {
		at.By = append(at.By, route)
	}
}

func (l *relianceList) policy(cfg *retry.Config, route string) {
	rules := cfg.Rules
	if len(rules) == 0 {
		rules = []retry.Rule{{Primary: retry.Condition{Trigger: retry.StatusCodeMatch, Statuses: cfg.OnStatus}}}
	}
	status := cfg.StatusHeader
	if status == "" {
		status = "X-Backend-Status"
	}
	for _, r := range rules {
		var statuses []int
		if r.Primary.Trigger == retry.StatusCodeMatch {
			statuses = r.Primary.Statuses
		}
		for _, c := range append([]retry.Condition{r.Primary}, r.Secondary...) {
			if w, about := ofCondition(c, status); about {
				w.Statuses = statuses
				l.add(w, route)
			}
		}
		// Without a condition that confirms it, overload is told by one of two fields.
		if len(r.Secondary) > 0 || r.Action != retry.Retry && r.Action != "" {
			continue
		}
		for _, s := range statuses {
			if s == 429 || s == 503 && !cfg.BareOn503 {
				l.add(reliance{Names: []string{status, "Retry-After"}, Statuses: []int{s}, Waits: true}, route)
			}
		}
	}
}

// ofCondition is the field that c looks at, where it looks at one.
func ofCondition(c retry.Condition, status string) (r reliance, about bool) {
	r = reliance{Waits: true}
	switch c.Trigger {
	case retry.HeaderExists, retry.HeaderValueMatch:
		r.Names, r.Value = []string{c.Header}, c.Value
	case retry.RetryAfterHeader:
		r.Names = []string{"Retry-After"}
	case retry.XBackendStatus:
		r.Names, r.Value = []string{status}, c.Value
		if r.Value == "" {
			r.Value = "overloaded"
		}
	default:
		return r, false
	}
	return r, true
}
