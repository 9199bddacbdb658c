package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/slo/now"
)

// newNowDesk makes what answers people on call.
func (c *control) newNowDesk() *now.Desk {
	return &now.Desk{Ledger: c.store, Source: c.slo, Log: c.log}
}

// nowRoutes is who may ask how things stand, under /api/v1.
func (c *control) nowRoutes(r chi.Router) {
	r.With(c.guard.Require(auth.Viewer)).Method(http.MethodGet, "/now", c.situations)
}
