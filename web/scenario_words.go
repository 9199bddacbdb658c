package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/injector/scenario"
	"breakwater/slo"
)

// Scenarios in words: what breaks, for whom, and what ends it early.

// faultName is a kind of fault for a person who has read no documentation.
func (l lang) faultName(k fault.Kind) string {
	switch k {
	case fault.Latency:
		return l.say("late")
	case fault.Error:
		return l.say("error status")
	case fault.GRPC:
		return l.say("gRPC status")
	case fault.Drop:
		return l.say("lost answer")
	case fault.Refuse:
		return l.say("no connection")
	case fault.Reset:
		return l.say("reset")
	case fault.Blackhole:
		return l.say("no answer ever")
	case fault.Header:
		return l.say("changed fields")
	case fault.Truncate:
		return l.say("cut answer")
	case fault.Corrupt:
		return l.say("flipped bits")
	case fault.Body:
		return l.say("other body")
	case fault.Drip:
		return l.say("slow body")
	case fault.Duplicate:
		return l.say("asked twice")
	}
	return string(k)
}

// faultWords says what one fault does to a try that it hits.
func (l lang) faultWords(x scenario.Fault) string {
	f := x.Rule
	out := []string{l.faultEffect(f)}
	for _, name := range sortedKeys(f.Headers) {
		out = append(out, name+": "+f.Headers[name])
	}
	if f.EveryMS > 0 {
		out = append(out, l.say("for %s of every %s", l.lasting(time.Duration(f.ForMS)*time.Millisecond), l.lasting(time.Duration(f.EveryMS)*time.Millisecond)))
	}
	if f.Position == fault.AtEdge {
		out = append(out, l.say("at the edge"))
	}
	return l.list(out...)
}

