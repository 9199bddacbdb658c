// Package injector runs experiments: it decides when one may start, keeps its
// faults leased while it runs, stops it early when users suffer more than was
// agreed, and judges what was seen against what was expected.
package injector

import (
	"time"

	"breakwater/injector/scenario"
)

// State is where a run stands. What it proved is its Verdict, a different thing.
type State string

// The states. Recovering waits until every gateway has given back the fault.
const (
	Draft           State = "draft"
	PendingApproval State = "pending_approval"
	Scheduled       State = "scheduled"
	Arming          State = "arming"
	Baseline        State = "baseline"
	Injecting       State = "injecting"
	Recovering      State = "recovering"
	Completed       State = "completed"
	Aborting        State = "aborting"
	Aborted         State = "aborted"
	Rejected        State = "rejected"
	Cancelled       State = "cancelled"
	Skipped         State = "skipped"
	Expired         State = "expired"
	EngineError     State = "engine_error"
)

// Verdict is what a finished run proved.
type Verdict string

// The verdicts. Missing data is never a pass.
const (
	Passed       Verdict = "passed"
	Failed       Verdict = "failed"
	Inconclusive Verdict = "inconclusive"
	NotEvaluated Verdict = "not_evaluated"
)

// Run is one execution of a scenario, whole enough to be shown.
type Run struct {
	ID       string // "r-" and a short time-sortable id
	Scenario string
	Title    string
	Service  string // the target
	GameDay  string // "" for a single run
	State    State
	Reason   string // of a skip, abort or error
	Verdict  Verdict
	Why      string // one sentence: why this verdict
	Text     string // the scenario document, as approved
	Hash     string // of Text
	Epoch    int64  // fence: every write names it
	Actor    string // who or what started it
	// LeaseUntil is how long its owner's claim holds without a heartbeat; no
	// gateway may keep a fault of it for longer.
	LeaseUntil time.Time

	// Schedule and Seq say which occurrence it belongs to and its place in the
	// game day, from 0. Runs of one wave go side by side; those of the wave after
	// it wait until all of them have ended.
	Schedule  string
	Seq, Wave int
	// DueAt is when it may start: PlannedAt, or when it was approved. The start
	// deadline counts from it.
	DueAt  time.Time
	Starts int // how often it was armed
	// Search is the search whose probe it is, with its knob at Knob; "": none.
	Search string
	Knob   int64
	// Class is C where much is at stake, Needs how many people have to agree.
	Class     Class
	Needs     int
	Approvals []Approval
	// CapPPM is the share of the window's budget it may spend; 0: only what the
	// scenario itself says.
	CapPPM int64

	PlannedAt                                           time.Time
	StartedAt, BaselineAt, InjectAt, RecoverAt, EndedAt time.Time
	BaselineFor, InjectFor, RecoverFor                  time.Duration

	Receipts   []Receipt
	Assertions []Assertion
	Cohorts    []Part
	// Counts while the fault was armed, summed over gateways.
	Attempts, Injected int64 // tries that reached the fault layer; that were hit
	ExpectedPPM        int64 // the share asked for
	Good, Bad          int64 // client requests of the target while injecting
	BudgetSpentPPM     int64 // of the window budget, by this run
}

// Receipt is one gateway's word on one fault: armed, then removed (or gone by
// the lease).
type Receipt struct {
	Gateway   string
	Fault     string
	Hash      string
	ArmedAt   time.Time
	RemovedAt time.Time
	ByLease   bool // removal is proven by the lease, not by a receipt
	PPM       int64
	Boot      string // of the gateway when it armed
	Config    string // hash of the configuration it served then
}

// Result of an assertion. NoData never passes.
type Result string

// The results.
const (
	Pass    Result = "pass"
	Fail    Result = "fail"
	NoData  Result = "no_data"
	Errored Result = "error"
	Pending Result = "pending"
)

// Assertion is one expectation and what was seen.
type Assertion struct {
	ID, Phase string // steady, during, after
	Text      string // what was expected, in words
	Expected  string // with unit
	Seen      string // with unit and sample size
	N         int64
	Result    Result
	Optional  bool `json:",omitempty"` // its failure does not fail the run
	// From and Until are the span that was looked at, Rows what was found in it that
	// is not a count.
	From  time.Time `json:",omitzero"`
	Until time.Time `json:",omitzero"`
	Rows  []Row     `json:",omitempty"`
	// Weakness names what a failure shows, Right says what would be right.
	Weakness string `json:",omitempty"`
	Right    string `json:",omitempty"`
	// late: events do not reach so far yet that nothing more could come.
	late bool
}

// Row is one thing that happened and that a result rests on.
type Row struct {
	At   time.Time
	Text string
}

// Part is what was counted of one cohort of the target in one phase.
type Part struct {
	Phase     string
	Cohort    scenario.Cohort
	Good, Bad int64
	Degraded  int64 // of Good; only control and unmatched
}

// Score is how much of a hypothesis held, 0 to 100: each assertion counts once.
func Score(all []Assertion) int {
	type key struct{ phase, id string }
	last := map[key]Result{}
	for _, a := range all {
		last[key{a.Phase, a.ID}] = a.Result
	}
	passed := 0
	for _, r := range last {
		if r == Pass {
			passed++
		}
	}
	if len(last) == 0 {
		return 0
	}
	return 100 * passed / len(last)
}

// Event is one line of a run's log.
type Event struct {
	At    time.Time
	Run   string
	Kind  string // state, receipt, guard, note
	Text  string
	Actor string
}

// Schedule is when a scenario runs by itself.
type Schedule struct {
	ID, GameDay, Title string
	Scenario           string
	Cron, Zone         string
	NextAt             time.Time
	LastRun            string
	Enabled            bool

	Scenarios []string // all of the game day, in order; Scenario is the first
	GrantPPM  int64    // of the budget, what a run may spend without approval
	Text      string   // the document it came from
	// Last are the newest decisions, newest first.
	Last []Occurrence
}

// Occurrence is what was decided about one due instant.
type Occurrence struct {
	Schedule     string
	ScheduledFor time.Time
	DecidedAt    time.Time
	Skipped      string // why nothing was started; "" where runs were
	Detail       string // the reason in words
	Runs         []string
}
