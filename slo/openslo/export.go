package openslo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
)

// Label is what metadata says beside name and title.
type Label struct {
	Key    string
	Values []string
}

// Export writes o as a document that Parse reads as the same promise.
func Export(o slo.Objective) string { return export(o, "", nil, nil) }

func export(o slo.Objective, description string, labels, notes []Label) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	t := o.Spec()
	line("apiVersion: %s\nkind: SLO\nmetadata:\n  name: %s", Version, quote(o.ID))
	if o.Title != "" {
		line("  displayName: %s", quote(o.Title))
	}
	if o.Owner != "" && !slices.ContainsFunc(labels, func(l Label) bool { return l.Key == "owner" }) {
		labels = append([]Label{{"owner", []string{o.Owner}}}, labels...)
	}
	writeLabels(line, "labels", labels)
	if o.Terms != nil {
		for _, a := range annotations(*o.Terms) {
			notes = append(notes, Label{a[0], []string{a[1]}})
		}
	}
	writeLabels(line, "annotations", notes)
	line("spec:")
	if description != "" {
		line("  description: %s", quote(description))
	}
	line("  service: %s\n  indicator:\n    metadata:\n      name: %s\n    spec:", quote(o.Service), quote(o.ID))
	writeIndicator(line, t.Indicator)
	line("  timeWindow:")
	if c := t.Calendar; c != nil {
		line("    - duration: %s\n      isRolling: false\n      calendar:\n        startTime: %s\n        timeZone: %s", calendarName(*c), c.Start, c.Zone)
	} else {
		line("    - duration: %s\n      isRolling: true", slo.Window(o.Window))
	}
	line("  budgetingMethod: %s", map[slo.Method]string{slo.Occurrences: "Occurrences", slo.Timeslices: "Timeslices", slo.RatioTimeslices: "RatioTimeslices"}[t.Method])
	line("  objectives:\n    - target: %s", slo.TargetRatio(o.TargetPPB))
	if i := t.Indicator; i.Limit > 0 {
		line("      op: lte\n      value: %s", decimalSeconds(i.Limit))
	}
	if o.Sliced() {
		if t.Method == slo.Timeslices && (o.Terms.SlicePPB > 0 || t.Indicator.Kind != slo.Freshness) {
			line("      timeSliceTarget: %s", slo.TargetRatio(t.SlicePPB))
		}
		line("      timeSliceWindow: %s", slo.Window(t.Slice))
	}
	return b.String()
}

// quote writes a string of JSON, which is one of YAML too.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // for people, who compare with ">"
	_ = e.Encode(s)        // encoding a string into memory cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

func writeLabels(line func(string, ...any), field string, labels []Label) {
	if len(labels) == 0 {
		return
	}
	line("  %s:", field)
	for _, l := range labels {
		if len(l.Values) == 1 {
			line("    %s: %s", quote(l.Key), quote(l.Values[0]))
			continue
		}
		var values []string
		for _, v := range l.Values {
			values = append(values, quote(v))
		}
		line("    %s: [%s]", quote(l.Key), strings.Join(values, ", "))
	}
}

func writeIndicator(line func(string, ...any), i slo.Indicator) {
	part := func(side string, spec string) {
		line("        %s:\n          metricSource:\n            type: %s\n            spec:\n              %s", side, source, spec)
	}
	if i.Kind == slo.Latency || i.Kind == slo.Freshness {
		spec := "class: " + string(i.Kind)
		if i.QuantilePPB > 0 {
			spec += "\n              quantile: " + slo.TargetRatio(i.QuantilePPB)
		}
		line("      thresholdMetric:\n        metricSource:\n          type: %s\n          spec:\n            %s", source, strings.ReplaceAll(spec, "\n  ", "\n"))
		return
	}
	line("      ratioMetric:\n        counter: true")
	switch i.Kind {
	case slo.RatioOf:
		part("bad", "counters: ["+listed(i.Bad)+"]")
		part("total", "counters: ["+listed(i.Total)+"]")
	case slo.DepTimeout:
		part("bad", "class: dep_timeouts")
		part("total", "class: valid")
	case slo.Composite:
		spec := "class: composite\n              members:"
		for _, m := range i.Members {
			spec += fmt.Sprintf("\n                - {objective: %s, weight: %s}", m.Objective, slo.Ratio(m.WeightPPM))
		}
		part("good", spec)
		part("total", "class: valid")
	default:
		part("good", "class: good")
		part("total", "class: valid")
	}
}

func calendarName(c slo.Calendar) string {
	for letter, unit := range units() {
		if unit == c.Unit {
			return fmt.Sprintf("%d%s", max(c.Count, 1), letter)
		}
	}
	return "1M"
}

// decimalSeconds writes a limit as seconds, exactly.
func decimalSeconds(d time.Duration) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second), "0")
	return strings.TrimSuffix(s, ".")
}
