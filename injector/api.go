package injector

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"breakwater/internal/reply"
)

// API answers the JSON side of experiments. Each method is one handler, to be
// mounted with the role it needs; {id} is read by PathValue.
type API struct{ desk *Desk }

// API returns the handlers of e.
func (e *Engine) API() *API { return &API{e.Desk()} }

// maxDocument bounds a scenario sent in.
const maxDocument = 256 << 10

// List answers GET /api/v1/experiments.
func (a *API) List(w http.ResponseWriter, r *http.Request) {
	runs, err := a.desk.Runs(r.Context(), 200)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	halt, err := a.desk.Halted(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		HaltedAt time.Time `json:"halted_at,omitzero"`
		HaltedBy string    `json:"halted_by,omitempty"`
		Runs     []RunView `json:"experiments"`
	}{halt.At, halt.Actor, []RunView{}}
	for _, x := range runs {
		out.Runs = append(out.Runs, showRun(x))
	}
	reply.JSON(w, http.StatusOK, out)
}

// Create answers POST /api/v1/experiments: {"scenario": "id"} in JSON, or a
// Scenario document in YAML.
func (a *API) Create(w http.ResponseWriter, r *http.Request) {
	id, document, ok := asked(w, r)
	if !ok {
		return
	}
	run, warnings, err := a.desk.Start(r.Context(), id, document, a.desk.cfg.Actor(r.Context()))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/api/v1/experiments/"+run.ID)
	out := struct {
		RunView
		Warnings []warningJSON `json:"warnings"`
	}{showRun(run), showWarnings(warnings)}
	reply.JSON(w, http.StatusCreated, out)
}

// askedFor reads {"scenario": "id"}, strictly: a field that is not understood may
// be a wish that would silently not be met.
func askedFor(body []byte) (id string, err error) {
	const form = `must be {"scenario": "id"}`
	var ask struct {
		Scenario string `json:"scenario"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "json: ") + ": " + form)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || ask.Scenario == "" {
		return "", errors.New(form)
	}
	return ask.Scenario, nil
}

// Show answers GET /api/v1/experiments/{id}: the run, its log and its course.
func (a *API) Show(w http.ResponseWriter, r *http.Request) {
	run, err := a.desk.Run(r.Context(), r.PathValue("id"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	events, err := a.desk.Events(r.Context(), run.ID)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	strips, err := a.desk.Course(r.Context(), run)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		RunView
		Document string      `json:"document"`
		Events   []eventJSON `json:"events"`
		Series   []stripJSON `json:"series"`
	}{showRun(run), run.Text, []eventJSON{}, []stripJSON{}}
	for _, x := range events {
		out.Events = append(out.Events, eventJSON{x.At, x.Kind, x.Text, x.Actor})
	}
	for _, s := range strips {
		strip := stripJSON{Service: s.Service, StepMS: step.Milliseconds(), Points: []pointJSON{}}
		for _, p := range s.Points {
			strip.Points = append(strip.Points, pointJSON(p))
		}
		out.Series = append(out.Series, strip)
	}
	reply.JSON(w, http.StatusOK, out)
}

// Abort answers POST /api/v1/experiments/{id}/abort.
func (a *API) Abort(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if err := a.desk.Abort(r.Context(), id, a.desk.cfg.Actor(r.Context())); err != nil {
		a.fail(w, r, err)
		return
	}
	a.stand(w, r, id)
}

// Approve answers POST /api/v1/experiments/{id}/approve; {"hash": "..."} names the
// document that was agreed to.
func (a *API) Approve(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	hash, ok := agreedTo(w, r)
	if !ok {
		return
	}
	if _, err := a.desk.Approve(r.Context(), id, hash, a.desk.cfg.Actor(r.Context())); err != nil {
		a.fail(w, r, err)
		return
	}
	a.stand(w, r, id)
}

func (a *API) stand(w http.ResponseWriter, r *http.Request, id string) {
	run, err := a.desk.Run(r.Context(), id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply.JSON(w, http.StatusOK, showRun(run))
}

// Halt answers POST /api/v1/halt: everything stops, nothing starts.
func (a *API) Halt(w http.ResponseWriter, r *http.Request) {
	n, err := a.desk.halt(r.Context(), a.desk.cfg.Actor(r.Context()))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply.JSON(w, http.StatusOK, struct {
		Stopped int `json:"stopped"`
	}{n})
}

// Resume answers DELETE /api/v1/halt: runs may start again.
func (a *API) Resume(w http.ResponseWriter, r *http.Request) {
	if err := a.desk.Resume(r.Context(), a.desk.cfg.Actor(r.Context())); err != nil {
		a.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// GameDays answers GET /api/v1/gamedays.
func (a *API) GameDays(w http.ResponseWriter, r *http.Request) {
	all, err := a.desk.Schedules(r.Context())
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
		Days []scheduleJSON `json:"gamedays"`
	}{[]scheduleJSON{}}
	for _, s := range all {
		out.Days = append(out.Days, showSchedule(s, now))
	}
	reply.JSON(w, http.StatusOK, out)
}
