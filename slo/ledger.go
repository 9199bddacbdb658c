package slo

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Question is what an evaluation asks of the ledger.
type Question struct {
	Now time.Time
	// Whole asks for what is dear and changes slowly, too: coverage, groups, and
	// the hours of the window, which forecasts need. Most ticks go without.
	Whole bool
}

// Measured is what the ledger holds about one objective in one environment.
type Measured struct {
	Objective Objective // its window is as long as the period that is weighed
	Env       string
	Seen      bool      // the service was ever seen, in Env; if not, Env is ""
	DataUntil time.Time // watermark of Env; zero: no gateway ever reported
	State     State
	// Parts holds one part; of a composite, one a member.
	Parts []Counted
	// Corrections are those in force that touch the window.
	Corrections []Correction

	CoveragePPM int64       // if asked for
	Reported    Tally       // its Lost, MeasuredMins and ExpectedMins, if asked for
	Groups      []GroupSums // if asked for and Terms.GroupBy is set
}

// Counted is what was counted of one objective over the spans of a Frame.
type Counted struct {
	Objective Objective
	WeightPPM int64
	// Of an objective on events: what Closed and Running hold, and each window of
	// Objective.Windows of the whole, in that order.
	Closed, Running Sums
	Burns           []Sums
	// Of an objective on time: the hours from Frame.Back on, ascending.
	Slices []SliceHour
	// Hours of the window, ascending, corrected; if asked for.
	Hours []Slot
}

// GroupSums is what was counted of one part of a grouped objective.
type GroupSums struct {
	Name string
	Sums Sums
}

// TopGroups keeps the n groups with most traffic and puts the others together as
// "other", so that groups always add up to the whole.
func TopGroups(all []GroupSums, n int) []GroupSums {
	slices.SortStableFunc(all, func(a, b GroupSums) int {
		return cmp.Or(cmp.Compare(b.Sums.All.Exchanges, a.Sums.All.Exchanges), cmp.Compare(a.Name, b.Name))
	})
	if len(all) <= n {
		return all
	}
	rest := GroupSums{Name: "other"}
	for _, g := range all[n-1:] {
		rest.Sums.All = rest.Sums.All.Plus(g.Sums.All)
	}
	return append(all[:n-1:n-1], rest)
}

// Frame is where the spans of one evaluation lie.
type Frame struct {
	// Closed counts whole minutes, or slices; Running also the part of the last
	// one. End is the end of the period, beyond Running.To for a calendar.
	Closed, Running Period
	End             time.Time
	// Back is how far back slices are needed, for burn windows too.
	Back time.Time
}

// Frame places o's spans where data reaches until.
func (o Objective) Frame(until time.Time) Frame {
	t, unit := o.terms(), time.Minute
	if t.Method != Occurrences {
		unit = t.Slice
	}
	closed, open := until.Truncate(unit), until.Add(unit-1).Truncate(unit)
	var f Frame
	from, counted, end := o.Span(open)
	f.Running, f.End = Period{o.first(from), counted}, end
	if t.Calendar == nil {
		from, _, _ = o.Span(closed)
	}
	f.Closed = Period{o.first(from), closed}
	for _, p := range []*Period{&f.Closed, &f.Running} {
		if p.From.After(p.To) {
			p.From = p.To
		}
	}
	f.Back = from
	for _, w := range o.Windows() {
		if at := open.Add(-w); at.Before(f.Back) {
			f.Back = at
		}
	}
	if t.Indicator.Kind == Freshness {
		f.Back = f.Back.Add(-t.Indicator.Limit)
	}
	f.Back = o.first(f.Back).Truncate(time.Hour)
	return f
}

// Burn is the span of one of o's burn windows.
func (f Frame) Burn(o Objective, window time.Duration) Period {
	from := o.first(f.Running.To.Add(-window))
	if from.After(f.Running.To) {
		from = f.Running.To
	}
	return Period{from, f.Running.To}
}

// Slot is what was counted in one span of time, valid and bad by an objective.
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
	// ReadMinutes returns the minutes of [from, to) that have events of o, as
	// counted: nothing in them is corrected.
	ReadMinutes(ctx context.Context, o Objective, env string, from, to time.Time) ([]Slot, error)
	// WriteBudgets stores states and transitions in one transaction. A change
	// whose From is no longer what is stored is skipped: another replica was
	// first, and the next tick reads its word.
	WriteBudgets(ctx context.Context, changes []Change) error
	// RollUp recomputes the hours and days whose minutes have changed.
	RollUp(ctx context.Context) error
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
