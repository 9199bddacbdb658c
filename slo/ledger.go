package slo

import (
	"context"
	"time"
)

// Question is what an evaluation asks of the ledger.
type Question struct {
	Now   time.Time
	Burns []time.Duration // windows ending at the watermark
	// Whole asks for what is dear and changes slowly, too: coverage, and the hours
	// of the window, which forecasts need. Most ticks go without.
	Whole bool
}

// Measured is what the ledger holds about one objective in one environment.
type Measured struct {
	Objective Objective
	Env       string
	Seen      bool      // the service was ever seen, in Env; if not, Env is ""
	DataUntil time.Time // watermark of Env; zero: no gateway ever reported
	State     State
	// The objective's window, see Measurement.
	Closed, Running Tally
	Burns           []Tally // in the order of Question.Burns

	CoveragePPM int64  // if asked for
	Hours       []Slot // of the window, ascending, if asked for
}

// Slot is what was counted in one span of time.
type Slot struct {
	At         time.Time // its beginning
	For        time.Duration
	Valid, Bad int64
	ChaosBad   int64
}

// Change is what one evaluation decided about one objective.
type Change struct {
	Objective string
	Service   string
	Env       string
	From      State
	To        State
	Status    Status
}

// Moved reports whether the level changed.
func (c Change) Moved() bool { return c.From.Level != c.To.Level }

// Ledger is where counts and states are kept.
type Ledger interface {
	// ReadBudgets answers q for every objective and environment, all of it from
	// one snapshot.
	ReadBudgets(ctx context.Context, q Question) ([]Measured, error)
	// ReadMinutes returns the minutes of [from, to) that have traffic.
	ReadMinutes(ctx context.Context, service, env string, from, to time.Time) ([]Slot, error)
	// WriteBudgets stores states and transitions in one transaction. A change
	// whose From is no longer what is stored is skipped: another replica was
	// first, and the next tick reads its word.
	WriteBudgets(ctx context.Context, changes []Change) error
	// RollHours recomputes the hours whose minutes have changed.
	RollHours(ctx context.Context) error
}

// Transition is one change of level, with the counts it was decided on.
type Transition struct {
	Service, Objective, Env string
	At                      time.Time
	From, To                Level
	Reason                  string
	Revision                int64
	DataUntil               time.Time
	Good, Bad               int64
	CoveragePPM             int64
}

// RouteTally is what was counted on one route to one upstream over some span.
type RouteTally struct {
	Route, Upstream string
	Tally           Tally
	Hist            []int64 // internal/histogram, of valid exchanges
}

// Touched is a span in which an experiment touched a service's requests, minute
// edges, and what it did to them.
type Touched struct {
	Experiment     string
	From, To       time.Time
	Exchanges, Bad int64
}

// Noteworthy is an event worth looking at by itself.
type Noteworthy struct {
	At         time.Time
	Kind       string // exchange, transition, config, notice
	Service    string
	Gateway    string
	Experiment string
	RequestID  string
	Body       []byte // the retrylog record, JSON
}
