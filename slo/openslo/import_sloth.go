package openslo

import (
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// slothWords are the names of fields, which the CRD writes in another case.
type slothWords struct {
	events                              [2]string // error, total
	raw, page, ticket, plugins, disable string
}

func (im *importer) sloth(m *conf.Map) {
	m.Get("version")
	im.slothSpec(m, slothWords{[2]string{"error_query", "total_query"}, "error_ratio_query", "page_alert", "ticket_alert", "slo_plugins", "disable"})
}

func (im *importer) slothCRD(m *conf.Map) {
	m.Get("apiVersion")
	m.Get("kind")
	dropped(m.Need("metadata"), "SLOs are named by their service and their own name")
	spec := m.Need("spec").Map()
	im.slothSpec(spec, slothWords{[2]string{"errorQuery", "totalQuery"}, "errorRatioQuery", "pageAlert", "ticketAlert", "sloPlugins", "disable"})
	m.Done()
}

// slothSpec reads a service with its SLOs. Their window is 30 days, or that of the
// one catalogue among the files.
func (im *importer) slothSpec(m *conf.Map, w slothWords) {
	name := m.Need("service")
	service := ""
	if name.Present() {
		service = id(name, word(name))
	}
	shared := labels(m.Get("labels"))
	dropped(m.Get(w.plugins), "plugins make rules of their own")
	window, at := 30*day, m.Node()
	if len(im.windows) == 1 {
		for d := range im.windows {
			window = d
		}
	} else if len(im.windows) > 1 {
		at.Warnf("is taken over %s: the files hold %d catalogues of windows", slo.Span(window), len(im.windows)).Coded(codeTaken)
	}
	for _, n := range m.Need("slos").List() {
		s := n.Map()
		if service == "" { // told of; the mistakes of its SLOs are too
			im.slothSLO(s, w, service, shared, window)
			continue
		}
		im.alone(s.Need("name"), func() Imported { return im.slothSLO(s, w, service, shared, window) })
	}
	m.Done()
}

func (im *importer) slothSLO(s *conf.Map, w slothWords, service string, shared []Label, window time.Duration) Imported {
	var i Imported
	var t slo.Terms
	name := s.Get("name")
	i.Objective = slo.Objective{Service: service, Window: window, ID: id(name, service, word(name))}
	i.Description = word(s.Get("description"))
	i.Labels = append(append(i.Labels, shared...), labels(s.Get("labels"))...)
	i.Objective.Title, i.Objective.Owner = titled("", i.Description, i.Objective.ID), ownerOf(i.Labels)
	i.Objective.TargetPPB = percentTarget(s.Need("objective"))
	dropped(s.Get("plugins"), "plugins make rules of their own")
	dropped(s.Get("slo_plugins"), "plugins make rules of their own")
	sli := s.Need("sli").Map()
	events, raw, plugin := sli.Get("events"), sli.Get("raw"), sli.Get("plugin")
	sli.Done()
	switch {
	case raw.Present():
		raw.Map().Get(w.raw)
		raw.Errorf("must be events, got a raw ratio of errors").Hint("a ratio made elsewhere hides its counts")
	case plugin.Present():
		plugin.Errorf("must be events, got a plugin").Hint("write the SLO as a document: good or bad over total")
	case !events.Present():
		sli.Node().Errorf("must hold events")
	default:
		e := events.Map()
		q := queries{bad: e.Need(w.events[0]), total: e.Need(w.events[1])}
		e.Done()
		im.counted(q, service, &t)
	}
	im.slothAlerts(s.Get("alerting"), w, window, &t)
	s.Done()
	i.Objective.Terms = &t
	return i
}

// slothAlerts takes which severities alert, and the rules of the catalogue. How
// alerts are named and labelled is settled by alert routes.
func (im *importer) slothAlerts(n conf.Node, w slothWords, window time.Duration, t *slo.Terms) {
	off := map[string]bool{}
	a := n.Map()
	for _, key := range []string{"name", "labels", "annotations"} {
		dropped(a.Get(key), "alerts are named and routed by breakwater's alert routes")
	}
	for severity, key := range map[string]string{"page": w.page, "ticket": w.ticket} {
		one := a.Get(key).Map()
		off[severity], _ = one.Get(w.disable).Bool(false)
		for _, key := range []string{"labels", "annotations"} {
			dropped(one.Get(key), "alerts are named and routed by breakwater's alert routes")
		}
		one.Done()
	}
	a.Done()
	rules := im.windows[window]
	switch {
	case off["page"] && off["ticket"]:
		t.AlertsOff = true
		return
	case rules == nil && !off["page"] && !off["ticket"]:
		return // breakwater's own are the same
	case rules == nil:
		rules = slo.Pairs()
	}
	for _, p := range rules {
		if !off[p.Severity] {
			t.Pairs = append(t.Pairs, pair(p.Severity, p.Long, p.SpendPPM, t.Pairs))
		}
	}
}

// alertWindows reads a catalogue: which part of the budget each rule lets go.
func (im *importer) alertWindows(m *conf.Map) {
	before := len(im.log.Errors())
	m.Get("apiVersion")
	m.Get("kind")
	m.Get("version")
	m.Get("metadata")
	spec := m
	if s := m.Get("spec"); s.Present() {
		spec = s.Map()
		m.Done()
	}
	period := spec.Need("sloPeriod").Span(standard, day, 366*day)
	var pairs []slo.Pair
	for _, severity := range []string{"page", "ticket"} {
		tier := spec.Need(severity).Map()
		for _, speed := range []string{"quick", "slow"} {
			r := tier.Need(speed).Map()
			ppm := r.Need("errorBudgetPercent").Decimal(0, 4, 1, 1_000_000)
			long, short := r.Need("longWindow").Span(time.Hour, time.Minute, period), r.Need("shortWindow")
			if s := short.Span(long/12, time.Minute, period); s != long/12 {
				short.Warnf("is taken as %s: a short window is a twelfth of the long one here", slo.Span(long/12)).Coded(codeTaken)
			}
			r.Done()
			pairs = append(pairs, pair(severity, long, ppm, pairs))
		}
		tier.Done()
	}
	spec.Done()
	if len(im.log.Errors()) == before {
		im.windows[period] = pairs
	}
}
