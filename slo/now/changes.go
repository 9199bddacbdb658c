package now

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
)

// closeness is how much a change that came gap before the first failure is to be
// suspected, in thousandths. One may be told of a little after it took effect:
// clocks differ, and pipelines tell of a deploy when it is done.
func closeness(gap time.Duration) int64 {
	switch {
	case gap < -30*time.Second:
		return 0
	case gap < -5*time.Second:
		return 700
	case gap <= 90*time.Second:
		return 1000
	case gap <= 5*time.Minute:
		return 850
	case gap <= 10*time.Minute:
		return 500
	case gap <= slo.Suspect:
		return 200
	}
	return 0
}

// changes are deploys and configurations that came shortly before.
func (w *weigher) changes() (out []Cause) {
	excess := w.excess()
	for _, m := range w.e.Marks {
		kind := ADeploy
		switch m.Kind {
		case slo.ByDeploy:
		case slo.ByConfig:
			kind = AConfig
		default:
			continue
		}
		gap := w.since.Sub(m.From)
		near := closeness(gap)
		touches, what := w.touches(m)
		if near == 0 || touches == 0 {
			continue
		}
		ms, at := gap.Milliseconds(), m.From
		c := Cause{Kind: kind, Subject: m.Ref, Service: m.Service, Score: scaled(scaled(excess, near), touches), ExplainedPPM: excess, Failures: mulDiv(w.hits, excess, million), GapMS: &ms, At: &at, Details: what}
		says := "Deploy"
		if kind == AConfig {
			says = "Configuration"
		}
		when := "just as the first request failed"
		if gap >= time.Second {
			when = slo.Span(gap.Truncate(time.Second)) + " before the first failure"
		}
		c.Text = fmt.Sprintf("%s %s came %s; %s of the failures are beyond what was usual.", says, m.Ref, when, slo.Percent(excess))
		if kind == ADeploy && m.Service != "" && m.Service != w.e.Service {
			c.Text = fmt.Sprintf("Deploy %s of %s, which it calls, came %s.", m.Ref, m.Service, when)
		}
		if m.Actor != "" && m.Actor != "gateway" {
			c.Details = append(c.Details, "by "+m.Actor)
		}
		out = append(out, c)
	}
	return out
}

// touches is how far a change concerns the service, in thousandths, and what of it.
func (w *weigher) touches(m slo.Cause) (int64, []string) {
	if m.Kind == slo.ByConfig {
		return w.configured(m.Ref)
	}
	switch {
	case m.Service == w.e.Service:
		return 1000, nil
	case m.Service == "":
		return 800, nil
	}
	for i := range w.e.Dependencies {
		if d := &w.e.Dependencies[i]; d.Service == m.Service && d.moved() {
			return 950, nil
		}
	}
	return 0, nil
}

// configured compares the revision with the one before it: what it says of other
// services is no cause of this one's failures.
func (w *weigher) configured(name string) (int64, []string) {
	i := slices.IndexFunc(w.e.Revisions, func(r Revision) bool { return r.Name == name })
	if i < 1 {
		return 300, nil // the first that is known of: a gateway has started, which changes little
	}
	changed, ok := Diff(w.e.Revisions[i-1].Document, w.e.Revisions[i].Document, w.e.Service)
	switch {
	case !ok:
		return 700, nil
	case len(changed) == 0:
		return 0, nil
	}
	weight := int64(1000)
	if !slices.ContainsFunc(changed, func(s string) bool { return !strings.HasPrefix(s, "gateway") }) {
		weight = 800
	}
	// What is the service's own helps more than the gateway's settings, which sort first.
	slices.Reverse(changed)
	if more := len(changed) - mostChanges; more > 0 {
		changed = append(changed[:mostChanges], fmt.Sprintf("and %d further changes", more))
	}
	return weight, changed
}

// document is as much of a configuration as is needed to see whom it concerns.
type document struct {
	Gateway   map[string]any   `json:"gateway"`
	Upstreams []map[string]any `json:"upstreams"`
	Routes    []map[string]any `json:"routes"`
	Services  []map[string]any `json:"services"`
	Quotas    []map[string]any `json:"quotas"`
}

const mostChanges = 6

// Diff says what two configurations have different for a service: its document, its
// routes, the upstreams and quotas those name, and the gateway's own settings. ok
// is false where one of them cannot be read.
func Diff(before, after, service string) (changed []string, ok bool) {
	var a, b document
	if json.Unmarshal([]byte(before), &a) != nil || json.Unmarshal([]byte(after), &b) != nil {
		return nil, false
	}
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	mine := func(m map[string]any) bool { return text(m, "service") == service }
	upstreams, quotas := map[string]bool{}, map[string]bool{}
	for _, doc := range []document{a, b} {
		for _, r := range doc.Routes {
			if !mine(r) {
				continue
			}
			upstreams[text(r, "upstream")] = true
			if split, isList := r["split"].([]any); isList {
				for _, branch := range split {
					if m, isMap := branch.(map[string]any); isMap {
						upstreams[text(m, "upstream")] = true
					}
				}
			}
			if limit, isMap := r["limit"].(map[string]any); isMap {
				quotas[text(limit, "quota")] = true
			}
		}
	}
	byName := func(list []map[string]any, keep func(map[string]any) bool) map[string]map[string]any {
		out := map[string]map[string]any{}
		for _, m := range list {
			if keep(m) {
				out[text(m, "name")] = m
			}
		}
		return out
	}
	for _, part := range []struct {
		what          string
		before, after []map[string]any
		keep          func(map[string]any) bool
	}{
		{"service", a.Services, b.Services, func(m map[string]any) bool { return text(m, "name") == service }},
		{"route", a.Routes, b.Routes, mine},
		{"upstream", a.Upstreams, b.Upstreams, func(m map[string]any) bool { return upstreams[text(m, "name")] }},
		{"quota", a.Quotas, b.Quotas, func(m map[string]any) bool { return quotas[text(m, "name")] }},
	} {
		was, is := byName(part.before, part.keep), byName(part.after, part.keep)
		names := map[string]bool{}
		for name := range was {
			names[name] = true
		}
		for name := range is {
			names[name] = true
		}
		for name := range names {
			changed = append(changed, fields(part.what+" "+name, was[name], is[name])...)
		}
	}
	changed = append(changed, fields("gateway", a.Gateway, b.Gateway)...)
	slices.Sort(changed)
	return changed, true
}

// fields says what differs between two maps, field by field.
func fields(of string, was, is map[string]any) (out []string) {
	switch {
	case was == nil && is == nil:
		return nil
	case was == nil:
		return []string{of + " is new"}
	case is == nil:
		return []string{of + " is gone"}
	}
	for _, side := range []map[string]any{was, is} {
		for key := range side {
			a, b := was[key], is[key]
			line := fmt.Sprintf("%s %s: %s to %s", of, key, brief(a), brief(b))
			if !reflect.DeepEqual(a, b) && !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return out
}

func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	text := string(b)
	if n, isNumber := v.(float64); isNumber && n >= 1e6 && n == float64(int64(n)) && int64(n)%1_000_000 == 0 {
		text = time.Duration(int64(n)).String() // durations are nanoseconds in a configuration
	}
	if len(text) > 80 {
		text = text[:80] + "..."
	}
	return cmp.Or(text, "nothing")
}
