package openslo

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// prefix begins the annotations that say what OpenSLO has no field for.
const prefix = "breakwater/"

// annotate takes one annotation of ours into t.
func annotate(e conf.Entry, t *slo.Terms) {
	n := e.Value
	text := n.Str("")
	if text == "" {
		return
	}
	switch strings.TrimPrefix(e.Key, prefix) {
	case "chaos":
		mode, limit, capped := strings.Cut(text, " ")
		switch {
		case text == string(slo.ChaosCount): // as without it
		case text == string(slo.ChaosExclude):
			t.Chaos = slo.ChaosExclude
		case capped && mode == string(slo.ChaosCap):
			if ppm, ok := percent(limit); ok && ppm <= 1_000_000 {
				t.Chaos, t.ChaosCapPPM = slo.ChaosCap, ppm
				return
			}
			fallthrough
		default:
			n.Errorf("must be count, exclude or a cap such as \"cap 10%%\", got %s", n.Got())
		}
	case "planned-events":
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v <= 0 {
			n.Errorf("must be how many events a period is planned to hold, got %s", n.Got())
		}
		t.Planned = max(v, 0)
	case "aspiration":
		ppb, err := slo.ParseTarget(text)
		if err != nil {
			n.Errorf("%s", strings.TrimPrefix(err.Error(), slo.ErrTarget.Error()+": "))
		}
		t.AspirationPPB = ppb
	case "alerts":
		t.AlertsOff = n.Enum("on", "on", "off") == "off"
	case "burn-rules":
		t.Pairs = pairs(n, text)
	case "guard":
		t.Guard = guard(n, text)
	case "group-by":
		t.GroupBy = n.Enum("", "route")
	case "informational":
		t.Informational = n.Enum("false", "true", "false") == "true"
	default:
		n.Errorf("must be a known annotation, got %s", e.Key).Coded("E-UNKNOWN").
			Hint("known here: alerts, aspiration, burn-rules, chaos, group-by, guard, informational, planned-events")
	}
}

var rule = regexp.MustCompile(`^(page|ticket) ([1-9][0-9]*[mhdw]) ([0-9]+(?:\.[0-9]+)?%)$`)

// pairs reads "page 1h 2%; ticket 3d 10%": severity, long window, and which part of
// the budget is spent in it when the rule fires.
func pairs(n conf.Node, text string) []slo.Pair {
	var out []slo.Pair
	for each := range strings.SplitSeq(text, ";") {
		m := rule.FindStringSubmatch(strings.Join(strings.Fields(each), " "))
		if m == nil {
			n.Errorf("must be rules such as \"page 1h 2%%; ticket 3d 10%%\", got %q", strings.TrimSpace(each))
			return nil
		}
		long, err := span(m[2])
		ppm, ok := percent(m[3])
		if err != nil || !ok {
			n.Errorf("must be rules such as \"page 1h 2%%; ticket 3d 10%%\", got %q", strings.TrimSpace(each))
			return nil
		}
		out = append(out, pair(m[1], long, ppm, out))
	}
	return out
}

// pair is a rule of one's own, named by its window, and by its severity too where
// the window is taken.
func pair(severity string, long time.Duration, ppm int64, others []slo.Pair) slo.Pair {
	p := slo.Pair{Name: slo.Window(long), Long: long, SpendPPM: ppm, Severity: severity}
	for i := 2; named(others, p.Name); i++ {
		p.Name = fmt.Sprintf("%s-%s-%d", severity, slo.Window(long), i)
	}
	p.Reason = fmt.Sprintf("%s of the budget within %s", slo.Percent(ppm), slo.Span(long))
	return p
}

func named(list []slo.Pair, name string) bool {
	for _, p := range list {
		if p.Name == name {
			return true
		}
	}
	return false
}

// guard reads "off", or "min_bad=3 z=1.645", of which either may be left out.
func guard(n conf.Node, text string) *slo.Guard {
	g := slo.DefaultGuard()
	if text == "off" {
		return &slo.Guard{}
	}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "min_bad":
			v, err := strconv.ParseInt(value, 10, 32)
			if err == nil && v >= 0 {
				g.MinBad = v
				continue
			}
		case "z":
			if v, ok := thousandths(value); ok {
				g.ZMilli = v
				continue
			}
		}
		n.Errorf("must be off, or such as \"min_bad=3 z=1.645\", got %q", word)
	}
	return &g
}

func thousandths(text string) (int64, bool) {
	before, after, _ := strings.Cut(text, ".")
	if len(after) > 3 || len(before) > 3 || before == "" {
		return 0, false
	}
	v, err := strconv.ParseInt(before+after+strings.Repeat("0", 3-len(after)), 10, 64)
	return v, err == nil && v >= 0
}

// percent reads "12.5%" as parts per million.
func percent(text string) (int64, bool) {
	digits, ok := strings.CutSuffix(text, "%")
	before, after, _ := strings.Cut(digits, ".")
	after = strings.TrimRight(after, "0")
	if !ok || before == "" || len(before) > 3 || len(after) > 4 || strings.Trim(before+after, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(before+after+strings.Repeat("0", 4-len(after)), 10, 64)
	return v, err == nil && v > 0 && v <= mostSpend
}

// mostSpend is the most a rule may let go, 999 %: over a whole window a budget can
// be spent more than once.
const mostSpend = 9_990_000

// span reads 90m, 6h, 28d, 4w.
func span(text string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": day, "w": 7 * day} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			v, err := strconv.ParseInt(digits, 10, 32)
			if err != nil || v <= 0 || time.Duration(v) > 366*day/unit {
				break
			}
			return time.Duration(v) * unit, nil
		}
	}
	return 0, fmt.Errorf("no span: %q", text)
}

// annotations are the annotations that say of t what OpenSLO has no field for.
func annotations(t slo.Terms) [][2]string {
	var out [][2]string
	add := func(key, format string, args ...any) {
		out = append(out, [2]string{prefix + key, fmt.Sprintf(format, args...)})
	}
	if t.AlertsOff {
		add("alerts", "off")
	}
	if t.AspirationPPB > 0 {
		add("aspiration", "%s%%", slo.TargetPercent(t.AspirationPPB))
	}
	if len(t.Pairs) > 0 {
		var rules []string
		for _, p := range t.Pairs {
			rules = append(rules, fmt.Sprintf("%s %s %s", p.Severity, slo.Window(p.Long), percentOf(p.SpendPPM)))
		}
		add("burn-rules", "%s", strings.Join(rules, "; "))
	}
	switch t.Chaos {
	case slo.ChaosExclude:
		add("chaos", "exclude")
	case slo.ChaosCap:
		add("chaos", "cap %s", percentOf(t.ChaosCapPPM))
	}
	if t.GroupBy != "" {
		add("group-by", "%s", t.GroupBy)
	}
	if g := t.Guard; g != nil {
		if *g == (slo.Guard{}) {
			add("guard", "off")
		} else {
			add("guard", "min_bad=%d z=%d.%03d", g.MinBad, g.ZMilli/1000, g.ZMilli%1000)
		}
	}
	if t.Informational {
		add("informational", "true")
	}
	if t.Planned > 0 {
		add("planned-events", "%d", t.Planned)
	}
	return out
}

// percentOf writes parts per million as the shortest exact percentage.
func percentOf(ppm int64) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0")
	return strings.TrimSuffix(s, ".") + "%"
}
