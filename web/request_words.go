package web

import (
	"cmp"
	"strings"

	"breakwater/gateway/explain"
	"breakwater/internal/retrylog"
)

// What became of a try, and why. English is the sentence of package explain, which API
// and command line give too; other languages make it of the same reasons.

func (l lang) why(reason, skip string) string {
	switch {
	case l.words == nil:
		return explain.Why(reason, skip)
	case skip != "":
		return l.say("Not tried again: %s.", l.whyNot(skip))
	case reason != "":
		return l.say("Tried again: %s.", l.because(reason))
	}
	return l.say("No failure, so there was nothing to try again.")
}

func (l lang) whyNot(skip string) string { return cmp.Or(l.skipWords(skip), spaced(skip)) }

// because reads a decision_reason; what is none of ours stays as it is.
func (l lang) because(reason string) string {
	var parts []string
	for part := range strings.SplitSeq(reason, " and ") {
		name, value, _ := strings.Cut(part, "=")
		field, ofField := strings.CutPrefix(name, "header ")
		switch {
		case name == "retry_after_header":
			part = l.say("the answer says when to come back (Retry-After)")
		case name == "unprocessed":
			part = l.say("there is proof that the upstream did nothing with it")
		case name == "connect_failure":
			part = l.say("no connection could be made")
		case name == "status_code_match":
			part = l.say("%s is one of the statuses that the policy retries", value)
		case name == "latency_exceeds":
			part = l.say("no answer began within %s", value)
		case name == "body_contains":
			part = l.say("the body of the answer contains “%s”", value)
		case ofField && value == "":
			part = l.say("the answer has the field %s", field)
		case ofField:
			part = l.say("the answer has the field %s: %s", field, value)
		default:
			part = spaced(part)
		}
		parts = append(parts, part)
	}
	return l.list(parts...)
}

// storyOf is the whole exchange in a sentence.
func (l lang) storyOf(x *retrylog.Exchange) string {
	n := len(x.Tries)
	switch {
	case l.words == nil:
		return explain.Story(x)
	case n == 0 && x.Refusal != "":
		return l.say("Never sent: refused by %s.", x.Refusal)
	case n == 0:
		return l.say("Never sent to an upstream.")
	}
	last := &x.Tries[n-1]
	skip := cmp.Or(last.Skip, x.Skip)
	switch {
	case n > 1 && skip != "":
		return l.say("Retried, %s, and then no more: %s.", l.count(n-1, "time", "times"), l.whyNot(skip))
	case n > 1:
		return l.say("Retried, %s: %s. The last try was no failure.", l.count(n-1, "time", "times"), l.because(cmp.Or(x.Reason, x.Tries[0].Reason)))
	case skip != "":
		return l.say("Not retried: %s.", l.whyNot(skip))
	case x.Outcome == retrylog.ClientAbort || last.Kind == "canceled":
		return l.say("Not retried: %s.", l.whyNot("client_gone"))
	case x.Outcome != retrylog.OK && last.Status != 0 && last.Status < 500:
		return l.say("Not retried: its answer had begun before it failed, and what a client has seen the beginning of is never asked for again.")
	case x.Outcome != retrylog.OK:
		return l.say("Not retried: no retry policy is in force on its route.")
	}
	return l.say("Not retried: its only try was no failure.")
}
