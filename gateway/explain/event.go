package explain

import (
	"errors"
	"strings"

	"breakwater/internal/retrylog"
)

// Recorded is what a gateway decided after a try, as its event tells.
type Recorded struct {
	Endpoint string `json:"endpoint"`
	Reason   string `json:"decision_reason,omitempty"`
	Skip     string `json:"skip_reason,omitempty"`
	WaitMS   int64  `json:"wait_ms"`
	Fault    string `json:"fault,omitempty"`
	// Differs says that the configuration asked now decides otherwise.
	Differs bool `json:"differs,omitempty"`
}

// FromEvent makes a sample of a captured exchange. Of answers the event keeps
// their status and what matched in them, so fields that were no reason for
// anything are not there.
func FromEvent(ev *retrylog.Exchange) (Sample, error) {
	if len(ev.Tries) == 0 {
		return Sample{}, errors.New("the event has no tries: a policy refused the request, or it came to no route")
	}
	if len(ev.Tries) > maxAnswers {
		return Sample{}, errors.New("the event has more tries than any policy makes")
	}
	s := Sample{Route: ev.Route, Method: ev.Method, RequestID: ev.RequestID, At: ev.Start, Headers: Headers{}}
	if ev.Skip == "retry_count" { // another hop's count, which the event does not keep
		s.Headers["Retry-Count"] = Values{"1"}
	}
	s.BudgetEmpty, s.ErrorRateHigh = ev.Skip == "retry_budget", ev.Skip == "error_rate_gate"
	if ev.Skip == "body_not_replayable" {
		s.BodyBytes = -1
	}
	for i := range ev.Tries {
		t := &ev.Tries[i]
		r := Reply{LatencyMS: t.LatencyUS / 1000, Headers: matched(t)}
		switch {
		case t.Status != 0:
			r.Status = t.Status
		case t.Kind == "canceled":
			r.Failure = "try_timeout" // time ran out, or nobody waited any more
		default:
			r.Failure = t.Kind
			r.Unprocessed = t.Reason == "unprocessed" && t.Kind != "tls"
		}
		s.Answers = append(s.Answers, r)
	}
	return s, s.check()
}

// matched are the fields that a decision names.
func matched(t *retrylog.Try) Headers {
	h := Headers{}
	for part := range strings.SplitSeq(t.Reason, " and ") {
		if field, ok := strings.CutPrefix(part, "header "); ok {
			name, value, _ := strings.Cut(field, "=")
			h[name] = Values{value}
		}
		if part == "retry_after_header" {
			h["Retry-After"] = Values{"0"}
		}
	}
	switch t.Skip {
	case "retry_after_exceeds_cap", "retry_after_exceeds_deadline":
		h["Retry-After"] = Values{"86400"}
	}
	return h
}

// Compare puts what the event tells beside what the configuration decides now.
func (a *Answer) Compare(ev *retrylog.Exchange) {
	for n := range a.Tries {
		if n >= len(ev.Tries) {
			break
		}
		t, was := &a.Tries[n], &ev.Tries[n]
		t.Recorded = &Recorded{Endpoint: was.Endpoint, Reason: was.Reason, Skip: was.Skip, WaitMS: was.WaitMS, Fault: was.Fault}
		t.Recorded.Differs = t.Reason != was.Reason || t.Skip != was.Skip
	}
	switch {
	case len(a.Tries) != len(ev.Tries):
		a.note("the gateway made %d tries, this configuration makes %d", len(ev.Tries), len(a.Tries))
	case a.Status != ev.Status:
		a.note("the client was told %d, this configuration tells %d", ev.Status, a.Status)
	}
	if ev.Revision != a.Revision {
		a.note("it happened under revision %s, and this is %s", ev.Revision, a.Revision)
	}
}
