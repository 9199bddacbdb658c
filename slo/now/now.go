// Package now answers three questions about a service that suffers: who is hit, by
// which measure, and what protects; and ranks what is likely the cause.
//
// It sees counts and marks alone, never what made them. Integers decide, and equal
// evidence gives the same order each time.
package now

import (
	"time"

	"breakwater/slo"
)

// State is how the users of a service fare.
type State string

// The states. Missing data is a state of its own.
const (
	Hit     State = "hit"     // requests fail, or are refused
	Covered State = "covered" // tries fail, and retries or fallbacks hide it
	Fine    State = "fine"
	NoData  State = "no_data"
)

// Minute is what one minute of a service holds.
type Minute struct {
	At                                         time.Time
	Good, Bad, Throttled                       int64
	Exchanges, Attempts, Retried, Recovered    int64
	FirstTryBad, Degraded, DepTimeouts, Slower int64
}

// Hits are requests whose users did not get what they asked for: failed, or told to
// come later.
func (m Minute) Hits() int64 { return m.Bad + m.Throttled }

// Asked are the requests that Hits are a part of.
func (m Minute) Asked() int64 { return m.Good + m.Bad + m.Throttled }

func (m *Minute) add(n Minute) {
	m.Good, m.Bad, m.Throttled = m.Good+n.Good, m.Bad+n.Bad, m.Throttled+n.Throttled
	m.Exchanges, m.Attempts, m.Retried, m.Recovered = m.Exchanges+n.Exchanges, m.Attempts+n.Attempts, m.Retried+n.Retried, m.Recovered+n.Recovered
	m.FirstTryBad, m.Degraded, m.DepTimeouts, m.Slower = m.FirstTryBad+n.FirstTryBad, m.Degraded+n.Degraded, m.DepTimeouts+n.DepTimeouts, m.Slower+n.Slower
}

// Second is how many kept failures ended in one second: a sample with a bound, good
// for telling when something began and for nothing else.
type Second struct {
	At       time.Time
	Failures int64
}

// The dimensions of a Facet. Of Try, Instance, Rack and Zone the events are tries,
// of all others requests.
const (
	ByCaller   = "caller"
	ByTenant   = "tenant"
	ByRoute    = "route"
	ByGateway  = "gateway"
	ByCode     = "code"
	ByKind     = "kind" // how it failed: a refusal, a kind of failed try, a status
	BySkip     = "skip" // why a retry was not made
	ByUpstream = "upstream"
	ByInstance = "instance"
	ByRack     = "rack"
	ByZone     = "zone"
)

// Facet is one value of one dimension since the onset, and before it.
type Facet struct {
	Dimension, Value   string
	Hits, Total        int64
	WasHits, WasTotal  int64
	Degraded           int64 // of routes: answered by a fallback
	Attempts, WasTries int64 // of upstreams: tries since and before
}

// Experiment is a run that touched requests or injects now.
type Experiment struct {
	Run, Title, Service string
	Hits, Touched       int64
	Live                bool
	Since               time.Time
}

// Dependency is a service that this one calls, as both are seen by the gateway.
type Dependency struct {
	Service string
	// Of calls by this service; before the onset and since.
	Hits, Total, WasHits, WasTotal int64
	// Of all its callers.
	AllHits, AllTotal, AllWasHits, AllWasTotal int64
	// Kinds says how its requests failed.
	Kinds []Facet
}

// Turn is a policy that changed its state.
type Turn struct {
	At                         time.Time
	Policy, Upstream, Endpoint string
	From, To, Reason           string
	// Standing: it is the last word, and not what is normal.
	Standing bool
}

// Revision is a configuration that gateways began to serve, as JSON.
type Revision struct {
	At             time.Time
	Name, Document string
}

// Evidence is all that is known of a service in one environment.
type Evidence struct {
	Service, Env string
	At           time.Time // when it was gathered
	Until        time.Time // reports of gateways reach so far; zero: nobody reports
	Minutes      []Minute  // of the last hour, ascending
	Seconds      []Second  // round the onset, ascending
	Facets       []Facet
	Experiments  []Experiment
	Dependencies []Dependency
	Marks        []slo.Cause // deploys, incidents, configurations
	Revisions    []Revision  // ascending; the first is the one before
	Turns        []Turn      // ascending
	Told         []string    // facts from other systems
	// Measures are protective actions in force, one sentence each.
	Measures []string
}
