package explain

import (
	"slices"
	"strings"
	"testing"

	"breakwater/gateway/policy/retry"
)

// Every reason that the engine gives is said in words of its own.
func TestEveryReasonHasWords(t *testing.T) {
	all := []string{retry.SkipRefused, retry.SkipStatus, retry.SkipSecondary, retry.SkipLate, retry.SkipRule, retry.SkipFallback, retry.SkipConnect, retry.SkipAttempts,
		retry.SkipMethod, retry.SkipBody, retry.SkipRetryCount, retry.SkipClientGone, retry.SkipRACap, retry.SkipRADeadline, retry.SkipDeadline, retry.SkipErrorRate,
		retry.SkipNoOtherHost, retry.SkipBudget, retry.SkipObserved}
	said := map[string]string{}
	for _, skip := range all {
		text := WhyNot(skip)
		if text == strings.ReplaceAll(skip, "_", " ") {
			t.Errorf("%s has no words", skip)
		}
		if other, twice := said[text]; twice {
			t.Errorf("%s and %s are said alike", skip, other)
		}
		said[text] = skip
	}
	if len(skipWords()) != len(all) || len(Skips()) != len(all) || !slices.IsSorted(Skips()) {
		t.Errorf("%d words and %d names for %d reasons", len(skipWords()), len(Skips()), len(all))
	}
	for _, skip := range Skips() {
		if !slices.Contains(all, skip) {
			t.Errorf("%s is no reason of the engine", skip)
		}
	}
	for reason, want := range map[string]string{
		"status_code_match=503": "503 is one of the statuses",
		"header X-Backend-Status=overloaded and retry_after_header": "X-Backend-Status: overloaded, and the answer says when",
		"header X-Try":          "has the field X-Try",
		"connect_failure":       "no connection",
		"latency_exceeds=800ms": "within 800ms",
		"something_new":         "something new",
	} {
		if got := Because(reason); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", reason, got, want)
		}
	}
	for _, tt := range []struct{ reason, skip, want string }{
		{"", "", "No failure"}, {"status_code_match=502", "", "Tried again: 502 is"}, {"status_code_match=502", "non_idempotent", "Not tried again: sent twice"},
	} {
		if got := Why(tt.reason, tt.skip); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q, %q: %q", tt.reason, tt.skip, got)
		}
	}
}
