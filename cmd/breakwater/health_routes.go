package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"breakwater/gateway/config"
	"breakwater/gateway/explain"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/slo"
	"breakwater/slo/report"
)

// healthRoutes is who may look at health scores and periodic reports, under /api/v1.
func (c *control) healthRoutes(r chi.Router) {
	reads := c.guard.Require(auth.Viewer)
	r.With(reads).Method(http.MethodGet, "/health-scores", c.healthDesk())
	r.With(reads).Method(http.MethodGet, "/reports/budget", &report.ReviewDesk{Source: c.slo, Ledger: c.store, Trail: c.store})
}

func (c *control) healthDesk() *report.HealthDesk {
	return &report.HealthDesk{Ledger: c.store, Documents: c.retryDocuments}
}

// watchHealth audits by itself what falls below the line, and tells the log.
func (c *control) watchHealth(ctx context.Context) error {
	w := &report.Watch{Desk: c.healthDesk(), Told: func(h report.Health) {
		for _, a := range h.Audit {
			c.log.Warn("health score is below the line", "upstream", h.Upstream, "env", h.Env, "score_ppm", h.ScorePPM, "since", h.Since,
				"subject", a.Subject, "advice", a.Should, "why", a.Why)
		}
	}}
	return w.Run(ctx, func(err error) { c.log.Error("health scores are not looked at", "err", err) })
}

// retryDocuments tells of the documents control was given: the retry policies of the
// routes that ask an upstream, and what the validator says of their files.
func (c *control) retryDocuments(_ context.Context, upstream string) ([]slo.HealthRoute, []string) {
	if c.set.config == "" {
		return nil, nil
	}
	files, err := conf.Load(c.set.config)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var log conf.Log
	var routes []slo.HealthRoute
	for _, r := range config.Parse(files, &log).Routes {
		asks := r.Upstream == upstream || slices.ContainsFunc(r.Split, func(b config.Branch) bool { return b.Upstream == upstream })
		if !asks {
			continue
		}
		routes = append(routes, slo.HealthRoute{Name: r.Name, Enabled: r.Retry.Active(), MaxRetries: int64(r.Retry.MaxRetries), PerTry: r.Retry.PerTry,
			Backoff: r.Retry.BackoffBase, OnStatus: r.Retry.OnStatus})
	}
	var findings []string
	for _, m := range explain.Validate(files).Findings {
		if strings.Contains(m.Path, "retry") || strings.Contains(m.Text, "retr") || strings.Contains(m.Text, upstream) {
			findings = append(findings, m.Error())
		}
	}
	return routes, findings
}
