package slo

import "slices"

// Counter names one of the counters of a Tally, for ratios of one's own.
type Counter string

// Counters are all that a ratio may be made of.
func Counters() []Counter {
	return []Counter{"good", "bad", "neutral", "throttled", "aborted", "synthetic", "bad_local", "degraded", "chaos_good", "chaos_bad",
		"first_try_bad", "dep_timeouts", "dep_timeout_calls", "over_limit", "aborted_over", "exchanges", "attempts", "retried", "recovered"}
}

// fields are t's counters in the order of Counters: an array, since windows of all
// objectives are added each second.
func (t *Tally) fields() [19]*int64 {
	return [...]*int64{&t.Good, &t.Bad, &t.Neutral, &t.Throttled, &t.Aborted, &t.Synthetic, &t.BadLocal, &t.Degraded, &t.ChaosGood, &t.ChaosBad,
		&t.FirstTryBad, &t.DepTimeouts, &t.DepCalls, &t.OverLimit, &t.AbortedOver, &t.Exchanges, &t.Attempts, &t.Retried, &t.Recovered}
}

// extras are what adds up too but is no counter of a ratio.
func (t *Tally) extras() [3]*int64 { return [...]*int64{&t.Sampled, &t.VarGood, &t.VarBad} }

// Plus adds what was counted elsewhere; coverage is not added, since the same
// minutes would count twice.
func (t Tally) Plus(u Tally) Tally { return t.combine(u, 1) }

// Minus takes off what was counted within.
func (t Tally) Minus(u Tally) Tally { return t.combine(u, -1) }

func (t Tally) combine(u Tally, sign int64) Tally {
	theirs, more := u.fields(), u.extras()
	for i, f := range t.fields() {
		*f += sign * *theirs[i]
	}
	for i, f := range t.extras() {
		*f += sign * *more[i]
	}
	return t
}

// Form says how a number is made from counters: a sum of counters times whole
// numbers. Being linear, it may be taken of each row or of their sum.
type Form map[Counter]int64

// Of is the number f makes of t.
func (f Form) Of(t Tally) int64 {
	var n int64
	values := t.fields()
	for i, c := range Counters() {
		n += f[c] * *values[i]
	}
	return n
}

// forms are how o's indicator makes valid and bad events from counters.
func (o Objective) forms() (valid, bad Form) {
	t := o.terms()
	valid, bad = Form{"good": 1, "bad": 1}, Form{"bad": 1}
	switch t.Indicator.Kind {
	case Latency:
		// Who gave up past the limit did find it slow, and is valid here alone.
		valid["aborted_over"], bad = 1, Form{"over_limit": 1}
	case DepTimeout:
		bad = Form{"dep_timeouts": 1}
	case RatioOf:
		valid, bad = Form{}, Form{}
		for _, c := range t.Indicator.Total {
			valid[c]++
		}
		for _, c := range t.Indicator.Bad {
			bad[c]++
		}
	}
	if t.Chaos == ChaosExclude && t.Indicator.Kind == Availability {
		valid = Form{"good": 1, "bad": 1, "chaos_good": -1, "chaos_bad": -1}
		bad = Form{"bad": 1, "chaos_bad": -1}
	}
	return valid, bad
}

// Forms are how o makes valid, bad and chaos-bad events from counters; for whoever
// sums rows where they lie.
func (o Objective) Forms() (valid, bad, chaos Form) {
	valid, bad = o.forms()
	chaos = Form{}
	if o.terms().Indicator.Kind == Availability {
		chaos["chaos_bad"] = 1
	}
	return valid, bad, chaos
}

// Sums is what the ledger holds of one span: what was counted outside of removed
// time, and what of it fell into planned work that counts as up.
type Sums struct {
	All Tally
	Up  Tally
}

// Tally makes the tally of o from what was counted: Good and Bad by its
// indicator, corrected, and without the failures its chaos mode spares, which
// it returns.
func (o Objective) Tally(s Sums) (t Tally, spared int64) {
	valid, bad := o.forms()
	t = s.All
	v, b := max(valid.Of(s.All), 0), max(bad.Of(s.All), 0)
	b = min(max(b-max(bad.Of(s.Up), 0), 0), v)
	terms := o.terms()
	if terms.Indicator.Kind != Availability {
		t.ChaosBad, t.ChaosGood = 0, 0 // of another indicator, nobody knows
	}
	switch terms.Chaos {
	case ChaosExclude:
		spared = t.ChaosBad
	case ChaosCap:
		spared = min(t.ChaosBad, mulDiv(mulDiv(v, whole-o.TargetPPB, whole), terms.ChaosCapPPM, million), b)
		b -= spared
	}
	t.Good, t.Bad = v-b, b
	return t, spared
}

// FirstTry is the tally of o if no retry had been made.
func FirstTry(t Tally) Tally {
	valid := t.Good + t.Bad
	t.Bad = min(max(t.FirstTryBad, 0), valid)
	t.Good = valid - t.Bad
	return t
}

// has reports whether a form uses a counter.
func (f Form) has(c Counter) bool { return f[c] != 0 }

// Coefficients are f in the order of Counters.
func (f Form) Coefficients() []int64 {
	all := Counters()
	out := make([]int64, len(all))
	for i, c := range all {
		out[i] = f[c]
	}
	return out
}

// Plain reports whether o is judged by the plain classes good and bad.
func (o Objective) Plain() bool {
	valid, bad := o.forms()
	return len(valid) == 2 && valid.has("good") && valid.has("bad") && len(bad) == 1 && bad.has("bad") && !slices.Contains([]Kind{Freshness, Composite}, o.terms().Indicator.Kind)
}
