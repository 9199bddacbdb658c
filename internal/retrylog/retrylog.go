// Package retrylog defines the records that gateways write and control reads:
// one line of JSON each, in a segment file, closed by a checksum.
//
// It is the only thing gateway and slo both know. Every client request is one
// Exchange, retried or not: without the denominator there is no rate.
package retrylog

import "time"

// Record is one line of the log; exactly one of the first four fields is set.
type Record struct {
	Exchange   *Exchange   `json:"exchange,omitempty"`
	Transition *Transition `json:"transition,omitempty"`
	Config     *Config     `json:"config,omitempty"`
	Notice     *Notice     `json:"notice,omitempty"`

	// Fold is no part of the line: it lets the writer count a plain success
	// together with others of the same Fold that are alike in all else. 0 does not.
	Fold int64 `json:"-"`
}

// Exchange is one client request from first byte to last, with all its tries.
// It is bucketed by End, so a retry that straddles a minute lands in one.
type Exchange struct {
	// Count is how many exchanges this line stands for. More than 1 only where
	// plain successes alike in every key and latency bin were folded; exact. Id,
	// start and end are then those of the first of them, latencies the mean, which
	// lies in the same bin, and bytes the sum.
	Count int64 `json:"count"`

	RequestID string    `json:"request_id"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`

	Gateway  string `json:"gateway"`
	Env      string `json:"env"`
	Service  string `json:"service"`            // "" for requests refused before routing
	Route    string `json:"route"`              // "unmatched" for those
	Upstream string `json:"upstream,omitempty"` //
	Method   string `json:"method"`
	Caller   string `json:"caller,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	// Tier is how much the request matters under pressure: "critical",
	// "sheddable", or "" for the default between them.
	Tier string `json:"tier,omitempty"`

	// Tries are the attempts in the order they were sent.
	Tries []Try `json:"tries,omitempty"`

	FirstStatus int `json:"first_status,omitempty"` // of the first try; 504 and 502 stand for timeout and dial failure
	Status      int `json:"status"`                 // what the client was told; 0: nothing was sent
	// Outcome is the class of the final answer (see Outcome).
	Outcome Outcome `json:"outcome"`
	// Timeout says which deadline ran out, where one did: total, try, client, idle.
	Timeout string `json:"timeout,omitempty"`
	// Reason is the decision_reason of the first retry; Skip the first reason
	// why a further retry was not made.
	Reason string `json:"decision_reason,omitempty"`
	Skip   string `json:"skip_reason,omitempty"`

	RetryWaitMS  int64 `json:"retry_wait_ms,omitempty"`
	LatencyUS    int64 `json:"latency_us"` // total, back-off included
	BodyComplete bool  `json:"body_complete"`
	// Degraded names the fallback action that made the answer, Refusal the
	// policy and reason that refused ("limiter:rate"), Origin who made the
	// final status: upstream or gateway.
	Degraded string `json:"degraded,omitempty"`
	Refusal  string `json:"refusal,omitempty"`
	Origin   string `json:"origin"`
	// Observed lists, with commas, what policies that only observe would have
	// done, as Refusal and Degraded would say it.
	Observed string `json:"observed,omitempty"`
	// Experiment is the run whose fault touched any try of this exchange.
	Experiment string `json:"experiment,omitempty"`
	// Synthetic says why the exchange is in no objective: a probe, or a request
	// that asked for a fault by header ("opt_in").
	Synthetic string `json:"synthetic,omitempty"`
	// SamplePPM is the share of such exchanges that have a line, in parts per
	// million, where not all have: this one then stands for 10^6 / SamplePPM. 0: all.
	SamplePPM int64 `json:"p_sample_ppm,omitempty"`

	DepTimeouts  int    `json:"dep_timeouts,omitempty"`
	BusinessCode string `json:"business_code,omitempty"`
	Revision     string `json:"config_revision"`
	BytesOut     int64  `json:"bytes_out,omitempty"`
}

// Try is one attempt on the wire.
type Try struct {
	Endpoint string `json:"endpoint"`
	Status   int    `json:"status,omitempty"` // 0: no response head came
	// Kind is empty for an answer, else what went wrong: dial, connect_timeout,
	// tls, write, response_header_timeout, try_timeout, reset_before_first_byte,
	// reset_after_first_byte, body_cut, bad_response, canceled.
	Kind      string `json:"kind,omitempty"`
	LatencyUS int64  `json:"latency_us"`
	WaitMS    int64  `json:"wait_ms,omitempty"` // back-off before it was sent
	// What was decided after it, where it failed: what matched, and why no
	// further try was made; Skip is "" where one was.
	Reason    string `json:"decision_reason,omitempty"`
	Skip      string `json:"skip_reason,omitempty"`
	Fault     string `json:"fault,omitempty"` // id of the fault that touched it
	PlannedUS int64  `json:"planned_us,omitempty"`
	ActualUS  int64  `json:"actual_us,omitempty"`
	CutShort  bool   `json:"cut_short,omitempty"`
	// Cause says why no connection could be made, where that is known: dns, refused
	// or unreachable.
	Cause string `json:"cause,omitempty"`
	// Agreed is no part of the line: it marks, from 1, which answer of its
	// upstream's contract this was, for whoever compares what became of it.
	Agreed int32 `json:"-"`
}

// Outcome is the class of an exchange or of a try. Breaker, balancer, budget
// and slo read only this.
type Outcome string

// The outcomes. What an injected fault looks like decides its class; that it was
// injected stands in Try.Fault and Exchange.Experiment.
const (
	OK              Outcome = "ok"
	UpstreamFailure Outcome = "upstream_failure" // 5xx, dial failure, reset, bad or cut response
	LocalRefusal    Outcome = "local_refusal"    // a policy of ours refused; never an upstream failure
	Timeout         Outcome = "timeout"
	ClientAbort     Outcome = "client_abort"
	Panicked        Outcome = "panic"
)

// Transition is a state change of a policy: breaker opened, budget refused.
type Transition struct {
	At       time.Time `json:"at"`
	Gateway  string    `json:"gateway"`
	Env      string    `json:"env"`
	Policy   string    `json:"policy"`
	Service  string    `json:"service"`
	Upstream string    `json:"upstream,omitempty"`
	Endpoint string    `json:"endpoint,omitempty"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Reason   string    `json:"reason"`
}