// faultEffect is the first part of it: what becomes of the try.
func (l lang) faultEffect(f fault.Fault) string {
	switch f.Kind {
	case fault.Latency:
		return l.say("waits %s", l.delayWords(f))
	case fault.Error:
		return l.say("answers %d in place of the upstream", f.Status)
	case fault.GRPC:
		return l.say("answers gRPC status %d", f.Status)
	case fault.Drop:
		return l.say("closes the connection without an answer, %s", l.phaseWords(f.Phase))
	case fault.Refuse:
		return l.say("lets no connection be made")
	case fault.Reset:
		return l.say("resets the connection, %s", l.phaseWords(f.Phase))
	case fault.Blackhole:
		return l.say("never answers")
	case fault.Header:
		return l.say("changes fields of the head")
	case fault.Truncate:
		at := fmt.Sprintf("%d B", f.Bytes)
		if f.PPMOfBody > 0 {
			at = slo.Percent(f.PPMOfBody)
		}
		if f.Clean {
			return l.say("cuts the answer after %s, and hides it", at)
		}
		return l.say("cuts the answer after %s, in the middle", at)
	case fault.Corrupt:
		return l.say("flips bits in %s of the body", slo.Percent(f.PPMOfBody))
	case fault.Body:
		return l.say("answers with another body")
	case fault.Drip:
		return l.say("sends %d B of the body a second", f.BytesPerSecond)
	case fault.Duplicate:
		return l.say("sends the request twice")
	}
	return ""
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (l lang) phaseWords(p fault.Phase) string {
	if p == fault.AfterUpstream {
		return l.say("after the upstream has done its work")
	}
	return l.say("before the upstream is asked")
}

func (l lang) delayWords(f fault.Fault) string {
	ms := func(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
	d := f.Delay
	if d == nil {
		return ms(f.LatencyMS)
	}
	switch d.Dist {
	case "uniform":
		return l.say("%s give or take %s", ms(d.MS), ms(d.JitterMS))
	case "normal":
		return l.say("%s on average, deviation %s", ms(d.MS), ms(d.JitterMS))
	case "pareto":
		return l.say("%s and seldom up to %s", ms(d.MS), ms(d.CapMS))
	}
	if n := len(d.Table); n > 0 {
		return l.say("up to %s, by percentiles", ms(d.Table[n-1].MS))
	}
	return d.Dist
}

// targetWords says whose requests may be hit.
func (l lang) targetWords(t scenario.Target) string {
	var parts []string
	add := func(list []string, said string) {
		if len(list) > 0 {
			parts = append(parts, said)
		}
	}
	calls := slices.Clone(t.Routes)
	for _, c := range t.Calls {
		calls = append(calls, c.Method+" "+c.Path)
	}
	add(calls, l.say("routes %s", l.list(calls...)))
	add(t.Methods, l.say("methods %s", l.list(t.Methods...)))
	add(t.Callers, l.say("callers %s", l.list(t.Callers...)))
	add(t.Tenants, l.say("tenants %s", l.list(t.Tenants...)))
	add(t.ExcludeCallers, l.say("not callers %s", l.list(t.ExcludeCallers...)))
	add(t.ExcludeTenants, l.say("not tenants %s", l.list(t.ExcludeTenants...)))
	if t.Endpoint != "" {
		parts = append(parts, l.say("endpoint %s", t.Endpoint))
	}
	for _, h := range t.Headers {
		add(h.Values, l.say("field %s %s", h.Name, l.list(h.Values...)))
	}
	if t.OptIn {
		parts = append(parts, l.say("only who asks for it"))
	}
	if len(parts) == 0 {
		return l.say("all requests")
	}
	return l.clauses(parts...)
}

// sampleWords says which share of them is hit.
func (l lang) sampleWords(s scenario.Sample) string {
	unit := map[string]string{fault.KeyRequest: phrase("requests"), fault.KeyTrace: phrase("traces"), fault.KeyTenant: phrase("tenants"), fault.KeyConnection: phrase("connections")}[s.Key]
	if unit == "" {
		unit = phrase("tries")
	}
	out := l.say("%s of %v", sharePPM(s.PPM), l.word(unit))
	if s.First > 0 {
		out = l.say("the first %s, %s", slo.Count(s.First), out)
	}
	if s.Ramp > 0 {
		out = l.say("%s, grows over %s", out, l.lasting(s.Ramp))
	}
	return out
}

// sharePPM writes a share as it was asked for, without rounding.
func sharePPM(ppm int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".") + "\u202f%"
}

// brakeWords says when a run ends early.
func (l lang) brakeWords(x scenario.Stop) string {
	switch x.Kind {
	case scenario.StopBurn:
		spans := ""
		for i, w := range x.Windows {
			if i == 0 {
				spans = l.lasting(w)
				continue
			}
			spans = l.say("%s and over %s", spans, l.lasting(w))
		}
		return l.say("%s burns its budget over %g× over %s, at least %d failures", x.Service, float64(x.OverMilli)/1000, spans, x.MinBad)
	case scenario.StopErrors:
		if x.Reached {
			return l.say("failures of %s reach %s for %s, at least %d of them", x.Service, sharePPM(x.PPM), l.lasting(x.For), x.MinBad)
		}
		return l.say("failures of %s pass %s for %s, at least %d of them", x.Service, sharePPM(x.PPM), l.lasting(x.For), x.MinBad)
	case scenario.StopAmplification:
		if x.Reached {
			return l.say("tries of %s reach %g a request for %s", x.Service, float64(x.OverMilli)/1000, l.lasting(x.For))
		}
		return l.say("tries of %s pass %g a request for %s", x.Service, float64(x.OverMilli)/1000, l.lasting(x.For))
	case scenario.StopBudget:
		return l.say("the run has spent more than %s of the budget", sharePPM(x.PPM))
	}
	return string(x.Kind)
}

// limitWords are the limits beside the stop conditions.
func (l lang) limitWords(sc scenario.Scenario) []string {
	var out []string
	if n := sc.Limits.AffectedMilli; n > 0 {
		out = append(out, l.say("at most %g tries a second are hit", float64(n)/1000))
	}
	if n := sc.Limits.Tenants; n > 0 {
		out = append(out, l.say("at most %s", l.count(int(n), "tenant is hit", "tenants are hit")))
	}
	out = append(out, l.say("faults end by themselves %s after the last word of control", l.lasting(sc.Limits.TTL)))
	if len(sc.Accept) > 0 {
		var codes []string
		for _, c := range sc.Accept {
			codes = append(codes, spaced(c))
		}
		out = append(out, l.say("accepted by its author: %s", l.list(codes...)))
	}
	if f := sc.OnFail; f != nil {
		out = append(out, l.say("a failure is filed as %s, owner %s, due in %s", l.word(f.Severity), f.Owner, l.lasting(f.Due)))
	}
	return out
}

func (l lang) faultKindName(kind string) string { return l.faultName(fault.Kind(kind)) }
