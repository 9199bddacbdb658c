package main

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/sync/errgroup"

	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/freeze"
)

// releases is what control knows of freezes and how it tells of incidents.
type releases struct {
	book      *freeze.Book
	protector *freeze.Protector
	assigner  *freeze.Assigner
	alerts    *alert.Engine
	asker     *alert.Asker // of causes, at a Prometheus
	firing    *firing      // alerts of others
	hear      func(context.Context, time.Time) ([]alert.Foreign, error)
}

// newReleases makes both. The evaluator asks the book for policies, and alerts ask
// the evaluator: statuses is called only once control runs.
func (c *control) newReleases(statuses func() []slo.Status) releases {
	book := freeze.NewBook(withFindings{c.store}, c.log)
	alerts := alert.New(alert.Config{Source: evaluation(statuses), Ledger: c.store, Outbox: c.store, Sender: alert.Sender{Pages: c.pagesAt}, Log: c.log,
		More: func(now time.Time) []alert.Symptom { return brokenGlass(book.Known().Overrides, now) }})
	return releases{
		book: book, protector: freeze.NewProtector(evaluation(statuses), book, c.store, c.log),
		assigner: &freeze.Assigner{Source: evaluation(statuses), Book: book, Ledger: c.store},
		alerts:   alerts, asker: &alert.Asker{Queries: alerts.Queries, Keep: c.store.AddFact, Log: c.log},
		firing: &firing{}, hear: c.store.Firing,
	}
}

// evaluation is the last evaluation, as a function.
type evaluation func() []slo.Status

func (s evaluation) Statuses() []slo.Status { return s() }

// freezeRoutes is who may freeze, ask for an override, grant one, and look after
// incidents, under /api/v1.
func (c *control) freezeRoutes(r chi.Router) {
	reads := c.guard.Require(auth.Viewer)
	asks := c.guard.Require(auth.Viewer, auth.Pipeline)
	changes := c.guard.Require(auth.Operator)
	grants := c.guard.Require(auth.Approver)
	people := c.guard.Require(auth.Operator, auth.Approver)
	tells := c.guard.Require(auth.Operator, auth.Pipeline)
	desk := freeze.NewDesk(c.slo, c.releases.book, c.store, nil)
	r.With(asks).Get("/gate/key", desk.PublicKey)
	r.With(asks).Get("/freezes", desk.List)
	r.With(asks).Get("/measures", desk.Measures(c.store))
	c.gateLogRoutes(r, asks, desk)
	r.With(changes).Post("/freezes/{service}", desk.On)
	r.With(changes).Delete("/freezes/{service}", desk.Off)
	r.With(changes).Post("/freezes/{service}/override", desk.Ask)
	r.With(grants).Post("/freezes/{service}/override/{id}/grant", desk.Grant)
	r.With(reads).Post("/freezes/{service}/override/{id}/revoke", desk.Revoke)
	r.With(people).Post("/freezes/{service}/attest", desk.Attest)

	bell := alert.NewDesk(c.releases.alerts, c.store, nil)
	r.With(reads).Get("/alerts", bell.List)
	r.With(reads).Get("/alerts/{id}", bell.Show)
	r.With(changes).Post("/alerts/{id}/ack", bell.Ack)
	r.With(tells).Post("/alerts/facts", bell.Tell)
	r.With(changes, c.audited("alert.test", "every receiver")).Method(http.MethodPost, "/alerts/test", bell.Test())
	r.With(reads).Get("/silences", bell.Silences)
	r.With(changes).Post("/silences", bell.Silence)
	r.With(changes).Delete("/silences/{id}", bell.Unsilence)
	c.alertRoutes(r, bell)
}

// documents puts the policies and routes among files in force. With a mistake
// anywhere in a kind, what held before goes on to hold.
func (l releases) documents(files []conf.File, log func(msg string, err error)) {
	var mistakes conf.Log
	policies := freeze.Parse(files, &mistakes)
	if err := mistakes.Err(); err != nil {
		log("FreezePolicy documents are not taken", err)
	} else {
		l.book.Rule(policies)
	}
	mistakes = conf.Log{}
	routes := alert.ParseRoutes(files, &mistakes)
	if err := mistakes.Err(); err != nil {
		log("AlertRoute documents are not taken", err)
	} else {
		l.alerts.Route(routes)
	}
}

// run keeps both at work until ctx ends.
func (l releases) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.book.Run(ctx) })
	g.Go(func() error { return l.protector.Run(ctx) })
	g.Go(func() error { return l.assigner.Run(ctx) })
	g.Go(func() error { return l.alerts.Run(ctx) })
	g.Go(func() error { return l.asker.Run(ctx) })
	g.Go(func() error { return l.firing.Run(ctx, l.hear) })
	return g.Wait()
}
