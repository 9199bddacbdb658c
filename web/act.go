package web

import (
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"breakwater/injector"
)

type troubleView struct{ Title, Text, Code string }

func (s *Server) trouble(w http.ResponseWriter, v view, status int, title, text string) {
	s.fail(w, v, status, troubleView{Title: title, Text: text})
}

func (s *Server) fail(w http.ResponseWriter, v view, status int, t troubleView) {
	s.show(w, v, status, "trouble", Page{Title: t.Title, Crumbs: []Link{{Name: t.Title}}}, t)
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	s.trouble(w, v, http.StatusNotFound, "Page not found", v.say("Nothing stands at %s.", r.URL.Path))
}

// abort stops one run. Stopping twice is no mistake: the second answer is that of the first.
func (s *Server) abort(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	err := s.cfg.Drills.Abort(r.Context(), id, s.cfg.Actor(r))
	switch {
	case errors.Is(err, injector.ErrNotFound):
		v := s.look(r)
		s.trouble(w, v, http.StatusNotFound, v.say("No run %s", id), "There is no run of this name, so nothing was stopped.")
	case err != nil:
		s.cfg.Log.Error("run cannot be aborted", "run", id, "err", err)
		v := s.look(r)
		s.fail(w, v, http.StatusServiceUnavailable, troubleView{Title: v.say("Run %s was not stopped here", id), Code: "curl -X POST http://127.0.0.1:15000/faults/halt",
			Text: "Control could not write the stop and will when the database is back. It gives no gateway any fault from now on, and faults end by themselves within 15 s of the last lease. To stop at once, halt each gateway on its admin port:"})
	default:
		s.Changed(topicDrills)
		http.Redirect(w, r, runHref(id)+"?said=aborted", http.StatusSeeOther)
	}
}

// halt stops everything, from any page, without a question asked.
func (s *Server) halt(w http.ResponseWriter, r *http.Request) {
	if err := s.cfg.Drills.HaltAll(r.Context(), s.cfg.Actor(r)); err != nil {
		s.cfg.Log.Error("experiments cannot be halted", "err", err)
		s.fail(w, s.look(r), http.StatusServiceUnavailable, troubleView{Title: "Experiments were not stopped here", Code: "curl -X POST http://127.0.0.1:15000/faults/halt",
			Text: "Control could not write the stop and will when the database is back. It gives no gateway any fault from now on, and faults end by themselves within 15 s of the last lease. To stop at once, halt each gateway on its admin port:"})
		return
	}
	s.Changed(topicDrills)
	http.Redirect(w, r, "/runs?said=halted", http.StatusSeeOther)
}

// lift lets experiments start again. Lifting what is not halted is no mistake.
func (s *Server) lift(w http.ResponseWriter, r *http.Request) {
	if !s.cfg.MayLift(r) {
		s.fail(w, s.look(r), http.StatusForbidden, troubleView{Title: "The halt was not lifted", Code: "breakwater halt --lift",
			Text: "Anybody may stop experiments; letting them start again is for operators. With an operator's token:"})
		return
	}
	err := s.cfg.Drills.Resume(r.Context(), s.cfg.Actor(r))
	if errors.Is(err, injector.ErrScope) {
		s.trouble(w, s.look(r), http.StatusForbidden, "The halt was not lifted", "It holds for every service, and you may act on some alone. Ask somebody who may act on all.")
		return
	}
	if err != nil {
		s.cfg.Log.Error("the halt cannot be lifted", "err", err)
		s.trouble(w, s.look(r), http.StatusServiceUnavailable, "The halt was not lifted", "Control could not write it. Everything stays halted; try again when the database is back.")
		return
	}
	s.Changed(topicDrills)
	http.Redirect(w, r, "/runs?said=lifted", http.StatusSeeOther)
}

// menu is the page behind "More" on a phone: plain links.
func (s *Server) menu(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	var p Page
	s.frame(w, v, &p)
	s.show(w, v, http.StatusOK, "menu", Page{Title: "Menu", Crumbs: []Link{{Name: "Menu"}}}, p)
}
