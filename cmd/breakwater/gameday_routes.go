package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/sync/errgroup"

	"breakwater/injector"
	weakness "breakwater/injector/finding" // doctor has findings of its own
	"breakwater/injector/gameday"
	"breakwater/injector/readiness"
	"breakwater/internal/auth"
	"breakwater/internal/store"
	"breakwater/slo/alert"
	"breakwater/slo/freeze"
)

// days are game days and what they find.
type days struct {
	held     *gameday.Desk
	findings *weakness.Desk
	looks    *readiness.Recorder
}

func (c *control) newDays() days {
	audit := func(ctx context.Context, actor, action, object, detail string) error {
		return c.store.Audit(ctx, auth.Entry{Actor: actor, Action: action, Object: object, Detail: detail})
	}
	actor := func(ctx context.Context) string { return auth.From(ctx).Name }
	covers := func(ctx context.Context, service string) bool { return auth.From(ctx).Covers(service) }
	findings := weakness.New(weakness.Config{
		Ledger: c.store, Audit: audit, Actor: actor, Covers: covers, Incident: c.store.BadTime, Log: c.log,
		Tell: func(ctx context.Context, f weakness.Finding, why string) error {
			return c.tell(ctx, f.ID, []string{f.Service}, fmt.Sprintf("finding %s (%s, %s) of %s: %s", f.ID, f.Severity, f.Owner, f.Service, why))
		},
	})
	return days{findings: findings, looks: c.looks(), held: gameday.New(gameday.Config{
		Ledger: c.store, Runs: c.store, Scheduler: c.engine.Scheduler(), Budgets: c.barred(), Audit: audit, Actor: actor, Covers: covers,
		Owns: c.owns, Remind: c.remind, Readiness: c.readiness, Findings: c.store.Findings, File: findings.File, Log: c.log,
	})}
}

// skewEnv puts the clock off by which this control decides what is due. It is for
// tests that show how little it matters; nobody needs it.
const skewEnv = "BREAKWATER_TEST_SKEW"

// ledger is what the engine keeps its runs in.
func (c *control) ledger() injector.Ledger {
	off, err := time.ParseDuration(os.Getenv(skewEnv))
	if err != nil || off == 0 {
		return c.store
	}
	c.log.Warn("the clock is put off, by "+skewEnv, "by", off)
	return skewed{c.store, off}
}

type skewed struct {
	*store.Store
	by time.Duration
}

func (s skewed) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(s.by), err
}

func (d days) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.held.Run(ctx) })
	g.Go(func() error { return d.findings.Run(ctx) })
	g.Go(func() error { return d.looks.Run(ctx) })
	return g.Wait()
}

// dayRoutes is who may look at game days and findings, hold them, agree to them, and
// answer what only people know, under /api/v1.
func (c *control) dayRoutes(r chi.Router) {
	reads := c.guard.Require(auth.Viewer)
	changes := c.guard.Require(auth.Operator)
	grants := c.guard.Require(auth.Approver)
	people := c.guard.Require(auth.Operator, auth.Approver)
	held, found := c.days.held.API(), c.days.findings.API()
	r.With(changes).Post("/gamedays", held.Start)
	r.With(reads).Get("/gamedays.ics", held.Feed)
	r.With(reads).Get("/gamedays/held", held.Held)
	r.With(reads).Get("/gamedays/{id}", held.Show)
	r.With(reads).Get("/gamedays/{id}/next", held.Next)
	r.With(reads).Get("/gamedays/{id}/report", held.Report)
	r.With(grants).Post("/gamedays/{id}/approve", held.Approve)
	r.With(reads).Post("/gamedays/{id}/abort", held.Abort) // stopping needs no more than a login
	r.With(people).Post("/gamedays/{id}/notes", held.Write)
	r.With(reads).Get("/findings", found.List)
	r.With(reads).Get("/findings/scenario", found.FromIncident)
	r.With(reads).Get("/findings/{id}", found.Show)
	r.With(changes).Post("/findings/{id}/close", found.Close)
	r.With(grants).Post("/findings/{id}/accept", found.Accept)
	c.readinessRoutes(r)
}

// remind tells people of a game day that comes.
func (c *control) remind(ctx context.Context, r gameday.Reminder) error {
	text := fmt.Sprintf("game day %s (%s) begins at %s", r.Day.Title, r.Day.ID, r.Day.PlannedAt.UTC().Format("2006-01-02 15:04Z"))
	if r.WaitsFor != "" {
		text += "; approvals missing: " + r.WaitsFor
	}
	if r.Document.Roles.Commander != "" {
		text += "; commander " + r.Document.Roles.Commander
	}
	return c.tell(ctx, r.Day.ID+"-reminder", r.Services, text)
}

// tell puts one sentence into the outbox of alerts, for whoever hears of tickets of
// one of services. It opens nothing that would have to be closed: receivers that
// keep a state are told of the end at once.
func (c *control) tell(ctx context.Context, id string, services []string, text string) error {
	now, err := c.store.Now(ctx)
	if err != nil {
		return err
	}
	slices.Sort(services)
	i := alert.Incident{ID: id, Service: strings.Join(services, ","), Env: c.set.env, Class: alert.Causes, Tier: alert.L2, Severity: alert.Ticket,
		Title: text, OpenedAt: now, LastSeen: now, Symptoms: []alert.Lasting{}, Facts: []alert.Lasting{}}
	over := i
	over.ClosedAt = &now
	stamp := fmt.Sprintf("%s-%d", id, now.UnixMilli())
	var out []alert.Delivery
	for _, route := range c.releases.alerts.Routes() {
		hears := len(route.Services) == 0 || slices.ContainsFunc(services, func(s string) bool { return slices.Contains(route.Services, s) })
		if !hears || len(route.Envs) > 0 && !slices.Contains(route.Envs, c.set.env) || route.Least != alert.Ticket {
			continue
		}
		for _, x := range route.Receivers {
			to := route.Name + "/" + x.Name
			out = append(out, alert.Delivery{Receiver: to, Message: alert.Message{ID: stamp + "-said", Kind: alert.Opened, At: now, Incident: i}})
			if x.Type == alert.Alertmanager || x.Type == alert.PagerDuty {
				out = append(out, alert.Delivery{Receiver: to, Message: alert.Message{ID: stamp + "-over", Kind: alert.Resolved, At: now, Incident: over}})
			}
		}
	}
	return c.store.Enqueue(ctx, out)
}

// withFindings adds to what is frozen by hand the services whose severe findings are
// overdue: releases stop until somebody says that they are mended, or answers for
// them.
type withFindings struct{ *store.Store }

func (s withFindings) Known(ctx context.Context, now time.Time) (freeze.Known, error) {
	k, err := s.Store.Known(ctx, now)
	if err != nil {
		return k, err
	}
	late, err := s.Findings(ctx, weakness.Filter{Overdue: true, Now: now})
	if err != nil {
		return k, err
	}
	for _, f := range late {
		if f.Severe() {
			k.Orders = append(k.Orders, freeze.Order{ID: f.ID, Service: f.Service, By: "findings", At: f.DueAt, Ticket: f.ID,
				Reason: fmt.Sprintf("%s finding %s is overdue since %s: %s", f.Severity, f.ID, f.DueAt.UTC().Format(time.DateOnly), f.Title)})
		}
	}
	return k, nil
}
