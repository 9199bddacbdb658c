package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/report"
)

// sloRoutes is who may look back at promises, and who may correct them, under
// /api/v1.
func (c *control) sloRoutes(r chi.Router) {
	reads := c.guard.Require(auth.Viewer)
	changes := c.guard.Require(auth.Operator)
	marks := c.guard.Require(auth.Operator, auth.Pipeline) // pipelines tell of deploys
	desk := report.NewDesk(c.slo, c.store, c.slo.Policy(), nil)
	r.With(reads).Get("/slos/{id}/attribution", desk.Attribution)
	r.With(reads).Get("/slos/{id}/backtest", desk.Backtest)
	r.With(reads).Get("/slos/{id}/revisions", desk.Revisions)
	r.With(reads).Get("/slos/{id}/corrections", desk.Correct)
	r.With(changes).Post("/slos/{id}/corrections", desk.Correct)
	r.With(changes).Delete("/slos/{id}/corrections/{correction}", desk.Correct)
	r.With(changes).Post("/slos/{id}/recompute", desk.Recompute)
	r.With(marks).Method(http.MethodPost, "/events/deploys", desk.Mark(slo.ByDeploy))
	r.With(marks).Method(http.MethodPost, "/events/incidents", desk.Mark(slo.ByIncident))
}
