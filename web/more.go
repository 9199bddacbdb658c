package web

import (
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"breakwater/slo"
)

// morePages are the templates of the pages that look into traffic and promises.
func morePages() []string {
	return []string{"now", "slos", "slo", "breakers", "retries", "alerts", "alert", "find"}
}

// moreRoutes are where they stand.
func (s *Server) moreRoutes(r chi.Router) {
	r.Get("/find", s.find)
	r.Get("/now", s.nowPage)
	r.Get("/breakers", s.breakers)
	r.Get("/retries", s.retries)
	r.Get("/alerts", pageAgain(s.alerts).plain)
	r.Get("/alerts/{id}", pageAgain(s.alert).plain)
	r.Get("/alerts/{id}/ack", pageAgain(s.alert).plain)
	r.Post("/alerts/{id}/ack", s.ackAlert)
	r.Get("/silences", pageAgain(s.alerts).plain)
	r.Post("/silences", s.addSilence)
	r.Post("/silences/{id}/end", s.endSilence)
	r.Get("/slos", s.slos)
	r.Get("/slos/{id}", s.slo)
	s.practiceRoutes(r)
	r.Get("/gate/overrides", pageAgain(s.gate).plain)
	r.Post("/gate/overrides", s.askOverride)
	r.Post("/gate/policy", s.savePolicy)
	r.Post("/gate/overrides/{service}/{id}/grant", s.grantOverride)
	r.Post("/gate/overrides/{service}/{id}/revoke", s.revokeOverride)
	s.drillRoutes(r)
	s.logRoutes(r)
}

// whole fills what may be left out, and refuses what may not.
func (c *Config) whole() error {
	if c.Situations == nil || c.Alerts == nil || c.Promises == nil || c.Traffic == nil || c.Bell == nil || c.Releases == nil {
		return errors.New("web needs situations, alerts with what takes care of them, promises, traffic and releases")
	}
	if c.MayGrant == nil {
		c.MayGrant = func(*http.Request) bool { return false }
	}
	if c.Scenarios == nil || c.Setup == nil {
		return errors.New("web needs scenarios and what sets an installation up")
	}
	if c.Covers == nil {
		c.Covers = func(*http.Request, string) bool { return true }
	}
	if c.PolicyFor == nil {
		c.PolicyFor = func(string, string) slo.Policy { return slo.DefaultPolicy() }
	}
	return errors.Join(c.Practice.whole(), c.Logbook.whole())
}
