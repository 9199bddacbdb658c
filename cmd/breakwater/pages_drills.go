package main

import (
	"context"
	"time"

	"breakwater/injector"
	"breakwater/injector/gameday"
	"breakwater/injector/readiness"
	"breakwater/internal/auth"
	"breakwater/internal/store"
	"breakwater/slo"
	"breakwater/web"
)

// pageDays is what pages read of game days: the desk's own, with what was decided.
type pageDays struct {
	*gameday.Desk
	store *store.Store
}

// Decisions implements web.Days.
func (d pageDays) Decisions(ctx context.Context, from, until time.Time) ([]injector.Occurrence, error) {
	return d.store.DayDecisions(ctx, from, until)
}

// Marks implements web.Days.
func (d pageDays) Marks(ctx context.Context, from, until time.Time) ([]slo.Cause, error) {
	return d.store.DayMarks(ctx, from, until)
}

// pageReadiness is what pages read of the fifteen questions.
type pageReadiness struct {
	*readiness.Recorder
	assess func(ctx context.Context, service string) ([]readiness.Answer, error)
}

// Assess implements web.Readiness.
func (p pageReadiness) Assess(ctx context.Context, service string) ([]readiness.Answer, error) {
	return p.assess(ctx, service)
}

// practice gives the pages game days, findings and readiness; forms on them go
// through the handlers of the API.
func (c *control) practice() web.Practice {
	return web.Practice{
		Days: pageDays{c.days.held, c.store}, DayBell: c.days.held.API(),
		Findings: c.days.findings, FindingBell: c.days.findings.API(),
		Readiness: pageReadiness{c.days.looks, c.readiness}, ReadyBell: c.readyAPI(),
	}
}

// readyAPI are the handlers of readiness.
func (c *control) readyAPI() *readiness.API {
	return readiness.NewAPI(readiness.Source{Assess: c.readiness, Trends: c.days.looks.Look, Looked: c.store.KeepReadyDay, Keeper: c.store, Now: c.store.Now, Log: c.log,
		Actor:  func(ctx context.Context) string { return auth.From(ctx).Name },
		Covers: func(ctx context.Context, service string) bool { return auth.From(ctx).Covers(service) },
		Audit: func(ctx context.Context, actor, action, object, detail string) error {
			return c.store.Audit(ctx, auth.Entry{Actor: actor, Action: action, Object: object, Detail: detail})
		}})
}
