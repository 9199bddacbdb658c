package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/slo/now"
)

// newNowDesk makes what answers people on call.
func (c *control) newNowDesk() *now.Desk {
	return &now.Desk{Ledger: c.store, Source: c.slo, Measures: c.measuresFor, Env: c.set.env, Log: c.log}
}

// measuresFor says what is in force for a service by policy or by hand, from memory.
func (c *control) measuresFor(service, env string) (out []string) {
	at := time.Now()
	for _, m := range c.releases.protector.Live(at) {
		if m.Service == service && (m.Env == "" || m.Env == env) {
			out = append(out, m.Text()+": "+m.Reason)
		}
	}
	for _, o := range c.releases.book.Known().Orders {
		if o.Service == service && (o.Env == "" || o.Env == env) && o.Live(at) {
			out = append(out, fmt.Sprintf("releases are frozen by %s: %s", o.By, o.Reason))
		}
	}
	return out
}

// nowRoutes is who may ask how things stand, under /api/v1.
func (c *control) nowRoutes(r chi.Router) {
	r.With(c.guard.Require(auth.Viewer)).Method(http.MethodGet, "/now", c.situations)
}
