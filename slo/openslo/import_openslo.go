package openslo

import (
	"fmt"
	"strings"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// head reads metadata of any OpenSLO version.
func (im *importer) head(m *conf.Map) (at conf.Node, i Imported) {
	m.Get("apiVersion")
	m.Get("kind")
	md := m.Need("metadata").Map()
	at = md.Need("name")
	name := word(at)
	if name == "" && at.Present() {
		at.Errorf("must be a name, got %s", at.Got())
	} else if at.Present() {
		i.Objective.ID = id(at, name)
	} else {
		at = m.Node()
	}
	i.Objective.Title = word(md.Get("displayName"))
	i.Labels, i.Annotations = labels(md.Get("labels")), labels(md.Get("annotations"))
	if ns := md.Get("namespace"); ns.Present() {
		dropped(ns, "names are unique in one place here")
	}
	md.Done()
	return at, i
}

func (im *importer) service(m *conf.Map) {
	before := len(im.log.Errors())
	_, i := im.head(m)
	spec := m.Get("spec").Map()
	s := Service{Name: i.Objective.ID, Title: titled(i.Objective.Title, "", i.Objective.ID), Description: word(spec.Get("description")), Owner: ownerOf(i.Labels)}
	spec.Done()
	m.Done()
	if len(im.log.Errors()) == before {
		im.out.Services = append(im.out.Services, s)
	}
}

// openSLO reads an SLO of v1 or v2alpha. Several objectives become as many SLOs.
func (im *importer) openSLO(m *conf.Map) {
	if strings.Contains(m.Node().JSON(), `"type":"`+source+`"`) {
		// One of our own: nothing of it is somebody else's.
		im.alone(m.Node(), func() Imported {
			o := objective(m, im.log)
			md := m.Get("metadata").Map()
			return Imported{Objective: o, Description: word(m.Get("spec").Map().Get("description")), Labels: labels(md.Get("labels"))}
		})
		return
	}
	before := len(im.log.Errors())
	at, base := im.head(m)
	var t slo.Terms
	o := &base.Objective
	spec := m.Need("spec").Map()
	base.Description = word(spec.Get("description"))
	serviceNode := spec.Get("service")
	if !serviceNode.Present() {
		serviceNode = spec.Get("serviceRef")
	}
	if !serviceNode.Present() {
		spec.Need("service")
	} else {
		o.Service = id(serviceNode, word(serviceNode))
	}
	o.Title, o.Owner = titled(o.Title, base.Description, o.ID), ownerOf(base.Labels)
	o.Window = window(spec.Need("timeWindow"), &t)
	metric := im.sli(spec, o.Service, &t)
	im.alerts(spec.Get("alertPolicies"), o, &t)
	method, goals := spec.Need("budgetingMethod"), spec.Need("objectives")
	m.Done()
	spec.Done()
	if len(im.log.Errors()) > before {
		// Its objectives are looked at all the same, for the sake of their mistakes.
		for _, g := range goals.List() {
			im.goal(g, method, metric, base, t, len(goals.List()) == 1)
		}
		return
	}
	list := goals.List()
	if len(list) == 0 && goals.IsList() {
		goals.Errorf("must hold an objective, got none")
	}
	for n, g := range list {
		where, suffix := at, ""
		if len(list) > 1 {
			where, suffix = g, suffixOf(g, n, list)
		}
		im.alone(where, func() Imported {
			i := im.goal(g, method, metric, base, t, len(goals.List()) == 1)
			if suffix != "" {
				i.Objective.ID = id(where, i.Objective.ID, suffix)
				if name := word(g.Map().Get("displayName")); name != "" {
					i.Objective.Title += ": " + name
				}
			}
			return i
		})
	}
}

// suffixOf tells several objectives of one document apart, by what they are called
// or else by their place.
func suffixOf(g conf.Node, n int, all []conf.Node) string {
	slug := func(g conf.Node) string {
		fields := strings.FieldsFunc(strings.ToLower(word(g.Map().Get("displayName"))), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
		return strings.Join(fields, "-")
	}
	own := slug(g)
	for i, other := range all {
		if i != n && slug(other) == own || own == "" || len(own) > 30 {
			return fmt.Sprint(n + 1)
		}
	}
	return own
}

// sli reads what is measured: a ratio, or a threshold that the objective holds.
// metric is the threshold's, absent for a ratio.
func (im *importer) sli(spec *conf.Map, service string, t *slo.Terms) (metric conf.Node) {
	for _, key := range []string{"indicatorRef", "sliRef"} {
		if ref := spec.Get(key); ref.Present() {
			dropped(ref, "what it refers to is measured elsewhere; good of valid requests of service %s stand in its place", service)
			return metric
		}
	}
	ind := spec.Get("indicator")
	if !ind.Present() {
		ind = spec.Get("sli")
	}
	if !ind.Present() {
		return metric // an objective may hold its own
	}
	im2 := ind.Map()
	dropped(im2.Get("metadata"), "an indicator has no name of its own here")
	is := im2.Need("spec").Map()
	is.Get("description")
	ratio := is.Get("ratioMetric")
	metric = is.Get("thresholdMetric")
	if ratio.Present() {
		im.ratio(ratio, service, t)
	} else if !metric.Present() {
		is.Node().Errorf("must hold ratioMetric or thresholdMetric")
	}
	is.Done()
	im2.Done()
	return metric
}

func (im *importer) ratio(n conf.Node, service string, t *slo.Terms) {
	r := n.Map()
	for _, key := range []string{"counter", "incremental"} {
		if counter := r.Get(key); counter.Text() == "false" {
			dropped(counter, "single requests are counted")
		}
	}
	raw, kind := r.Get("raw"), r.Get("rawType")
	q := queries{r.Get("good"), r.Get("bad"), r.Get("total")}
	if !q.good.Present() {
		q.good = r.Get("success")
	}
	r.Done()
	switch {
	case raw.Present() || kind.Present():
		raw.Errorf("must be good or bad over total, got a raw ratio").Hint("a ratio made elsewhere hides its counts")
	case !q.good.Present() && !q.bad.Present():
		n.Errorf("must hold good or bad")
	case !q.total.Present():
		r.Need("total")
	default:
		im.counted(q, service, t)
	}
}

// goal reads one objective.
func (im *importer) goal(n, method, metric conf.Node, base Imported, t slo.Terms, one bool) Imported {
	g := n.Map()
	name := g.Get("displayName")
	if one {
		dropped(name, "an SLO has one objective here and is called by its title")
	}
	value, op := g.Get("value"), g.Get("op")
	if own := g.Get("indicator"); own.Present() {
		is := own.Map().Need("spec").Map()
		if r := is.Get("ratioMetric"); r.Present() {
			im.ratio(r, base.Objective.Service, &t)
		} else {
			metric = is.Need("thresholdMetric")
		}
	}
	if ref := g.Get("indicatorRef"); ref.Present() {
		dropped(ref, "good of valid requests of service %s stand in its place", base.Objective.Service)
	}
	dropped(g.Get("compositeWeight"), "each part becomes an SLO of its own; name them as members of class composite to have one of them all")
	for _, key := range []string{"ratioMetrics", "ratioMetric"} {
		if r := g.Get(key); r.Present() { // v1alpha
			im.ratio(r, base.Objective.Service, &t)
		}
	}
	switch {
	case metric.Present():
		im.threshold(metric, value, op, base.Objective.Service, &t)
	default:
		if op.Present() {
			op.Warnf("is ignored: good over valid has no operator").Coded(codeDropped)
		}
		dropped(value, "a ratio of requests has no value to compare")
	}
	base.Objective.TargetPPB = share(g)
	budgeting(method, g, &t)
	g.Done()
	base.Objective.Terms = &t
	return base
}

// threshold is a metric that is compared with a value. Only a latency can be
// promised so here, since only requests are counted.
func (im *importer) threshold(metric, value, op conf.Node, service string, t *slo.Terms) {
	text := query(metric)
	slow := strings.Contains(text, "latency") || strings.Contains(text, "duration") || strings.Contains(text, "response_time")
	if !slow {
		metric.Errorf("must be a latency, got the threshold of another metric").Hint("breakwater counts requests; write the SLO by hand: good or bad over total")
		return
	}
	if !value.Present() {
		metric.Errorf("must have a value in the objective to be compared with")
		return
	}
	t.Indicator = slo.Indicator{Kind: slo.Latency, Limit: limit(value, op)}
	metric.Warnf("is not carried over: breakwater counts requests of service %s within %s itself", service, slo.Span(t.Indicator.Limit)).
		Coded(codeDropped).Hint("value is taken for seconds")
	narrower(metric, text, service)
}

// budgeting is method, but more lenient: others leave the method out.
func budgeting(n conf.Node, g *conf.Map, t *slo.Terms) {
	if !n.Present() {
		g.Get("timeSliceTarget")
		g.Get("timeSliceWindow")
		return // told of where it is missing
	}
	got := n.Enum("", "Occurrences", "Timeslices", "RatioTimeslices")
	least, span := g.Get("timeSliceTarget"), g.Get("timeSliceWindow")
	switch got {
	case "Timeslices":
		t.Method = slo.Timeslices
		if !least.Present() {
			g.Node().Errorf("must hold timeSliceTarget: with Timeslices each slice is good or bad by it").Coded("E-MISSING")
		} else {
			t.SlicePPB = least.Decimal(0, 9, 1, perOne)
		}
		t.Slice = slice(span)
	case "RatioTimeslices":
		t.Method = slo.RatioTimeslices
		dropped(least, "with RatioTimeslices a slice counts by its share of good requests")
		t.Slice = slice(span)
	default:
		for _, f := range []conf.Node{least, span} {
			dropped(f, "with Occurrences requests are budgeted, not slices of time")
		}
	}
}
