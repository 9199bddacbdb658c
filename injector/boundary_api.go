package injector

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"breakwater/injector/scenario"
	"breakwater/injector/search"
	"breakwater/internal/reply"
)

type searchJSON struct {
	Search
	State string `json:"state"` // searching, ended
	// Shown are the amounts in words, with their unit.
	Shown struct {
		Pass       string `json:"pass,omitempty"`
		Fail       string `json:"fail,omitempty"`
		Hard       string `json:"hard"`
		Soft       string `json:"soft"`
		Resolution string `json:"resolution"`
	} `json:"shown"`
	Halvings int `json:"halvings"` // at most
}

func showSearch(s Search) searchJSON {
	out := searchJSON{Search: s, State: "searching", Halvings: s.Spec.Steps()}
	if s.Ended() {
		out.State = "ended"
	}
	if out.Probes == nil {
		out.Probes = []SearchProbe{}
	}
	show := scenario.Knob(s.Knob).Show
	out.Shown.Hard, out.Shown.Soft, out.Shown.Resolution = show(s.Spec.Hard), show(s.Spec.Soft), show(s.Spec.Resolution)
	if s.Verdict == search.Found {
		out.Shown.Pass, out.Shown.Fail = show(s.Pass), show(s.Fail)
	}
	return out
}

// Seek answers POST /api/v1/searches: a scenario as Create takes it.
func (a *API) Seek(w http.ResponseWriter, r *http.Request) {
	id, document, ok := asked(w, r)
	if !ok {
		return
	}
	s, err := a.desk.Seek(r.Context(), id, document, a.desk.cfg.Actor(r.Context()))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/api/v1/searches/"+s.ID)
	reply.JSON(w, http.StatusCreated, showSearch(s))
}

// Searches answers GET /api/v1/searches?scenario=, the newest first.
func (a *API) Searches(w http.ResponseWriter, r *http.Request) {
	all, err := a.desk.Boundaries(r.Context(), r.URL.Query().Get("scenario"), 100)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		Searches []searchJSON `json:"searches"`
	}{[]searchJSON{}}
	for _, s := range all {
		out.Searches = append(out.Searches, showSearch(s))
	}
	reply.JSON(w, http.StatusOK, out)
}

// Search answers GET /api/v1/searches/{id}.
func (a *API) Search(w http.ResponseWriter, r *http.Request) {
	s, err := a.desk.Boundary(r.Context(), r.PathValue("id"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	reply.JSON(w, http.StatusOK, showSearch(s))
}

// Abandon answers POST /api/v1/searches/{id}/abort: the search ends, and its probe.
func (a *API) Abandon(w http.ResponseWriter, r *http.Request) {
	if err := a.desk.Abandon(r.Context(), r.PathValue("id"), a.desk.cfg.Actor(r.Context())); err != nil {
		a.fail(w, r, err)
		return
	}
	a.Search(w, r)
}

// agreedTo reads {"hash": "..."}; no body, or {}, agrees to what is there.
func agreedTo(w http.ResponseWriter, r *http.Request) (hash string, ok bool) {
	var ask struct {
		Hash string `json:"hash"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil && !errors.Is(err, io.EOF) {
		reply.Problem(w, http.StatusBadRequest, "bad_request", `must be {"hash": "..."}, the document's, or nothing`)
		return "", false
	}
	return ask.Hash, true
}
