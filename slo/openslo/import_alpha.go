package openslo

import (
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// alphaSLO reads an SLO of OpenSLO v1alpha: windows by count and unit, ratios
// within objectives, a threshold in the indicator.
func (im *importer) alphaSLO(m *conf.Map) {
	before := len(im.log.Errors())
	at, base := im.head(m)
	var t slo.Terms
	o := &base.Objective
	spec := m.Need("spec").Map()
	base.Description = word(spec.Get("description"))
	name := spec.Need("service")
	if name.Present() {
		o.Service = id(name, word(name))
	}
	o.Title, o.Owner = titled(o.Title, base.Description, o.ID), ownerOf(base.Labels)
	o.Window = alphaWindow(spec.Need("timeWindows"), &t)
	method, goals := spec.Get("budgetingMethod"), spec.Need("objectives")
	if !method.Present() {
		spec.Node().Warnf("has no budgetingMethod: taken as Occurrences").Coded(codeTaken)
	}
	var metric conf.Node
	if ind := spec.Get("indicator"); ind.Present() {
		im := ind.Map()
		metric = im.Need("thresholdMetric")
		im.Done()
	}
	im.alerts(spec.Get("alertPolicies"), o, &t)
	spec.Done()
	m.Done()
	whole := len(im.log.Errors()) == before
	list := goals.List()
	if len(list) == 0 && goals.IsList() {
		goals.Errorf("must hold an objective, got none")
	}
	for n, g := range list {
		read := func() Imported { return im.goal(g, method, metric, base, t, len(list) == 1) }
		switch {
		case !whole:
			read()
		case len(list) == 1:
			im.alone(at, read)
		default:
			im.alone(g, func() Imported {
				i := read()
				i.Objective.ID = id(g, i.Objective.ID, suffixOf(g, n, list))
				return i
			})
		}
	}
}

func alphaWindow(n conf.Node, t *slo.Terms) time.Duration {
	list := n.List()
	if len(list) != 1 {
		if n.IsList() {
			n.Errorf("must hold exactly one window, got %d", len(list))
		}
		return standard
	}
	m := list[0].Map()
	unitNode, count := m.Need("unit"), m.Need("count").Int(1, 1, 1000)
	letter := unitNode.Enum("", "Day", "Week", "Month", "Quarter", "Year", "Hour", "Minute", "Second")
	rolling := m.Get("isRolling")
	calendar := m.Get("calendar")
	yes, given := rolling.Bool(!calendar.Present())
	m.Done()
	unit := slo.Unit(strings.ToLower(letter))
	switch {
	case letter == "":
		return standard
	case calendar.Present() && yes:
		calendar.Errorf("must not be given beside isRolling: true")
	case calendar.Present():
		if letter == "Hour" || letter == "Minute" || letter == "Second" {
			unitNode.Errorf("must be Day or longer for a calendar window, got %s", letter)
			return standard
		}
		t.Calendar = calendarOf(calendar, unit, int(count))
		return nominal(unit, int(count))
	case given && !yes:
		rolling.Errorf("must be true, or have a calendar")
	default:
		if !given {
			list[0].Warnf("has no isRolling and no calendar: taken as rolling").Coded(codeTaken)
		}
		return alphaSpan(unitNode, letter, count)
	}
	return standard
}

func alphaSpan(n conf.Node, letter string, count int64) time.Duration {
	unit := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour, "Day": day, "Week": 7 * day,
		"Month": 30 * day, "Quarter": 90 * day, "Year": 365 * day}[letter]
	d := time.Duration(count) * unit
	if letter == "Month" || letter == "Quarter" || letter == "Year" {
		n.Warnf("is taken as %s: months differ in length, so a rolling window is counted in days", slo.Span(d)).Coded(codeTaken)
	}
	if d < time.Minute || d%time.Minute != 0 || d > 366*day {
		n.Errorf("must be whole minutes up to a year, got %s", slo.Span(d))
		return standard
	}
	return d
}
