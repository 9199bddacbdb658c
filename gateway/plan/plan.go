// Package plan is everything control may tell a gateway: which faults are live
// and which protective measures hold, each under a lease.
//
// A gateway counts a lease on its own monotonic clock from the moment it sent
// the poll, so a dead control can never keep a fault alive. A plan with a lower
// epoch or revision than the last one is refused.
package plan

import "breakwater/gateway/policy/fault"

// Lease terms. A fault without a ttl is refused.
const (
	// GoneMS is what is promised: so long after its control was lost no fault is injected
	// any more. FaultTTLMS, the lease that keeps the promise, is a second shorter: between
	// "not yet over" and the last byte of a fault lies whatever the machine does meanwhile.
	GoneMS       = 15_000
	FaultTTLMS   = GoneMS - 1_000
	MeasureTTLMS = 600_000
	// PollMS is the longest a gateway waits between two polls; each answered
	// poll renews the leases, so that two may fail in a row.
	PollMS = 5_000
)

// Plan is one complete statement; what it does not name is not wanted any more.
type Plan struct {
	// Epoch is the fence of the control that speaks: the greatest claim epoch
	// of all runs. Revision rises with every change.
	Epoch    int64    `json:"epoch"`
	Revision int64    `json:"revision"`
	Faults   []Leased `json:"faults"`
	// Measures null, unlike an empty list, says nothing of them: control cannot read
	// them at the moment, and those in force keep their leases.
	Measures []Measure `json:"measures"`
}

// Leased is a fault with its lease. Hash is over the fault's JSON; receipts
// repeat it, so control knows that the very rule it wrote is armed.
type Leased struct {
	Fault fault.Fault `json:"fault"`
	TTLMS int64       `json:"ttl_ms"`
	Hash  string      `json:"hash"`
}

// Receipt is what a gateway says with every poll: what it had, what is armed,
// and what the faults did since the last one. It rides on the poll, so a full
// disk cannot lose it.
type Receipt struct {
	Gateway  string `json:"gateway"`
	Boot     string `json:"boot"`
	Epoch    int64  `json:"epoch"`
	Revision int64  `json:"revision"`
	// NowMS is the gateway's wall clock (Unix milliseconds), to tell skew.
	NowMS int64   `json:"now_ms"`
	Armed []Armed `json:"armed"`
	// Halted: the kill switch of this gateway is on; nothing is armed.
	Halted  bool    `json:"halted,omitempty"`
	Refused []Armed `json:"refused,omitempty"` // rules it would not take, with reason
	// Tallies are cumulative since boot, per run and service: control keeps the
	// difference between two polls of one boot.
	Tallies []Tally `json:"tallies"`
	// Config the gateway serves now.
	ConfigRevision string `json:"config_revision"`
	ConfigHash     string `json:"config_hash"`
}

// Armed names one fault at a gateway.
type Armed struct {
	Run    string `json:"run"`
	Fault  string `json:"fault"`
	Hash   string `json:"hash"`
	PPM    int64  `json:"ppm"`
	Reason string `json:"reason,omitempty"` // why it was refused
	Note   string `json:"note,omitempty"`   // what it cannot do here, though it is armed
}

// Tally counts what a gateway saw, as the guard needs it: cheap, early, cumulative
// since boot.
type Tally struct {
	Run      string `json:"run,omitempty"` // "" is the service's whole traffic
	Service  string `json:"service"`
	Good     int64  `json:"good"`     // client requests by final outcome
	Bad      int64  `json:"bad"`      //
	Attempts int64  `json:"attempts"` // tries; of a run: those that reached the fault layer while its fault was armed
	Injected int64  `json:"injected"` // tries that were hit
	Degraded int64  `json:"degraded"` // of good and bad: a fallback made the answer
}

// ReceiptHeader carries the Receipt, as one line of JSON, on GET /api/v1/plan.
const ReceiptHeader = "X-Breakwater-Receipt"
