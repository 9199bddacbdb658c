// Package retry decides whether a try that failed is made again, when, and why,
// and makes it. Decide is a pure function, so the validator, the explainer and
// the traffic give the same answer.
package retry

import (
	"time"

	"breakwater/gateway/exchange"
)

// Strategy is what the client gets when tries have come to their end.
type Strategy string

// The strategies.
const (
	PassThrough Strategy = "pass_through" // the upstream's last answer, as it is
	Return503   Strategy = "return_503"   // a plain 503 that keeps Retry-After
)

// OnConnect says what follows a failure to connect.
type OnConnect string

// The choices after a failure to connect.
const (
	OtherHost OnConnect = "other_host" // ask another endpoint, where there is one
	Never     OnConnect = "never"
)

// Config is the policy of one route. The first six fields are those of
// ponytail.yaml; the zero Config never retries.
type Config struct {
	Enabled     bool          `json:"enabled"`
	MaxRetries  int           `json:"max_retries"` // beside the first try
	PerTry      time.Duration `json:"per_try_timeout"`
	OnStatus    []int         `json:"retry_on_status"`
	BackoffBase time.Duration `json:"backoff_base"`
	Fallback    Strategy      `json:"fallback_strategy"`

	// BareOn503 retries a 503 that carries neither Retry-After nor
	// X-Backend-Status: overloaded; without it such a 503 is passed on, since
	// nobody said that asking again would help.
	BareOn503 bool `json:"bare_on_503,omitempty"`
	// MaxBackoff bounds the computed wait; 0 is ten times BackoffBase.
	MaxBackoff time.Duration `json:"max_backoff,omitempty"`
	// MaxRetryAfter: an upstream that asks for a longer pause is not asked
	// again; 0 is 5 s.
	MaxRetryAfter time.Duration `json:"max_retry_after,omitempty"`
	// OnConnect "" is other_host.
	OnConnect OnConnect `json:"on_connect_timeout,omitempty"`
	// Idempotent marks a route whose POST and PATCH may be sent twice.
	Idempotent bool `json:"idempotent,omitempty"`
	// TrustKey takes a request with an Idempotency-Key for idempotent.
	TrustKey bool `json:"trust_idempotency_key,omitempty"`
	// ReplayCap is how much of a body is kept to be sent again; 0 is 64 KiB.
	ReplayCap int `json:"replay_cap,omitempty"`
}

// Facts are all that a decision depends on.
type Facts struct {
	// Retries already made for this request at this hop.
	Retries int
	// Refused: a policy of ours said no; the upstream was not asked.
	Refused bool
	// Kind is "" where an answer came, else how the try failed.
	Kind        exchange.Kind
	Unprocessed bool // proof that the upstream did nothing
	Status      int  // of the answer; ignored where Kind is set

	// From the answer's head.
	HasRetryAfter   bool
	RetryAfter      string
	BackendStatus   string // X-Backend-Status
	ResponseRetries int    // Retry-Count

	Method         string
	HasKey         bool // Idempotency-Key is not empty
	Replayable     bool // the body can be sent again
	InboundRetries int  // Retry-Count of the request
	ClientGone     bool

	HasDeadline bool
	Remaining   time.Duration // of the total deadline
	// OtherHost: an endpoint that was not tried yet can be picked.
	OtherHost bool
	Now       time.Time // for a Retry-After that is a date
}

// Decision is what follows a try.
type Decision struct {
	Retry  bool
	Wait   time.Duration // before the next try
	Reason string        // decision_reason: what matched; "" where the try is no failure
	// Skip is why no retry is made although the answer is a failure; "" where
	// it is none.
	Skip string
}
