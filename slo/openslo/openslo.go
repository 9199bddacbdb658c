// Package openslo reads promises from OpenSLO v1 documents and writes them back.
// What breakwater would not honour is refused or warned of, never dropped in
// silence.
package openslo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// Version is the apiVersion that is read and written.
const Version = "openslo/v1"

// source is the metricSource type that stands for breakwater's own counts.
const source = "breakwater"

// Service is an OpenSLO service: who stands behind promises.
type Service struct {
	Name, Title, Description, Owner string
}

// Set is what a file promises.
type Set struct {
	Objectives []slo.Objective
	Services   []Service
}

// Is reports whether d is an OpenSLO document of any version.
func Is(d conf.Document) bool { return strings.HasPrefix(d.APIVersion, "openslo") }

// Parse reads the OpenSLO documents of a file; others are left to their own
// readers. Mistakes go to log, and only a log without errors makes the set good.
func Parse(f conf.File, log *conf.Log) Set {
	var set Set
	seen := map[string]bool{}
	for _, d := range conf.Split(f, log) {
		if !Is(d) {
			continue
		}
		m := d.Root.Map()
		version := m.Need("apiVersion")
		if d.APIVersion != Version {
			version.Errorf("must be %s, got %s", Version, d.APIVersion)
			continue
		}
		switch kind := m.Need("kind"); d.Kind {
		case "SLO":
			o := objective(m)
			o.Text = textOf(f.Data, d.Root.Line())
			if o.ID != "" && seen[o.ID] {
				d.Root.Map().Get("metadata").Map().Get("name").Errorf("must name one SLO only, got %s again", o.ID)
			}
			seen[o.ID] = true
			set.Objectives = append(set.Objectives, o)
		case "Service":
			set.Services = append(set.Services, service(m))
		case "DataSource", "SLI", "AlertPolicy", "AlertCondition", "AlertNotificationTarget":
			kind.Errorf("must be SLO or Service, got %s", d.Kind).
				Hint("breakwater counts by itself and alerts by its own burn rules; write indicators into the SLO")
		default:
			kind.Enum("", "SLO", "Service")
		}
	}
	return set
}

// meta reads metadata: name, displayName, and the label or annotation "owner".
func meta(m *conf.Map) (name, title, owner string) {
	md := m.Need("metadata").Map()
	name = md.Need("name").Name()
	title = md.Get("displayName").Str(name)
	for _, field := range []string{"labels", "annotations"} {
		for _, e := range md.Get(field).Entries() {
			values := []string{}
			if e.Value.IsList() { // labels may have several values
				values = e.Value.Strs()
			} else {
				values = append(values, e.Value.Str(""))
			}
			if e.Key == "owner" && owner == "" {
				owner = strings.Join(values, ", ")
			}
		}
	}
	md.Done()
	return name, title, owner
}

func service(m *conf.Map) Service {
	var s Service
	s.Name, s.Title, s.Owner = meta(m)
	spec := m.Get("spec").Map()
	s.Description = spec.Get("description").Str("")
	spec.Done()
	m.Done()
	return s
}

func objective(m *conf.Map) slo.Objective {
	var o slo.Objective
	o.ID, o.Title, o.Owner = meta(m)
	spec := m.Need("spec").Map()
	spec.Get("description").Str("")
	o.Service = spec.Need("service").Name()
	indicator(spec)
	o.Window = window(spec.Need("timeWindow"))
	method(spec)
	o.TargetPPB = target(spec)
	if policies := spec.Get("alertPolicies"); len(policies.List()) > 0 {
		policies.Warnf("is not honoured").Hint("alerts follow breakwater's own burn rules: breakwater slo rules")
	}
	spec.Done()
	m.Done()
	return o
}

