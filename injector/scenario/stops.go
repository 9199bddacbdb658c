package scenario

import (
	"slices"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/internal/conf"
)

func stops(n conf.Node) []Stop {
	var out []Stop
	items := n.List()
	if n.IsList() && len(items) == 0 {
		n.Errorf("must hold at least one condition: a fault without a brake is refused")
	}
	for _, item := range items {
		m := item.Map()
		out = append(out, stopOf(item, m))
		m.Done()
	}
	return out
}

func stopOf(item conf.Node, m *conf.Map) (s Stop) {
	burn, what, spent, amplified := m.Get("burn_rate"), m.Get("sli"), m.Get("budget_spent"), m.Get("amplification")
	sustained := func() {
		s.For = m.Get("for").Span(15*time.Second, 5*time.Second, time.Hour)
		s.MinBad = m.Get("min_bad").Int(10, 1, 1_000_000)
	}
	switch {
	case burn.Present():
		s.Kind, s.Service = StopBurn, burn.Name()
		// A burn rate of 1 spends the budget exactly in its window.
		s.OverMilli = m.Need("over").Decimal(0, 3, 1, 10_000_000_000)
		for _, w := range m.Need("windows").List() {
			s.Windows = append(s.Windows, w.Span(time.Minute, 5*time.Second, time.Hour))
		}
		if len(s.Windows) != 2 && m.Get("windows").IsList() {
			m.Get("windows").Errorf("must be two windows, a short and a long one, got %d", len(s.Windows))
		} else if len(s.Windows) == 2 && s.Windows[0] >= s.Windows[1] {
			m.Get("windows").Errorf("must be the shorter window first")
		}
		s.MinBad = m.Get("min_bad").Int(10, 1, 1_000_000)
	case what.Present():
		service, measure := measureOf(what, ErrorRate, Success)
		s.Kind, s.Service = StopErrors, service
		op, ppm := m.Need("op"), m.Need("value").PPM(0)
		word := ""
		if measure == Success {
			word = op.Enum("", "<", "<=")
			ppm = 1_000_000 - ppm
		} else {
			word = op.Enum("", ">", ">=")
		}
		s.PPM, s.Reached = ppm, strings.HasSuffix(word, "=")
		sustained()
	case amplified.Present():
		s.Kind, s.Service = StopAmplification, amplified.Name()
		s.Reached = m.Need("op").Enum("", ">", ">=") == ">="
		s.OverMilli = m.Need("value").Decimal(0, 3, 1000, 1_000_000)
		sustained()
	case spent.Present():
		s.Kind, s.PPM = StopBudget, spent.PPM(0)
		if s.PPM == 0 {
			spent.Errorf("must be above 0%%, got 0%%: it would stop the run before it starts")
		}
	case item.IsMap():
		item.Errorf("must have burn_rate, sli, amplification or budget_spent, got none of them")
	}
	return s
}

// maxTTL is the lease of a fault at a gateway; a document may shorten it alone.
const maxTTL = 15 * time.Second

func limits(n conf.Node) Limits {
	m := n.Map()
	l := Limits{
		TTL:           m.Get("ttl").Duration(maxTTL, 10*time.Second, maxTTL),
		AffectedMilli: m.Get("max_affected_rps").Decimal(0, 3, 1, 1_000_000_000),
		Tenants:       m.Get("max_tenants").Int(0, 1, 1_000_000),
	}
	m.Done()
	return l
}

// search reads which one number a boundary is looked for on.
func search(n conf.Node, faults []Fault) *Search {
	m := n.Map()
	s := &Search{When: m.Get("when").Enum("failed", "failed", "always")}
	knob := m.Need("knob")
	s.Fault, s.Knob = knobOf(knob, faults)
	amount := func(at conf.Node) int64 {
		switch s.Knob {
		case KnobLatency:
			if at.Got() == "0s" { // no fault at all, where else it would be none
				return 0
			}
			return at.Duration(0, time.Millisecond, maxLatency).Milliseconds()
		case KnobPercent:
			return at.PPM(0)
		case KnobBytes, KnobRate:
			return bytes(at, 0, maxBytes)
		}
		at.Str("") // what it had to be is not known
		return 0
	}
	s.From, s.To = amount(m.Need("from")), amount(m.Need("to"))
	if at := m.Get("resolution"); at.Present() {
		if s.Resolution = amount(at); s.Resolution == 0 && s.Knob != "" {
			at.Errorf("must be above 0, got %s: the search would not end", at.Got())
		}
	}
	if s.Knob != "" && m.Get("from").Present() && m.Get("to").Present() && s.From == s.To {
		m.Get("to").Errorf("must differ from from")
	}
	m.Done()
	return s
}

// knobOf reads sample.percent, or faults.<id>.<what> of a fault that has it.
func knobOf(n conf.Node, faults []Fault) (string, Knob) {
	text := n.Str("")
	if text == "" || text == string(KnobPercent) {
		return "", Knob(text)
	}
	rest, ok := strings.CutPrefix(text, "faults.")
	for _, f := range faults {
		of, its := strings.CutPrefix(rest, f.ID+".")
		if !ok || !its || f.ID == "" {
			continue
		}
		r := f.Rule
		switch k := Knob(of); {
		case k == KnobLatency && r.Kind == fault.Latency && r.Delay == nil,
			k == KnobBytes && r.Kind == fault.Truncate && r.PPMOfBody == 0,
			k == KnobRate && r.Kind == fault.Drip:
			return f.ID, k
		}
		n.Errorf("must be a number of fault %s that can be turned, got %q", f.ID, of).Hint("%s of a fixed latency, %s in bytes, %s", KnobLatency, KnobBytes, KnobRate)
		return "", ""
	}
	n.Errorf("must be sample.percent or faults.<id>.latency.value of a fault that is here, got %q", text)
	return "", ""
}

func onFail(n conf.Node) *Finding {
	m := n.Map()
	f := m.Need("finding").Map()
	out := &Finding{
		Severity: f.Need("severity").Enum("", "low", "medium", "high", "critical"),
		Owner:    f.Need("owner").Str(""),
		Due:      days(f.Need("due")),
	}
	f.Done()
	m.Done()
	return out
}

// days reads 14d, which is how people give each other time.
func days(n conf.Node) time.Duration { return n.Span(0, time.Hour, 366*24*time.Hour) }

// accepted are preflight refusals by their code.
func accepted(n conf.Node) []string {
	var out []string
	for _, item := range listed(n) {
		code := item.Enum("", Refusals()...)
		if slices.Contains(out, code) && code != "" {
			item.Errorf("must stand once, got %s again", code)
		}
		out = append(out, code)
	}
	return out
}
