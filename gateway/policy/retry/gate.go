package retry

import (
	"time"

	"breakwater/gateway/exchange"
)

// gate is one of the questions between a failure and its retry. They are asked in
// this order, and the first that says no is the skip_reason.
type gate int

const (
	gateAttempts gate = iota
	gateMethod
	gateBody
	gateRetryCount
	gateClient
	gateDeadline
	gateErrorRate
	gateHost
	gateBudget
	gatesEnd
)

func (g gate) String() string {
	return [...]string{"attempts", "method", "body", "retry_count", "client", "deadline", "error_rate", "other_host", "retry_budget"}[g]
}

// gates asks all of them for a try that d takes for a failure, and returns the
// wait before the next one, or why there is none.
func gates(cfg *Config, f *Facts, d Decision, other bool, rand float64, t *trace) (wait time.Duration, skip string) {
	wait = pause(cfg, f, other, rand)
	for g := range gatesEnd {
		no := g.ask(cfg, f, d, other, wait)
		t.add(Step{-1, g.String(), "gate", no == "", no, 0})
		if no != "" && skip == "" {
			skip = no
		}
		if skip != "" && t == nil {
			break
		}
	}
	return wait, skip
}

// ask returns the skip_reason, or "" where the gate is open.
func (g gate) ask(cfg *Config, f *Facts, d Decision, other bool, wait time.Duration) string {
	no := func(shut bool, skip string) string {
		if shut {
			return skip
		}
		return ""
	}
	switch g {
	case gateAttempts:
		return no(f.Retries >= cfg.limit(d.Rule), SkipAttempts)
	case gateMethod:
		return no(!provablyUnprocessed(f) && !idempotent(cfg, f), SkipMethod)
	case gateBody:
		return no(!f.Replayable, SkipBody)
	case gateRetryCount:
		return no(f.InboundRetries > 0 || f.spentBelow() > 0, SkipRetryCount)
	case gateClient:
		return no(f.ClientGone, SkipClientGone)
	case gateDeadline:
		return tooLong(cfg, f, wait)
	case gateErrorRate:
		return no(f.TooManyErrors, SkipErrorRate)
	case gateHost:
		return no(other && !f.OtherHost, SkipNoOtherHost)
	case gateBudget:
		return no(f.BudgetEmpty, SkipBudget)
	}
	return ""
}

// limit is how many retries the rule allows under the policy's own limit.
func (cfg *Config) limit(rule int) int {
	if rule < len(cfg.Rules) && cfg.Rules[rule].MaxRetries > 0 {
		return min(cfg.Rules[rule].MaxRetries, cfg.MaxRetries)
	}
	return cfg.MaxRetries
}

// spentBelow is the answer's Retry-Count.
func (f *Facts) spentBelow() int {
	if f.Head == nil || f.Kind != "" {
		return 0
	}
	return exchange.RetryCount(f.Head.Get(countHeader))
}

// pause is the wait with what the upstream asked for.
func pause(cfg *Config, f *Facts, other bool, rand float64) (wait time.Duration) {
	if !other { // another host owes us nothing: no reason to wait for it
		own := *cfg
		own.BackoffBase = cfg.base(f.Tenant)
		wait = Backoff(own, f.Retries+1, f.LastWait, rand)
	}
	if cfg.After != SignalOnly {
		asked, _ := f.after()
		wait = max(wait, asked)
	}
	return wait
}

// tooLong says why a wait is not worth it. The deadline goes before the cap: it
// says what the client would have lost.
func tooLong(cfg *Config, f *Facts, wait time.Duration) string {
	asked, told := f.after()
	if cfg.After == SignalOnly {
		told = false
	}
	longest := cfg.MaxRetryAfter
	if longest == 0 {
		longest = defaultMaxRetryAfter
	}
	switch {
	case f.HasDeadline && wait >= f.Remaining && told:
		return SkipRADeadline
	case f.HasDeadline && wait >= f.Remaining:
		return SkipDeadline
	case told && asked > longest:
		return SkipRACap
	}
	return ""
}
