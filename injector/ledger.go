package injector

import (
	"context"
	"errors"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector/scenario"
	"breakwater/internal/retrylog"
)

// Terms of the ledger.
const (
	// StartDeadline is how late a due run may still start.
	StartDeadline = 15 * time.Minute
	// LeaseFor is how long a claim holds without a heartbeat, and HeartbeatEvery
	// how often its owner renews it.
	LeaseFor       = 15 * time.Second
	HeartbeatEvery = 5 * time.Second
	// ApprovalFor is how long a run waits for approval.
	ApprovalFor = 7 * 24 * time.Hour
)

// ErrFenced means that a write named a state or epoch that is no longer so:
// somebody stopped the run, or another control took it over.
var ErrFenced = errors.New("the run has moved on")

// ErrOverlap means that another run holds the same target.
var ErrOverlap = errors.New("another run holds the target")

// ErrHalted means that everything was halted and nobody has lifted it.
var ErrHalted = errors.New("experiments are halted")

// ErrNotFound means that there is no such run or scenario.
var ErrNotFound = errors.New("not found")

// Clock is the one clock by which runs are decided: the database's, so that two
// controls with skewed clocks cannot disagree about what is due.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Document is a scenario as kept.
type Document struct {
	ID, Title, Service string
	Text, Hash         string
	File               string
}

// Due is a schedule whose time has come, locked, with all that decides about it.
type Due struct {
	Schedule  Schedule
	Documents []Document // of Schedule.Scenarios, in order; missing ones are missing
	Halted    bool
	Active    []Active // runs that have not ended
	// Approved is who agreed to it beforehand, Reverify what findings ask to be
	// looked at again.
	Approved []Approved
	// CalledOff are game days that somebody ended before they began.
	CalledOff []string
	// Traffic is what came in of late, by route.
	Traffic  []Flow
	Reverify []Reverify
}

// Active is a run that has not ended, as far as the overlap lock needs it.
type Active struct {
	ID, Service, Schedule string
	State                 State
	Class                 Class
	At                    time.Time // it was planned for
}

// Flow is what came in on one route.
type Flow struct {
	Service, Route string
	Requests       int64
}

// Decision is what becomes of a due schedule.
type Decision struct {
	Occurrences []Decided
	NextAt      time.Time // zero: never again
}

// Decided is one due instant with the runs it starts, or why it starts none.
type Decided struct {
	ScheduledFor time.Time
	Skipped      string
	Detail       string
	Runs         []Run
	// Day is how it is held, where there are runs.
	Day DayHeld
}

// ScheduleLedger keeps what is due.
type ScheduleLedger interface {
	// TakeDue locks the due schedules, skipping those that another control holds,
	// and writes what decide says, all in one transaction. An occurrence that is
	// already written stays as it is, and its runs are not made again.
	TakeDue(ctx context.Context, now time.Time, decide func(Due) Decision) ([]Occurrence, error)
	// SaveDocuments makes the imported documents the only ones: schedules whose
	// document is gone are disabled. NextAt of a schedule counts where it is new,
	// was disabled, or has another text.
	SaveDocuments(ctx context.Context, now time.Time, docs []Document, schedules []Schedule) error
	Schedules(ctx context.Context) ([]Schedule, error)
	Documents(ctx context.Context) ([]Document, error)
}

// Move is one transition, written only where the run is still in From under Epoch.
type Move struct {
	Run   string
	Epoch int64 // 0: whoever owns it (a person's stop wins over any owner)
	From  State
	To    State
	At    time.Time

	Reason, Why string
	Verdict     Verdict
	Assertions  []Assertion
	Cohorts     []Part
	// Counts replace those of the run where set.
	Counts *Counts
	Actor  string
	Text   string // of the event line
}

// Counts are the figures a run ends with.
type Counts struct {
	Attempts, Injected, Good, Bad, BudgetSpentPPM int64
}

// Held is a run this control owns. Taken: it was claimed just now, from nobody
// or from a control that is gone.
type Held struct {
	Run   Run
	Taken bool
}

// RunLedger keeps runs.
type RunLedger interface {
	// AddRun inserts r unless halted or its service is held: ErrHalted, ErrOverlap.
	AddRun(ctx context.Context, r Run) error
	// Hold renews the leases of owner that still run, claims what is due and
	// free under a new epoch, and returns all of owner's runs.
	Hold(ctx context.Context, owner string, now time.Time) ([]Held, error)
	// Release gives back what owner holds before injection, at once.
	Release(ctx context.Context, owner string, now time.Time) error
	Move(ctx context.Context, m Move) error
	Note(ctx context.Context, e Event) error
	// StopAll moves every run that is not at its end toward it, and keeps new
	// ones from starting where halt is set.
	StopAll(ctx context.Context, now time.Time, actor, reason string, halt bool) (int, error)
	Resume(ctx context.Context, now time.Time, actor string) error
	Halt(ctx context.Context) (Halt, error)
	Run(ctx context.Context, id string) (Run, error)
	Runs(ctx context.Context, limit int) ([]Run, error)
	Events(ctx context.Context, run string) ([]Event, error)
	ActiveRuns(ctx context.Context) ([]Active, error)
	ExpireApprovals(ctx context.Context, now time.Time) error
	// DeleteRun removes a run that has ended, with all that is kept of it: ErrStep
	// of one that has not.
	DeleteRun(ctx context.Context, id string) error
}

