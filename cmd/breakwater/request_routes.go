package main

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/slo/request"
)

// requestRoutes is who may look into the log of single requests, under /api/v1: the
// list, and one of them, which breakwater explain --event asks for.
func (c *control) requestRoutes(r chi.Router) {
	reads := c.guard.Require(auth.Viewer)
	api := request.API{Log: c.store, Error: c.log}
	r.With(reads).Get("/events", api.List)
	r.With(reads).Get("/events/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := chi.URLParam(r, "id")
		if plain, err := url.PathUnescape(id); r.URL.RawPath != "" && err == nil {
			id = plain // chi matches the escaped path where that differs from the usual form
		}
		api.Show(w, r, id)
	})
}
