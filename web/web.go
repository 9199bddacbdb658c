// Package web shows what the ledger knows and what the drills do: pages of
// html/template that read and post without script, and a stream that tells open
// pages which part of them has changed.
//
// It computes nothing. Numbers and their words come from domain values, so that
// a figure on a page is the figure of the API, the alert and the gate; the only
// arithmetic here is where a line goes on a chart.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"breakwater/injector"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/gate"
)

// Ledger is what the pages need from the SLO service.
type Ledger interface {
	// Statuses is the last evaluation of every objective; it never waits for
	// the database, so pages answer while it is away.
	Statuses() []slo.Status
	// DatabaseAway reports whether the database is out of reach, and since when.
	DatabaseAway() (since time.Time, away bool)
	// Points is the burn-down of one objective in one environment, one point a step.
	Points(ctx context.Context, o slo.Objective, env string, from, to time.Time, step time.Duration) ([]slo.Point, error)
	// Recent is the last n failures of a service, newest first.
	Recent(ctx context.Context, service string, n int) ([]retrylog.Exchange, error)
}

// Drills is what the pages need from the injector.
type Drills interface {
	Runs(ctx context.Context, limit int) ([]injector.Run, error) // newest first
	Active(ctx context.Context) ([]injector.Run, error)          // those under way, as in Runs
	// Run is one of them; an error that is injector.ErrNotFound is a 404.
	Run(ctx context.Context, id string) (injector.Run, error)
	Events(ctx context.Context, run string) ([]injector.Event, error)
	Schedules(ctx context.Context) ([]injector.Schedule, error)
	// Series is what gateways counted for a service in (since, until], oldest
	// first; run "" is its whole traffic.
	Series(ctx context.Context, service, run string, since, until time.Time) ([]injector.Point, error)
	Abort(ctx context.Context, id, actor string) error
	HaltAll(ctx context.Context, actor string) error
	// Halted says since when and by whom everything is halted; zero: nothing is.
	Halted(ctx context.Context) (injector.Halt, error)
	Resume(ctx context.Context, actor string) error
}

// Gate answers whether a feature of a service may go out now. Looking at a page
// is no question of a pipeline, so the answer is not recorded.
type Gate interface {
	Decide(ctx context.Context, service string) (gate.Decision, error)
}

// Config is what a Server needs. All that pages read of is required.
type Config struct {
	Ledger     Ledger
	Drills     Drills
	Gate       Gate
	Situations Situations
	Alerts     Alerts
	Bell       Bell
	Promises   Promises
	Traffic    Traffic
	Releases   Releases
	Scenarios  Scenarios
	Setup      Setup
	Env        string         // shown before the page name; "" is "default"
	Zone       *time.Location // of the times on pages; nil is UTC
	// Now is the clock of the pages; nil is time.Now.
	Now func() time.Time
	// Hosts are the names pages may be asked under, beside loopback and bare
	// addresses; it stops DNS rebinding. Empty allows any name.
	Hosts []string
	// Actor names who sent a request, for the audit; nil says "web".
	Actor func(*http.Request) string
	// MayLift reports whether who sent a request may lift a halt: anybody who reads
	// may stop everything, but starting again takes more. nil: nobody may.
	MayLift func(*http.Request) bool
	// MayGrant reports whether who sent a request may grant an override; nil: nobody.
	MayGrant func(*http.Request) bool
	// PolicyFor is the freeze policy of a service; nil: the default one of all.
	PolicyFor func(service, env string) slo.Policy
	// Covers reports whether who sent a request may see a service; nil: all may be seen.
	Covers func(r *http.Request, service string) bool
	// Heartbeat is the pause between comments on a silent stream; 0 is 15 s.
	Heartbeat time.Duration
	Log       *slog.Logger // nil is slog.Default
	Practice
	Logbook
}
