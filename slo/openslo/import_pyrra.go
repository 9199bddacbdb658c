package openslo

import (
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// pyrra reads a ServiceLevelObjective of Pyrra. It names no service: the owner of
// the promise is its namespace's service, told by the label or else its own name.
func (im *importer) pyrra(m *conf.Map) {
	var t slo.Terms
	var i Imported
	im.alone(m.Node(), func() Imported {
		m.Get("apiVersion")
		m.Get("kind")
		md := m.Need("metadata").Map()
		name := md.Need("name")
		i.Objective.ID = id(name, word(name))
		i.Labels, i.Annotations = labels(md.Get("labels")), labels(md.Get("annotations"))
		ns := md.Get("namespace")
		md.Done()
		spec := m.Need("spec").Map()
		m.Done()
		i.Description = word(spec.Get("description"))
		i.Objective.TargetPPB = percentTarget(spec.Need("target"))
		i.Objective.Window = loose(spec.Need("window"))
		i.Objective.Service = im.pyrraService(name, ns, i.Labels)
		im.pyrraIndicator(spec, i.Objective.Service, &t)
		dropped(spec.Get("performance_over_accuracy"), "counts are exact here")
		im.pyrraAlerting(spec.Get("alerting"), &i, &t)
		spec.Done()
		i.Objective.Title, i.Objective.Owner = titled("", i.Description, i.Objective.ID), ownerOf(i.Labels)
		i.Objective.Terms = &t
		return i
	})
}

// pyrraService names the service: a label "service", else the namespace, else the
// SLO itself. What it was is told, since nobody wrote it.
func (im *importer) pyrraService(name, ns conf.Node, all []Label) string {
	for _, l := range all {
		if l.Key == "service" && len(l.Values) == 1 && isName(l.Values[0]) {
			return l.Values[0]
		}
	}
	service := strings.ToLower(word(name))
	if ns := strings.ToLower(word(ns)); isName(ns) && ns != "monitoring" && ns != "default" {
		service = ns
	}
	name.Warnf("names no service: taken as one of service %s", service).Coded(codeTaken).Hint("set spec.service in what is written")
	return service
}

func (im *importer) pyrraIndicator(spec *conf.Map, service string, t *slo.Terms) {
	old := spec.Get("latency") // of early releases
	ind := spec.Need("indicator").Map()
	ratio, latency, native, gauge := ind.Get("ratio"), ind.Get("latency"), ind.Get("latencyNative"), ind.Get("bool_gauge")
	if !gauge.Present() {
		gauge = ind.Get("boolGauge")
	}
	ind.Done()
	switch {
	case ratio.Present():
		r := ratio.Map()
		q := queries{bad: r.Need("errors"), total: r.Need("total")}
		grouping(r)
		r.Done()
		im.counted(q, service, t)
	case latency.Present():
		l := latency.Map()
		success, total := l.Need("success"), l.Need("total")
		grouping(l)
		l.Done()
		if _, found := boundaryOf(query(success)); !found {
			if d, ok := seconds(old); ok {
				old.Warnf("is of an early release of Pyrra: taken as the limit %s", slo.Span(d)).Coded(codeTaken)
				t.Indicator = slo.Indicator{Kind: slo.Latency, Limit: d}
				var ignored slo.Terms
				im.counted(queries{good: success, total: total}, service, &ignored)
				return
			}
			success.Errorf("must hold le, the limit of latency, got %s", clip(query(success)))
			return
		}
		im.counted(queries{good: success, total: total}, service, t)
	case native.Present():
		l := native.Map()
		limit, ok := seconds(l.Need("latency"))
		total := l.Need("total")
		grouping(l)
		l.Done()
		if ok {
			t.Indicator = slo.Indicator{Kind: slo.Latency, Limit: limit}
			total.Warnf("is not carried over: breakwater counts requests of service %s within %s itself, back-off included", service, slo.Span(limit)).Coded(codeDropped)
			narrower(total, query(total), service)
		}
	case gauge.Present():
		gauge.Map()
		gauge.Errorf("must be ratio, latency or latencyNative, got a gauge of probes").Hint("breakwater counts requests; a route that a prober asks is counted like any other")
	default:
		ind.Node().Errorf("must hold ratio, latency or latencyNative")
	}
}

// grouping made an SLO of each label value.
func grouping(m *conf.Map) {
	dropped(m.Get("grouping"), "the service is counted as one; annotation %sgroup-by: route tells its routes apart", prefix)
}

func (im *importer) pyrraAlerting(n conf.Node, i *Imported, t *slo.Terms) {
	a := n.Map()
	for _, l := range labels(a.Get("labels")) {
		if l.Key == "team" || l.Key == "owner" {
			i.Labels = append(i.Labels, l) // who answers for it is carried
		} else {
			dropped(a.Get("labels"), "alerts are named and routed by breakwater's alert routes")
		}
	}
	for _, key := range []string{"name", "annotations", "absent"} {
		dropped(a.Get(key), "alerts are named and routed by breakwater's alert routes")
	}
	if on, given := a.Get("burnrates").Bool(true); given && !on {
		t.AlertsOff = true
	}
	if off, _ := a.Get("disabled").Bool(false); off {
		t.AlertsOff = true
	}
	a.Done()
}

// percentTarget reads a target that is always a percentage, quoted or not: "0.1"
// is no ratio there.
func percentTarget(n conf.Node) int64 {
	text := word(n)
	if !n.Present() {
		return 0
	}
	ppb, err := slo.ParseTarget(strings.TrimSuffix(text, "%") + "%")
	if err != nil {
		n.Errorf("%s", strings.TrimPrefix(err.Error(), slo.ErrTarget.Error()+": "))
	}
	return ppb
}

// loose reads a rolling window as Prometheus writes durations.
func loose(n conf.Node) time.Duration {
	if !n.Present() {
		return standard
	}
	text := word(n)
	if years, ok := strings.CutSuffix(text, "y"); ok && years == "1" {
		return 365 * day
	}
	d, err := span(text)
	if err != nil || d < time.Hour {
		n.Errorf("must be a window such as 4w or 30d, got %s", n.Got())
		return standard
	}
	return d
}
