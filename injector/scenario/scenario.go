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
	Search                *Search  // nil: no boundary is looked for
	OnFail                *Finding // nil: a failure is filed nowhere
	// Accept names the preflight refusals that the author means to run into.
	Accept []string

	// Text is the document as it was written, File and Line where it stood.
	Text string
	File string
	Line int
}

// Target says whose traffic may be hit. A list that is empty holds everybody.
type Target struct {
	Service string
	Routes  []string // route names
	// Calls are routes named by what they take. Whoever knows the gateway's
	// documents makes names of them; until then the scenario cannot be run.
	Calls []Call

	Methods, Callers, Tenants      []string
	ExcludeCallers, ExcludeTenants []string
	Endpoint                       string
	Headers                        []fault.HeaderIn
	OptIn                          bool // only requests that ask for it
}

// Call names a route by method and path.
type Call struct{ Method, Path string }

// Narrow reports whether t leaves out some of its routes' requests.
func (t Target) Narrow() bool {
	return t.Endpoint != "" || t.OptIn || len(t.Methods)+len(t.Callers)+len(t.Tenants)+len(t.ExcludeCallers)+len(t.ExcludeTenants)+len(t.Headers) > 0
}

// Whole reports whether t is every request of its service.
func (t Target) Whole() bool { return !t.Narrow() && len(t.Routes)+len(t.Calls) == 0 }

// Rule is t as a gateway obeys it.
func (t Target) Rule() fault.Target {
	return fault.Target{
		Service: t.Service, Routes: t.Routes, Methods: t.Methods, Endpoint: t.Endpoint, Callers: t.Callers, Tenants: t.Tenants,
		ExcludeCallers: t.ExcludeCallers, ExcludeTenants: t.ExcludeTenants, Headers: t.Headers, OptIn: t.OptIn,
	}
}

// Sample says which share of the target's traffic is hit.
type Sample struct {
	PPM  int64
	Key  string        // attempt, request, trace, tenant or connection
	Seed string        // "auto": the run's id, so that every run hits others
	Ramp time.Duration // how long the share takes to grow
	// First: only so many units are hit, on each gateway; 0: no such limit.
	First int64
}

// Phases are how long each part lasts.
type Phases struct{ Baseline, Inject, Recover time.Duration }

// Total is the length of a run when nothing goes wrong.
func (p Phases) Total() time.Duration { return p.Baseline + p.Inject + p.Recover }

// Fault is what happens to a try that is hit. Rule is the gateway's, without what
// comes from the run and the sample.
type Fault struct {
	ID   string
	Rule fault.Fault
	// Toothless: the author knows that it cannot run into a timeout.
	Toothless bool
	// RatioMilli is how many thousandths of the time a try may take a latency must
	// have at least; 0: nothing is asked for.
	RatioMilli int64
}

// Measure is what an assertion looks at.
type Measure string

// The measures.
const (
	Success       Measure = "success"       // share of valid requests that were good, ppm
	ErrorRate     Measure = "error_rate"    // share that was bad, ppm
	P50           Measure = "p50"           // microseconds
	P90           Measure = "p90"           //
	P95           Measure = "p95"           //
	P99           Measure = "p99"           //
	Amplification Measure = "amplification" // tries for each request, in millionths
	Retries       Measure = "retries"       // extra tries for each request, ppm
	Ratio         Measure = "ratio"         // Part over Whole, ppm
	Breaker       Measure = "breaker"       // Event
	Flaps         Measure = "flaps"         // how often a breaker opened
	Alert         Measure = "alert"         // Event
	Config        Measure = "config"        // Event
	Probed        Measure = "probe"         // Probe
	Repeats       Measure = "repeats"       // share of what was asked again that was answered by Repeated, ppm
)

// Quantile is the share of a latency measure, in thousandths; 0: it is none.
func (m Measure) Quantile() int64 {
	switch m {
	case P50:
		return 500
	case P90:
		return 900
	case P95:
		return 950
	case P99:
		return 990
	}
	return 0
}

