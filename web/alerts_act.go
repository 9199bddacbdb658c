package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/slo/alert"
)

// Bell takes what people do about alerts. The handlers are those of the API, so that a
// form is judged, audited and bounded by scope as a call is.
type Bell interface {
	Ack(w http.ResponseWriter, r *http.Request)
	Silence(w http.ResponseWriter, r *http.Request)
	Unsilence(w http.ResponseWriter, r *http.Request)
}

// answer is what a handler of the API said.
type answer struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.head }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// relay asks a handler of the API in the name of who sent the form. It returns "" if
// that did it, and what was wrong otherwise.
func relay(r *http.Request, call http.HandlerFunc, method string, path map[string]string, body any) (status int, wrong string) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return http.StatusInternalServerError, err.Error()
		}
	}
	r2, err := http.NewRequestWithContext(r.Context(), method, r.URL.Path, bytes.NewReader(text))
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	r2.Header.Set("Content-Type", "application/json")
	r2.RemoteAddr, r2.Host = r.RemoteAddr, r.Host
	for name, value := range path {
		r2.SetPathValue(name, value)
	}
	a := &answer{head: http.Header{}, status: http.StatusOK}
	call(a, r2)
	if a.status < 300 {
		return a.status, ""
	}
	var problem struct{ Detail string }
	if err := json.Unmarshal(a.body.Bytes(), &problem); err != nil || problem.Detail == "" {
		problem.Detail = http.StatusText(a.status)
	}
	return a.status, problem.Detail
}

// operator refuses who may only look. Forms are not offered to them; this is for those
// who post all the same.
func (s *Server) operator(w http.ResponseWriter, r *http.Request, what string) bool {
	if s.cfg.MayLift(r) {
		return true
	}
	s.trouble(w, s.look(r), http.StatusForbidden, what, "This takes an operator; whoever is logged in may look.")
	return false
}

func (s *Server) ackAlert(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if !s.operator(w, r, "Not acknowledged") {
		return
	}
	status, wrong := relay(r, s.cfg.Bell.Ack, http.MethodPost, map[string]string{"id": id}, map[string]string{"note": r.PostFormValue("note")})
	if wrong != "" {
		s.refuse(w, r, s.alert, "ack", status, "Not acknowledged", sentence(wrong))
		return
	}
	s.Changed(topicLedger)
	http.Redirect(w, r, alertHref(id)+"?said=acknowledged", http.StatusSeeOther)
}

func (s *Server) addSilence(w http.ResponseWriter, r *http.Request) {
	if !s.operator(w, r, "Not silenced") {
		return
	}
	minutes, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("minutes")))
	if err != nil || minutes < 1 || minutes > 30*24*60 {
		v := s.look(r)
		s.refuse(w, r, s.alerts, "silence", http.StatusUnprocessableEntity, "Not silenced", v.say("For how long: must be 1 minute to 30 days, got %s.", r.PostFormValue("minutes")))
		return
	}
	until := s.cfg.Now().UTC().Add(time.Duration(minutes) * time.Minute)
	status, wrong := relay(r, s.cfg.Bell.Silence, http.MethodPost, nil, struct {
		Service  string         `json:"service"`
		Env      string         `json:"env"`
		Class    alert.Class    `json:"class"`
		Severity alert.Severity `json:"severity"`
		Until    time.Time      `json:"until"`
		Reason   string         `json:"reason"`
	}{r.PostFormValue("service"), r.PostFormValue("env"), alert.Class(r.PostFormValue("class")), alert.Severity(r.PostFormValue("severity")), until, r.PostFormValue("reason")})
	if wrong != "" {
		s.refuse(w, r, s.alerts, "silence", status, "Not silenced", sentence(wrong))
		return
	}
	http.Redirect(w, r, "/alerts?view=silences&said=silenced", http.StatusSeeOther)
}

func (s *Server) endSilence(w http.ResponseWriter, r *http.Request) {
	if !s.operator(w, r, "Not ended") {
		return
	}
	status, wrong := relay(r, s.cfg.Bell.Unsilence, http.MethodDelete, map[string]string{"id": chi.URLParam(r, "id")}, nil)
	if wrong != "" {
		s.trouble(w, s.look(r), status, "Not ended", sentence(wrong))
		return
	}
	http.Redirect(w, r, "/alerts?view=silences&said=spoken", http.StatusSeeOther)
}
