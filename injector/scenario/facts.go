package scenario

import "time"

// Facts are what is known of the live system before a run; zero fields are not
// known, and nothing is concluded from them.
type Facts struct {
	// PerTry is the timeout of one try to the target, Retries how many more
	// follow a failed one, Layers how many hops each do so (0 is one).
	PerTry  time.Duration
	Retries int
	Layers  int
	// GatePPM is the share of failing first tries above which no retry is made.
	GatePPM int64
	// RPSMilli is the traffic of the target, in thousandths of a request a second.
	RPSMilli int64
	// TargetPPB is the promised share of good requests, by service.
	TargetPPB map[string]int64

	// MaxPPM and MaxLatency are the caps of the gateways: no rule passes them.
	MaxPPM     int64
	MaxLatency time.Duration

	// Core: users cannot do without the target. SharePPM is how much of all traffic a
	// run would hit; 0: not known.
	Core     bool
	SharePPM int64
	// Owner is who answers for the target; Alerted: a route of alerts leads to
	// somebody for it. Both count where Readied.
	Owner   string
	Alerted bool
	Readied bool
	// History is how long the target has been measured; nil: not known.
	History *time.Duration

	Prod    bool    // what is doubtful elsewhere is refused there
	Routes  []Route // of the target's service, in the documents
	Breaker *BreakerRule
	// Traffic is that of the last ten minutes, by service.
	Traffic map[string]Traffic
	// Week is how many requests the target matched in seven days; nil: not known.
	Week    *int64
	Budgets map[string]Budget
	// Overlaps are runs under way that share a service with this one.
	Overlaps []Overlap
	// Alerts is how long ago the feed of alerts was heard; nil: there is none.
	Alerts *time.Duration
	// Barred are hosts of probes that nobody has allowed.
	Barred []string
	// CapPPM is the share of its budget that a run may spend; 0: 5 %.
	CapPPM int64
}

// Route is what a drill must know of one route of the target.
type Route struct {
	Name string
	// NoFaults marks health, login and control routes.
	NoFaults bool
	// Fallback: something stands in for an answer that does not come.
	Fallback bool
}

// BreakerRule is the part of a service's breaker that says when it opens and closes.
type BreakerRule struct {
	Off bool
	// Row is how many failures in a row it asks for, And: beside the share; 0: none.
	Row int64
	And bool
	// ErrorPPM is the share of failures in Window, of at least MinRequests.
	ErrorPPM    int64
	Above       bool // more than the share; else reaching it is enough
	Window      time.Duration
	Windows     int64
	MinRequests int64
	OpenFor     time.Duration
	// SlowPPM is the share of slow calls that opens it as failures do; 0: none does. A
	// call is slow after SlowAfter.
	SlowPPM   int64
	SlowAfter time.Duration
	// Never says why today's traffic could not trip it even if all of it failed; "":
	// it could.
	Never string
}

// Traffic is what came in over Span.
type Traffic struct {
	Span     time.Duration
	Requests int64
	// Users has the requests of each tenant, or where there are none of each caller.
	Users []int64
	// Matched are those of the target's routes.
	Matched int64
}

// Budget is what a service may still fail.
type Budget struct {
	Allowed      int64 // bad requests in the window
	RemainingPPM int64
}

// Overlap is a run that shares Service.
type Overlap struct{ Run, Service string }
