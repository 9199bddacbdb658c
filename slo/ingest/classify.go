package ingest

import (
	"strings"

	"breakwater/internal/retrylog"
)

// Class is what an exchange is to an availability objective.
type Class int

// The classes. Only Good and Bad are valid events; Neutral ones are in no ratio.
const (
	Good Class = iota
	Bad
	Neutral   // nobody's failure: a 4xx, or refused before routing
	Throttled // neutral, and the client was told to slow down
	Aborted   // neutral, and the client went away
	Synthetic // neutral, and no user's: a probe, or who asked for a fault by header
)

// Valid reports whether the class counts in a ratio.
func (c Class) Valid() bool { return c == Good || c == Bad }

// Classify is the one place where the class of an exchange is decided. That a
// fault was injected changes nothing here: users did suffer.
func Classify(x *retrylog.Exchange) Class {
	switch {
	// No user waited for it, whatever became of it.
	case x.Synthetic != "":
		return Synthetic
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

// firstTryBad reports whether the first try failed, whoever made it fail.
func firstTryBad(x *retrylog.Exchange) bool {
	if len(x.Tries) == 0 {
		return x.FirstStatus >= 500
	}
	first := &x.Tries[0]
	return first.Status >= 500 || first.Kind != "" && first.Kind != "canceled"
}

// firstStatus is the status of the first try, or the one that stands for its failure.
func firstStatus(x *retrylog.Exchange) int64 {
	switch {
	case x.FirstStatus != 0:
		return int64(x.FirstStatus)
	case len(x.Tries) == 0:
		return 0
	case x.Tries[0].Status != 0 || x.Tries[0].Kind == "":
		return int64(x.Tries[0].Status)
	case strings.HasSuffix(x.Tries[0].Kind, "timeout"):
		return 504
	}
	return 502
}

// interesting reports whether an exchange is worth keeping by itself.
func interesting(x *retrylog.Exchange, c Class) bool {
	return c == Bad || c == Throttled || x.Outcome != retrylog.OK ||
		len(x.Tries) > 1 || x.Experiment != "" || x.Degraded != ""
}

const million = 1_000_000

// weight is how many exchanges a line stands for besides its count: 1/p where
// lines were sampled. Where that is no whole number, the id decides between the
// two next to it, so that the sum is right and counts stay whole, in any order.
func weight(x *retrylog.Exchange) int64 {
	p := x.SamplePPM
	if p <= 0 || p >= million {
		return 1
	}
	w, rest := million/p, million%p
	if rest > 0 && int64(hash(x.RequestID)%uint64(p)) < rest {
		w++
	}
	return w
}

// hash is FNV-1a with a last mixing, for the high bits to reach the low ones.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}
