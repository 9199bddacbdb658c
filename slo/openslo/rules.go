package openslo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
)

// Rules writes objectives as a file of rules for Prometheus: what control measures,
// recorded under the names that dashboards of SLOs expect, and an alert for each
// severity, which fires as breakwater's own does. Objectives without alerts have
// records alone.
//
// The series are those of control's /metrics. Prometheus judges what breakwater has
// counted and does not count again: a second count from scrapes would lose what a
// restarted process had, and the two would disagree.
func Rules(objectives []slo.Objective) string {
	var b strings.Builder
	b.WriteString("# Written by breakwater slo rules. Scrape /metrics of control.\ngroups:\n")
	list := slices.Clone(objectives)
	slices.SortStableFunc(list, func(a, b slo.Objective) int { return strings.Compare(a.ID, b.ID) })
	for _, o := range list {
		records(&b, o)
		alertsOf(&b, o)
	}
	alive(&b)
	return b.String()
}

// series is one of control's series of o over a window.
func series(name string, o slo.Objective, window time.Duration) string {
	sel := fmt.Sprintf("%s{slo=%s", name, quote(o.ID))
	if window > 0 {
		sel += fmt.Sprintf(", window=%s", quote(slo.Window(window)))
	}
	return sel + "}"
}

func records(b *strings.Builder, o slo.Objective) {
	fmt.Fprintf(b, "  - name: %s\n    rules:\n", quote("breakwater-slo-records-"+o.ID))
	record := func(name, expr string) {
		fmt.Fprintf(b, "      - record: %s\n        expr: %s\n", name, quote(expr))
		if strings.HasPrefix(expr, "vector") { // has no labels of its own
			fmt.Fprintf(b, "        labels:\n          service: %s\n          slo: %s\n", quote(o.Service), quote(o.ID))
		}
	}
	for _, w := range o.Windows() {
		record("slo:sli_error:ratio_rate"+slo.Window(w), "max by (slo, service, env) ("+series("breakwater_slo_error_ratio", o, w)+")")
		record("slo:burn_rate:ratio_rate"+slo.Window(w), "max by (slo, service, env) ("+series("breakwater_slo_burn_rate", o, w)+")")
	}
	record("slo:objective:ratio", "vector("+slo.TargetRatio(o.TargetPPB)+")")
	record("slo:error_budget:ratio", "vector("+slo.TargetRatio(perOne-o.TargetPPB)+")")
	record("slo:time_period:days", fmt.Sprintf("vector(%s)", days(o.Window)))
	record("slo:error_budget_remaining:ratio", "min by (slo, service, env) ("+series("breakwater_slo_budget_remaining_ratio", o, 0)+")")
}

// days writes a window as days, exactly to a thousandth.
func days(d time.Duration) string {
	milli := int64(d) / int64(day/1000)
	s := strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
	return strings.TrimSuffix(s, ".")
}

// alertsOf writes one alert a severity: each of its rules is a pair of windows that
// must both burn faster than the rule's rate, and any one of them is enough.
func alertsOf(b *strings.Builder, o slo.Objective) {
	bySeverity := map[string][]slo.Pair{}
	for _, p := range o.Rules() {
		bySeverity[p.Severity] = append(bySeverity[p.Severity], p)
	}
	if len(bySeverity) == 0 {
		return
	}
	fmt.Fprintf(b, "  - name: %s\n    rules:\n", quote("breakwater-slo-alerts-"+o.ID))
	for _, severity := range []string{"page", "ticket"} {
		pairs := bySeverity[severity]
		if len(pairs) == 0 {
			continue
		}
		var parts, words []string
		for _, p := range pairs {
			rate := decimalMilli(p.ThresholdMilli(o))
			// > and not >=: equality does not fire.
			parts = append(parts, fmt.Sprintf("(%s > %s and ignoring (window) %s > %s)",
				series("breakwater_slo_burn_rate", o, p.Long), rate, series("breakwater_slo_burn_rate", o, p.Short()), rate))
			words = append(words, fmt.Sprintf("%s and %s above %s×", slo.Window(p.Long), slo.Window(p.Short()), rate))
		}
		expr := "max by (slo, service, env) (" + strings.Join(parts, " or ignoring (window) ") + ")"
		fmt.Fprintf(b, "      - alert: BreakwaterSLOBurn\n        expr: %s\n        labels:\n          severity: %s\n          slo: %s\n          service: %s\n",
			quote(expr), severity, quote(o.ID), quote(o.Service))
		if o.Owner != "" {
			fmt.Fprintf(b, "          owner: %s\n", quote(o.Owner))
		}
		fmt.Fprintf(b, "        annotations:\n          summary: %s\n          description: %s\n",
			quote(fmt.Sprintf("%s of %s spends its error budget {{ $value | printf \"%%.1f\" }} times too fast in {{ $labels.env }}", escaped(o.ID), escaped(o.Service))),
			quote(escaped(fmt.Sprintf("Target %s %% over %s; fires while burn rates over %s.", slo.TargetPercent(o.TargetPPB), slo.Window(o.Window), strings.Join(words, ", or over ")))))
	}
}

// alive alerts on what no burn rate can tell: nobody evaluates any more.
func alive(b *strings.Builder) {
	expr := "time() - max(breakwater_slo_evaluated_timestamp_seconds) > 120 or absent(breakwater_slo_evaluated_timestamp_seconds)"
	fmt.Fprintf(b, "  - name: breakwater-slo-alive\n    rules:\n      - alert: BreakwaterSLONotEvaluated\n        expr: %s\n        for: 2m\n        labels:\n          severity: page\n"+
		"        annotations:\n          summary: \"No budget was evaluated for two minutes: burn alerts are blind\"\n", quote(expr))
}

// escaped keeps braces of a name from being read as a template.
func escaped(s string) string { return strings.ReplaceAll(s, "{{", "{ {") }

// decimalMilli writes thousandths: 14.4.
func decimalMilli(n int64) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%03d", n/1000, n%1000), "0")
	return strings.TrimSuffix(s, ".")
}
