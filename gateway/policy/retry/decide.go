package retry

import (
	"slices"
	"time"

	"breakwater/gateway/exchange"
)

// Reasons of a retry (decision_reason). They come from a closed set apart from
// the status, since they are a label of metrics.
const (
	reasonOverloaded  = "header X-Backend-Status=overloaded"
	reasonRetryAfter  = "retry_after_header"
	reasonUnprocessed = "unprocessed"
	reasonConnect     = "connect_failure"
	reasonStatus      = "status_code_match=" // and the status
)

// Reasons why no retry is made (skip_reason), in the order of the gates.
const (
	SkipRefused     = "refused"             // a policy of ours said no
	SkipStatus      = "status_not_listed"   // the failure is none of retry_on_status
	SkipSecondary   = "secondary_unmatched" // a bare 503
	SkipAttempts    = "attempts_exhausted"
	SkipMethod      = "non_idempotent"
	SkipBody        = "body_not_replayable"
	SkipRetryCount  = "retry_count" // another hop of the path retries
	SkipClientGone  = "client_gone"
	SkipRACap       = "retry_after_exceeds_cap"
	SkipRADeadline  = "retry_after_exceeds_deadline"
	SkipDeadline    = "deadline"
	SkipNoOtherHost = "no_other_host"
	SkipConnect     = "connect_never"
	SkipBudget      = "retry_budget"
)

// DefaultReplayCap is how much of a body is kept where the policy says nothing.
const DefaultReplayCap = 64 << 10

const defaultMaxRetryAfter = 5 * time.Second

// StatusOf is the status a try counts as: the answer's own, else 504 where time
// ran out and 502 for every other failure.
func (f Facts) StatusOf() int {
	if f.Kind != "" {
		return (&exchange.UpstreamError{Kind: f.Kind}).Status()
	}
	return f.Status
}

// Decide says what follows a try. rand in [0, 1) is the jitter's dice: it moves
// the wait and never whether to retry, so a decision can be explained beforehand.
//
// The gates stand in one order, and the first that fails is the reason; the
// budget is the last one and is asked by the Layer when the retry is sent.
func Decide(cfg Config, f Facts, rand float64) Decision {
	if f.Refused {
		return Decision{Skip: SkipRefused}
	}
	d, other := match(cfg, f)
	if d.Reason == "" {
		return d
	}
	d.Skip = gate(cfg, f, other)
	if d.Skip != "" {
		return d
	}
	if !other { // another host owes us nothing: no reason to wait for it
		d.Wait = Backoff(cfg, f.Retries+1, rand)
	}
	d.Wait, d.Skip = pause(cfg, f, d.Wait)
	d.Retry = d.Skip == ""
	return d
}

// match says whether the try is a failure that the policy speaks of, and whether
// the next one has to go to another host.
func match(cfg Config, f Facts) (d Decision, other bool) {
	if !cfg.Enabled || cfg.MaxRetries <= 0 {
		return Decision{}, false
	}
	status := f.StatusOf()
	listed := slices.Contains(cfg.OnStatus, status)
	switch {
	case f.Kind == exchange.Canceled:
		return Decision{Skip: SkipClientGone}, false
	case f.Kind == exchange.Dial || f.Kind == exchange.ConnectTimeout:
		if cfg.OnConnect == Never {
			return Decision{Skip: SkipConnect}, false
		}
		// A dead link stays dead: after a connect timeout only another host
		// helps. A refused one may be a restart, and may be asked again.
		return Decision{Reason: reasonConnect}, f.OtherHost || f.Kind == exchange.ConnectTimeout
	case provablyUnprocessed(f):
		return Decision{Reason: reasonUnprocessed}, false
	case !listed:
		if f.Kind != "" || status >= 500 {
			return Decision{Skip: SkipStatus}, false
		}
		return Decision{}, false
	case f.Kind == "" && f.BackendStatus == "overloaded":
		return Decision{Reason: reasonOverloaded}, false
	case f.Kind == "" && (status == 503 || status == 429) && f.HasRetryAfter:
		return Decision{Reason: reasonRetryAfter}, false
	case f.Kind == "" && (status == 503 || status == 429) && !(status == 503 && cfg.BareOn503):
		return Decision{Skip: SkipSecondary}, false
	}
	return Decision{Reason: reasonStatus + itoa(status)}, false
}

// gate goes through the gates before the wait is known.
func gate(cfg Config, f Facts, other bool) string {
	switch {
	case f.Retries >= cfg.MaxRetries:
		return SkipAttempts
	case !provablyUnprocessed(f) && !idempotent(cfg, f):
		return SkipMethod
	case !f.Replayable:
		return SkipBody
	case f.InboundRetries > 0 || f.ResponseRetries > 0:
		return SkipRetryCount
	case f.ClientGone:
		return SkipClientGone
	case f.HasDeadline && f.Remaining <= 0:
		return SkipDeadline
	case other && !f.OtherHost:
		return SkipNoOtherHost
	}
	return ""
}

// pause is the wait with what the upstream asked for, or why it is too long.
func pause(cfg Config, f Facts, wait time.Duration) (time.Duration, string) {
	asked, ok := time.Duration(0), false
	if f.HasRetryAfter && f.Kind == "" {
		asked, ok = ParseRetryAfter(f.RetryAfter, f.Now)
	}
	wait = max(wait, asked)
	longest := cfg.MaxRetryAfter
	if longest == 0 {
		longest = defaultMaxRetryAfter
	}
	switch {
	case f.HasDeadline && wait >= f.Remaining && ok:
		return 0, SkipRADeadline
	case f.HasDeadline && wait >= f.Remaining:
		return 0, SkipDeadline
	case ok && asked > longest:
		return 0, SkipRACap
	}
	return wait, ""
}

func provablyUnprocessed(f Facts) bool {
	switch f.Kind {
	case "":
		return false
	case exchange.Dial, exchange.ConnectTimeout, exchange.TLS:
		return true
	}
	return f.Unprocessed
}

func idempotent(cfg Config, f Facts) bool {
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
