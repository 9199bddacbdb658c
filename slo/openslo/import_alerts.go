package openslo

import (
	"regexp"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// condition reads an AlertCondition that stands by itself.
func (im *importer) condition(m *conf.Map) {
	before := len(im.log.Errors())
	name := word(m.Get("metadata").Map().Get("name"))
	c, ok := im.burn(m)
	im.policies["condition "+name] = nil
	if ok && len(im.log.Errors()) == before {
		im.policies["condition "+name] = []condition{c}
	}
}

// policy reads an AlertPolicy and keeps what it says of burn rates.
func (im *importer) policy(m *conf.Map) {
	before := len(im.log.Errors())
	m.Get("apiVersion")
	m.Get("kind")
	md := m.Need("metadata").Map()
	name := word(md.Need("name"))
	spec := m.Need("spec").Map()
	spec.Get("description")
	for _, key := range []string{"alertWhenBreaching", "alertWhenResolved", "alertWhenNoData", "notificationTargets"} {
		dropped(spec.Get(key), "who is told of what is settled by breakwater's alert routes")
	}
	conditions := spec.Need("conditions")
	list := conditions.List()
	if len(list) != 1 && conditions.IsList() {
		conditions.Errorf("must hold exactly one condition, got %d", len(list)).Hint("write a policy for each; an SLO may name several")
	}
	var out []condition
	for _, n := range list {
		c := n.Map()
		if ref := c.Get("conditionRef"); ref.Present() {
			known, ok := im.policies["condition "+word(ref)]
			if !ok {
				dropped(ref, "no AlertCondition of that name stands before it in the files")
			}
			out = append(out, known...)
			continue
		}
		if b, ok := im.burn(c); ok {
			out = append(out, b)
		}
	}
	spec.Done()
	m.Done()
	im.policies[name] = nil
	if len(im.log.Errors()) == before {
		im.policies[name] = out
	}
}

var lookback = regexp.MustCompile(`^-([1-9][0-9]*[mhdw])$`)

// burn reads a condition of kind burnrate.
func (im *importer) burn(m *conf.Map) (c condition, ok bool) {
	m.Get("apiVersion")
	m.Get("kind")
	m.Get("metadata")
	spec := m.Need("spec").Map()
	spec.Get("description")
	severity := spec.Get("severity")
	c.severity = "ticket"
	switch got := strings.ToLower(word(severity)); got {
	case "page", "critical", "high", "emergency":
		c.severity = "page"
	case "ticket":
	default:
		if severity.Present() {
			severity.Warnf("is taken as ticket: severities here are page and ticket").Coded(codeTaken)
		}
	}
	cond := spec.Need("condition").Map()
	cond.Need("kind").Enum("burnrate", "burnrate")
	threshold, window, op := cond.Need("threshold"), cond.Need("lookbackWindow"), cond.Get("op")
	dropped(cond.Get("alertAfter"), "a rule fires while its long window and a twelfth of it both burn too fast")
	switch got := op.Text(); {
	case !op.Present():
		cond.Node().Errorf("must hold op: gt").Coded("E-MISSING")
	case got == "lt" || got == "lte":
		op.Warnf("contradicts what a burn rate is for: %s would fire while all is well; the rule fires above the threshold", got).Coded(codeTaken)
	default:
		op.Enum("gt", "gt", "gte", "lt", "lte")
	}
	c.threshold = threshold.Decimal(0, 3, 1, 10_000_000)
	c.long = time.Hour
	if text := word(window); lookback.MatchString(text) {
		window.Errorf("must be a span such as 1h, got %s", text).Hint("a lookback looks back already: write %s", strings.TrimPrefix(text, "-"))
	} else {
		c.long = window.Span(time.Hour, time.Minute, 90*day)
	}
	cond.Done()
	spec.Done()
	return c, c.threshold > 0
}

// alerts turns the policies an SLO names into burn rules of its own.
func (im *importer) alerts(n conf.Node, o *slo.Objective, t *slo.Terms) {
	if !n.IsList() {
		return // null stands for none
	}
	for _, p := range n.List() {
		name := word(p)
		if p.IsMap() {
			name = word(p.Map().Get("alertPolicyRef"))
			if name == "" {
				before := len(im.log.Errors())
				im.policy(p.Map())
				if len(im.log.Errors()) > before {
					return
				}
				name = word(p.Map().Get("metadata").Map().Get("name"))
			}
		}
		conditions, known := im.policies[name]
		switch {
		case !known:
			dropped(p, "no AlertPolicy %s is among the files; breakwater's own burn rules stand in its place", name)
		case conditions == nil:
			dropped(p, "AlertPolicy %s was refused; breakwater's own burn rules stand in its place", name)
		}
		for _, c := range conditions {
			if c.threshold*int64(c.long/time.Minute) > 9990*int64(o.Window/time.Minute) {
				dropped(p, "it waits until the budget is spent ten times")
				continue
			}
			if c.long%(12*time.Minute) != 0 || c.long > o.Window {
				dropped(p, "its window of %s must be whole minutes in each twelfth, and within the SLO's", slo.Span(c.long))
				continue
			}
			t.Pairs = append(t.Pairs, pair(c.severity, c.long, spend(c.threshold, c.long, o.Window), t.Pairs))
		}
	}
}

// spend is which part of the budget goes at a rate, in thousandths, within long: the
// nearest part per million, since that is what rules are kept in.
func spend(rateMilli int64, long, window time.Duration) int64 {
	minutes := int64(window / time.Minute)
	return min(max((rateMilli*1000*int64(long/time.Minute)+minutes/2)/minutes, 1), mostSpend)
}
