package config

import (
	"strings"
	"time"

	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

// conditions are a RetryConditions document, or the conditions of one route.
type conditions struct {
	name      string
	rules     []retry.Rule
	primary   *retry.Condition // nil: the status is one of retry_on_status
	secondary []retry.Condition
	mode      retry.SecondaryMode
	modeAt    conf.Node
}

func triggers() []string {
	return []string{
		string(retry.StatusCodeMatch), string(retry.LatencyExceeds), string(retry.BodyContains), string(retry.HeaderExists),
		string(retry.HeaderValueMatch), string(retry.RetryAfterHeader), string(retry.XBackendStatus),
	}
}

// retryConditions reads the document.
func (p *parser) retryConditions(m *conf.Map) {
	at := m.Need("name")
	name := at.Name()
	c := parseConditions(m)
	c.name = name
	p.conditions = append(p.conditions, c)
	p.late = append(p.late, func() { p.conditionNames.add(name, at) })
}

// bareConditions reads the companion of a six-key file.
func (p *parser) bareConditions(root conf.Node) {
	m := root.Map()
	at := m.Get("conditions")
	c := parseConditions(at.Map())
	m.Done()
	if p.companion != nil {
		root.Errorf("must be the only conditions without a name, got others").Coded("E-DUPLICATE")
	}
	p.companion = &c
}

func parseConditions(m *conf.Map) (c conditions) {
	primary, secondary, rules := m.Get("primary"), m.Get("secondary"), m.Get("rules")
	c.modeAt = m.Get("secondary_mode")
	c.mode = mode(c.modeAt, "")
	c.secondary = parseSecondary(secondary)
	if primary.Present() {
		cond, wants429, ok := parseCondition(primary)
		if ok {
			c.primary = &cond
			checkRule(retry.Rule{Primary: cond, Secondary: c.secondary, Mode: c.mode}, wants429, c.modeAt)
		}
	}
	for _, item := range rules.List() {
		if r, ok := parseRule(item, c.mode); ok {
			c.rules = append(c.rules, r)
		}
	}
	if rules.IsList() && len(rules.List()) == 0 {
		rules.Errorf("must have at least one rule, got none")
	}
	if m.Node().Present() && !primary.Present() && !secondary.Present() && !rules.Present() {
		m.Node().Errorf("must have primary, secondary or rules, got none of them").Coded("E-CONDITIONS")
	}
	m.Done()
	return c
}

func mode(n conf.Node, def retry.SecondaryMode) retry.SecondaryMode {
	return retry.SecondaryMode(n.Enum(string(def), string(retry.Confirm), string(retry.Annotate)))
}

func parseRule(n conf.Node, def retry.SecondaryMode) (r retry.Rule, ok bool) {
	m := n.Map()
	primary, wants429, ok := parseCondition(m.Need("primary"))
	modeAt := m.Get("secondary_mode")
	r = retry.Rule{Primary: primary, Secondary: parseSecondary(m.Get("secondary")), Mode: mode(modeAt, def)}
	r.Action = retry.Action(m.Get("action").Enum("", string(retry.Retry), string(retry.DontRetry), string(retry.ToFallback)))
	r.Fallback = strategyOf(m.Get("fallback_strategy"), "")
	r.MaxRetries = int(m.Get("max_retries").Int(0, 1, 5))
	m.Done()
	if ok {
		checkRule(r, wants429, modeAt)
	}
	return r, ok
}

// checkRule is about what a rule must not leave to chance: whether an upstream
// that is overloaded wants to be asked again.
func checkRule(r retry.Rule, wants429, modeAt conf.Node) {
	if r.Action != "" && r.Action != retry.Retry {
		return
	}
	if wants429.Present() && (len(r.Secondary) == 0 || r.Mode == retry.Annotate) {
		refuse429(wants429)
	}
	if r.Mode == retry.Annotate && len(r.Secondary) > 0 && modeAt.Present() && signals(r.Primary.Statuses) {
		warnAnnotate(modeAt)
	}
}

func signals(list []int) bool {
	for _, s := range list {
		if s == 503 || s == 429 {
			return true
		}
	}
	return false
}

func warnAnnotate(at conf.Node) {
	at.Warnf("is annotate: a 503 or 429 is retried though no secondary condition matches").
		Hint("under confirm all of them must").Coded("W-ANNOTATE")
}

func parseSecondary(n conf.Node) (out []retry.Condition) {
	if n.IsMap() { // one alone needs no list
		if c, _, ok := parseCondition(n); ok {
			out = append(out, c)
		}
		return out
	}
	if n.IsList() && len(n.List()) == 0 {
		n.Errorf("must have at least one condition, got none").Hint("without secondary a 503 needs Retry-After or X-Backend-Status: overloaded")
	}
	for _, item := range n.List() {
		if c, _, ok := parseCondition(item); ok {
			out = append(out, c)
		}
	}
	return out
}

// parseCondition reads a map of one trigger. Several would leave open whether all
// or any of them are meant.
func parseCondition(n conf.Node) (c retry.Condition, wants429 conf.Node, ok bool) {
	if !n.Present() {
		return c, wants429, false
	}
	m := n.Map()
	var found []string
	for _, t := range triggers() {
		if m.Get(t).Present() {
			found = append(found, t)
		}
	}
	m.Done()
	switch {
	case !n.IsMap():
		return c, wants429, false
	case len(found) > 1:
		n.Errorf("must have one trigger, got %s", strings.Join(found, " and ")).
			Hint("what must match too is a secondary condition; what may match instead is another rule").Coded("E-TRIGGER")
		return c, wants429, false
	case len(found) == 0:
		if len(m.Keys()) == 0 {
			n.Errorf("must have one trigger, got none").Coded("E-TRIGGER")
		}
		return c, wants429, false
	}
	c.Trigger = retry.Trigger(found[0])
	at := m.Get(found[0])
	switch c.Trigger {
	case retry.StatusCodeMatch:
		c.Statuses, wants429 = statuses(at)
		return c, wants429, len(c.Statuses) > 0
	case retry.LatencyExceeds:
		c.Longer = at.Duration(0, time.Millisecond, 10*time.Minute)
		return c, wants429, c.Longer > 0
	case retry.BodyContains:
		c.Value = at.Str("")
		if len(c.Value) > maxNeedle {
			at.Errorf("must be at most %d bytes, got %d", maxNeedle, len(c.Value))
		}
		return c, wants429, c.Value != ""
	case retry.HeaderExists:
		c.Header = fieldName(at)
		return c, wants429, c.Header != ""
	case retry.HeaderValueMatch:
		vm := at.Map()
		c.Header = fieldName(vm.Need("key"))
		c.Value = headerValue(vm.Need("value"))
		vm.Done()
		return c, wants429, c.Header != "" && c.Value != ""
	case retry.XBackendStatus:
		c.Value = headerValue(at)
		return c, wants429, c.Value != ""
	}
	if v, is := at.Bool(true); is && !v { // retry_after_header
		at.Errorf("must be true, got false").Hint("a condition is that something is there")
	}
	return c, wants429, true
}

// fieldName reads a header's name and keeps its spelling, which decision_reason
// will have; it is compared in any case.
func fieldName(n conf.Node) string {
	s := n.Str("")
	if s != "" && !token.MatchString(s) {
		n.Errorf("must be a header name, got %s", n.Got())
		return ""
	}
	return s
}

// maxNeedle is the longest text body_contains may look for: it becomes a label of
// metrics and a field of log lines.
const maxNeedle = 128

// headerValue reads the exact value of a field. HTTP takes blanks off both ends,
// so one that has some can never be met.
func headerValue(n conf.Node) string {
	v := n.Str("")
	switch {
	case len(v) > maxNeedle:
		n.Errorf("must be at most %d bytes, got %d", maxNeedle, len(v))
	case v != strings.Trim(v, " \t"):
		n.Warnf("begins or ends with a blank, which HTTP takes off: it will never match").Coded("W-BLANK")
	}
	return v
}

// applyConditions gives a policy its rules.
func (p *parser) applyConditions(own *policy, c *conditions) {
	confirmed := false
	if c != nil {
		main := retry.Rule{Primary: retry.Condition{Trigger: retry.StatusCodeMatch, Statuses: own.cfg.OnStatus}, Secondary: c.secondary, Mode: c.mode}
		if c.primary != nil {
			main.Primary = *c.primary
		} else if len(c.secondary) > 0 {
			confirmed = c.mode != retry.Annotate
			if !confirmed && c.modeAt.Present() && signals(own.cfg.OnStatus) && p.once(c.modeAt, "W-ANNOTATE") {
				warnAnnotate(c.modeAt)
			}
		}
		confirmed = confirmed || c.primary != nil // retry_on_status decides nothing
		own.cfg.Rules = append(append([]retry.Rule{}, c.rules...), main)
	}
	if own.wants429.Present() && !confirmed && p.once(own.wants429, "E-429") {
		refuse429(own.wants429)
	}
}
