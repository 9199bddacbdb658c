// Package retry decides whether a try that failed is made again, when, and why,
// and makes it. Decide is a pure function, so the validator, the explainer and
// the traffic give the same answer.
package retry

import (
	"slices"
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

// Jitter is what makes waits unequal, so that callers that failed together do not
// come back together.
type Jitter string

// The kinds of jitter. The wait before retry n is the step, base x 2^(n-1), plus
// or instead of it:
const (
	AdditiveBase Jitter = "additive_base" // the step, plus up to 0.3 of the base
	Proportional Jitter = "proportional"  // the step, plus up to 0.3 of the step
	Full         Jitter = "full"          // anything up to the step
	Decorrelated Jitter = "decorrelated"  // from the base up to three times the last wait
)

// AfterMode says what an upstream's Retry-After means.
type AfterMode string

// The meanings of Retry-After.
const (
	Wait       AfterMode = "wait"        // leave to retry, and not before then
	SignalOnly AfterMode = "signal_only" // leave to retry; the wait is our own
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

	// Rules say in order what is a failure and what follows; the first whose
	// primary condition matches decides. Without any there is one: the status is
	// one of OnStatus.
	Rules []Rule `json:"rules,omitempty"`
	// BareOn503 retries a 503 that carries neither Retry-After nor
	// X-Backend-Status: overloaded; without it such a 503 is passed on, since
	// nobody said that asking again would help.
	BareOn503 bool `json:"bare_on_503,omitempty"`
	// StatusHeader carries the upstream's word on its load; "" is X-Backend-Status.
	StatusHeader string `json:"backend_status_header,omitempty"`
	// Jitter "" is additive_base.
	Jitter Jitter `json:"jitter,omitempty"`
	// MaxBackoff bounds the computed wait; 0 is ten times BackoffBase.
	MaxBackoff time.Duration `json:"max_backoff,omitempty"`
	// MaxRetryAfter: an upstream that asks for a longer pause is not asked
	// again; 0 is 5 s.
	MaxRetryAfter time.Duration `json:"max_retry_after,omitempty"`
	// After "" is wait.
	After AfterMode `json:"retry_after_mode,omitempty"`
	// OnConnect "" is other_host.
	OnConnect OnConnect `json:"on_connect_timeout,omitempty"`
	// Idempotent marks a route whose POST and PATCH may be sent twice.
	Idempotent bool `json:"idempotent,omitempty"`
	// TrustKey takes a request with an Idempotency-Key for idempotent.
	TrustKey bool `json:"trust_idempotency_key,omitempty"`
	// Gate stops retries while too many first tries fail.
	Gate ErrorGate `json:"error_rate_gate,omitzero"`
	// Tenants have some values of their own, by name.
	Tenants map[string]Tenant `json:"tenants,omitempty"`
	// ReplayCap is how much of a body is kept to be sent again; 0 is 64 KiB.
	ReplayCap int `json:"replay_cap,omitempty"`
	// Observe decides and notes the decision, and makes no retry.
	Observe bool `json:"observe_only,omitempty"`
}

// Tenant is what a policy has different for one tenant.
type Tenant struct {
	BackoffBase time.Duration `json:"backoff_base"`
}

// Active reports whether the policy ever retries.
func (cfg *Config) Active() bool { return cfg.Enabled && cfg.MaxRetries > 0 }

// Replaces reports whether the policy may put an answer of ours in the place of
// the upstream's.
func (cfg *Config) Replaces() bool {
	return cfg.Fallback == Return503 || slices.ContainsFunc(cfg.Rules, func(r Rule) bool { return r.Fallback == Return503 })
}

// base is the first wait of tenant.
func (cfg *Config) base(tenant string) time.Duration {
	if own, ok := cfg.Tenants[tenant]; ok && own.BackoffBase > 0 {
		return own.BackoffBase
	}
	return cfg.BackoffBase
}

// statusHeader is the field an upstream tells its load in.
func (cfg *Config) statusHeader() string {
	if cfg.StatusHeader != "" {
		return cfg.StatusHeader
	}
	return backendStatus
}

const (
	backendStatus = "X-Backend-Status"
	overloadedTo  = "overloaded"
	retryAfter    = "Retry-After"
)

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
	// Took is the try's time, to the head of the answer or to its failure.
	Took time.Duration
	// Head of the answer; nil is an empty one.
	Head *exchange.Head
	// Body is the beginning of the answer's body; BodyHidden says why it could not
	// be looked at, where it could not.
	Body       []byte
	BodyHidden string

	Method         string
	Tenant         string
	HasKey         bool // Idempotency-Key is not empty
	Replayable     bool // the body can be sent again
	InboundRetries int  // Retry-Count of the request
	ClientGone     bool

	HasDeadline bool
	Remaining   time.Duration // of the total deadline
	LastWait    time.Duration // before this try; decorrelated jitter builds on it
	// TooManyErrors: the error-rate gate is shut.
	TooManyErrors bool
	// OtherHost: an endpoint that was not tried yet can be picked.
	OtherHost bool
	// BudgetEmpty is for explanations: the Layer asks the budget itself, when a
	// retry is about to be sent.
	BudgetEmpty bool
	Now         time.Time // for a Retry-After that is a date
}

// Decision is what follows a try.
type Decision struct {
	Retry  bool
	Wait   time.Duration // before the next try
	Reason string        // decision_reason: what matched; "" where the try is no failure
	// Skip is why no retry is made although the answer is a failure; "" where
	// it is none.
	Skip string
	// Rule is the index of the rule that decided, Index the place of the status in
	// its list (matched_index); 0 where there is none.
	Rule, Index int
	// Fallback is what the client gets if this was the last try; "" is PassThrough.
	Fallback Strategy
}
