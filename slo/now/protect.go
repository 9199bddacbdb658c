package now

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
)

// protecting lists what acts for the users of the service, and the routes that
// nothing acts for.
func (w *weigher) protecting(statuses []slo.Status) []Protection {
	out := []Protection{}
	add := func(kind string, since *time.Time, format string, args ...any) {
		out = append(out, Protection{Kind: kind, Acts: true, Since: since, Text: fmt.Sprintf(format, args...)})
	}
	guarded := map[string]bool{}
	for _, t := range w.e.Turns {
		if !t.Standing {
			continue
		}
		of := strings.Trim(t.Upstream+" "+t.Endpoint, " ")
		guarded[t.Policy] = true
		at := t.At
		add(t.Policy, &at, "%s of %s is %s since %s: %s", t.Policy, cmp.Or(of, w.e.Service), strings.ReplaceAll(t.To, "_", "-"), clock(t.At), t.Reason)
	}
	for _, f := range w.sorted(ByKind) {
		policy, reason, refused := strings.Cut(f.Value, ":")
		if refused && f.Hits > 0 && !guarded[policy+"/"+reason] {
			add(policy, nil, "%s refused %s requests at once (%s)", policy, slo.Count(f.Hits), strings.ReplaceAll(reason, "_", " "))
		}
	}
	for _, f := range w.sorted(BySkip) {
		if f.Total > 0 && (f.Value == "error_rate_gate" || f.Value == "retry_budget" || f.Value == "retry_count") {
			add("retry", nil, "%s requests were not retried (%s): no retry storm", slo.Count(f.Total), strings.ReplaceAll(f.Value, "_", " "))
		}
	}
	if w.now.Recovered > 0 && (w.span.State == Hit || w.span.State == Covered) {
		add("retry", nil, "retries saved %s of %s requests", slo.Count(w.now.Recovered), slo.Count(w.now.Retried))
	}
	degraded := map[string]bool{}
	for _, f := range w.sorted(ByRoute) {
		if f.Degraded > 0 {
			degraded[f.Value] = true
			add("fallback", nil, "fallback answered %s requests of %s", slo.Count(f.Degraded), f.Value)
		}
	}
	for _, st := range statuses {
		if st.Level == slo.Frozen {
			at := st.Since
			add("freeze", &at, "releases are frozen: %s", st.Reason)
			break
		}
	}
	for _, m := range w.e.Measures {
		add("measure", nil, "%s", m)
	}
	if w.span.State != Hit {
		return out
	}
	for _, f := range w.sorted(ByRoute) {
		if f.Hits > 0 && f.Degraded == 0 && part(f.Hits, f.Total) >= leastPPM {
			out = append(out, Protection{Kind: "fallback", Text: fmt.Sprintf("no fallback answers for %s", f.Value)})
		}
	}
	return out
}

func (w *weigher) depends(service string) bool {
	return slices.ContainsFunc(w.e.Dependencies, func(d Dependency) bool { return d.Service == service })
}

// sorted are the facets of a dimension, most hits first.
func (w *weigher) sorted(dimension string) []Facet {
	var out []Facet
	for _, f := range w.e.Facets {
		if f.Dimension == dimension {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Facet) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Value, b.Value))
	})
	return out
}

const mostHappened = 20

// happened is what happened round the onset, the newest first.
func (w *weigher) happened() []Happening {
	out := []Happening{}
	add := func(at time.Time, kind, format string, args ...any) {
		out = append(out, Happening{At: at, Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if w.span.State == Hit || w.span.State == Covered {
		text := "First failures of this outage"
		if w.span.Whole {
			text = "It has failed for as long as was looked back"
		}
		add(w.since, "onset", "%s", text)
	}
	for _, m := range w.e.Marks {
		text := fmt.Sprintf("%s %s", m.Kind, named(m.Ref, m.Title))
		if m.Kind == slo.ByConfig {
			text = "configuration " + m.Ref + " is served"
			if touches, _ := w.configured(m.Ref); touches == 0 {
				text += ", the same for " + w.e.Service
			}
		}
		if m.Service != "" && m.Service != w.e.Service {
			text += " of " + m.Service
		}
		if m.Actor != "" && m.Actor != "gateway" {
			text += " by " + m.Actor
		}
		add(m.From, string(m.Kind), "%s", text)
	}
	for _, t := range w.e.Turns {
		add(t.At, t.Policy, "%s of %s: %s to %s, %s", t.Policy, cmp.Or(strings.Trim(t.Upstream+" "+t.Endpoint, " "), w.e.Service), strings.ReplaceAll(t.From, "_", "-"), strings.ReplaceAll(t.To, "_", "-"), t.Reason)
	}
	for _, x := range w.e.Experiments {
		if !x.Since.IsZero() && (x.Touched > 0 || x.Service == w.e.Service || w.depends(x.Service)) {
			add(x.Since, "experiment", "experiment %s injects into %s", named(x.Run, x.Title), x.Service)
		}
	}
	slices.SortStableFunc(out, func(a, b Happening) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	for _, told := range w.e.Told {
		out = append([]Happening{{At: w.e.At, Kind: "fact", Text: told}}, out...)
	}
	return out[:min(len(out), mostHappened)]
}