// TrafficLedger is what the events of gateways say about traffic.
type TrafficLedger interface {
	// BreakerTurns lists what the breaker of a service did over (since, until], in
	// the order of time.
	BreakerTurns(ctx context.Context, service string, since, until time.Time) ([]Transition, error)
	// Heard is how far the events of each gateway reach.
	Heard(ctx context.Context) (map[string]time.Time, error)
	// Parts counts the requests of a service in the whole minutes within
	// [since, until) that no fault touched: those of routes (none: all of them) and
	// the rest.
	Parts(ctx context.Context, service string, routes []string, since, until time.Time) (control, unmatched Part, err error)
	// Traffic is what came in over the minutes within [since, until).
	Traffic(ctx context.Context, service string, routes []string, since, until time.Time) (scenario.Traffic, error)
	// Matched counts requests to the routes of a service since then.
	Matched(ctx context.Context, service string, routes []string, since time.Time) (int64, error)
	// HitTenants counts the tenants whose requests a run is known to have touched.
	HitTenants(ctx context.Context, run string) (int64, error)
	// HitRequests returns requests that a run touched, the newest first.
	HitRequests(ctx context.Context, run string, limit int) ([]retrylog.Exchange, error)
}

// Transition is one change of a service's breaker at one gateway.
type Transition struct {
	At                        time.Time
	Gateway, From, To, Reason string
}

// Halt says since when and by whom everything is halted; zero: nothing is.
type Halt struct {
	At    time.Time
	Actor string
}

// GatewayLedger keeps what gateways were told and what they answered.
type GatewayLedger interface {
	// SaveReceipt stores r and adds the difference of its tallies to the series.
	SaveReceipt(ctx context.Context, now time.Time, r plan.Receipt) error
	Gateways(ctx context.Context) ([]Gateway, error)
	// NumberPlan reads the runs whose faults belong into a plan at now (active,
	// lease valid) and numbers what compose makes of them, which it names by a
	// hash: the same hash keeps its revision, another gets the next. Reading
	// and numbering are one step, so that no control can number an older state
	// above a newer one. Compose may be called twice; its last call counts.
	NumberPlan(ctx context.Context, now time.Time, compose func([]Run) string) (Stamped, error)
	MarkRemoved(ctx context.Context, run, gateway string, at time.Time, byLease bool) error
	// Tallies returns those of a service over (since, until], in the order
	// of time; run "" is its whole traffic.
	Tallies(ctx context.Context, service, run string, since, until time.Time) ([]Point, error)
	// Latencies merges the latency bins of the whole minutes within [since, until).
	Latencies(ctx context.Context, service string, since, until time.Time) ([]int64, error)
	// Tries counts client requests and the tries they took, in the same minutes.
	Tries(ctx context.Context, service string, since, until time.Time) (exchanges, attempts int64, err error)
	PruneTallies(ctx context.Context, now time.Time) error
	// Listen calls wake on every change until ctx ends: a hint, never relied on.
	Listen(ctx context.Context, wake func()) error
}

// Stamped numbers a plan: Epoch is the greatest claim of all runs.
type Stamped struct{ Epoch, Revision int64 }

// Gateway is the newest word of one gateway.
type Gateway struct {
	Name, Boot      string
	At              time.Time // when it spoke, by the database's clock
	Epoch, Revision int64
	Halted          bool
	SkewMS          int64
	Armed, Refused  []plan.Armed
	// ConfigHash and ConfigRevision name the configuration it serves.
	ConfigHash, ConfigRevision string
}

// Live reports whether g was heard within one lease before now.
func (g Gateway) Live(now time.Time) bool { return now.Sub(g.At) < LeaseFor }

// Point is what gateways counted up to At since their poll before: at most five
// seconds of traffic each.
type Point struct {
	At                            time.Time
	Good, Bad, Attempts, Injected int64
	Degraded                      int64 // of Good and Bad: a fallback answered
}

// Ledger is everything the engine keeps; internal/store has it.
type Ledger interface {
	Clock
	ScheduleLedger
	RunLedger
	GatewayLedger
	TrafficLedger
	SearchLedger
	ApprovalLedger
	FactLedger
}

// Budget is what the engine must know of a service's promise. It is a plain
// value, since promises are another room's business.
type Budget struct {
	Known        bool
	Frozen       bool
	TargetPPB    int64 // the promised share of good requests, in 10^-9
	Allowed      int64 // bad requests the window permits
	RemainingPPM int64 // of the budget
	// Stop is why runs against the service must end, Refuse why none may start, by a
	// measure that protects it; "": nothing keeps them.
	Stop, Refuse string
}

// Budgets answers for each service, at once and from memory.
type Budgets interface {
	Budget(service string) Budget
}
