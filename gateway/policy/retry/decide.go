package retry

import (
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

// Reasons of a retry (decision_reason). They come from a closed set apart from
// the status and what the policy itself names, since they are a label of metrics.
const (
	reasonRetryAfter  = "retry_after_header"
	reasonUnprocessed = "unprocessed"
	reasonConnect     = "connect_failure"
	reasonStatus      = "status_code_match=" // and the status
)

// Reasons why no retry is made (skip_reason), in the order in which they are found.
const (
	SkipRefused     = "refused"             // a policy of ours said no
	SkipStatus      = "status_not_listed"   // the failure is none of retry_on_status
	SkipSecondary   = "secondary_unmatched" // a bare 503
	SkipLate        = "latency_after_head"  // slow, but the answer had begun
	SkipRule        = "rule_never"
	SkipFallback    = "rule_fallback"
	SkipConnect     = "connect_never"
	SkipAttempts    = "attempts_exhausted"
	SkipMethod      = "non_idempotent"
	SkipBody        = "body_not_replayable"
	SkipRetryCount  = "retry_count" // another hop of the path retries
	SkipClientGone  = "client_gone"
	SkipRACap       = "retry_after_exceeds_cap"
	SkipRADeadline  = "retry_after_exceeds_deadline"
	SkipDeadline    = "deadline"
	SkipErrorRate   = "error_rate_gate"
	SkipNoOtherHost = "no_other_host"
	SkipBudget      = "retry_budget"
	SkipObserved    = "observe_only"
)

// DefaultReplayCap is how much of a body is kept where the policy says nothing.
const DefaultReplayCap = 64 << 10

const defaultMaxRetryAfter = 5 * time.Second

// StatusOf is the status a try counts as: the answer's own, else 504 where time
// ran out and 502 for every other failure.
func (f *Facts) StatusOf() int {
	if f.Kind != "" {
		return (&exchange.UpstreamError{Kind: f.Kind}).Status()
	}
	return f.Status
}

// Step is one thing a decision looked at: a condition of a rule, or a gate.
type Step struct {
	// Rule is the index of the rule a condition belongs to; -1 for gates.
	Rule int `json:"rule"`
	// Name is the trigger, or the gate.
	Name string `json:"name"`
	// Role is primary, secondary, builtin (what needs no rule) or gate.
	Role string `json:"role"`
	OK   bool   `json:"ok"`
	// Detail is what matched; where a gate is shut, its skip_reason.
	Detail string `json:"detail,omitempty"`
	// Index is the place of a matched status in its list.
	Index int `json:"matched_index,omitempty"`
}

// trace takes steps; a nil one takes none and costs nothing.
type trace struct{ steps []Step }

func (t *trace) add(s Step) {
	if t != nil {
		t.steps = append(t.steps, s)
	}
}

// Decide says what follows a try. rand in [0, 1) is the jitter's dice: it moves
// the wait and never whether to retry, but where the deadline falls into what the
// dice may move.
//
// The gates stand in one order, and the first that fails is the reason; the
// budget is the last one and is asked by the Layer when the retry is sent.
func Decide(cfg Config, f Facts, rand float64) Decision { return decide(&cfg, &f, rand, nil) }

// Explain is Decide, and tells every condition that was looked at and every gate,
// those behind the first shut one too.
func Explain(cfg Config, f Facts, rand float64) (Decision, []Step) {
	var t trace
	d := decide(&cfg, &f, rand, &t)
	return d, t.steps
}

func decide(cfg *Config, f *Facts, rand float64, t *trace) Decision {
	if f.Refused {
		t.add(Step{-1, "refused", "builtin", false, SkipRefused, 0})
		return Decision{Skip: SkipRefused}
	}
	if !cfg.Active() {
		t.add(Step{-1, "enabled", "builtin", false, "", 0})
		return Decision{}
	}
	d, other := judge(cfg, f, t)
	if d.Reason != "" && d.Fallback == "" {
		d.Fallback = cfg.Fallback
	}
	if d.Reason == "" || d.Skip != "" {
		return d
	}
	d.Wait, d.Skip = gates(cfg, f, d, other, rand, t)
	if d.Skip == "" {
		d.Retry = true
	} else {
		d.Wait = 0
	}
	return d
}

// judge says whether the try is a failure that the policy speaks of, and whether
// the next one has to go to another host.
func judge(cfg *Config, f *Facts, t *trace) (d Decision, other bool) {
	if f.Kind == exchange.Canceled {
		t.add(Step{-1, "client", "builtin", false, SkipClientGone, 0})
		return Decision{Skip: SkipClientGone}, false
	}
	d, found := firstRule(cfg, f, t)
	if found && d.Skip != SkipSecondary && d.Skip != "" {
		return d, false // the policy's own word goes before what follows
	}
	switch {
	case f.Kind == exchange.Dial || f.Kind == exchange.ConnectTimeout:
		d.Reason, d.Skip = reasonConnect, ""
		if cfg.OnConnect == Never {
			d.Skip = SkipConnect
		}
		t.add(Step{-1, "connect", "builtin", d.Skip == "", reasonConnect, 0})
		// A dead link stays dead: after a connect timeout only another host
		// helps. A refused one may be a restart, and may be asked again.
		return d, f.OtherHost || f.Kind == exchange.ConnectTimeout
	case provablyUnprocessed(f):
		d.Reason, d.Skip = reasonUnprocessed, ""
		t.add(Step{-1, "unprocessed", "builtin", true, reasonUnprocessed, 0})
		return d, false
	}
	if !found && d.Skip == "" && (f.Kind != "" || f.Status >= 500) {
		d.Skip = SkipStatus
	}
	return d, false
}

// firstRule finds the rule whose primary matches, and what it says.
func firstRule(cfg *Config, f *Facts, t *trace) (d Decision, found bool) {
	rules := cfg.rules()
	good := f.good()
	for i := range rules {
		r := &rules[i]
		m := r.Primary.match(cfg, f)
		if m.reason == SkipLate && !m.ok && d.Skip == "" {
			d.Skip = SkipLate // told, where no other rule has more to say
		}
		if good {
			m.ok = false
		}
		t.add(Step{i, string(r.Primary.Trigger), "primary", m.ok, m.reason, m.index})
		if m.ok {
			return r.decide(cfg, f, i, m, t), true
		}
	}
	return d, false
}

// good reports whether an answer came that is no failure: such a one is never
// thrown away, whatever else it says.
func (f *Facts) good() bool { return f.Kind == "" && f.Status < 400 }

// decide says what r says, whose primary matched as m.
func (r *Rule) decide(cfg *Config, f *Facts, i int, m matched, t *trace) Decision {
	d := Decision{Rule: i, Index: m.index}
	secondary, mode := r.Secondary, r.Mode
	if builtin, ok := r.builtin(cfg, f); ok {
		secondary, mode = []Condition{builtin}, Confirm
	}
	var more []string
	all := true
	for k := range secondary {
		c := secondary[k].match(cfg, f)
		t.add(Step{i, string(secondary[k].Trigger), "secondary", c.ok, c.reason, c.index})
		if c.ok {
			more = append(more, c.reason)
		} else {
			all = false
		}
	}
	if mode != Annotate && !all {
		d.Skip = SkipSecondary
		return d
	}
	d.Reason, d.Fallback = m.reason, r.Fallback
	if len(more) > 0 { // they say more than the primary, which they confirm
		d.Reason = strings.Join(more, " and ")
	}
	switch r.Action {
	case DontRetry:
		d.Skip, d.Fallback = SkipRule, PassThrough
	case ToFallback:
		d.Skip = SkipFallback
	}
	return d
}

// builtin is the confirmation that a status of overload needs where the rule
// writes none. A try without an answer has no head to carry it and needs none.
func (r *Rule) builtin(cfg *Config, f *Facts) (Condition, bool) {
	if len(r.Secondary) > 0 || f.Kind != "" || r.Primary.Trigger != StatusCodeMatch || r.Action != Retry && r.Action != "" {
		return Condition{}, false
	}
	if f.Status == 429 || f.Status == 503 && !cfg.BareOn503 {
		return Condition{Trigger: backpressureSignal}, true
	}
	return Condition{}, false
}

func provablyUnprocessed(f *Facts) bool {
	switch f.Kind {
	case "":
		return false
	case exchange.Dial, exchange.ConnectTimeout, exchange.TLS:
		return true
	}
	return f.Unprocessed
}

func idempotent(cfg *Config, f *Facts) bool {
	switch f.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return cfg.Idempotent || cfg.TrustKey && f.HasKey
}

// itoa avoids an allocation for the statuses one meets.
func itoa(status int) string {
	switch status {
	case 429:
		return "429"
	case 500:
		return "500"
	case 502:
		return "502"
	case 503:
		return "503"
	case 504:
		return "504"
	}
	return decimal(status)
}
