package main

import (
	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
)

// drillRoutes is who may look into a drill before and after it, under /api/v1.
func (c *control) drillRoutes(r chi.Router) {
	reads := c.guard.Require(auth.Viewer)
	changes := c.guard.Require(auth.Operator)
	api := c.engine.API()
	r.With(reads).Post("/experiments/preview", api.Preview) // starts nothing
	r.With(reads).Get("/experiments/{id}/evidence/{assertion}", api.Evidence)
	r.With(changes).Delete("/experiments/{id}", api.Delete)
	r.With(reads).Get("/searches", api.Searches)
	r.With(changes).Post("/searches", api.Seek)
	r.With(reads).Get("/searches/{id}", api.Search)
	r.With(reads).Post("/searches/{id}/abort", api.Abandon) // stopping needs no more than a login
}
