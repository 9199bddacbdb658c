package openslo

import (
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// generatorV1 reads an SLO of slo-generator's first form: a flat map.
func (im *importer) generatorV1(m *conf.Map) {
	im.alone(m.Node(), func() Imported {
		service, feature, name := m.Need("service_name"), m.Get("feature_name"), m.Need("slo_name")
		backend := m.Need("backend").Map()
		i := im.generated(service, word(feature), name, word(m.Get("slo_description")), m.Need("slo_target"), backend.Need("method"), backend.Need("measurement"))
		for _, key := range []string{"class", "url", "project_id"} {
			backend.Get(key)
		}
		dropped(m.Get("exporters"), "what is evaluated stands in breakwater's own API and metrics")
		m.Done()
		return i
	})
}

// generatorV2 reads its later form.
func (im *importer) generatorV2(m *conf.Map) {
	im.alone(m.Node(), func() Imported {
		m.Get("apiVersion")
		m.Get("kind")
		tags := m.Need("metadata").Map().Need("labels").Map()
		spec := m.Need("spec").Map()
		m.Done()
		service, name := tags.Need("service_name"), tags.Need("slo_name")
		i := im.generated(service, word(tags.Get("feature_name")), name, word(spec.Get("description")), spec.Need("goal"), spec.Need("method"), spec.Need("service_level_indicator"))
		spec.Get("backend")
		dropped(spec.Get("exporters"), "what is evaluated stands in breakwater's own API and metrics")
		dropped(spec.Get("error_budget_policy"), "the policy of the files is taken for all")
		dropped(spec.Get("frequency"), "budgets are evaluated every few seconds")
		spec.Done()
		return i
	})
}

func (im *importer) generated(service conf.Node, feature string, name conf.Node, description string, goal, method, measure conf.Node) Imported {
	var i Imported
	var t slo.Terms
	o := &i.Objective
	for _, n := range []conf.Node{service, name} {
		if word(n) == "" {
			if n.Present() {
				n.Errorf("must be a name, got %s", n.Got())
			}
			return i
		}
	}
	o.Service = id(service, word(service))
	o.ID = id(name, word(service), feature, word(name))
	i.Description = description
	o.Title, o.Window = titled("", description, o.ID), 28*day
	if goal.Present() {
		ppb := goal.Decimal(-1, 9, 0, 1000*perOne)
		if ppb >= 0 {
			o.TargetPPB = checked(goal, slo.TargetRatio(ppb))
		}
	}
	name.Warnf("has no window of its own: taken as 28 d, the longest of slo-generator's steps").Coded(codeTaken)
	text := measure.JSON()
	switch word(method) {
	case "":
		if method.Present() {
			method.Errorf("must be good_bad_ratio or distribution_cut, got %s", method.Got())
		}
	case "distribution_cut":
		limit, ok := seconds(measure.Map().Need("threshold_bucket"))
		if below, given := measure.Map().Get("good_below_threshold").Bool(true); given && !below {
			measure.Errorf("must have good requests below the threshold, got them above").Hint("it would call slow requests the good ones")
		}
		if ok {
			t.Indicator = slo.Indicator{Kind: slo.Latency, Limit: limit}
			measure.Warnf("is not carried over: breakwater counts requests of service %s within %s itself", o.Service, slo.Span(limit)).Coded(codeDropped)
			narrower(measure, query(measure), o.Service)
		}
	case "good_bad_ratio":
		measure.Warnf("is not carried over: breakwater counts good of valid requests of service %s itself", o.Service).Coded(codeDropped)
	default:
		method.Errorf("must be good_bad_ratio or distribution_cut, got %s", method.Got()).Hint("a query for a ratio hides its counts: %s", clip(text))
	}
	for _, p := range im.steps {
		t.Pairs = append(t.Pairs, pair(p.Severity, p.Long, p.SpendPPM, t.Pairs))
	}
	o.Terms = &t
	return i
}

// generatorConfig takes the default policy of the shared configuration: each step
// that alerts becomes a burn rule.
func (im *importer) generatorConfig(m *conf.Map) {
	for _, key := range m.Keys() {
		if key != "error_budget_policies" {
			dropped(m.Get(key), "breakwater counts by itself and needs no backends or exporters")
		}
	}
	for _, policy := range m.Get("error_budget_policies").Entries() {
		if policy.Key != "default" {
			dropped(policy.Value, "one policy is taken for all, the one named default")
			continue
		}
		for _, n := range policy.Value.Map().Need("steps").List() {
			s := n.Map()
			name, rate := s.Need("name"), s.Need("burn_rate_threshold").Decimal(0, 3, 1, 10_000_000)
			window := time.Duration(s.Need("window").Int(3600, 60, int64(366*day/time.Second))) * time.Second
			alert, _ := s.Get("alert").Bool(true)
			messages := s.Get("message_alert")
			s.Get("message_ok")
			s.Done()
			if !alert {
				dropped(n, "step %q does not alert: it is a rule for people, which the freeze policy states", word(name))
				continue
			}
			if window%(12*time.Minute) != 0 || window > 28*day || rate*int64(window/time.Minute) > 9990*int64(28*day/time.Minute) {
				dropped(n, "a long window must be whole minutes in each twelfth, and spend the budget less than ten times")
				continue
			}
			severity := "ticket"
			if strings.Contains(strings.ToLower(word(messages)), "page") {
				severity = "page"
			}
			im.steps = append(im.steps, pair(severity, window, spend(rate, window, 28*day), im.steps))
		}
	}
}
