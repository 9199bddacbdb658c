package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"breakwater/gateway/contract"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

// contractPlaces are the nodes of a contract that cross-checks speak of.
type contractPlaces struct {
	name, upstream conf.Node
	answers        []conf.Node
}

// contract reads a ResilienceContract document.
func (p *parser) contract(m *conf.Map) {
	c, answers := contract.ParseResilience(m)
	p.cfg.Contracts = append(p.cfg.Contracts, c)
	p.contracts = append(p.contracts, contractPlaces{m.Get("name"), m.Get("upstream"), answers})
}

// checkContracts holds the contracts against the upstreams there are, and against
// what the policies of routes to them would make of each answer: the engine is
// asked that serves.
func (p *parser) checkContracts() {
	all, first := names{what: "contract"}, map[string]conf.Node{}
	for i := range p.cfg.Contracts {
		c, at := &p.cfg.Contracts[i], p.contracts[i]
		all.add(c.Name, at.name)
		if c.Upstream == "" {
			continue // said already
		}
		if _, ok := p.cfg.Upstream(c.Upstream); !ok {
			at.upstream.Errorf("must be the name of an Upstream document, got %s", c.Upstream).Coded("E-UPSTREAM")
			continue
		}
		if f, twice := first[c.Upstream]; twice {
			at.upstream.Errorf("must have one contract, got another for %s", c.Upstream).Hint("first at %s:%d", f.File(), f.Line()).Coded("E-DUPLICATE")
			continue
		}
		first[c.Upstream] = at.upstream
		if p.log.Err() != nil {
			continue // what a mistaken policy would do is nobody's wish
		}
		p.checkAnswers(c, at)
	}
}

// checkAnswers tells each answer of which some route makes something else than
// was agreed, and the statuses that are retried without a word in the contract.
func (p *parser) checkAnswers(c *contract.Resilience, at contractPlaces) {
	unagreed := map[int][]string{}
	differ := make([]map[string][]string, len(c.Answers)) // by answer: what is done instead, and by which routes
	for i := range p.cfg.Routes {
		r := &p.cfg.Routes[i]
		if !r.sendsTo(c.Upstream) || !r.Retry.Active() {
			continue
		}
		for k, a := range c.Answers {
			if text := disagrees(r, a); a.Reaction != "" && a.Status != 0 && text != "" {
				if differ[k] == nil {
					differ[k] = map[string][]string{}
				}
				differ[k][text] = append(differ[k][text], r.Name)
			}
		}
		for _, status := range retriedStatuses(&r.Retry) {
			// These two stand for the lack of an answer too, of which nobody can agree.
			if status != 502 && status != 504 && !slices.ContainsFunc(c.Answers, func(a contract.Answer) bool { return a.Status == status }) {
				unagreed[status] = append(unagreed[status], r.Name)
			}
		}
	}
	for k, a := range c.Answers {
		for _, text := range slices.Sorted(maps.Keys(differ[k])) {
			at.answers[k].Warnf("%s is agreed to be %s, but %s %s", a, doing(a.Reaction), routesDo(differ[k][text]), text).Coded("W-CONTRACT")
		}
	}
	for _, status := range slices.Sorted(maps.Keys(unagreed)) {
		at.upstream.Warnf("says nothing of %d, which %s asked again", status, routesHave(unagreed[status])).
			Hint("add an answer with status: %d", status).Coded("W-CONTRACT")
	}
}

// disagrees says what r makes of a where that is not what was agreed.
func disagrees(r *Route, a contract.Answer) string {
	d := retry.Decide(r.Retry, facts(a), 0)
	switch {
	case d.Retry && a.Reaction == contract.Retry:
		return ""
	case d.Retry:
		return "asks again (" + d.Reason + ")"
	case a.Reaction == contract.Retry && d.Skip != "":
		return "does not ask again (" + d.Skip + ")"
	case a.Reaction == contract.Retry:
		return "takes it for good"
	}
	// What follows a failure that is not asked again: the strategy, where the
	// policy speaks of it, or the route's own action, else the answer as it is.
	instead := replaced(r, a, d)
	switch {
	case a.Reaction == contract.Fallback && instead == "":
		return "passes it on"
	case a.Reaction == contract.Pass && instead != "":
		return "puts another in its place (" + instead + ")"
	}
	return ""
}

// replaced names what takes the place of an answer like a; "" nothing does. The
// route's own action is asked by running its layer.
func replaced(r *Route, a contract.Answer, d retry.Decision) string {
	var x exchange.Exchange
	x.Reset()
	x.Request.Method = "GET"
	x.Request.Body.Set(nil, 0)
	x.Event.Skip = d.Skip
	if d.Reason != "" && d.Fallback == retry.Return503 {
		return string(retry.Return503)
	}
	answer := exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = a.Status; return nil })
	own := r.Degrade
	if own.Action == fallback.LastGood { // kept or not, it is no answer of now
		own.Action = fallback.FailFast
	}
	if err := fallback.Layer(own, nil)(answer).Serve(&x); err != nil {
		return ""
	}
	return x.Event.Degraded
}

// facts are those of an answer like a to a request for which no gate is shut.
func facts(a contract.Answer) retry.Facts {
	f := retry.Facts{Status: a.Status, Head: &exchange.Head{}, Method: "GET", Replayable: true, OtherHost: true}
	if a.Header != "" {
		value := a.Value
		if value == "" {
			value = "1" // some value: what can be read as a number of seconds too
		}
		f.Head.Add(a.Header, value)
	}
	return f
}

// retriedStatuses are those that a policy asks again, be it under conditions.
func retriedStatuses(cfg *retry.Config) []int {
	if len(cfg.Rules) == 0 {
		return cfg.OnStatus
	}
	var out []int
	for _, r := range cfg.Rules {
		if r.Action == retry.Retry || r.Action == "" {
			out = append(out, r.Primary.Statuses...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sendsTo reports whether requests of r go to upstream; copies do not count, since
// nobody reacts to their answers.
func (r *Route) sendsTo(upstream string) bool {
	return r.Upstream == upstream || slices.ContainsFunc(r.Split, func(b Branch) bool { return b.Upstream == upstream })
}

func doing(r contract.Reaction) string {
	switch r {
	case contract.Retry:
		return "asked again"
	case contract.Never:
		return "never asked again"
	case contract.Fallback:
		return "replaced by a fallback"
	}
	return "passed on"
}

func routesDo(names []string) string {
	if len(names) == 1 {
		return "route " + names[0]
	}
	return fmt.Sprintf("each of routes %s", strings.Join(names, ", "))
}

func routesHave(names []string) string {
	if len(names) == 1 {
		return "route " + names[0] + " has"
	}
	return fmt.Sprintf("routes %s have", strings.Join(names, ", "))
}
