package openslo

import (
	"fmt"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// goal is the one objective of a document.
func goal(spec *conf.Map) *conf.Map {
	n := spec.Need("objectives")
	list := n.List()
	if len(list) == 1 {
		return list[0].Map()
	}
	if n.IsList() {
		n.Errorf("must hold exactly one objective, got %d", len(list)).Hint("write one document for each target")
	}
	return nil
}

// indicator takes a ratio of breakwater's own classes, or a threshold that each
// request, or each slice of time, is held against; threshold says which.
func indicator(spec *conf.Map, t *slo.Terms) (threshold bool) {
	if ref := spec.Get("indicatorRef"); ref.Present() {
		ref.Errorf("must be written out as indicator, got a reference")
		return false
	}
	ind := spec.Need("indicator").Map()
	ind.Get("metadata")
	is := ind.Need("spec").Map()
	is.Get("description").Str("")
	if metric := is.Get("thresholdMetric"); metric.Present() {
		threshold = true
		limited(metric, t)
		if r := is.Get("ratioMetric"); r.Present() {
			r.Errorf("must not be given beside thresholdMetric")
		}
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
			part(bad, "bad", t)
		default:
			part(ratio.Need("good"), "good", t)
		}
		part(ratio.Need("total"), "total", t)
		if ratio.Get("raw").Present() || ratio.Get("rawType").Present() {
			ratio.Get("raw").Errorf("must be good or bad over total, got a raw ratio").Hint("a ratio made elsewhere hides its counts")
		}
		ratio.Done()
	}
	is.Done()
	ind.Done()
	return threshold
}

// ours opens the spec of a metricSource, which must be breakwater's own.
func ours(n conf.Node, read func(*conf.Map)) {
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
		typ.Errorf("must be %s, got %s", source, got).Hint("breakwater weighs what its own gateways counted, it does not query %s; breakwater slo import carries over what it can", got)
		ms.Get("spec")
	} else {
		ss := ms.Need("spec").Map()
		read(ss)
		ss.Done()
	}
	ms.Done()
	m.Done()
}

// part is one side of a ratio. A class stands for an indicator of breakwater's
// own, counters for a sum of one's own choice.
func part(n conf.Node, side string, t *slo.Terms) {
	ours(n, func(ss *conf.Map) {
		if counters := ss.Get("counters"); counters.Present() && side != "good" {
			words := make([]string, 0, len(slo.Counters()))
			for _, c := range slo.Counters() {
				words = append(words, string(c))
			}
			var list []slo.Counter
			for _, word := range counters.Enums(words...) {
				list = append(list, slo.Counter(word))
			}
			if side == "bad" {
				t.Indicator.Kind, t.Indicator.Bad = slo.RatioOf, list
			} else {
				if t.Indicator.Kind != slo.RatioOf {
					counters.Errorf("must go with counters of bad")
				}
				t.Indicator.Total = list
			}
			return
		}
		switch side {
		case "good":
			if ss.Need("class").Enum("good", "good", "composite") == "composite" {
				t.Indicator.Kind, t.Indicator.Members = slo.Composite, members(ss.Need("members"))
			}
		case "bad":
			if ss.Need("class").Enum("bad", "bad", "dep_timeouts") == "dep_timeouts" {
				t.Indicator.Kind = slo.DepTimeout
			}
		default:
			ss.Need("class").Enum("valid", "valid")
			if t.Indicator.Kind == slo.RatioOf {
				t.Indicator.Total = []slo.Counter{"good", "bad"}
			}
		}
	})
}

func members(n conf.Node) []slo.Member {
	var out []slo.Member
	for _, item := range n.List() {
		m := item.Map()
		out = append(out, slo.Member{Objective: m.Need("objective").Name(), WeightPPM: m.Get("weight").Decimal(1_000_000, 6, 1, 1_000_000_000)})
		m.Done()
	}
	return out
}

// limited is a latency that requests must keep, or an age that the last good
// answer must not exceed.
func limited(n conf.Node, t *slo.Terms) {
	ours(n, func(ss *conf.Map) {
		if ss.Need("class").Enum("latency", "latency", "freshness") == "freshness" {
			t.Indicator.Kind = slo.Freshness
			return
		}
		t.Indicator.Kind = slo.Latency
		t.Indicator.QuantilePPB = ss.Get("quantile").Decimal(0, 9, 1, perOne-1)
	})
}

// target takes the target of the one objective, in parts per 10^9 without a
// float on the way, and its limit where the indicator has one.
func target(goal *conf.Map, threshold bool, t *slo.Terms) int64 {
	if goal == nil {
		return 0
	}
	goal.Get("displayName").Str("")
	value := goal.Get("value")
	op := goal.Get("op")
	switch {
	case !threshold:
		if op.Present() {
			op.Warnf("is ignored: good over valid has no operator")
		}
		if value.Present() {
			value.Errorf("must not be given for a ratio of requests")
		}
	default:
		t.Indicator.Limit = limit(goal.Need("value"), op)
	}
	for _, field := range []string{"indicator", "indicatorRef", "compositeWeight"} {
		if f := goal.Get(field); f.Present() {
			f.Errorf("must not be given: one document is one promise").Hint("a composite names its parts as members of class composite")
		}
	}
	ppb := share(goal)
	if q := t.Indicator.QuantilePPB; q > 0 && ppb > 0 && q != ppb {
		goal.Node().Errorf("must have the quantile as its target: P%s within a limit is %s %% of requests within it, got %s %%", slo.TargetPercent(q), slo.TargetPercent(q), slo.TargetPercent(ppb))
	}
	goal.Done()
	return ppb
}

