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
	Unknown   Level = "unknown"   // coverage below 90 %, or no data ever
)

// Tally is what was counted over some span. All fields are events, exact.
type Tally struct {
	Good, Bad    int64 // valid events
	Neutral      int64 // 4xx that are nobody's failure, refused before routing, aborts
	Throttled    int64 // 429, also in Neutral
	Aborted      int64 // client gone, also in Neutral
	ChaosBad     int64 // Bad that carries an experiment, also in Bad
	FirstTryBad  int64 // exchanges whose first try failed
	Exchanges    int64 // all of them
	Attempts     int64 // tries sent
	Retried      int64 // exchanges with at least one retry
	Recovered    int64 // of those, ended good
	Lost         int64 // events known to be missing
	OverLimit    int64 // slower than the objective's limit
	MeasuredMins int64 // gateway-minutes reported
	ExpectedMins int64 // gateway-minutes that should have been
}

// Objective is one promise: this share of a service's valid requests is good,
// over a rolling window.
type Objective struct {
	ID      string // "order-availability"
	Service string
	Title   string
	Owner   string
	// TargetPPB is the target in parts per 10^9: 99.95 % is 999_500_000.
	TargetPPB int64
	Window    time.Duration
	Since     time.Time // nothing before counts for coverage
	Revision  int64
	Text      string // the OpenSLO document it came from
}

// Budget is an Objective weighed against a Tally at one instant. Allowed and
// Remaining are whole events, floored. RemainingPPM is in parts per million of
// the budget, floored toward minus infinity; SpentPPM is what it leaves of a
// million, so that the two always add up. PPM figures are only for showing.
type Budget struct {
	Tally        Tally
	Valid        int64 // Good + Bad
	Allowed      int64 // bad events the target permits over Valid
	Remaining    int64 // Allowed - Bad, may be negative
	SpentPPM     int64
	RemainingPPM int64
	NoData       bool // Valid == 0
}

// Burn is how fast the budget went over one window: 1000 milli is the rate that
// spends exactly all of it in the objective's window.
type Burn struct {
	Window    time.Duration
	RateMilli int64
	Bad       int64
	Valid     int64
	NoData    bool
}

// Status is everything known of one objective at one evaluation instant. Page,
// API, CLI, metric and gate all render this one value.
type Status struct {
	Objective Objective
	Env       string
	// At is the evaluation instant; DataUntil the watermark the counts reach.
	At, DataUntil time.Time
	Budget        Budget
	Burns         []Burn
	CoveragePPM   int64
	// Level is the state in force; Measured what the figures alone say. They
	// differ while hysteresis or missing data holds the former.
	Level    Level
	Measured Level
	Since    time.Time // when Level was entered
	Reason   string    // one sentence: why this level
	// ThawAt is when a freeze ends if nothing else fails; EmptyAt when the budget
	// is spent at the pace of the last hour. Zero: not applicable.
	ThawAt, EmptyAt time.Time
	// Spark holds the burn rate (milli) of the last 24 hours, one value an hour,
	// -1 where there was no data.
	Spark []int64
	// FrozenAt and GoodSince are the two clocks of a freeze: when it began, and
	// since when enough budget has been back (zero: not now).
	FrozenAt, GoodSince time.Time
}

// Point is one step of a burn-down: the budget left at an instant.
type Point struct {
	At           time.Time
	RemainingPPM int64
	Valid, Bad   int64 // of the step alone
	ChaosBad     int64
	NoData       bool
}

// Outage is how long everything may fail within the window at even traffic.
func (o Objective) Outage() time.Duration {
	return time.Duration(mulDiv(int64(o.Window), whole-o.TargetPPB, whole))
}
