package gameday

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"breakwater/injector"
	"breakwater/injector/readiness"
	"breakwater/injector/scenario"
	"breakwater/internal/reply"
)

// API answers the JSON side of game days, each method one handler; {id} is the id of
// one that is held, or its name, which means the one under way or the next.
type API struct{ desk *Desk }

// API returns the handlers of d.
func (d *Desk) API() *API { return &API{d} }

type heldJSON struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Title     string         `json:"title"`
	Actor     string         `json:"actor"`
	Hash      string         `json:"hash"`
	State     string         `json:"state"`
	Needs     int            `json:"needs_approvals"`
	WaitsFor  string         `json:"waits_for,omitempty"` // whose approval is missing
	PlannedAt time.Time      `json:"planned_at"`
	Reminded  time.Time      `json:"reminded_at,omitzero"`
	StartedAt time.Time      `json:"started_at,omitzero"`
	EndedAt   time.Time      `json:"ended_at,omitzero"`
	Stopped   string         `json:"stopped,omitempty"`
	Approvals []approvalJSON `json:"approvals"`
}

type approvalJSON struct {
	Actor  string    `json:"actor"`
	At     time.Time `json:"at"`
	Counts bool      `json:"counts"` // it is of the content that would be run
}

// state is h in one word.
func (h Held) state(now time.Time) string {
	switch {
	case !h.EndedAt.IsZero() && h.StartedAt.IsZero():
		return "skipped"
	case !h.EndedAt.IsZero():
		return "ended"
	case h.Stopped != "":
		return "stopping"
	case h.StartedAt.IsZero():
		return "coming"
	case h.WaitsFor(now) != "":
		return "waiting_for_approval"
	}
	return "running"
}

func showHeld(h Held, now time.Time) heldJSON {
	out := heldJSON{ID: h.ID, Name: h.Name, Title: h.Title, Actor: h.Actor, Hash: h.Hash, State: h.state(now), Needs: h.Needs, PlannedAt: h.PlannedAt,
		Reminded: h.RemindedAt, StartedAt: h.StartedAt, EndedAt: h.EndedAt, Stopped: h.Stopped, Approvals: []approvalJSON{}}
	if h.EndedAt.IsZero() {
		out.WaitsFor = h.WaitsFor(now)
	}
	for _, a := range h.Approvals {
		out.Approvals = append(out.Approvals, approvalJSON{a.Actor, a.At, a.Hash == h.Hash && now.Sub(a.At) < injector.ApprovalFor})
	}
	return out
}

// Held answers GET /api/v1/gamedays/held: the newest, newest first.
func (a *API) Held(w http.ResponseWriter, r *http.Request) {
	all, err := a.desk.cfg.Ledger.HeldDays(r.Context(), false, 100)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	now, err := a.desk.cfg.Ledger.Now(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		Held []heldJSON `json:"held"`
	}{[]heldJSON{}}
	for _, h := range all {
		out.Held = append(out.Held, showHeld(h, now))
	}
	reply.JSON(w, http.StatusOK, out)
}

// Next answers GET /api/v1/gamedays/{id}/next?n=5, by the schedule's name.
func (a *API) Next(w http.ResponseWriter, r *http.Request) {
	n := 5
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > 100 {
			reply.Problem(w, http.StatusBadRequest, "bad_request", "n: must be 1 to 100, got "+text)
			return
		}
	}
	p, err := a.desk.Next(r.Context(), r.PathValue("id"), n)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply.JSON(w, http.StatusOK, p)
}

// Feed answers GET /api/v1/gamedays.ics.
func (a *API) Feed(w http.ResponseWriter, r *http.Request) {
	text, err := a.desk.Feed(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, text)
}

type dayJSON struct {
	heldJSON
	Roles     scenario.Roles     `json:"roles"`
	Waves     []scenario.Wave    `json:"waves"`
	Runs      []injector.RunView `json:"runs"`
	Timeline  []Note             `json:"timeline"`
	Document  string             `json:"document"`
	Checklist []checkJSON        `json:"checklist"`
}

type checkJSON struct {
	Service string             `json:"service"`
	Ready   int                `json:"ready"`
	Answers []readiness.Answer `json:"answers"`
}