// limit reads a boundary, and that it is one from above.
func limit(value, op conf.Node) time.Duration {
	switch got := op.Str("lte"); got {
	case "lte":
	case "lt":
		op.Warnf("is taken as lte: whoever took exactly the limit was in time")
	case "gt", "gte":
		op.Errorf("must be lte, got %s", got).Hint("it would call slow requests the good ones")
	default:
		op.Enum("", "lte", "lt")
	}
	d, ok := seconds(value)
	if !ok {
		return time.Second // told of; any limit does for the rest
	}
	return d
}

// seconds reads 1, 1.0, "1", 1e0 and 1000ms as the same second: a boundary that is
// compared as text matches nothing as soon as somebody writes it differently.
func seconds(n conf.Node) (time.Duration, bool) {
	if !n.Present() {
		return 0, false
	}
	d, err := boundary(strings.Trim(n.Got(), `"`))
	if err != nil {
		n.Errorf("must be seconds such as 0.3, or a span such as 300ms, got %s", n.Got())
		return 0, false
	}
	return d, true
}

// share reads target, a ratio, or targetPercent.
func share(goal *conf.Map) int64 {
	ratio, percent := goal.Get("target"), goal.Get("targetPercent")
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
		goal.Node().Errorf("must hold target or targetPercent")
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

// method takes how the budget is made, and what a slice is.
func method(spec, goal *conf.Map, t *slo.Terms) {
	n := spec.Need("budgetingMethod")
	got := n.Enum("", "Occurrences", "Timeslices", "RatioTimeslices")
	if goal == nil {
		return
	}
	least, span := goal.Get("timeSliceTarget"), goal.Get("timeSliceWindow")
	switch got {
	case "Timeslices":
		t.Method = slo.Timeslices
		if !least.Present() && t.Indicator.Kind != slo.Freshness {
			goal.Node().Errorf("must hold timeSliceTarget: with Timeslices each slice is good or bad by it").Coded("E-MISSING")
		}
	case "RatioTimeslices":
		t.Method = slo.RatioTimeslices
		if least.Present() {
			least.Errorf("must not be given with RatioTimeslices: a slice counts by its share of good requests")
		}
	case "Occurrences":
		for _, f := range []conf.Node{least, span} {
			if f.Present() {
				f.Errorf("must not be given for a ratio of requests")
			}
		}
		return
	default:
		return
	}
	if least.Present() && got == "Timeslices" {
		t.SlicePPB = least.Decimal(0, 9, 1, perOne)
	}
	t.Slice = slice(span)
	if t.Slice == time.Minute {
		t.Slice = 0 // what is meant without it
	}
}

// slice reads timeSliceWindow: a span, or a bare number, which OpenSLO takes for
// minutes.
func slice(n conf.Node) time.Duration {
	if n.Present() && strings.Trim(n.Got(), "0123456789") == "" {
		return time.Duration(n.Int(1, 1, 60)) * time.Minute
	}
	return n.Span(time.Minute, time.Minute, time.Hour)
}

// isPlain reports whether terms say nothing.
func isPlain(t slo.Terms) bool {
	i := t.Indicator
	return (i.Kind == "" || i.Kind == slo.Availability) && t.Method == "" && t.Calendar == nil && t.Planned == 0 && t.AspirationPPB == 0 &&
		t.Chaos == "" && t.Pairs == nil && !t.AlertsOff && t.Guard == nil && t.GroupBy == "" && !t.Informational
}

// listed joins words for a sentence.
func listed[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// boundary reads a limit of latency: seconds as any notation of a number, or a
// span. Nanoseconds are exact.
func boundary(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if d, err := time.ParseDuration(text); err == nil && strings.Trim(text, "0123456789.") != "" {
		if d <= 0 || d > 24*time.Hour {
			return 0, fmt.Errorf("out of range: %q", text)
		}
		return d, nil
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	before, after, _ := strings.Cut(mantissa, ".")
	if before+after == "" || strings.Trim(before+after, "0123456789") != "" || len(before)+len(after) > 18 {
		return 0, fmt.Errorf("no number: %q", text)
	}
	shift := 0
	if exponent != "" || strings.Contains(strings.ToLower(text), "e") {
		if _, err := fmt.Sscanf(exponent, "%d", &shift); err != nil || shift < -9 || shift > 5 || fmt.Sprint(shift) != strings.TrimLeft(strings.TrimPrefix(exponent, "+"), "0") && shift != 0 {
			return 0, fmt.Errorf("no number: %q", text)
		}
	}
	// digits x 10^(9 + shift - len(after)) nanoseconds.
	digits, places := strings.TrimLeft(before+after, "0"), 9+shift-len(after)
	for places < 0 && strings.HasSuffix(digits, "0") {
		digits, places = strings.TrimSuffix(digits, "0"), places+1
	}
	if digits == "" || places < 0 || places > 15 || len(digits)+places > 14 {
		return 0, fmt.Errorf("out of range: %q", text)
	}
	var n int64
	for _, c := range digits + strings.Repeat("0", places) {
		n = n*10 + int64(c-'0')
	}
	if n > int64(24*time.Hour) {
		return 0, fmt.Errorf("out of range: %q", text)
	}
	return time.Duration(n), nil
}
