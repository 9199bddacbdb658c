package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"breakwater/internal/auth"
	"breakwater/slo/report"
)

// routes is who may ask control for what; the whole table stands here.
func (c *control) routes() chi.Router {
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(c.guard.Hosts)
		r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
		r.Get("/readyz", c.readyz)
	})

	reads := c.guard.Require(auth.Viewer)               // and whoever may more
	asks := c.guard.Require(auth.Viewer, auth.Pipeline) // people and pipelines
	changes := c.guard.Require(auth.Operator)           // documents, drills
	grants := c.guard.Require(auth.Approver)            // approvals, never one's own
	gateway := c.guard.Require(auth.Gateway)            //
	stops := c.guard.Require(auth.Viewer)               // stopping a fault needs no more than a login
	api := c.engine.API()
	budgets := report.Handler(c.slo, c.store)

	r.With(asks).Method(http.MethodGet, "/metrics", promhttp.HandlerFor(c.metrics, promhttp.HandlerOpts{}))
	r.Route("/api/v1", func(r chi.Router) {
		r.With(gateway).Method(http.MethodPost, "/events", c.ingest)
		r.With(changes).Method(http.MethodPost, "/events/files", c.ingest.Files())
		r.With(gateway).Method(http.MethodGet, "/plan", c.engine.PlanHandler())
		r.With(asks).Method(http.MethodGet, "/gate/decision", c.gate.Handler())
		r.With(reads).Get("/experiments", api.List)
		r.With(changes).Post("/experiments", api.Create)
		r.With(reads).Get("/experiments/{id}", api.Show)
		r.With(stops).Post("/experiments/{id}/abort", api.Abort)
		r.With(grants).Post("/experiments/{id}/approve", api.Approve)
		r.With(stops).Post("/halt", api.Halt)
		r.With(changes).Delete("/halt", api.Resume)
		r.With(reads).Get("/gamedays", api.GameDays)
		for _, pattern := range []string{"/services", "/slos", "/slos/{id}", "/slos/{id}/budget"} {
			r.With(asks).Method(http.MethodGet, pattern, budgets)
		}
		c.sloRoutes(r)
		c.freezeRoutes(r)
		c.nowRoutes(r)
		c.dialectRoutes(r)
		c.drillRoutes(r)
		c.dayRoutes(r)
		c.healthRoutes(r)
		c.requestRoutes(r)
		c.configRoutes(r)
		r.With(reads).Method(http.MethodGet, "/stream", c.pages.Stream())
	})
	c.signinRoutes(r)
	// Pages: reading and stopping, both for whoever is logged in.
	r.With(reads).Mount("/", c.pages.Handler())
	return r
}

func (c *control) readyz(w http.ResponseWriter, _ *http.Request) {
	switch health := c.slo.Health(); {
	case !c.ready.Load():
		http.Error(w, "the database is not ready yet", http.StatusServiceUnavailable)
	case !health.AwaySince.IsZero():
		http.Error(w, "the database is away since "+health.AwaySince.UTC().Format("15:04:05Z"), http.StatusServiceUnavailable)
	case health.LastAt.IsZero():
		http.Error(w, "nothing is evaluated yet", http.StatusServiceUnavailable)
	default:
		_, _ = w.Write([]byte("ready\n"))
	}
}
