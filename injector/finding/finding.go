// Package finding keeps what drills found until a drill shows that it is gone.
//
// A finding hangs on its key, the assertion of a scenario against a service: the
// same weakness found ten times is one finding. Whoever mends it says so, and the
// next game day of the service runs the scenario that found it, as it was then;
// only a pass with full samples closes it, and a failure opens it again.
package finding

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"breakwater/injector"
)

// State is where a finding stands.
type State string

// The states. Only Verified is closed.
const (
	Open      State = "open"
	Claimed   State = "claimed_fixed" // somebody says that it is mended
	Verifying State = "verifying"     // a run that looks again was planned
	Verified  State = "verified"
	Reopened  State = "reopened"      // it was claimed or verified, and failed again
	Accepted  State = "accepted_risk" // somebody answers for it, until an expiry
)

// States lists all of them.
func States() []State { return []State{Open, Claimed, Verifying, Verified, Reopened, Accepted} }

// Key is what a finding hangs on.
type Key struct{ Service, Scenario, Assertion string }

// ID is a short name of k, the same for ever.
func (k Key) ID() string {
	sum := sha256.Sum256([]byte(k.Service + "\x00" + k.Scenario + "\x00" + k.Assertion))
	return "f-" + hex.EncodeToString(sum[:5])
}

// Stop is the assertion that a run stopped early by what it did to users stands for.
const Stop = "stop"

// Finding is one weakness, shown by a run.
type Finding struct {
	ID        string    `json:"id"`
	Service   string    `json:"service"`
	Scenario  string    `json:"scenario"`
	Assertion string    `json:"assertion"`
	Title     string    `json:"title"`
	Expected  string    `json:"expected"`
	Seen      string    `json:"seen"`
	Severity  string    `json:"severity"`
	Owner     string    `json:"owner"`
	State     State     `json:"state"`
	DueAt     time.Time `json:"due_at"`
	OpenedAt  time.Time `json:"opened_at"`
	ClosedAt  time.Time `json:"closed_at,omitzero"`
	Reopened  int       `json:"reopened"` // how often it came back
	// Text is the scenario as it was when it failed last, Hash names it.
	Text string `json:"-"`
	Hash string `json:"hash"`
	// Config names what gateways served then.
	Config  string `json:"config"`
	Run     string `json:"run"`      // that found it
	LastRun string `json:"last_run"` // that looked at it last
	// SeenFrom and SeenUntil are the span in which it was seen.
	SeenFrom  time.Time `json:"seen_from,omitzero"`
	SeenUntil time.Time `json:"seen_until,omitzero"`
	ClaimedBy string    `json:"claimed_by,omitempty"`
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	RiskBy    string    `json:"risk_accepted_by,omitempty"`
	RiskUntil time.Time `json:"risk_accepted_until,omitzero"`
	// EscalatedAt is when somebody was told that it is late.
	EscalatedAt time.Time `json:"escalated_at,omitzero"`
}

// Key is what f hangs on.
func (f Finding) Key() Key { return Key{f.Service, f.Scenario, f.Assertion} }

// Evidence is where what f rests on can be looked at.
func (f Finding) Evidence() string {
	if f.Assertion == Stop {
		return "/api/v1/experiments/" + f.LastRun
	}
	return "/api/v1/experiments/" + f.LastRun + "/evidence/" + f.Assertion
}

// Overdue reports whether f should have been mended before now. A claim stops the
// clock until it is looked at, an accepted risk until it expires.
func (f Finding) Overdue(now time.Time) bool {
	switch f.State {
	case Open, Reopened:
		return f.DueAt.Before(now)
	case Accepted:
		return f.RiskUntil.Before(now)
	}
	return false
}

// Severe reports whether f, overdue, should keep releases from going out.
func (f Finding) Severe() bool { return f.Severity == "high" || f.Severity == "critical" }

// Event is one line of a finding's story.
type Event struct {
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	Kind  string    `json:"kind"`
	Run   string    `json:"run,omitempty"`
	Text  string    `json:"text"`
}

// Change is what becomes of one finding.
type Change struct {
	Finding Finding
	Event   Event
	// Louder: people have to be told.
	Louder bool
}

// Filter narrows a list; empty fields match all.
type Filter struct {
	Service string
	State   State
	// Open leaves verified ones out, Overdue all that are not late at Now.
	Open, Overdue bool
	Now           time.Time
}

// Ledger keeps findings.
type Ledger interface {
	injector.Clock
	// FileRun hands draw the findings of a run's service and scenario, locked, and
	// keeps what it makes of them, once for each run.
	FileRun(ctx context.Context, run injector.Run, now time.Time, draw func([]Finding) []Change) ([]Change, error)
	// Unfiled lists runs that have ended and were not looked at yet.
	Unfiled(ctx context.Context, limit int) ([]injector.Run, error)
	Findings(ctx context.Context, f Filter) ([]Finding, error)
	// Finding returns one with its story, or injector.ErrNotFound.
	Finding(ctx context.Context, id string) (Finding, []Event, error)
	// Turn lets turn change one finding, locked.
	Turn(ctx context.Context, id string, turn func(Finding) (Change, error)) (Finding, error)
}
