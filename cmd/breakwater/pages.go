package main

import (
	"net/http"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/web"
)

// looking gives the pages what they look at beside budgets, drills and the gate.
func (c *control) looking(cfg web.Config) web.Config {
	cfg.Situations, cfg.Alerts, cfg.Promises, cfg.Traffic = c.situations, c.store, c.store, c.store
	cfg.Bell = alert.NewDesk(c.releases.alerts, c.store, nil)
	cfg.Practice = c.practice()
	cfg.Scenarios = pageScenarios{c.store, c.engine.Desk(), c.engine.API()}
	cfg.Setup = &setupDesk{c: c}
	cfg.PolicyFor = func(service, env string) slo.Policy { return c.releases.book.PolicyFor(service, env).Levels }
	cfg.Releases = c.pageReleases()
	cfg.MayGrant = func(r *http.Request) bool { return auth.From(r.Context()).May(auth.Approver) }
	cfg.Logbook = web.Logbook{Requests: c.store, Configs: c.store}
	cfg.Covers = func(r *http.Request, service string) bool { return auth.From(r.Context()).Covers(service) }
	return cfg
}