// indicator takes a ratio of breakwater's own classes: good or bad over valid.
func indicator(spec *conf.Map) {
	if ref := spec.Get("indicatorRef"); ref.Present() {
		ref.Errorf("must be written out as indicator, got a reference")
		return
	}
	ind := spec.Need("indicator").Map()
	ind.Get("metadata")
	is := ind.Need("spec").Map()
	is.Get("description").Str("")
	if threshold := is.Get("thresholdMetric"); threshold.Present() {
		threshold.Errorf("must be a ratioMetric, got a thresholdMetric").Hint("an availability promise counts good requests over valid ones")
		is.Get("ratioMetric")
	} else {
		ratio := is.Need("ratioMetric").Map()
		if counter, given := ratio.Get("counter").Bool(true); given && !counter {
			ratio.Get("counter").Errorf("must be true, got false").Hint("breakwater counts single requests")
		}
		good, bad := ratio.Get("good"), ratio.Get("bad")
		switch {
		case good.Present() && bad.Present():
			bad.Errorf("must not be given beside good")
		case bad.Present():
			class(bad, "bad")
		default:
			class(ratio.Need("good"), "good")
		}
		class(ratio.Need("total"), "valid")
		if ratio.Get("raw").Present() || ratio.Get("rawType").Present() {
			ratio.Get("raw").Errorf("must be good or bad over total, got a raw ratio").Hint("a ratio made elsewhere hides its counts")
		}
		ratio.Done()
	}
	is.Done()
	ind.Done()
}

// class reads a metricSource that must name one class of breakwater's.
func class(n conf.Node, want string) {
	if !n.Present() {
		return
	}
	m := n.Map()
	ms := m.Need("metricSource").Map()
	if ref := ms.Get("metricSourceRef"); ref.Present() {
		ref.Errorf("must not be given: breakwater counts by itself")
	}
	typ := ms.Need("type")
	if got := typ.Str(source); !strings.EqualFold(got, source) {
		typ.Errorf("must be %s, got %s", source, got).Hint("breakwater weighs what its own gateways counted; it does not query %s", got)
		ms.Get("spec")
	} else {
		ss := ms.Need("spec").Map()
		ss.Need("class").Enum(want, want)
		ss.Done()
	}
	ms.Done()
	m.Done()
}

// window takes one rolling time window.
func window(n conf.Node) time.Duration {
	const def = 30 * 24 * time.Hour
	list := n.List()
	if len(list) != 1 {
		if n.IsList() {
			n.Errorf("must hold exactly one window, got %d", len(list))
		}
		return def
	}
	m := list[0].Map()
	duration := m.Need("duration")
	rolling, _ := m.Get("isRolling").Bool(false)
	calendar := m.Get("calendar")
	m.Done()
	text := duration.Str("")
	switch {
	case calendar.Present() || !rolling:
		at := calendar
		if !at.Present() {
			at = m.Get("isRolling")
		}
		e := at.Errorf("must be a rolling window (isRolling: true); calendar windows are not kept")
		if strings.HasSuffix(text, "m") {
			e.Hint("and %s means minutes; a month is written %sM", text, strings.TrimSuffix(text, "m"))
		}
		return def
	case strings.HasSuffix(text, "M"), strings.HasSuffix(text, "Q"), strings.HasSuffix(text, "Y"):
		duration.Errorf("must be in m, h, d or w, got %s", text).Hint("months differ in length, so a rolling window is counted in days: 30d")
		return def
	}
	d := duration.Span(def, time.Minute, 365*24*time.Hour)
	if d%time.Minute != 0 {
		duration.Errorf("must be whole minutes, got %s", text)
		return def
	}
	return d
}

func method(spec *conf.Map) {
	n := spec.Need("budgetingMethod")
	if !n.Present() {
		return
	}
	if got := n.Str("Occurrences"); got == "Timeslices" || got == "RatioTimeslices" {
		n.Errorf("must be Occurrences, got %s", got).Hint("breakwater budgets requests, not minutes")
	} else if got != "Occurrences" {
		n.Enum("", "Occurrences")
	}
}

