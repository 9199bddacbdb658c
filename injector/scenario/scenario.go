// Package scenario reads experiment documents: what is broken, for whom, for how
// long, what is expected to hold meanwhile, and when to stop early.
//
// Reading is strict: an unknown key, a bare number where a share is meant, a
// hypothesis that nothing measures are mistakes, each told at its place. A
// scenario that means something else than its author thought is worse than none.
package scenario

import (
	"time"

	"breakwater/gateway/policy/fault"
)

// Scenario is one experiment as a value. It is never changed after Parse.
type Scenario struct {
	ID    string
	Title string
	Tags  []string

	Target Target
	Sample Sample
	Phases Phases
	Faults []Fault

	Steady, During, After []Assertion
	Stop                  []Stop
	Limits                Limits

	// Text is the document as it was written, File and Line where it stood.
	Text string
	File string
	Line int
}

// Target says whose traffic may be hit.
type Target struct {
	Service string
	Routes  []string // route names; empty: all of the service
	Callers []string // empty: all
}

// Sample says which share of the target's traffic is hit.
type Sample struct {
	PPM  int64
	Key  string // attempt or request
	Seed string // "auto": the run's id, so that every run hits others
}

// Phases are how long each part lasts.
type Phases struct{ Baseline, Inject, Recover time.Duration }

// Total is the length of a run when nothing goes wrong.
func (p Phases) Total() time.Duration { return p.Baseline + p.Inject + p.Recover }

// Fault is what happens to a try that is hit.
type Fault struct {
	ID        string
	Kind      fault.Kind
	Latency   time.Duration
	Status    int
	Body      string
	Toothless bool // the author knows that it cannot run into a timeout
}

// Measure is what an assertion looks at.
type Measure string

// The measures.
const (
	Success       Measure = "success"       // share of valid requests that were good, ppm
	ErrorRate     Measure = "error_rate"    // share that was bad, ppm
	P95           Measure = "p95"           // microseconds
	Amplification Measure = "amplification" // tries for each request, in millionths
	Retries       Measure = "retries"       // extra tries for each request, ppm
)

// Assertion is one thing expected of one service in one phase. What it decides
// on is a number of at least MinRequests requests; less is no data.
type Assertion struct {
	ID      string
	Measure Measure
	Service string
	Op      string // <= < >= >
	// Limit is in the unit of Measure.
	Limit       int64
	Window      time.Duration // steady and after: the trailing span looked at; 0: the whole phase
	Within      time.Duration // after: must hold at the latest then
	MinRequests int64
}

// StopKind is the measure of a stop condition.
type StopKind string

// The kinds.
const (
	StopBurn   StopKind = "burn_rate"
	StopErrors StopKind = "error_rate"
	StopBudget StopKind = "budget_spent"
)

// Stop is a condition that ends the injection early.
type Stop struct {
	Kind    StopKind
	Service string
	// OverMilli is the burn rate that must be passed on every one of Windows.
	OverMilli int64
	Windows   []time.Duration
	// PPM is the share of errors, or of the window's budget, that must be passed.
	PPM int64
	For time.Duration
	// MinBad is the floor: fewer failures than this never stop a run, so that
	// one unlucky request of a quiet minute is not taken for an outage.
	MinBad int64
}

// Limits bound the blast radius beyond what the gateway's own caps allow.
type Limits struct {
	TTL time.Duration
}

// GameDay runs scenarios in order, by itself where it has a schedule.
type GameDay struct {
	Name      string
	Title     string
	Scenarios []string
	Schedule  *Schedule
	// GrantPPM is the share of the window's budget that a run may spend without
	// anybody's approval; 0: no grant.
	GrantPPM int64

	Text string
	File string
	Line int
}

// Schedule says when: cron text in a zone, narrowed to one weekday of the month
// and to quarters where asked, less the days of Blackout.
type Schedule struct {
	Cron, Zone string
	NthWeek    int    // 0: every
	NthDay     string // mon, tue ...
	Quarterly  bool
	Blackout   []Days
}

// Days is a span of local dates, both included, each 2006-01-02.
type Days struct{ From, To string }

// Set is what a directory of documents holds of ours.
type Set struct {
	Scenarios []Scenario
	GameDays  []GameDay
}
