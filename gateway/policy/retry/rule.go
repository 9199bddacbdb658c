package retry

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// Trigger is what a condition looks at.
type Trigger string

// The seven triggers.
const (
	StatusCodeMatch  Trigger = "status_code_match"  // the status is one of a list
	LatencyExceeds   Trigger = "latency_exceeds"    // no head of an answer came for so long
	BodyContains     Trigger = "body_contains"      // a text in the first 64 KiB of the answer
	HeaderExists     Trigger = "header_exists"      // a field of the answer
	HeaderValueMatch Trigger = "header_value_match" // a field and its exact value
	RetryAfterHeader Trigger = "retry_after_header" // a Retry-After that can be read
	XBackendStatus   Trigger = "x_backend_status"   // what the upstream says of its load
)

// backpressureSignal is the condition that a status of overload needs where the
// policy writes none: one of the two words by which an upstream asks to be asked again.
const backpressureSignal Trigger = "backpressure_signal"

// Condition is one trigger with what it compares.
type Condition struct {
	Trigger  Trigger       `json:"trigger"`
	Statuses []int         `json:"statuses,omitempty"` // status_code_match
	Header   string        `json:"header,omitempty"`   // header_exists, header_value_match: in any case
	Value    string        `json:"value,omitempty"`    // header_value_match, x_backend_status, body_contains: exact
	Longer   time.Duration `json:"longer,omitempty"`   // latency_exceeds
}

// SecondaryMode is what secondary conditions are for.
type SecondaryMode string

// The modes.
const (
	Confirm  SecondaryMode = "confirm"  // all of them must match too
	Annotate SecondaryMode = "annotate" // they only make decision_reason say more
)

// Action is what follows where a rule decides.
type Action string

// The actions.
const (
	Retry      Action = "retry"
	DontRetry  Action = "never"    // the answer is passed on
	ToFallback Action = "fallback" // what would follow the last retry follows at once
)

// Rule is a primary condition with those that confirm it, and what follows.
type Rule struct {
	Primary   Condition     `json:"primary"`
	Secondary []Condition   `json:"secondary,omitempty"`
	Mode      SecondaryMode `json:"secondary_mode,omitempty"` // "" is confirm
	Action    Action        `json:"action,omitempty"`         // "" is retry
	// MaxRetries is the rule's own limit under the policy's; 0: none.
	MaxRetries int `json:"max_retries,omitempty"`
	// Fallback "" is the policy's.
	Fallback Strategy `json:"fallback_strategy,omitempty"`
}

// rules are those in force.
func (cfg *Config) rules() []Rule {
	if len(cfg.Rules) > 0 {
		return cfg.Rules
	}
	return []Rule{{Primary: Condition{Trigger: StatusCodeMatch, Statuses: cfg.OnStatus}}}
}

// matched is what came of one condition.
type matched struct {
	ok bool
	// reason is what it adds to decision_reason where it is ok, and why it is not
	// where that needs saying.
	reason string
	index  int // of the status
}

// match holds c against the facts of a try.
func (c *Condition) match(cfg *Config, f *Facts) matched {
	switch c.Trigger {
	case StatusCodeMatch:
		status := f.StatusOf()
		if i := slices.Index(c.Statuses, status); i >= 0 {
			return matched{true, reasonStatus + itoa(status), i}
		}
		return matched{}
	case LatencyExceeds:
		// An answer that has begun is not thrown away for having come late.
		switch {
		case f.Took < c.Longer:
			return matched{}
		case f.Kind == "":
			return matched{reason: SkipLate}
		}
		return matched{ok: true, reason: string(LatencyExceeds) + "=" + c.Longer.String()}
	}
	if f.Kind != "" { // all others look at an answer
		return matched{}
	}
	switch c.Trigger {
	case BodyContains:
		if f.BodyHidden != "" {
			return matched{reason: f.BodyHidden}
		}
		return matched{ok: bytes.Contains(f.Body, []byte(c.Value)), reason: string(BodyContains) + "=" + c.Value}
	case HeaderExists:
		return matched{ok: f.Head != nil && f.Head.Has(c.Header), reason: "header " + c.Header}
	case HeaderValueMatch:
		return matched{ok: f.has(c.Header, c.Value), reason: "header " + c.Header + "=" + c.Value}
	case RetryAfterHeader:
		_, ok := f.after()
		return matched{ok: ok, reason: reasonRetryAfter}
	case XBackendStatus:
		name, value := cfg.statusHeader(), c.Value
		if value == "" {
			value = overloadedTo
		}
		return matched{ok: f.has(name, value), reason: "header " + name + "=" + value}
	case backpressureSignal:
		// One atom, and not two conditions of which either would do.
		if name := cfg.statusHeader(); f.has(name, overloadedTo) {
			return matched{ok: true, reason: "header " + name + "=" + overloadedTo}
		}
		_, ok := f.after()
		return matched{ok: ok, reason: reasonRetryAfter}
	}
	return matched{}
}

// has looks at every field of the name: any of several may match. The name is
// compared in any case, as HTTP has it, the value byte for byte.
func (f *Facts) has(name, value string) bool {
	if f.Head == nil {
		return false
	}
	for _, field := range f.Head.Fields() {
		if field.Value == value && len(field.Name) == len(name) && strings.EqualFold(field.Name, name) {
			return true
		}
	}
	return false
}

// after is the pause the answer asks for.
func (f *Facts) after() (time.Duration, bool) {
	if f.Head == nil || f.Kind != "" {
		return 0, false
	}
	return ParseRetryAfter(f.Head.Get(retryAfter), f.Now)
}