// Show answers GET /api/v1/gamedays/{id}: who, what, how far, and what was written down.
func (a *API) Show(w http.ResponseWriter, r *http.Request) {
	s, err := a.desk.story(r.Context(), r.PathValue("id"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := dayJSON{heldJSON: showHeld(s.Held, s.Now), Roles: s.Day.Roles, Waves: s.Day.Waves, Runs: injector.RunViews(s.Runs), Timeline: s.Timeline,
		Document: s.Held.Text, Checklist: []checkJSON{}}
	for _, c := range s.Checklist {
		out.Checklist = append(out.Checklist, checkJSON{c.Service, readiness.Ready(c.Answers), c.Answers})
	}
	reply.JSON(w, http.StatusOK, out)
}

// Start answers POST /api/v1/gamedays: {"gameday": "name"}.
func (a *API) Start(w http.ResponseWriter, r *http.Request) {
	var ask struct{ Gameday string }
	if !read(w, r, &ask) {
		return
	}
	h, err := a.desk.Start(r.Context(), ask.Gameday)
	a.answer(w, r, http.StatusCreated, h, err)
}

// Approve answers POST /api/v1/gamedays/{id}/approve: {"hash": ""}.
func (a *API) Approve(w http.ResponseWriter, r *http.Request) {
	var ask struct{ Hash string }
	if !read(w, r, &ask) {
		return
	}
	h, err := a.desk.Approve(r.Context(), r.PathValue("id"), ask.Hash)
	a.answer(w, r, http.StatusOK, h, err)
}

// Abort answers POST /api/v1/gamedays/{id}/abort.
func (a *API) Abort(w http.ResponseWriter, r *http.Request) {
	err := a.desk.Abort(r.Context(), r.PathValue("id"))
	var h Held
	if err == nil {
		h, _, err = a.desk.find(r.Context(), r.PathValue("id"))
	}
	a.answer(w, r, http.StatusOK, h, err)
}

// Write answers POST /api/v1/gamedays/{id}/notes: {"kind": "note", "text": ""}.
func (a *API) Write(w http.ResponseWriter, r *http.Request) {
	var ask struct{ Kind, Text string }
	if !read(w, r, &ask) {
		return
	}
	if ask.Kind == "" {
		ask.Kind = "note"
	}
	if err := a.desk.Write(r.Context(), r.PathValue("id"), ask.Kind, ask.Text); err != nil {
		a.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Report answers GET /api/v1/gamedays/{id}/report?format=html or md: one file.
func (a *API) Report(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("format")
	if format == "" {
		format = "html"
	}
	if !slices.Contains([]string{"html", "md"}, format) {
		reply.Problem(w, http.StatusBadRequest, "bad_request", "format: must be html or md, got "+format)
		return
	}
	s, err := a.desk.story(r.Context(), r.PathValue("id"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	text, err := Render(s, format)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	kind := "text/html; charset=utf-8"
	if format == "md" {
		kind = "text/markdown; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `inline; filename="`+s.Held.ID+"."+format+`"`) // an id is letters and digits
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// Sent to others, it asks nobody for anything: no script, no address.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
	_, _ = w.Write(text)
}

func (a *API) answer(w http.ResponseWriter, r *http.Request, status int, h Held, err error) {
	if err != nil {
		a.fail(w, r, err)
		return
	}
	now, err := a.desk.cfg.Ledger.Now(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply.JSON(w, status, showHeld(h, now))
}

const maxBody = 64 << 10

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		reply.Problem(w, http.StatusBadRequest, "bad_request", "the body must be JSON: "+err.Error())
		return false
	}
	return true
}

func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	injector.Refuse(w, r, a.desk.cfg.Log, "game days", err,
		injector.Known{Err: injector.ErrNotFound, Status: http.StatusNotFound, Code: "not_found"},
		injector.Known{Err: injector.ErrOverlap, Status: http.StatusConflict, Code: "overlap"},
		injector.Known{Err: injector.ErrHalted, Status: http.StatusConflict, Code: "halted"},
		injector.Known{Err: injector.ErrFrozen, Status: http.StatusConflict, Code: "frozen"},
		injector.Known{Err: ErrOver, Status: http.StatusConflict, Code: "over"},
		injector.Known{Err: ErrContent, Status: http.StatusConflict, Code: "content"},
		injector.Known{Err: ErrSelf, Status: http.StatusForbidden, Code: "self_approval"},
		injector.Known{Err: injector.ErrScope, Status: http.StatusForbidden, Code: "scope"},
		injector.Known{Err: ErrText, Status: http.StatusBadRequest, Code: "bad_request"})
}
