package scenario

import "breakwater/gateway/policy/fault"

// The names of what a broken expectation shows. They stay the same when texts are
// improved: findings of one kind are known by them.
const (
	BreakerShut   = "breaker_shut"    // it did not open
	SlowUnseen    = "slow_unseen"     // it did not open, and calls were late without failing
	TripsWrongly  = "trips_wrongly"   // it opened where nothing had failed
	Flapping      = "flapping"        // it opened and closed without end
	SlowRecovery  = "slow_recovery"   // it stayed open after all was well again
	NoRecovery    = "no_recovery"     // users still felt what was over
	RetryUnsafe   = "retry_unsafe"    // what was done already was done again
	RetryHopeless = "retry_hopeless"  // asked again where that cannot help
	RetryMissing  = "retry_missing"   // not asked again where that helps
	RetryStorm    = "retry_storm"     // tries multiplied
	Spreads       = "failure_spreads" // another service failed with it
	BareFailure   = "bare_failure"    // users saw the failure
	SlowFailure   = "slow_failure"    // users waited for it
	Unmarked      = "not_degraded"    // answers were not those of a fallback, or did not say so
	AlertSilent   = "alert_silent"    // nobody was told
	AlertWrong    = "alert_wrong"     // somebody was woken for nothing
	ConfigMoved   = "config_moved"    // the configuration changed meanwhile
	KeyLost       = "key_lost"        // what was asked again under its key was done again
	ProbeFailed   = "probe_failed"    // an address that was asked did not answer as it should
)

// Weakness names what it shows where the expectation a of s is broken, and says
// what is right. "": it shows nothing that has a name.
func (s Scenario) Weakness(phase string, a Assertion) (code, right string) {
	switch {
	case phase == "steady":
		return "", "" // before anything was done
	case phase == "after" && a.Measure == Breaker:
		return SlowRecovery, "shorten open and max_open of the breaker, or let it be tried out sooner (half_open)"
	case phase == "after" && a.Measure != Alert && a.Measure != Config:
		return NoRecovery, "look at what outlives the fault: queues, retries of callers, answers that were kept"
	}
	switch a.Measure {
	case Breaker:
		switch {
		case a.Event == StaysClosed:
			return TripsWrongly, "take statuses that are no failure of the service out of count_statuses"
		case s.late():
			return SlowUnseen, "give the breaker slow_after and slow_rate: it counts what fails, and these calls only come late"
		}
		return BreakerShut, "lower min_requests or error_rate, or widen the window, until the traffic of a quiet hour can trip it"
	case Flaps:
		return Flapping, "ask for more before it closes: pass_rate, windows and probes of half_open"
	case Retries, Amplification:
		return s.ofRetries(a)
	case Ratio:
		return Unmarked, "give the routes a degrade, so that answers in the place of others are marked as such"
	case Alert:
		if a.Event == Silent {
			return AlertWrong, "keep the guard of the objective on, and narrow what the alert is about"
		}
		return AlertSilent, "see the burn rules of the objective, and whether an AlertRoute leads to anybody"
	case Repeats:
		return KeyLost, "let the Idempotency-Key through to " + a.Service + ", and have it remember what it has done under one"
	case Probed:
		return ProbeFailed, "look at what this address needs of " + s.Target.Service + ", and let it do without"
	case Config:
		return ConfigMoved, "drill again while nothing is released"
	case P50, P90, P95, P99:
		return SlowFailure, "shorten the timeouts, or fail fast: a failure that takes long holds everything up"
	}
	if a.Service != s.Target.Service {
		return Spreads, "let the callers of " + s.Target.Service + " do without it: a timeout of their own, and a fallback"
	}
	return BareFailure, "give the routes a degrade that answers on open, or on failure too"
}

func (s Scenario) ofRetries(a Assertion) (code, right string) {
	if a.Op == ">" || a.Op == ">=" {
		return RetryMissing, "let the routes retry what their upstream says may be asked again"
	}
	for _, f := range s.Faults {
		switch r := f.Rule; {
		case r.Phase == fault.AfterUpstream || r.Kind == fault.Duplicate:
			return RetryUnsafe, "take idempotent: true away, or trust keys that the service itself remembers"
		case r.Kind == fault.Error && (r.Status == 503 || r.Status < 500):
			if a.Measure == Retries {
				return RetryHopeless, "retry on a signal of overload alone: require_signal_on_503: true"
			}
		}
	}
	return RetryStorm, "bound retries: a retry_budget on the upstream, and an error_rate_gate on the routes"
}

// late reports whether s only delays, and by less than any timeout.
func (s Scenario) late() bool {
	for _, f := range s.Faults {
		if f.Rule.Kind != fault.Latency || !f.Toothless {
			return false
		}
	}
	return len(s.Faults) > 0
}