// target takes the one objective of a document: target, a ratio, or
// targetPercent, in parts per 10^9 without a float on the way.
func target(spec *conf.Map) int64 {
	n := spec.Need("objectives")
	list := n.List()
	if len(list) != 1 {
		if n.IsList() {
			n.Errorf("must hold exactly one objective, got %d", len(list)).Hint("write one document for each target")
		}
		return 0
	}
	m := list[0].Map()
	m.Get("displayName").Str("")
	if op := m.Get("op"); op.Present() {
		op.Warnf("is ignored: good over valid has no operator")
	}
	for _, field := range []string{"value", "timeSliceTarget", "timeSliceWindow", "indicator", "indicatorRef", "compositeWeight"} {
		if f := m.Get(field); f.Present() {
			f.Errorf("must not be given for a ratio of requests")
		}
	}
	ratio, percent := m.Get("target"), m.Get("targetPercent")
	m.Done()
	switch {
	case ratio.Present() && percent.Present():
		percent.Errorf("must not be given beside target")
	case percent.Present():
		if ppb := percent.Decimal(-1, 7, 0, 1000*perOne); ppb >= 0 {
			return checked(percent, slo.TargetPercent(ppb)+"%")
		}
	case ratio.Present():
		ppb := ratio.Decimal(-1, 9, 0, 1000*perOne)
		if ppb > perOne {
			ratio.Errorf("must be a ratio below 1, got %s", slo.TargetRatio(ppb)).Hint("write targetPercent: %s", slo.TargetRatio(ppb))
		} else if ppb >= 0 {
			return checked(ratio, slo.TargetRatio(ppb))
		}
	default:
		list[0].Errorf("must hold target or targetPercent")
	}
	return 0
}

// perOne is the unit of targets, parts per 10^9; a percentage with seven decimals
// has the same last place.
const perOne = 1_000_000_000

// checked applies the one rule for targets.
func checked(n conf.Node, text string) int64 {
	ppb, err := slo.ParseTarget(text)
	if err != nil {
		n.Errorf("%s", strings.TrimPrefix(err.Error(), slo.ErrTarget.Error()+": "))
	}
	return ppb
}

// textOf cuts out the document that holds a line. "---" at the start of a line
// always ends a document, inside of text blocks too.
func textOf(data []byte, line int) string {
	lines := strings.SplitAfter(string(data), "\n")
	mark := func(l string) bool { return strings.HasPrefix(l, "---") || strings.HasPrefix(l, "...") }
	from := min(line, len(lines))
	for from > 0 && !mark(lines[from-1]) {
		from--
	}
	to := min(line, len(lines))
	for to < len(lines) && !mark(lines[to]) {
		to++
	}
	return strings.TrimSpace(strings.Join(lines[from:to], "")) + "\n"
}

// Export writes o as a document that Parse reads as the same promise.
func Export(o slo.Objective) string {
	var b strings.Builder
	quote := func(s string) string {
		text, _ := json.Marshal(s) // a JSON string is a YAML string; marshalling one cannot fail
		return string(text)
	}
	fmt.Fprintf(&b, "apiVersion: %s\nkind: SLO\nmetadata:\n  name: %s\n", Version, quote(o.ID))
	if o.Title != "" {
		fmt.Fprintf(&b, "  displayName: %s\n", quote(o.Title))
	}
	if o.Owner != "" {
		fmt.Fprintf(&b, "  labels:\n    owner: %s\n", quote(o.Owner))
	}
	fmt.Fprintf(&b, "spec:\n  service: %s\n  indicator:\n    metadata:\n      name: %s\n    spec:\n      ratioMetric:\n        counter: true\n", quote(o.Service), quote(o.ID))
	for _, part := range [][2]string{{"good", "good"}, {"total", "valid"}} {
		fmt.Fprintf(&b, "        %s:\n          metricSource:\n            type: %s\n            spec:\n              class: %s\n", part[0], source, part[1])
	}
	fmt.Fprintf(&b, "  timeWindow:\n    - duration: %s\n      isRolling: true\n  budgetingMethod: Occurrences\n  objectives:\n    - target: %s\n",
		span(o.Window), slo.TargetRatio(o.TargetPPB))
	return b.String()
}

// span writes a window in the largest unit that divides it.
func span(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}}
	i := slices.IndexFunc(units, func(u struct {
		size time.Duration
		name string
	}) bool {
		return d%u.size == 0
	})
	if i < 0 {
		i = len(units) - 1
	}
	return fmt.Sprintf("%d%s", d/units[i].size, units[i].name)
}