// Config is written at every swap and every refused document.
type Config struct {
	At        time.Time `json:"at"`
	Gateway   string    `json:"gateway"`
	Env       string    `json:"env"`
	Revision  string    `json:"revision"` // of the snapshot that serves
	Hash      string    `json:"hash"`
	Error     string    `json:"error,omitempty"` // why a newer document was refused
	Effective string    `json:"effective,omitempty"`
}

// Notice is anything else an operator must be able to count on: events lost,
// a torn tail cut, a fault armed or gone.
type Notice struct {
	At      time.Time `json:"at"`
	Gateway string    `json:"gateway"`
	Env     string    `json:"env"`
	Kind    string    `json:"kind"`            // e.g. events_dropped, unclean_stop, torn_tail, bad_line
	Count   int64     `json:"count,omitempty"` // how many events it speaks of
	Detail  string    `json:"detail,omitempty"`
}

// Batch is the identity of a group of lines sent to control, as JSON in the
// header X-Breakwater-Batch of POST /api/v1/events. Lines themselves carry none:
// a batch that was counted once is never counted again.
type Batch struct {
	Gateway string `json:"gateway"`
	Env     string `json:"env"`
	Boot    string `json:"boot"`
	Seq     int64  `json:"seq"` // from 1, without gaps, per boot
	// From and Until say which completion times this batch closes: every event
	// of the boot that ended in [From, Until) is in it or in an earlier one.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Lost counts events of the span known to be missing: dropped on a full
	// disk, or in flight at a kill.
	Lost int64 `json:"lost,omitempty"`
	// Last: the gateway stopped in good order; no minutes after Until are expected of it.
	Last bool `json:"last,omitempty"`
}

// BatchHeader names the header that carries a Batch.
const BatchHeader = "X-Breakwater-Batch"
