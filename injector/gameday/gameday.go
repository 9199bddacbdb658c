// Package gameday holds game days: calls people together, counts who agreed to
// what, watches over all of it with one guard, keeps what they write down, and tells
// those who were not there.
//
// When a game day is due, and the runs it is made of, is the engine's business; here
// is what stands round them.
package gameday

import (
	"context"
	"log/slog"
	"time"

	"breakwater/injector"
	"breakwater/injector/finding"
	"breakwater/injector/readiness"
	"breakwater/injector/scenario"
)

// Document is a game day as written.
type Document struct{ Name, Title, Text, File string }

// Held is a game day as it is, was or will be held once.
type Held struct {
	ID, Name, Title, Actor string
	Text, Hash             string
	Needs                  int // approvals
	// Owners are the services whose owners have to be among those who agree.
	Owners     []string
	PlannedAt  time.Time
	RemindedAt time.Time
	StartedAt  time.Time // its runs were made
	EndedAt    time.Time
	Stopped    string // why all of it ended early, or was not begun
	Approvals  []injector.Approved
}

// Agreed counts the people whose approval of the content holds at now.
func (h Held) Agreed(now time.Time) int {
	n := 0
	for _, a := range h.Approvals {
		if a.Hash == h.Hash && now.Sub(a.At) < injector.ApprovalFor {
			n++
		}
	}
	return n
}

// WaitsFor says whose agreement is missing at now, or "".
func (h Held) WaitsFor(now time.Time) string {
	return injector.DayHeld{ID: h.ID, Hash: h.Hash, Needs: h.Needs, Owners: h.Owners}.WaitsFor(h.Approvals, now)
}

// Note is one line that somebody, or the system, wrote down.
type Note struct {
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	Kind  string    `json:"kind"` // note, debrief, approval, reminder, stop
	Text  string    `json:"text"`
	Run   string    `json:"run,omitempty"`
}

// Ledger keeps game days.
type Ledger interface {
	injector.Clock
	SaveGameDays(ctx context.Context, docs []Document) error
	GameDays(ctx context.Context) ([]Document, error)
	// Announce writes that h comes, or its content anew as long as it has not begun.
	Announce(ctx context.Context, h Held) error
	// Begin makes the runs that plan says, in one step with what it is told of.
	Begin(ctx context.Context, d Document, actor string, at time.Time, plan func(injector.Due) ([]injector.Run, injector.DayHeld, error)) (Held, error)
	// HeldDays lists the newest, newest first; open leaves out what has ended.
	HeldDays(ctx context.Context, open bool, limit int) ([]Held, error)
	HeldDay(ctx context.Context, id string) (Held, []Note, error)
	DayRuns(ctx context.Context, name string, at time.Time) ([]injector.Run, error)
	Agree(ctx context.Context, a injector.Approved) error
	Write(ctx context.Context, day string, n Note) error
	// Remind marks that people are being reminded; false: they were.
	Remind(ctx context.Context, day string, at time.Time) (bool, error)
	Unremind(ctx context.Context, day string) error
	StopDay(ctx context.Context, day, why string) error
	EndDay(ctx context.Context, day string, at time.Time) error
}

// Runs is what of the engine's ledger is needed.
type Runs interface {
	Schedules(ctx context.Context) ([]injector.Schedule, error)
	Documents(ctx context.Context) ([]injector.Document, error)
	// Flows is what came in of late up to now, by route.
	Flows(ctx context.Context, now time.Time) ([]injector.Flow, error)
	Move(ctx context.Context, m injector.Move) error
	Events(ctx context.Context, run string) ([]injector.Event, error)
	Tallies(ctx context.Context, service, run string, since, until time.Time) ([]injector.Point, error)
}

// Reminder is what people are told before a game day.
type Reminder struct {
	Day      Held
	Document scenario.GameDay
	Services []string
	Missing  int // approvals
	// WaitsFor says whose approval is missing; "": nobody's.
	WaitsFor string
}

// Config is what a Desk needs. Ledger, Runs and Scheduler have no default.
type Config struct {
	Ledger    Ledger
	Runs      Runs
	Scheduler *injector.Scheduler
	Budgets   injector.Budgets // nil: no budget is known
	// Audit is told of every change by a person before it takes effect; nil: no audit.
	Audit func(ctx context.Context, actor, action, object, detail string) error
	// Actor says who asks; nil: "unknown".
	Actor func(ctx context.Context) string
	// Covers reports whether whoever asks has a say over a service; nil: everybody.
	Covers func(ctx context.Context, service string) bool
	// Owns reports whether whoever asks speaks for a service; nil: nobody does.
	Owns func(ctx context.Context, service string) bool
	// Remind tells people; nil: nobody. It is called again where it fails.
	Remind func(ctx context.Context, r Reminder) error
	// Readiness answers the fifteen questions for a service; nil: none is answered.
	Readiness func(ctx context.Context, service string) ([]readiness.Answer, error)
	// Findings lists those of a service, for the report; nil: none.
	Findings func(ctx context.Context, f finding.Filter) ([]finding.Finding, error)
	// File draws findings from a run that has ended, once; nil: nothing does. A game
	// day is over only then, so that its report holds them.
	File func(ctx context.Context, r injector.Run) error
	Log  *slog.Logger
}

// Desk is where game days are looked after.
type Desk struct{ cfg Config }

// New returns a Desk.
func New(cfg Config) *Desk {
	if cfg.Audit == nil {
		cfg.Audit = func(context.Context, string, string, string, string) error { return nil }
	}
	if cfg.Actor == nil {
		cfg.Actor = func(context.Context) string { return "unknown" }
	}
	if cfg.Covers == nil {
		cfg.Covers = func(context.Context, string) bool { return true }
	}
	if cfg.Owns == nil {
		cfg.Owns = func(context.Context, string) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Desk{cfg}
}
