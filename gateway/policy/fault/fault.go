// Package fault injects latency and errors into single tries, below retry,
// balancer and timeouts, so that every policy above reacts as if the upstream
// had done it. A fault lives in memory under a lease; nothing of it survives
// the process.
package fault

// Kind is what a fault does to a try.
type Kind string

// The kinds.
const (
	Latency Kind = "latency" // wait before the try goes on
	Error   Kind = "error"   // answer instead of the upstream
)

// Fault is one rule, as a value. Control writes it, gateways obey it.
type Fault struct {
	ID  string `json:"id"`  // within its run
	Run string `json:"run"` // the experiment run; tags the events
	// Seed and Key decide who is hit: hash(Seed, key of the unit) < PPM. Never a
	// dice roll, so every replica and every replay hits the same exchanges.
	Seed string `json:"seed"`
	Key  string `json:"key"` // attempt (default) or request
	// PPM is the share in parts per million; 0 is a control run that injects nothing.
	PPM    int64  `json:"ppm"`
	Target Target `json:"target"`

	Kind      Kind   `json:"kind"`
	LatencyMS int64  `json:"latency_ms,omitempty"`
	Status    int    `json:"status,omitempty"` // 400 to 599
	Body      string `json:"body,omitempty"`
	// Headers of the error answer, such as Retry-After or X-Backend-Status.
	Headers map[string]string `json:"headers,omitempty"`
}

// Target says which tries may be hit. Service is compulsory: an empty selector
// is refused. Routes empty means every route of the service.
type Target struct {
	Service  string   `json:"service"`
	Routes   []string `json:"routes,omitempty"` // route ids
	Endpoint string   `json:"endpoint,omitempty"`
	Callers  []string `json:"callers,omitempty"`
}
