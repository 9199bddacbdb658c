package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// DayBell takes what people do about game days: the handlers of the API, so that a
// form is judged, audited and bounded by scope as a call is.
type DayBell interface {
	Start(w http.ResponseWriter, r *http.Request)
	Approve(w http.ResponseWriter, r *http.Request)
	Abort(w http.ResponseWriter, r *http.Request)
	Write(w http.ResponseWriter, r *http.Request)
}

// approver refuses who may not grant. As with operator, forms are not offered to them.
func (s *Server) approver(w http.ResponseWriter, r *http.Request, what string) bool {
	if s.cfg.MayGrant(r) {
		return true
	}
	s.trouble(w, s.look(r), http.StatusForbidden, what, "This takes an approver; whoever is logged in may look.")
	return false
}

// helper refuses who may neither change nor grant.
func (s *Server) helper(w http.ResponseWriter, r *http.Request, what string) bool {
	if s.cfg.MayLift(r) || s.cfg.MayGrant(r) {
		return true
	}
	s.trouble(w, s.look(r), http.StatusForbidden, what, "This takes an operator or an approver; whoever is logged in may look.")
	return false
}

// asked sends a form in which nothing is written on to a handler of the API, and says
// what was wrong.
func (s *Server) asked(w http.ResponseWriter, r *http.Request, call http.HandlerFunc, path map[string]string, body any, wrong string) bool {
	return s.filled(w, r, nil, "", call, path, body, wrong)
}

// filled is asked for a form in which something is written: where it is refused, its page
// is shown again.
func (s *Server) filled(w http.ResponseWriter, r *http.Request, page pageAgain, form string, call http.HandlerFunc, path map[string]string, body any, wrong string) bool {
	status, text := relay(r, call, http.MethodPost, path, body)
	if text == "" {
		s.Changed(topicDrills)
		return true
	}
	s.refuse(w, r, page, form, status, wrong, sentence(text))
	return false
}

// small bounds what a form may send.
func small(w http.ResponseWriter, r *http.Request) { r.Body = http.MaxBytesReader(w, r.Body, maxForm) }

func (s *Server) startDay(w http.ResponseWriter, r *http.Request) {
	small(w, r)
	if !s.operator(w, r, "Not held") {
		return
	}
	name := r.PostFormValue("gameday")
	if s.asked(w, r, s.cfg.DayBell.Start, nil, map[string]string{"gameday": name}, "Not held") {
		http.Redirect(w, r, dayHref(name)+"?said=started", http.StatusSeeOther)
	}
}

func (s *Server) approveDay(w http.ResponseWriter, r *http.Request) {
	small(w, r)
	if !s.approver(w, r, "Not approved") {
		return
	}
	id, hash := chi.URLParam(r, "id"), r.PostFormValue("hash")
	// The content that was on the page: without it, or with another, nobody knows what
	// was agreed to.
	if hash == "" {
		s.trouble(w, s.look(r), http.StatusUnprocessableEntity, "Not approved", "The form must name the content that is agreed to.")
		return
	}
	if s.asked(w, r, s.cfg.DayBell.Approve, map[string]string{"id": id}, map[string]string{"hash": hash}, "Not approved") {
		http.Redirect(w, r, dayHref(id)+"?said=approved", http.StatusSeeOther)
	}
}

// abortDay stops all of a game day: it needs no more than a login.
func (s *Server) abortDay(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if s.asked(w, r, s.cfg.DayBell.Abort, map[string]string{"id": id}, struct{}{}, "Not stopped") {
		http.Redirect(w, r, dayHref(id)+"?said=stopped", http.StatusSeeOther)
	}
}

func (s *Server) noteDay(w http.ResponseWriter, r *http.Request) {
	small(w, r)
	if !s.helper(w, r, phrase("Not written down")) {
		return
	}
	id := chi.URLParam(r, "id")
	kind := r.PostFormValue("kind")
	if s.filled(w, r, s.gameday, kind, s.cfg.DayBell.Write, map[string]string{"id": id}, map[string]string{"kind": kind, "text": r.PostFormValue("text")}, "Not written down") {
		http.Redirect(w, r, dayHref(id)+"?said=noted", http.StatusSeeOther)
	}
}
