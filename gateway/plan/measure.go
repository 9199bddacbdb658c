package plan

import "time"

// What a Measure does.
const (
	// Shed serves no request of the service below tier Lowest.
	Shed = "shed"
	// Limit changes the rate of the service's routes that have one.
	Limit = "limit"
	// StopExperiments ends experiments on the service, RefuseExperiments only keeps
	// new ones from starting. Both are control's own business; gateways show them.
	StopExperiments   = "stop_experiments"
	RefuseExperiments = "refuse_experiments"
)

// The directions of a Limit. "Change the limit" has been read both ways, so a
// measure says which; one without is refused.
const (
	Tighten = "tighten"
	Relax   = "relax"
)

// The tiers that Shed can leave. What comes for a route of tier critical is never shed.
const (
	TierDefault  = "default"
	TierCritical = "critical"
)

// Measure is a protective action on the gateway itself.
type Measure struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Service string `json:"service"`
	Env     string `json:"env,omitempty"` // "": of any environment
	Reason  string `json:"reason"`
	TTLMS   int64  `json:"ttl_ms"`

	// Lowest is the lowest tier that Shed leaves: default or critical.
	Lowest string `json:"lowest,omitempty"`

	// Limit takes FactorPPM of each route's own rate, or Tokens in PerMS, or the
	// smaller of the two where both are given; Tighten never raises a rate and Relax
	// never lowers one.
	Direction string `json:"direction,omitempty"`
	FactorPPM int64  `json:"factor_ppm,omitempty"`
	Tokens    int64  `json:"tokens,omitempty"`
	PerMS     int64  `json:"per_ms,omitempty"`
	Burst     int64  `json:"burst,omitempty"` // of Tokens; 0: as many
}

// Held is a Measure under its lease, by the clock of the gateway that holds it.
type Held struct {
	Measure
	Until time.Time `json:"until"`
}
