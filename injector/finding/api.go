package finding

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"breakwater/injector"
	"breakwater/internal/reply"
)

// API answers the JSON side of findings, each method one handler; {id} is read by
// PathValue.
type API struct{ desk *Desk }

// API returns the handlers of d.
func (d *Desk) API() *API { return &API{d} }

type shownFinding struct {
	Finding
	Overdue  bool    `json:"overdue"`
	Evidence string  `json:"evidence"`
	Document string  `json:"document,omitempty"`
	Story    []Event `json:"story,omitempty"`
}

// List answers GET /api/v1/findings?service=&state=&open=1&overdue=1.
func (a *API) List(w http.ResponseWriter, r *http.Request) {
	now, err := a.desk.cfg.Ledger.Now(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	q := r.URL.Query()
	all, err := a.desk.cfg.Ledger.Findings(r.Context(), Filter{Service: q.Get("service"), State: State(q.Get("state")),
		Open: q.Get("open") == "1", Overdue: q.Get("overdue") == "1", Now: now})
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		Findings []shownFinding `json:"findings"`
	}{[]shownFinding{}}
	for _, f := range all {
		out.Findings = append(out.Findings, shownFinding{Finding: f, Overdue: f.Overdue(now), Evidence: f.Evidence()})
	}
	reply.JSON(w, http.StatusOK, out)
}

// Show answers GET /api/v1/findings/{id}.
func (a *API) Show(w http.ResponseWriter, r *http.Request) {
	f, story, err := a.desk.cfg.Ledger.Finding(r.Context(), r.PathValue("id"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	now, err := a.desk.cfg.Ledger.Now(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply.JSON(w, http.StatusOK, shownFinding{f, f.Overdue(now), f.Evidence(), f.Text, story})
}

// Close answers POST /api/v1/findings/{id}/close: {"note": "what was changed"}. The
// next game day of the service has to show it.
func (a *API) Close(w http.ResponseWriter, r *http.Request) {
	var ask struct{ Note string }
	if !read(w, r, &ask) {
		return
	}
	f, err := a.desk.Claim(r.Context(), r.PathValue("id"), ask.Note)
	a.turned(w, r, f, err)
}

// Accept answers POST /api/v1/findings/{id}/accept: {"reason": "", "until": ""}.
func (a *API) Accept(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Reason string
		Until  time.Time
	}
	if !read(w, r, &ask) {
		return
	}
	f, err := a.desk.Accept(r.Context(), r.PathValue("id"), ask.Reason, ask.Until)
	a.turned(w, r, f, err)
}

func (a *API) turned(w http.ResponseWriter, r *http.Request, f Finding, err error) {
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply.JSON(w, http.StatusOK, shownFinding{Finding: f, Evidence: f.Evidence()})
}

// maxIncident bounds the span a scenario is drawn from.
const maxIncident = 7 * 24 * time.Hour

// FromIncident answers GET /api/v1/findings/scenario?service=&from=&until=&owner=
// with a Scenario document.
func (a *API) FromIncident(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, errFrom := time.Parse(time.RFC3339, q.Get("from"))
	until, errUntil := time.Parse(time.RFC3339, q.Get("until"))
	switch {
	case q.Get("service") == "" || errFrom != nil || errUntil != nil:
		a.fail(w, r, fmt.Errorf("must have service, and from and until such as 2026-03-03T10:00:00Z: %w", ErrText))
		return
	case !until.After(from) || until.Sub(from) > maxIncident:
		a.fail(w, r, fmt.Errorf("until: must come after from, by 7 days at most: %w", ErrText))
		return
	case a.desk.cfg.Incident == nil:
		a.fail(w, r, ErrNothing)
		return
	}
	i, err := a.desk.cfg.Incident(r.Context(), q.Get("service"), from.UTC(), until.UTC())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	owner := q.Get("owner")
	if owner == "" {
		owner = "team-" + i.Service
	}
	text, err := i.Scenario(owner)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, text)
}

const maxBody = 64 << 10

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		reply.Problem(w, http.StatusBadRequest, "bad_request", "the body must be JSON: "+err.Error())
		return false
	}
	return true
}

func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ErrSelf) { // whether or not it could be audited
		err = ErrSelf
	}
	injector.Refuse(w, r, a.desk.cfg.Log, "findings", err,
		injector.Known{Err: injector.ErrNotFound, Status: http.StatusNotFound, Code: "not_found"},
		injector.Known{Err: ErrNothing, Status: http.StatusNotFound, Code: "not_found"},
		injector.Known{Err: ErrText, Status: http.StatusBadRequest, Code: "bad_request"},
		injector.Known{Err: ErrState, Status: http.StatusConflict, Code: "state"},
		injector.Known{Err: ErrSelf, Status: http.StatusForbidden, Code: "self_approval"},
		injector.Known{Err: injector.ErrScope, Status: http.StatusForbidden, Code: "scope"})
}
