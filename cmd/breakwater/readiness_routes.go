package main

import (
	"context"
	"slices"

	"github.com/go-chi/chi/v5"

	"breakwater/injector/readiness"
	"breakwater/internal/auth"
)

// looks writes down, day by day, how ready every service is.
func (c *control) looks() *readiness.Recorder {
	return &readiness.Recorder{Services: c.judged, Assess: c.readiness, Now: c.store.Now, Days: c.store, Log: c.log,
		Ready: func() bool { return !c.slo.Health().LastAt.IsZero() }}
}

// judged are the services that documents or promises name, by name.
func (c *control) judged(context.Context) ([]string, error) {
	var out []string
	if cfg, ok := c.documents(); ok {
		for _, s := range cfg.Services {
			out = append(out, s.Name)
		}
		for _, r := range cfg.Routes {
			out = append(out, r.Service)
		}
	}
	for _, s := range c.slo.Statuses() {
		out = append(out, s.Objective.Service)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(name string) bool { return name == "" }), nil
}

// readinessRoutes is who may ask how ready a service is, and answer what only people
// know, under /api/v1.
func (c *control) readinessRoutes(r chi.Router) {
	reads := c.guard.Require(auth.Viewer)
	people := c.guard.Require(auth.Operator, auth.Approver)
	ready := c.readyAPI()
	r.With(reads).Get("/readiness", ready.All)
	r.With(reads).Get("/readiness/{service}", ready.Show)
	r.With(reads).Get("/readiness/{service}/trend", ready.Trend)
	r.With(people).Post("/readiness/{service}", ready.Answer)
}
