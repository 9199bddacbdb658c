// Package slo turns counts into promises kept or broken: objectives, budgets,
// burn rates, levels, freezes. Everything here is pure; integers decide, and
// ratios are made only to be shown.
package slo

import "time"

// Level is the state of a service's budget, worst objective first.
type Level string

// The levels, in rising order of alarm. Unknown holds the previous state:
// missing data neither freezes nor thaws.
const (
	Normal    Level = "normal"
	Warn      Level = "warn"      // 40 % of the budget is spent
	Emergency Level = "emergency" // 80 %
	Frozen    Level = "frozen"    // more than all of it
	Unknown   Level = "unknown"   // coverage below 90 %, too small a sample, or no data ever
)

// Tally is what was counted over some span. All fields are events, exact. As the
// ledger gives it, Good and Bad are those of availability; Objective.Tally
// makes the one of an objective, where they are good and bad by its own indicator.
type Tally struct {
	Good, Bad    int64 // valid events
	Neutral      int64 // 4xx that are nobody's failure, refused before routing, aborts
	Throttled    int64 // 429, also in Neutral
	Aborted      int64 // client gone, also in Neutral
	Synthetic    int64 // probes and faults asked for by header, also in Neutral
	BadLocal     int64 // answered by the gateway itself, also in Bad
	Degraded     int64 // answered by a fallback, also in Good
	ChaosGood    int64 // Good that carries an experiment, also in Good
	ChaosBad     int64 // Bad that carries an experiment, also in Bad
	FirstTryBad  int64 // valid exchanges whose first try failed
	DepTimeouts  int64 // valid, with at least one timeout of a dependency
	DepCalls     int64 // timeouts of dependencies in all
	OverLimit    int64 // slower than the service's latency limit, AbortedOver included
	AbortedOver  int64 // aborted past the limit: valid for latency alone
	Exchanges    int64 // all of them
	Attempts     int64 // tries sent
	Retried      int64 // exchanges with at least one retry
	Recovered    int64 // of those, ended good
	Sampled      int64 // lines that stood for more than themselves
	VarGood      int64 // variance of Good and of Bad where lines were sampled:
	VarBad       int64 // sums of w(w-1) over weights w
	Lost         int64 // events known to be missing
	MeasuredMins int64 // gateway-minutes reported
	ExpectedMins int64 // gateway-minutes that should have been
}

// Objective is one promise: this share of a service's valid requests is good,
// over a rolling window. Terms say where it promises something else.
type Objective struct {
	ID      string // "order-availability"
	Service string
	Title   string
	Owner   string
	// TargetPPB is the target in parts per 10^9: 99.95 % is 999_500_000.
	TargetPPB int64
	// Window is how far back a rolling window reaches, and how long a calendar
	// period is: nominally as kept, exactly once placed with At.
	Window time.Duration
	Since  time.Time // nothing before counts for coverage
	// Counted is when its indicator began to be counted: a latency limit judges no
	// request that ended before it was set. Zero: always.
	Counted  time.Time
	Revision int64
	Text     string // the OpenSLO document it came from
	Terms    *Terms // nil: a share of answered requests over a rolling window
}

// Budget is an Objective weighed against a Tally at one instant. Allowed and
// Remaining are whole events, floored. RemainingPPM is in parts per million of
// the budget, floored toward minus infinity; SpentPPM is what it leaves of a
// million, so that the two always add up. PPM figures are only for showing.
type Budget struct {
	Tally        Tally
	Valid        int64 // Good + Bad
	Allowed      int64 // bad events the target permits over Base
	Remaining    int64 // Allowed - Bad, may be negative
	SpentPPM     int64
	RemainingPPM int64
	NoData       bool // Valid == 0

	// Base is how many events the budget is reckoned on: Valid for a rolling
	// window, the whole period for a calendar one. IsEstimate: the rest of the
	// period is not counted yet, and taken to go on as it did.
	Base       int64
	IsEstimate bool
	// SoFar and SoFarPPM are the budget of the period's counted part alone. It
	// recovers as traffic comes, so nothing is decided on it.
	SoFar    int64
	SoFarPPM int64
	// ChaosSpared are failures of experiments that the objective's chaos mode
	// takes out of Tally.Bad; Tally.ChaosBad counts all of them.
	ChaosSpared int64
	// Slices is set where time is budgeted and not requests.
	Slices Slices
}

// Burn is how fast the budget went over one window: 1000 milli is the rate that
// spends exactly all of it in the objective's window.
type Burn struct {
	Window    time.Duration
	RateMilli int64
	Bad       int64
	Valid     int64
	// SpentPPM is which part of the whole window's budget went here. It stays true
	// where traffic is uneven and the rate exaggerates.
	SpentPPM int64
	NoData   bool
}

// Status is everything known of one objective at one evaluation instant. Page,
// API, CLI, metric and gate all render this one value.
type Status struct {
	Objective Objective
	Env       string
	// At is the evaluation instant; DataUntil the watermark the counts reach.
	At, DataUntil time.Time
	// From and To bound what is weighed; To is the end of a calendar period.
	From, To time.Time
	Budget   Budget
	// FirstTry is the same budget if retries had not helped: what clients would
	// have seen of the first attempts. Only for objectives on availability.
	FirstTry    Budget
	Burns       []Burn
	CoveragePPM int64
	// Level is the state in force; Measured what the figures alone say. They
	// differ while hysteresis or missing data holds the former.
	Level    Level
	Measured Level
	// Blind says why Measured is unknown: no_data, low_coverage, undetermined.
	Blind  string
	Since  time.Time // when Level was entered
	Reason string    // one sentence: why this level
	// ThawAt is when a freeze ends if nothing else fails; EmptyAt when the budget
	// is spent at the pace of the last hour. Zero: not applicable.
	ThawAt, EmptyAt time.Time
	// Spark holds the burn rate (milli) of the last 24 hours, one value an hour,
	// -1 where there was no data.
	Spark []int64
	// FrozenAt and GoodSince are the two clocks of a freeze: when it began, and
	// since when enough budget has been back (zero: not now).
	FrozenAt, GoodSince time.Time
	// Corrections are those that touch the window.
	Corrections []Correction
	// Groups are the parts of an objective with Terms.GroupBy; their tallies add
	// up to that of the whole. Made anew with every whole reading.
	Groups []Group
}

// Group is one part of a grouped objective, with an id of its own.
type Group struct {
	ID, Name string
	Budget   Budget
}

// Point is one step of a burn-down: the budget left at an instant.
type Point struct {
	At           time.Time
	RemainingPPM int64
	Weighed      int64 // requests of the whole window
	Valid, Bad   int64 // of the step alone
	ChaosBad     int64
	NoData       bool
}

// Outage is how long everything may fail within the window at even traffic.
func (o Objective) Outage() time.Duration {
	return time.Duration(mulDiv(int64(o.Window), whole-o.TargetPPB, whole))
}

// OutageLeft is how much of Outage the budget left still allows, rounded down to
// seconds: it is never said to be longer than it is. Zero where nothing is left.
func (s *Status) OutageLeft() time.Duration {
	left := mulDiv(int64(s.Objective.Outage()), max(s.Budget.RemainingPPM, 0), million)
	return time.Duration(left).Truncate(time.Second)
}
