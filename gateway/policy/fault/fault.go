// Package fault injects what can go wrong between a gateway and an upstream into
// single tries, below retry, balancer and timeouts, so that every policy above
// reacts as if the upstream had done it. A fault lives in memory under a lease;
// nothing of it survives the process.
package fault

// Kind is what a fault does to a try.
type Kind string

// The kinds. Of those that end a try, the first that hits does; the latencies of
// all that hit add up and are slept once; what changes a body comes last.
const (
	Latency   Kind = "latency"   // wait, before the upstream is asked, after it answered, or both
	Error     Kind = "error"     // answer instead of the upstream
	GRPC      Kind = "grpc"      // the same, as a gRPC status
	Drop      Kind = "drop"      // the connection closes without an answer
	Refuse    Kind = "refuse"    // no connection can be made
	Reset     Kind = "reset"     // the connection is reset without an answer
	Blackhole Kind = "blackhole" // no answer, ever
	Header    Kind = "header"    // fields are set or taken away
	Truncate  Kind = "truncate"  // the body ends early
	Corrupt   Kind = "corrupt"   // bits of the body are flipped
	Body      Kind = "body"      // the body is another one
	Drip      Kind = "drip"      // the body comes slowly
	Duplicate Kind = "duplicate" // the upstream gets the request twice
)

// Side says on which half of a try a fault acts.
type Side string

// The sides.
const (
	RequestSide  Side = "request"
	ResponseSide Side = "response"
	BothSides    Side = "both"
)

// Phase says whether an upstream has done its work when its answer is lost.
type Phase string

// The phases. After the upstream ran, the client cannot know that it did: the
// case every payment has to survive.
const (
	BeforeUpstream Phase = "before_upstream"
	AfterUpstream  Phase = "after_upstream"
)

// Position says where in the chain a fault stands.
type Position string

// The positions. At the edge a fault is outside every policy: a drill of our own
// callers. Only latencies, errors and lost connections make sense there: a
// connection of HTTP/2 loses the one stream.
const (
	AtUpstream Position = "upstream"
	AtEdge     Position = "edge"
)

// Fault is one rule, as a value. Control writes it, gateways obey it.
type Fault struct {
	ID  string `json:"id"`  // within its run
	Run string `json:"run"` // the experiment run; tags the events
	// Seed and Key decide who is hit: hash(Seed, key of the unit) < PPM. Never a
	// dice roll, so every replica and every replay hits the same exchanges.
	Seed string `json:"seed"`
	Key  string `json:"key"` // attempt (default), request, trace, tenant or connection
	// PPM is the share in parts per million; 0 is a control run that injects nothing.
	PPM int64 `json:"ppm"`
	// RampMS is how long after arming the share takes to grow from 0 to PPM.
	RampMS int64 `json:"ramp_ms,omitempty"`
	// EveryMS and ForMS make it come and go: it acts in the first ForMS of every EveryMS
	// of the wall clock, so that all gateways have it at once, as a service that stalls
	// does. Between, there is no fault, and nothing is counted. 0: always.
	EveryMS int64 `json:"every_ms,omitempty"`
	ForMS   int64 `json:"for_ms,omitempty"`
	// First limits the fault to so many units that it would hit, on each gateway.
	First    int64    `json:"first,omitempty"`
	Target   Target   `json:"target"`
	Position Position `json:"position,omitempty"` // "" is upstream

	Kind Kind `json:"kind"`
	// Side of a latency, a header change: "" is request for a latency, response
	// for a header change.
	Side  Side  `json:"side,omitempty"`
	Phase Phase `json:"phase,omitempty"` // of a drop or reset; compulsory there

	// LatencyMS is a fixed latency; Delay one that varies.
	LatencyMS int64  `json:"latency_ms,omitempty"`
	Delay     *Delay `json:"delay,omitempty"`

	Status int    `json:"status,omitempty"` // of an error, 400 to 599; of gRPC 1 to 16
	Body   string `json:"body,omitempty"`   // of an error or body fault; the message of gRPC
	// Headers of the error answer, such as Retry-After or X-Backend-Status; of a
	// header fault those to be set.
	Headers map[string]string `json:"headers,omitempty"`
	Remove  []string          `json:"remove,omitempty"` // of a header fault

	// A truncated body ends after Bytes, or after PPMOfBody of its encoded length.
	// Clean hides it: the length says what is sent. Otherwise the connection ends
	// in the middle of it.
	Bytes     int64 `json:"bytes,omitempty"`
	PPMOfBody int64 `json:"ppm_of_body,omitempty"` // of a corrupt one: of its bytes that are changed
	Clean     bool  `json:"clean,omitempty"`
	// BytesPerSecond of a drip.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
}

// Target says which tries may be hit. Service is compulsory: an empty selector
// is refused. A list that is empty holds everybody.
type Target struct {
	Service        string   `json:"service"`
	Routes         []string `json:"routes,omitempty"` // route ids
	Methods        []string `json:"methods,omitempty"`
	Endpoint       string   `json:"endpoint,omitempty"`
	Callers        []string `json:"callers,omitempty"`
	Tenants        []string `json:"tenants,omitempty"`
	ExcludeCallers []string `json:"exclude_callers,omitempty"`
	ExcludeTenants []string `json:"exclude_tenants,omitempty"`
	// Headers that must all be there, each with one of its values.
	Headers []HeaderIn `json:"headers,omitempty"`
	// OptIn hits only requests that ask for it: X-Breakwater-Chaos with the run's
	// name, which the ingress filter takes from nobody but trusted peers.
	OptIn bool `json:"opt_in,omitempty"`
}

// HeaderIn asks for a field with one of some values; none: any value.
type HeaderIn struct {
	Name   string   `json:"name"`
	Values []string `json:"values,omitempty"`
}

// OptInHeader is the field by which a request asks for the faults of a run.
const OptInHeader = "X-Breakwater-Chaos"

// Asked is what Event.Synthetic says of a request that asked for faults.
const Asked = "opt_in"

// Delay is a latency that varies: Dist tells how, the other fields its shape.
type Delay struct {
	Dist     string `json:"dist"`                  // fixed, uniform, normal, pareto, table
	MS       int64  `json:"ms,omitempty"`          // fixed: all; uniform, normal: the mean; pareto: the least
	JitterMS int64  `json:"jitter_ms,omitempty"`   // uniform: to and fro; normal: standard deviation
	Alpha    int64  `json:"alpha_milli,omitempty"` // pareto: the shape, in thousandths
	CapMS    int64  `json:"cap_ms,omitempty"`      // none is longer; compulsory for pareto
	// Table has the latencies of percentiles, in rising order; between them it is
	// linear, before the first it is 0 at 0.
	Table []Percentile `json:"table,omitempty"`
}

// Percentile is one point of a table: PPM of all tries wait no longer than MS.
type Percentile struct {
	PPM int64 `json:"ppm"`
	MS  int64 `json:"ms"`
}
