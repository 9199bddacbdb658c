package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/explain"
	"breakwater/internal/conf"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/openslo"
)

// The codes of promises and alerts that documents show to be of no use.
const (
	alertNever    = "W-ALERT-NEVER"     // nobody will ever be told
	alertWrongly  = "W-ALERT-WRONG"     // somebody is woken for nothing
	promiseEmpty  = "W-SLO-NO-ROUTE"    // nothing is counted for it
	promiseBeyond = "W-SLO-UNREACHABLE" // it cannot be kept
	promiseAlways = "W-SLO-ALWAYS"      // it cannot be broken
	promiseNone   = "W-SLO-NONE"        // users need it, and nothing is promised
)

// addWeaknesses adds to r what is no mistake, and will not protect anybody.
func addWeaknesses(r *explain.Report, files []conf.File) {
	if !r.OK {
		return // first things first
	}
	found := slices.Concat(explain.Weaknesses(files), promiseWeaknesses(files))
	r.Findings = append(r.Findings, found...)
	r.Warnings += len(found)
	slices.SortStableFunc(r.Findings, func(a, b *conf.Mistake) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Col-b.Col)
	})
}

// promiseWeaknesses holds promises, alert routes and the routes of gateways against
// one another.
func promiseWeaknesses(files []conf.File) conf.Mistakes {
	var quiet, log conf.Log
	cfg := config.Parse(files, &quiet)
	routes := alert.ParseRoutes(files, &quiet)
	p := promises{cfg: cfg, routes: routes, told: map[string]bool{}}
	for _, f := range files {
		set := openslo.Parse(f, &quiet)
		for _, d := range conf.Split(f, &log) {
			if !openslo.Is(d) || d.Kind != "SLO" {
				continue
			}
			name := d.Root.Map().Get("metadata").Map().Get("name")
			if i := slices.IndexFunc(set.Objectives, func(o slo.Objective) bool { return o.ID == name.Text() }); i >= 0 {
				p.objective(&set.Objectives[i], d.Root)
				p.told[set.Objectives[i].Service] = true
				p.any = true
			}
		}
	}
	if !p.any {
		return log.Warnings() // promises are kept elsewhere
	}
	for _, f := range files {
		for _, d := range conf.Split(f, &log) {
			if d.Kind != "Service" || d.APIVersion != config.APIVersion || p.told[d.Name] {
				continue
			}
			if s := d.Root.Map(); s.Get("core").Text() == "true" {
				s.Get("core").Warnf("is true, and nothing is promised of %s: neither budget nor alert knows when it fails", d.Name).
					Hint("an SLO document with service: %s", d.Name).Coded(promiseNone)
			}
		}
	}
	return log.Warnings()
}

type promises struct {
	cfg    *config.Config
	routes []alert.Route
	told   map[string]bool // services with an objective
	any    bool
}

func (p *promises) objective(o *slo.Objective, root conf.Node) {
	spec := root.Map().Get("spec").Map()
	notes := root.Map().Get("metadata").Map().Get("annotations")
	note := func(key string) conf.Node {
		for _, e := range notes.Entries() {
			if e.Key == "breakwater/"+key {
				return e.Value
			}
		}
		return spec.Get("service")
	}
	t := o.Spec()
	if len(p.cfg.Routes) > 0 && t.Indicator.Kind != slo.Composite && !slices.ContainsFunc(p.cfg.Routes, func(r config.Route) bool { return r.Service == o.Service }) {
		spec.Get("service").Warnf("is %s, to which no route belongs: nothing is ever counted, so nothing is kept or broken", o.Service).
			Hint("the service of a Route document").Coded(promiseEmpty)
	}
	p.reach(o, t, spec, note)
	p.alerts(o, t, spec.Get("service"), note)
}

// reach: whether it can be kept, and broken.
func (p *promises) reach(o *slo.Objective, t slo.Terms, spec *conf.Map, note func(string) conf.Node) {
	const billion = 1_000_000_000
	if t.Planned > 0 && t.Planned < billion/(billion-o.TargetPPB) {
		note("planned-events").Warnf("is %d, of which %s %% leaves no failure at all: the first one breaks the promise", t.Planned, slo.TargetPercent(o.TargetPPB)).
			Hint("a target that allows a few, or a longer period").Coded(promiseBeyond)
	}
	if t.Indicator.Kind != slo.Latency {
		return
	}
	longest, least := time.Duration(0), time.Duration(0)
	for _, r := range p.cfg.Routes {
		if r.Service != o.Service {
			continue
		}
		longest = max(longest, r.Timeout)
		if u, ok := p.cfg.Upstream(r.Upstream); ok && r.Retry.Active() && u.ConnectTimeout > 0 {
			least = max(least, r.Retry.BackoffBase)
		}
	}
	if limit := t.Indicator.Limit; longest > 0 && limit >= longest {
		spec.Get("objectives").Warnf("allow %s, and every request of %s is cut off after %s: the promise cannot be broken", conf.FormatDuration(limit), o.Service, conf.FormatDuration(longest)).
			Hint("what users wait for, not what gateways allow").Coded(promiseAlways)
	} else if least > 0 && limit <= least {
		spec.Get("objectives").Warnf("allow %s, and one retry alone waits %s: whatever a retry saves is late", conf.FormatDuration(limit), conf.FormatDuration(least)).
			Hint("a longer limit, or a shorter backoff_base").Coded(promiseBeyond)
	}
}

// alerts: whether somebody hears when it is broken, and only then.
func (p *promises) alerts(o *slo.Objective, t slo.Terms, at conf.Node, note func(string) conf.Node) {
	if t.Informational {
		return
	}
	if g := t.Guard; g != nil && g.MinBad < 2 && g.ZMilli == 0 {
		note("guard").Warnf("lets a single failure wake somebody: in a quiet hour one is a large share").
			Hint("without the annotation three failures and a sure share are asked for").Coded(alertWrongly)
	}
	if t.AlertsOff {
		note("alerts").Warnf("is off: nobody is told when the budget of %s burns", o.Service).Hint("take the annotation away").Coded(alertNever)
		return
	}
	if len(p.routes) == 0 {
		return // alerts are led elsewhere, or nowhere yet: preflight and readiness tell
	}
	loudest := alert.Ticket
	if t.Pairs == nil || slices.ContainsFunc(t.Pairs, func(p slo.Pair) bool { return p.Severity == string(alert.Page) }) {
		loudest = alert.Page
	}
	if !slices.ContainsFunc(p.routes, func(r alert.Route) bool {
		return len(r.Receivers) > 0 && (len(r.Services) == 0 || slices.Contains(r.Services, o.Service)) && (r.Least == alert.Ticket || loudest == alert.Page)
	}) {
		at.Warnf("is %s, and no AlertRoute takes its alerts (%s): they fire and nobody hears", o.Service, loudest).
			Hint("name it in services of an AlertRoute, or lower its severity").Coded(alertNever)
	}
}
