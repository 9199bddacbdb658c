package web

import (
	"errors"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/gateway/explain"
	"breakwater/slo/request"
)

// Logbook is what the pages need of single requests, and of the configurations under
// which they were decided.
type Logbook struct {
	Requests request.Log
	Configs  Configs
}

func (l Logbook) whole() error {
	if l.Requests == nil || l.Configs == nil {
		return errors.New("web needs the log of requests and configurations")
	}
	return nil
}

// logPages are their templates.
func logPages() []string { return []string{"requests", "request", "simulator"} }

// logRoutes are where they stand. The simulator changes nothing, so who may read may
// ask it.
func (s *Server) logRoutes(r chi.Router) {
	r.Get("/requests", s.requests)
	r.Get("/requests/{id}", s.request)
	r.Get("/simulator", s.simulator)
	r.Post("/simulator", s.simulate)
	r.Post("/simulator/compare", s.compare)
}

// newEngines keeps the engines of the revisions that are looked at: to read one of a
// thousand routes takes a while, and a revision never changes.
func newEngines() memo[*explain.Engine] {
	return memo[*explain.Engine]{keep: 10 * time.Minute, most: 16}
}
