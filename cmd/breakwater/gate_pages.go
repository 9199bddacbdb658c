package main

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/internal/store"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
	"breakwater/web"
)

// gateLogRoutes are who may look up what the gate answered, and what was frozen.
func (c *control) gateLogRoutes(r chi.Router, asks func(http.Handler) http.Handler, desk *freeze.Desk) {
	r.With(asks).Get("/freezes/history", desk.History(c.store))
	c.deployRoutes(r, asks, desk)
	r.With(asks).Get("/gate/decisions", gate.LogHandler(c.store))
	r.With(asks).Get("/gate/decisions/{id}", gate.LoggedHandler(c.store))
}

// pageReleases are freezes, measures, decisions and overrides as the page of the gate
// sees them: from the code of the API.
type pageReleases struct {
	*freeze.Desk
	book  *freeze.Book
	store *store.Store
	c     *control
}

var _ web.Releases = pageReleases{}

func (c *control) pageReleases() pageReleases {
	return pageReleases{freeze.NewDesk(c.slo, c.releases.book, c.store, nil), c.releases.book, c.store, c}
}

func (p pageReleases) Protecting(ctx context.Context, since time.Time) ([]freeze.Shown, error) {
	return p.Desk.Protecting(ctx, p.store, "", since)
}

func (p pageReleases) Deploying(ctx context.Context, since time.Time) ([]slo.Deploy, []freeze.CapState, error) {
	return p.Desk.Deploying(ctx, p.store, "", since)
}

func (p pageReleases) Frozen(ctx context.Context, since time.Time) ([]freeze.Span, error) {
	return p.Desk.Frozen(ctx, p.store, "", since)
}

func (p pageReleases) Decisions(ctx context.Context, q gate.Search) ([]gate.Logged, error) {
	return gate.Log(ctx, p.store, q)
}

func (p pageReleases) Overrides(ctx context.Context, since time.Time) ([]freeze.Override, error) {
	all, err := p.store.Overrides(ctx, "", since, 1000)
	var mine []freeze.Override
	for _, o := range all {
		if auth.From(ctx).Covers(o.Service) {
			mine = append(mine, o)
		}
	}
	return mine, err
}

// SavePolicy is the handler of the API.
func (p pageReleases) SavePolicy(w http.ResponseWriter, r *http.Request) {
	p.Desk.SavePolicy(policyShelf{p.c})(w, r)
}

// Shelf says where policies lie, and why they cannot be written there; "": they can.
func (p pageReleases) Shelf() (place, closed string) {
	at := (&setupDesk{c: p.c}).Place()
	return at.Path, at.Closed
}

func (p pageReleases) Quarters(ctx context.Context) ([]freeze.OverrideQuarter, error) {
	return p.Desk.Quarters(ctx, p.store)
}

func (p pageReleases) Policies() []freeze.Policy { return p.book.Known().Policies }
