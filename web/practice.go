package web

import (
	"errors"

	"github.com/go-chi/chi/v5"
)

// Practice is what the pages need of game days, of what they find and of how ready
// services are for them, with what takes care of each.
type Practice struct {
	Days        Days
	DayBell     DayBell
	Findings    Findings
	FindingBell FindingBell
	Readiness   Readiness
	ReadyBell   ReadyBell
}

func (p Practice) whole() error {
	if p.Days == nil || p.DayBell == nil || p.Findings == nil || p.FindingBell == nil || p.Readiness == nil || p.ReadyBell == nil {
		return errors.New("web needs game days, findings and readiness, with what takes care of them")
	}
	return nil
}

// practicePages are their templates.
func practicePages() []string {
	return []string{"gameday", "findings", "finding", "readiness", "ready"}
}

// practiceRoutes are where they stand. As with drillRoutes, an address that takes what was
// written answers a question too. Stopping a game day needs no more than a login;
// the other forms ask for the role that the API asks for.
func (s *Server) practiceRoutes(r chi.Router) {
	r.Post("/gamedays", s.startDay)
	r.Get("/gamedays/{id}", pageAgain(s.gameday).plain)
	r.Post("/gamedays/{id}/approve", s.approveDay)
	r.Post("/gamedays/{id}/abort", s.abortDay)
	r.Get("/gamedays/{id}/notes", pageAgain(s.gameday).plain)
	r.Post("/gamedays/{id}/notes", s.noteDay)
	r.Get("/findings", s.findings)
	for _, form := range []string{"", "/close", "/accept"} {
		r.Get("/findings/{key}"+form, pageAgain(s.finding).plain)
	}
	r.Post("/findings/{key}/close", s.closeFinding)
	r.Post("/findings/{key}/accept", s.acceptFinding)
	r.Get("/readiness", s.readiness)
	r.Get("/readiness/{service}", pageAgain(s.ready).plain)
	r.Post("/readiness/{service}", s.answerReady)
}