// What a breaker, an alert or the configuration is expected to do.
const (
	Opened      = "opened"
	Closed      = "closed"
	HalfOpened  = "half_open"
	StaysClosed = "stays_closed"
	Silent      = "silent"
	Firing      = "firing"
	Unchanged   = "unchanged"
)

// Cohort is a part of the target's traffic.
type Cohort string

// The cohorts. Exposed requests were hit, those of control would have been but for
// the share, unmatched ones are what the fault did not aim at.
const (
	Exposed   Cohort = "exposed"
	Control   Cohort = "control"
	Unmatched Cohort = "unmatched"
)

// Against is what an assertion may be compared with instead of a fixed limit.
const (
	AgainstBaseline = "baseline"
	AgainstControl  = "control"
)

// Assertion is one thing expected in one phase. What it decides on is a number of
// at least MinRequests requests; less is no data.
type Assertion struct {
	ID      string
	Measure Measure
	// Service is whose traffic or breaker is looked at; of an alert its name.
	Service string
	Op      string // <= < >= >
	// Limit is in the unit of Measure.
	Limit       int64
	Window      time.Duration // steady and after: the trailing span looked at; 0: the whole phase
	Within      time.Duration // after its phase began, it must hold; 0: when the phase ends
	MinRequests int64
	// Optional: its failure is told and does not fail the run.
	Optional bool

	Part, Whole string // of a Ratio: degraded, failed, injected ... over requests, attempts
	While       string // "" or a service: only while its breaker is open
	Event       string // of a breaker, an alert or the configuration
	Probe       *Probe // of an address; nil: none is asked
	// Repeated are the statuses by which a service says that it has done before what it
	// is asked again: of Repeats.
	Repeated *Repeated
	Cohort   Cohort // "": all of the service
	// Against compares a share with that of the baseline or of the control cohort:
	// it may be worse by less than Limit, and that has to be beyond doubt.
	Against string
}

// StopKind is the measure of a stop condition.
type StopKind string

// The kinds.
const (
	StopBurn          StopKind = "burn_rate"
	StopErrors        StopKind = "error_rate"
	StopBudget        StopKind = "budget_spent"
	StopAmplification StopKind = "amplification"
)

// Stop is a condition that ends the injection early.
type Stop struct {
	Kind    StopKind
	Service string
	// OverMilli is the burn rate that must be passed on every one of Windows; of
	// amplification the tries for each request.
	OverMilli int64
	Windows   []time.Duration
	// PPM is the share of errors, or of the window's budget, that must be passed.
	PPM int64
	// Reached: coming to the limit is enough.
	Reached bool
	For     time.Duration
	// MinBad is the floor: fewer failures than this never stop a run, so that
	// one unlucky request of a quiet minute is not taken for an outage.
	MinBad int64
}

// Limits bound the blast radius beyond what the gateway's own caps allow; 0 bounds
// nothing.
type Limits struct {
	TTL           time.Duration
	AffectedMilli int64 // tries hit in a thousand seconds
	Tenants       int64 // that are hit at all
}

// Search looks for the boundary on one knob, between From, which fails, and To.
type Search struct {
	Fault string
	Knob  Knob
	// From, To and Resolution are in the unit of Knob.
	From, To, Resolution int64
	When                 string // failed: only where the run fails; always
}

// Knob is the one number that a search turns.
type Knob string

// The knobs.
const (
	KnobLatency Knob = "latency.value"  // milliseconds
	KnobPercent Knob = "sample.percent" // ppm
	KnobBytes   Knob = "truncate.at"    // bytes
	KnobRate    Knob = "drip.rate"      // bytes a second
)

// Finding is what a failed run files.
type Finding struct {
	Severity string // low, medium, high, critical
	Owner    string
	Due      time.Duration
}

// Set is what a directory of documents holds of ours.
type Set struct {
	Scenarios []Scenario
	GameDays  []GameDay
}
