package injector

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/injector/scenario"
	"breakwater/internal/reply"
	"breakwater/internal/retrylog"
)

// Evidence is what the result of one assertion rests on.
type Evidence struct {
	Assertion Assertion
	// Points are what gateways counted of its service within its span.
	Points []Point
	// Exchanges are requests that the run touched, newest first: a sample.
	Exchanges []retrylog.Exchange
}

// maxTouched bounds the requests shown with a result.
const maxTouched = 50

// asked reads a scenario that was sent in: by id in JSON, or whole in YAML.
func asked(w http.ResponseWriter, r *http.Request) (id, document string, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDocument))
	if err != nil {
		reply.Problem(w, http.StatusRequestEntityTooLarge, "too_large", "the document must be at most 256 KiB")
		return "", "", false
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		if id, err = askedFor(body); err != nil {
			reply.Problem(w, http.StatusBadRequest, "bad_request", err.Error())
			return "", "", false
		}
		return id, "", true
	}
	if strings.TrimSpace(string(body)) == "" {
		reply.Problem(w, http.StatusBadRequest, "bad_request", "must hold a Scenario document, got nothing")
		return "", "", false
	}
	return "", string(body), true
}

type warningJSON struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Refuse bool   `json:"refuse,omitempty"`
}

func showWarnings(all []scenario.Warning) []warningJSON {
	out := []warningJSON{}
	for _, x := range all {
		out = append(out, warningJSON(x))
	}
	return out
}

// Preview answers POST /api/v1/experiments/preview: what preflight says of a
// scenario, sent as Create takes it, and what it would do by today's traffic.
// Figures that are not known are absent.
func (a *API) Preview(w http.ResponseWriter, r *http.Request) {
	id, document, ok := asked(w, r)
	if !ok {
		return
	}
	p, err := a.desk.Preview(r.Context(), id, document)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	f := p.Forecast
	out := struct {
		Scenario string `json:"scenario"`
		Service  string `json:"service"`
		// Refused: it could not start as it is.
		Refused  bool          `json:"refused"`
		Warnings []warningJSON `json:"warnings"`
		Requests int64         `json:"requests"`
		Hits     int64         `json:"hits"`
		TryPPM   int64         `json:"failing_tries_ppm"`
		FinalPPM int64         `json:"failing_requests_ppm"`
		UserPPM  int64         `json:"user_visible_ppm"`
		Tries    int64         `json:"tries_per_request_milli"`
		Failures *int64        `json:"failures,omitempty"`
		Budget   *int64        `json:"budget_ppm,omitempty"`
		Users    *int64        `json:"users,omitempty"`
		Row      float64       `json:"breaker_row_chance,omitempty"`
	}{
		p.Scenario.ID, p.Scenario.Target.Service, slices.ContainsFunc(p.Warnings, func(w scenario.Warning) bool { return w.Refuse }),
		showWarnings(p.Warnings), f.Requests, f.Hits, f.TryFailPPM, f.FinalPPM, f.UserFailPPM, f.AmplificationMilli,
		known(f.Failures), known(f.BudgetPPM), known(f.Users), f.RowChance,
	}
	reply.JSON(w, http.StatusOK, out)
}

// Delete answers DELETE /api/v1/experiments/{id}: of a run that has ended.
func (a *API) Delete(w http.ResponseWriter, r *http.Request) {
	if err := a.desk.Delete(r.Context(), r.PathValue("id"), a.desk.cfg.Actor(r.Context())); err != nil {
		a.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Evidence answers GET /api/v1/experiments/{id}/evidence/{assertion}.
func (a *API) Evidence(w http.ResponseWriter, r *http.Request) {
	run := r.PathValue("id")
	e, err := a.desk.Evidence(r.Context(), run, r.PathValue("assertion"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	type exchangeJSON struct {
		At        time.Time `json:"at"`
		RequestID string    `json:"request_id"`
		Gateway   string    `json:"gateway"`
		Service   string    `json:"service"`
		Route     string    `json:"route"`
		Status    int       `json:"status"`
		Tries     int       `json:"tries"`
		Faults    []string  `json:"faults"`
		PlannedMS int64     `json:"planned_ms,omitempty"`
		ActualMS  int64     `json:"actual_ms,omitempty"`
		CutShort  bool      `json:"cut_short,omitempty"`
		Degraded  string    `json:"degraded,omitempty"`
		LatencyMS int64     `json:"latency_ms"`
	}
	out := struct {
		assertionJSON
		Points    []pointJSON    `json:"points"`
		Exchanges []exchangeJSON `json:"exchanges"`
	}{showAssertion(run, e.Assertion), []pointJSON{}, []exchangeJSON{}}
	for _, p := range e.Points {
		out.Points = append(out.Points, pointJSON(p))
	}
	for _, x := range e.Exchanges {
		row := exchangeJSON{At: x.End, RequestID: x.RequestID, Gateway: x.Gateway, Service: x.Service, Route: x.Route, Status: x.Status,
			Tries: len(x.Tries), Faults: []string{}, Degraded: x.Degraded, LatencyMS: x.LatencyUS / 1000}
		for _, t := range x.Tries {
			if t.Fault != "" {
				row.Faults = append(row.Faults, t.Fault)
			}
			row.PlannedMS, row.ActualMS, row.CutShort = row.PlannedMS+t.PlannedUS/1000, row.ActualMS+t.ActualUS/1000, row.CutShort || t.CutShort
		}
		out.Exchanges = append(out.Exchanges, row)
	}
	reply.JSON(w, http.StatusOK, out)
}
