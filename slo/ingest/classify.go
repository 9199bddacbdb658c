package ingest

import "breakwater/internal/retrylog"

// Class is what an exchange is to an availability objective.
type Class int

// The classes. Only Good and Bad are valid events; Neutral ones are in no ratio.
const (
	Good Class = iota
	Bad
	Neutral   // nobody's failure: a 4xx, or refused before routing
	Throttled // neutral, and the client was told to slow down
	Aborted   // neutral, and the client went away
)

// Valid reports whether the class counts in a ratio.
func (c Class) Valid() bool { return c == Good || c == Bad }

// Classify is the one place where the class of an exchange is decided. That a
// fault was injected changes nothing here: users did suffer.
func Classify(x *retrylog.Exchange) Class {
	switch {
	// Scanners ask for what does not exist; counted as anything else they would
	// dilute a real outage until nobody sees it.
	case x.Service == "":
		return Neutral
	case x.Outcome == retrylog.ClientAbort || x.Status == 408 || x.Status == 499:
		return Aborted
	// A fallback is an answer, whatever made it necessary.
	case x.Degraded != "" && x.Status > 0 && x.Status < 400 && x.BodyComplete:
		return Good
	case x.Status == 429:
		return Throttled
	case x.Outcome == retrylog.Panicked, x.Outcome == retrylog.UpstreamFailure, x.Outcome == retrylog.Timeout:
		// Also a failed business code under a 200: the gateway knows the rule, and
		// says so in the outcome.
		return Bad
	case x.Status == 0 || x.Status >= 500:
		return Bad
	case x.Status >= 400:
		return Neutral
	case !x.BodyComplete:
		return Bad
	}
	return Good
}

// firstTryBad reports whether the upstream failed the first try.
func firstTryBad(x *retrylog.Exchange) bool {
	if len(x.Tries) == 0 {
		return x.FirstStatus >= 500
	}
	first := &x.Tries[0]
	return first.Status >= 500 || first.Kind != "" && first.Kind != "canceled"
}

// interesting reports whether an exchange is worth keeping by itself.
func interesting(x *retrylog.Exchange, c Class) bool {
	return c == Bad || c == Throttled || x.Outcome != retrylog.OK ||
		len(x.Tries) > 1 || x.Experiment != "" || x.Degraded != ""
}
