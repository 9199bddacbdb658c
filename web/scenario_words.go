package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/injector/scenario"
	"breakwater/slo"
)

// Scenarios in words: what breaks, for whom, and what ends it early.

// faultName is a kind of fault for a person who has read no documentation.
func faultName(k fault.Kind) string {
	switch k {
	case fault.Latency:
		return "late"
	case fault.Error:
		return "error status"
	case fault.GRPC:
		return "gRPC status"
	case fault.Drop:
		return "lost answer"
	case fault.Refuse:
		return "no connection"
	case fault.Reset:
		return "reset"
	case fault.Blackhole:
		return "no answer ever"
	case fault.Header:
		return "changed fields"
	case fault.Truncate:
		return "cut answer"
	case fault.Corrupt:
		return "flipped bits"
	case fault.Body:
		return "other body"
	case fault.Drip:
		return "slow body"
	case fault.Duplicate:
		return "asked twice"
	}
	return string(k)
}

// faultWords says what one fault does to a try that it hits.
func faultWords(x scenario.Fault) string {
	f := x.Rule
	out := ""
	switch f.Kind {
	case fault.Latency:
		out = "waits " + delayWords(f)
	case fault.Error:
		out = "answers " + strconv.Itoa(f.Status) + " in place of the upstream"
	case fault.GRPC:
		out = "answers gRPC status " + strconv.Itoa(f.Status)
	case fault.Drop:
		out = "closes the connection without an answer, " + phaseWords(f.Phase)
	case fault.Refuse:
		out = "lets no connection be made"
	case fault.Reset:
		out = "resets the connection, " + phaseWords(f.Phase)
	case fault.Blackhole:
		out = "never answers"
	case fault.Header:
		out = "changes fields of the head"
	case fault.Truncate:
		at := fmt.Sprintf("%d B", f.Bytes)
		if f.PPMOfBody > 0 {
			at = slo.Percent(f.PPMOfBody)
		}
		out = "cuts the answer after " + at + map[bool]string{true: ", and hides it", false: ", in the middle"}[f.Clean]
	case fault.Corrupt:
		out = "flips bits in " + slo.Percent(f.PPMOfBody) + " of the body"
	case fault.Body:
		out = "answers with another body"
	case fault.Drip:
		out = fmt.Sprintf("sends %d B of the body a second", f.BytesPerSecond)
	case fault.Duplicate:
		out = "sends the request twice"
	}
	for _, name := range sortedKeys(f.Headers) {
		out += ", " + name + ": " + f.Headers[name]
	}
	if f.EveryMS > 0 {
		out += ", for " + slo.Span(time.Duration(f.ForMS)*time.Millisecond) + " of every " + slo.Span(time.Duration(f.EveryMS)*time.Millisecond)
	}
	if f.Position == fault.AtEdge {
		out += ", at the edge"
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func phaseWords(p fault.Phase) string {
	if p == fault.AfterUpstream {
		return "after the upstream has done its work"
	}
	return "before the upstream is asked"
}

func delayWords(f fault.Fault) string {
	ms := func(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
	d := f.Delay
	if d == nil {
		return ms(f.LatencyMS)
	}
	switch d.Dist {
	case "uniform":
		return ms(d.MS) + " give or take " + ms(d.JitterMS)
	case "normal":
		return ms(d.MS) + " on average, deviation " + ms(d.JitterMS)
	case "pareto":
		return ms(d.MS) + " and seldom up to " + ms(d.CapMS)
	}
	if n := len(d.Table); n > 0 {
		return "up to " + ms(d.Table[n-1].MS) + ", by percentiles"
	}
	return d.Dist
}

// targetWords says whose requests may be hit.
func targetWords(t scenario.Target) string {
	var parts []string
	add := func(name string, list []string) {
		if len(list) > 0 {
			parts = append(parts, name+" "+strings.Join(list, ", "))
		}
	}
	calls := slices.Clone(t.Routes)
	for _, c := range t.Calls {
		calls = append(calls, c.Method+" "+c.Path)
	}
	add("routes", calls)
	add("methods", t.Methods)
	add("callers", t.Callers)
	add("tenants", t.Tenants)
	add("not callers", t.ExcludeCallers)
	add("not tenants", t.ExcludeTenants)
	if t.Endpoint != "" {
		parts = append(parts, "endpoint "+t.Endpoint)
	}
	for _, h := range t.Headers {
		add("field "+h.Name, h.Values)
	}
	if t.OptIn {
		parts = append(parts, "only who asks for it")
	}
	if len(parts) == 0 {
		return "all requests"
	}
	return strings.Join(parts, "; ")
}

// sampleWords says which share of them is hit.
func sampleWords(s scenario.Sample) string {
	unit := map[string]string{fault.KeyRequest: "requests", fault.KeyTrace: "traces", fault.KeyTenant: "tenants", fault.KeyConnection: "connections"}[s.Key]
	if unit == "" {
		unit = "tries"
	}
	out := sharePPM(s.PPM) + " of " + unit
	if s.First > 0 {
		out = "the first " + slo.Count(s.First) + ", " + out
	}
	if s.Ramp > 0 {
		out += ", grows over " + slo.Span(s.Ramp)
	}
	return out
}

// sharePPM writes a share as it was asked for, without rounding.
func sharePPM(ppm int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".") + "\u202f%"
}

// brakeWords says when a run ends early.
func brakeWords(x scenario.Stop) string {
	over := map[bool]string{true: "reach", false: "pass"}[x.Reached]
	switch x.Kind {
	case scenario.StopBurn:
		var spans []string
		for _, w := range x.Windows {
			spans = append(spans, slo.Span(w))
		}
		return fmt.Sprintf("%s burns its budget over %g× over %s, at least %d failures", x.Service, float64(x.OverMilli)/1000, strings.Join(spans, " and over "), x.MinBad)
	case scenario.StopErrors:
		return fmt.Sprintf("failures of %s %s %s for %s, at least %d of them", x.Service, over, sharePPM(x.PPM), slo.Span(x.For), x.MinBad)
	case scenario.StopAmplification:
		return fmt.Sprintf("tries of %s %s %g a request for %s", x.Service, over, float64(x.OverMilli)/1000, slo.Span(x.For))
	case scenario.StopBudget:
		return "the run has spent more than " + sharePPM(x.PPM) + " of the budget"
	}
	return string(x.Kind)
}

// limitWords are the limits beside the stop conditions.
func limitWords(sc scenario.Scenario) []string {
	var out []string
	if n := sc.Limits.AffectedMilli; n > 0 {
		out = append(out, fmt.Sprintf("at most %g tries a second are hit", float64(n)/1000))
	}
	if n := sc.Limits.Tenants; n > 0 {
		out = append(out, "at most "+plural(int(n), "tenant is hit", "tenants are hit"))
	}
	out = append(out, "faults end by themselves "+slo.Span(sc.Limits.TTL)+" after the last word of control")
	if len(sc.Accept) > 0 {
		var codes []string
		for _, c := range sc.Accept {
			codes = append(codes, spaced(c))
		}
		out = append(out, "accepted by its author: "+strings.Join(codes, ", "))
	}
	if f := sc.OnFail; f != nil {
		out = append(out, "a failure is filed as "+f.Severity+", owner "+f.Owner+", due in "+slo.Span(f.Due))
	}
	return out
}

func faultKindName(kind string) string { return faultName(fault.Kind(kind)) }
