package explain

import (
	"cmp"
	"strings"

	"breakwater/internal/retrylog"
)

// Why says in plain words what was made of a try: reason is what matched in it,
// skip why no further one was made. Both empty: it was no failure.
func Why(reason, skip string) string {
	switch {
	case skip != "":
		return "Not tried again: " + WhyNot(skip) + "."
	case reason != "":
		return "Tried again: " + Because(reason) + "."
	}
	return "No failure, so there was nothing to try again."
}

// Because says a decision_reason in words, or as it is where it is none of ours.
func Because(reason string) string {
	var parts []string
	for part := range strings.SplitSeq(reason, " and ") {
		parts = append(parts, because1(part))
	}
	return strings.Join(parts, ", and ")
}

func because1(part string) string {
	name, value, _ := strings.Cut(part, "=")
	switch name {
	case "retry_after_header":
		return "the answer says when to come back (Retry-After)"
	case "unprocessed":
		return "there is proof that the upstream did nothing with it"
	case "connect_failure":
		return "no connection could be made"
	case "status_code_match":
		return value + " is one of the statuses that the policy retries"
	case "latency_exceeds":
		return "no answer began within " + value
	case "body_contains":
		return "the body of the answer contains “" + value + "”"
	}
	if field, ok := strings.CutPrefix(name, "header "); ok {
		if value == "" {
			return "the answer has the field " + field
		}
		return "the answer has the field " + field + ": " + value
	}
	return strings.ReplaceAll(part, "_", " ")
}

// WhyNot says a skip_reason in words, or as it is where it is none of ours.
func WhyNot(skip string) string {
	if text, ok := skipWords()[skip]; ok {
		return text
	}
	return strings.ReplaceAll(skip, "_", " ")
}

// skipWords are the reasons why no retry is made.
func skipWords() map[string]string {
	return map[string]string{
		"refused":                      "a policy of the gateway refused the request, so the upstream was not asked",
		"status_not_listed":            "it is a failure, but none that the policy retries",
		"secondary_unmatched":          "the answer carries no sign that asking again would help",
		"latency_after_head":           "it was slow, but its answer had already begun",
		"rule_never":                   "a rule of the policy says that such an answer is never retried",
		"rule_fallback":                "a rule of the policy answers in its place at once",
		"connect_never":                "no connection could be made, and the policy does not retry that",
		"attempts_exhausted":           "all retries that the policy allows were made",
		"non_idempotent":               "sent twice it could do twice what it asks for: its method is not idempotent, and nothing says that it may be repeated",
		"body_not_replayable":          "its body could not be sent a second time: it was too long to be kept, or of unknown length",
		"retry_count":                  "another hop of its path retries already",
		"client_gone":                  "the client had gone",
		"retry_after_exceeds_cap":      "the upstream asks for a longer pause than the policy waits",
		"retry_after_exceeds_deadline": "the upstream asks for a longer pause than the request had left",
		"deadline":                     "the request had no time left for another try",
		"error_rate_gate":              "too many first tries fail at the moment: retries would make it worse",
		"no_other_host":                "only another endpoint would have helped, and there was none",
		"retry_budget":                 "the retry budget of the upstream was used up",
		"observe_only":                 "the policy only looks on",
	}
}

// Skips are the skip_reasons there are, for lists to choose from.
func Skips() []string {
	return []string{"attempts_exhausted", "body_not_replayable", "client_gone", "connect_never", "deadline", "error_rate_gate", "latency_after_head",
		"no_other_host", "non_idempotent", "observe_only", "refused", "retry_after_exceeds_cap", "retry_after_exceeds_deadline", "retry_budget", "retry_count",
		"rule_fallback", "rule_never", "secondary_unmatched", "status_not_listed"}
}

// Story says in one sentence why an exchange of the log was retried, or was not.
func Story(ev *retrylog.Exchange) string {
	n := len(ev.Tries)
	switch {
	case n == 0 && ev.Refusal != "":
		policy, reason, _ := strings.Cut(ev.Refusal, ":")
		return "Never sent: refused by the " + policy + because(strings.ReplaceAll(reason, "_", " ")) + "."
	case n == 0:
		return "Never sent to an upstream."
	}
	last := &ev.Tries[n-1]
	skip := cmp.Or(last.Skip, ev.Skip)
	switch {
	case n > 1 && skip != "":
		return "Retried, " + plural(n-1, "time", "times") + ", and then no more: " + WhyNot(skip) + "."
	case n > 1:
		return "Retried, " + plural(n-1, "time", "times") + ": " + Because(cmp.Or(ev.Reason, ev.Tries[0].Reason)) + ". The last try was no failure."
	case skip != "":
		return "Not retried: " + WhyNot(skip) + "."
	case ev.Outcome == retrylog.ClientAbort || last.Kind == "canceled":
		return "Not retried: " + WhyNot("client_gone") + "."
	case ev.Outcome != retrylog.OK && last.Status != 0 && last.Status < 500:
		return "Not retried: its answer had begun before it failed, and what a client has seen the beginning of is never asked for again."
	case ev.Outcome != retrylog.OK:
		return "Not retried: no retry policy is in force on its route."
	}
	return "Not retried: its only try was no failure."
}

// Head names a step: the rule it belongs to, or that it is a gate.
func (s Step) Head() string { return strings.TrimSpace(stepHead(s)) }

// Words say what came of a step.
func (s Step) Words() string { return stepText(s) }

// Words say the policy in short.
func (p *Policy) Words() string { return p.text() }
