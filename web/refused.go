package web

import (
	"cmp"
	"net/http"
	"net/url"
)

// Refused is a form that was not taken. Its page is shown again, with what was wrong at
// the form and what was written still in its fields. The zero value is a page as it is
// asked for.
type Refused struct {
	form, text string
	typed      url.Values
	status     int
}

// Of is what was wrong with a form of the page; "": nothing.
func (f Refused) Of(form string) string {
	if f.form != form {
		return ""
	}
	return f.text
}

// Get is what was written into a field.
func (f Refused) Get(form, field string) string {
	if f.form != form {
		return ""
	}
	return f.typed.Get(field)
}

// Was says whether that was chosen in a field.
func (f Refused) Was(form, field, value string) bool { return f.Get(form, field) == value }

func (f Refused) code() int { return cmp.Or(f.status, http.StatusOK) }

// topics of a page: one that shows a refusal stays as it is until its reader is done.
func (f Refused) topics(of string) string {
	if f.form != "" {
		return "nothing"
	}
	return of
}

// pageAgain is a page that can be shown with a form that was refused.
type pageAgain func(w http.ResponseWriter, r *http.Request, f Refused)

// plain is the page as it is asked for.
func (p pageAgain) plain(w http.ResponseWriter, r *http.Request) { p(w, r, Refused{}) }

// refuse shows the page of a form again. Who may not, what is not there, and what failed
// stands on a page of its own, as does the refusal of a form without one (nil).
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, page pageAgain, form string, status int, title, text string) {
	mendable := status == http.StatusBadRequest || status == http.StatusConflict || status == http.StatusUnprocessableEntity
	v := s.look(r)
	if !mendable || page == nil {
		s.trouble(w, v, status, title, text)
		return
	}
	page(w, r, Refused{form: form, text: v.tell(v.word(text)), typed: r.PostForm, status: status})
}
