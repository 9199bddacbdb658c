// Package report renders evaluations as JSON and as metrics: the same values
// that pages, gate and alerts show.
package report

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// Source knows the last evaluation.
type Source interface {
	Statuses() []slo.Status
	Health() slo.Health
}

// History weighs a promise at another instant than the last.
type History interface {
	BudgetAt(ctx context.Context, o slo.Objective, env string, at time.Time) (slo.Budget, error)
}

// Burn is a burn rate on the wire. A rate that was not measured is null.
type Burn struct {
	Window    string `json:"window"`
	RateMilli *int64 `json:"rate_milli"`
	// ErrorPPM is the ratio of bad events, SpentPPM which part of the window's budget
	// they are; neither is a rate.
	ErrorPPM *int64 `json:"error_ratio_ppm"`
	SpentPPM *int64 `json:"spent_ppm"`
	Bad      int64  `json:"bad_events"`
	Valid    int64  `json:"valid_events"`
}

// Budget is a budget on the wire. Shares are null while there is no data.
type Budget struct {
	Good         int64  `json:"good_events"`
	Bad          int64  `json:"bad_events"`
	Valid        int64  `json:"valid_events"`
	Neutral      int64  `json:"neutral_events"`
	Throttled    int64  `json:"throttled_events"`
	ChaosBad     int64  `json:"chaos_bad_events"`
	FirstTryBad  int64  `json:"first_try_bad_events"`
	Attempts     int64  `json:"attempts"`
	Allowed      int64  `json:"allowed_events"`
	Remaining    int64  `json:"remaining_events"`
	SpentPPM     *int64 `json:"spent_ppm"`
	RemainingPPM *int64 `json:"remaining_ppm"`
	ChaosPPM     *int64 `json:"chaos_spent_ppm"`
	NoData       bool   `json:"no_data"`
	// Unit is what events are: requests, slices, time (microseconds) or shares.
	Unit string `json:"unit"`
	// Base is what the budget is reckoned on, the whole of a calendar period;
	// is_estimate where the rest of it is not counted yet. So far is that of the
	// counted part alone.
	Base        int64   `json:"base_events"`
	IsEstimate  bool    `json:"is_estimate"`
	SoFar       int64   `json:"allowed_so_far_events"`
	SoFarPPM    *int64  `json:"remaining_so_far_ppm"`
	ChaosSpared int64   `json:"chaos_spared_events"`
	Slices      *Slices `json:"slices,omitempty"`
}

// Slices is what of a window was measured, where time is budgeted.
type Slices struct {
	Total       int64 `json:"total"`
	Bad         int64 `json:"bad"`
	Measured    int64 `json:"measured"`
	Unmeasured  int64 `json:"unmeasured"`
	MeasuredPPM int64 `json:"measured_ppm"`
}

// Line is one explained number on the wire.
type Line struct {
	ID      string `json:"id"`
	Label   string `json:"label"`
	Value   string `json:"value"`
	Formula string `json:"formula"`
	Meaning string `json:"meaning"`
}

// SLO is a Status on the wire.
type SLO struct {
	ID            string     `json:"id"`
	Service       string     `json:"service"`
	Env           string     `json:"env"`
	Title         string     `json:"title"`
	Owner         string     `json:"owner"`
	TargetPPB     int64      `json:"target_ppb"`
	TargetPercent string     `json:"target_percent"`
	WindowSeconds int64      `json:"window_seconds"`
	Revision      int64      `json:"revision"`
	State         slo.Level  `json:"state"`
	Measured      slo.Level  `json:"measured_state"`
	Since         *time.Time `json:"state_since"`
	Reason        string     `json:"reason"`
	At            time.Time  `json:"evaluated_at"`
	DataUntil     *time.Time `json:"data_until"`
	CoveragePPM   int64      `json:"coverage_ppm"`
	Budget        Budget     `json:"budget"`
	Burns         []Burn     `json:"burns"`
	ThawAt        *time.Time `json:"thaw_at"`
	EmptyAt       *time.Time `json:"empty_at"`
	Promise       string     `json:"promise"`
	Method        slo.Method `json:"method"`
	From          *time.Time `json:"window_from"`
	To            *time.Time `json:"window_to"`
	Blind         string     `json:"unknown_because"` // no_data, low_coverage, undetermined or ""
	Informational bool       `json:"informational"`
	// ChaosRoom is what experiments may still spend before it counts; null without
	// a cap.
	ChaosRoom     *int64 `json:"chaos_room_ppm"`
	AspirationPPB int64  `json:"aspiration_ppb,omitempty"`
	// FirstTry is the budget if no retry had helped; null where that says nothing.
	FirstTry    *Budget      `json:"first_try"`
	Rules       []Rule       `json:"rules"`
	Corrections []Correction `json:"corrections"`
	Groups      []Group      `json:"groups,omitempty"`
	Explain     []Line       `json:"explain,omitempty"`
	Document    string       `json:"document,omitempty"`
}

// Service is a service and the state of its worst objective.
type Service struct {
	Name      string    `json:"name"`
	Env       string    `json:"env"`
	State     slo.Level `json:"state"`
	Objective string    `json:"objective"` // the one that decides
	Reason    string    `json:"reason"`
	SLOs      []string  `json:"slos"`
}

// Of renders s, with the explanation of each number if asked for.
func Of(s slo.Status, explain bool) SLO {
	out := SLO{
		ID: s.Objective.ID, Service: s.Objective.Service, Env: s.Env, Title: s.Objective.Title, Owner: s.Objective.Owner,
		TargetPPB: s.Objective.TargetPPB, TargetPercent: slo.TargetPercent(s.Objective.TargetPPB),
		WindowSeconds: int64(s.Objective.Window / time.Second), Revision: s.Objective.Revision,
		State: s.Level, Measured: s.Measured, Since: instant(s.Since), Reason: s.Reason, At: s.At.UTC(), DataUntil: instant(s.DataUntil),
		CoveragePPM: s.CoveragePPM, Budget: budget(s.Objective, s.Budget), Burns: []Burn{}, ThawAt: instant(s.ThawAt), EmptyAt: instant(s.EmptyAt),
		Promise: s.Objective.Promise(), Method: s.Objective.Spec().Method, From: instant(s.From), To: instant(s.To), Blind: s.Blind,
		Informational: s.Objective.Spec().Informational, AspirationPPB: s.Objective.Spec().AspirationPPB,
		Rules: rules(s), Corrections: corrections(s.Corrections),
	}
	if room, capped := s.ChaosRoom(); capped {
		out.ChaosRoom = &room
	}
	if s.FirstTry.Valid > 0 {
		first := budget(s.Objective, s.FirstTry)
		out.FirstTry = &first
	}
	for _, g := range s.Groups {
		out.Groups = append(out.Groups, Group{g.ID, g.Name, budget(s.Objective, g.Budget)})
	}
	for _, b := range s.Burns {
		burn := Burn{Window: slo.Window(b.Window), Bad: b.Bad, Valid: b.Valid}
		if !b.NoData {
			ppm := slo.Part(b.Bad, b.Valid)
			burn.RateMilli, burn.ErrorPPM, burn.SpentPPM = &b.RateMilli, &ppm, &b.SpentPPM
		}
		out.Burns = append(out.Burns, burn)
	}
	if explain {
		out.Document = s.Objective.Text
		for _, l := range s.Explain() {
			out.Explain = append(out.Explain, Line(l))
		}
	}
	return out
}

func budget(o slo.Objective, b slo.Budget) Budget {
	t := b.Tally
	out := Budget{Good: t.Good, Bad: t.Bad, Valid: b.Valid, Neutral: t.Neutral, Throttled: t.Throttled, ChaosBad: t.ChaosBad,
		FirstTryBad: t.FirstTryBad, Attempts: t.Attempts, Allowed: b.Allowed, Remaining: b.Remaining, NoData: b.NoData}
	out.Unit, out.Base, out.IsEstimate, out.SoFar, out.ChaosSpared = o.Unit(), b.Base, b.IsEstimate, b.SoFar, b.ChaosSpared
	if !b.NoData {
		chaos := slo.SpentBy(o.TargetPPB, t.ChaosBad, b.Base)
		out.SpentPPM, out.RemainingPPM, out.ChaosPPM, out.SoFarPPM = &b.SpentPPM, &b.RemainingPPM, &chaos, &b.SoFarPPM
	}
	if s := b.Slices; s.Total > 0 {
		out.Slices = &Slices{s.Total, s.Bad, s.Measured, s.Unmeasured(), s.MeasuredPPM()}
	}
	return out
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Handler serves /api/v1/services, /api/v1/slos, /api/v1/slos/{id} and
// /api/v1/slos/{id}/budget?at=&env=, of what the asker's scope covers.
func Handler(source Source, history History) http.Handler {
	h := handler{source, history}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/services", h.services)
	mux.HandleFunc("GET /api/v1/slos", h.slos)
	mux.HandleFunc("GET /api/v1/slos/{id}", h.slo)
	mux.HandleFunc("GET /api/v1/slos/{id}/budget", h.budget)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			reply.Problem(w, http.StatusMethodNotAllowed, "method", "this is read only")
			return
		}
		reply.Problem(w, http.StatusNotFound, "not_found", "there is nothing at "+r.URL.Path)
	})
	return mux
}

type handler struct {
	source  Source
	history History
}

// mine is the last evaluation within the asker's scope.
func (h handler) mine(r *http.Request) []slo.Status {
	who := auth.From(r.Context())
	return slo.Only(h.source.Statuses(), func(s *slo.Status) bool { return who.Covers(s.Objective.Service) })
}

// envelope says of any list how old it is.
type envelope struct {
	EvaluatedAt *time.Time `json:"evaluated_at"`
	AwaySince   *time.Time `json:"database_away_since"`
	Services    []Service  `json:"services,omitzero"`
	SLOs        []SLO      `json:"slos,omitzero"`
}

func (h handler) envelope() envelope {
	health := h.source.Health()
	return envelope{EvaluatedAt: instant(health.LastAt), AwaySince: instant(health.AwaySince)}
}

func (h handler) services(w http.ResponseWriter, r *http.Request) {
	out := h.envelope()
	out.Services = Services(h.mine(r))
	reply.JSON(w, http.StatusOK, out)
}

// Services groups statuses by service and environment, by name.
func Services(statuses []slo.Status) []Service {
	type key struct{ service, env string }
	sets := map[key][]slo.Status{}
	for _, s := range statuses {
		k := key{s.Objective.Service, s.Env}
		sets[k] = append(sets[k], s)
	}
	out := make([]Service, 0, len(sets))
	for k, set := range sets {
		worst, _ := slo.Worst(set)
		s := Service{Name: k.service, Env: k.env, State: worst.Level, Objective: worst.Objective.ID, Reason: worst.Reason}
		for _, each := range set {
			s.SLOs = append(s.SLOs, each.Objective.ID)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Service) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Env, b.Env)) })
	return out
}

func (h handler) slos(w http.ResponseWriter, r *http.Request) {
	out := h.envelope()
	out.SLOs = []SLO{}
	for _, s := range h.mine(r) {
		out.SLOs = append(out.SLOs, Of(s, false))
	}
	reply.JSON(w, http.StatusOK, out)
}

// find returns the one status that id and ?env= name; without env the worst.
func (h handler) find(w http.ResponseWriter, r *http.Request) (slo.Status, bool) {
	id, env := r.PathValue("id"), r.URL.Query().Get("env")
	s, ok := slo.Worst(slices.DeleteFunc(h.mine(r), func(s slo.Status) bool {
		return s.Objective.ID != id || r.URL.Query().Has("env") && s.Env != env
	}))
	if !ok {
		// Out of scope and unknown read the same: names are nobody's business.
		reply.Problem(w, http.StatusNotFound, "unknown_slo", "no such SLO is known here")
	}
	return s, ok
}

func (h handler) slo(w http.ResponseWriter, r *http.Request) {
	if s, ok := h.find(w, r); ok {
		reply.JSON(w, http.StatusOK, Of(s, true))
	}
}

// at is a budget at an instant.
type at struct {
	ID     string    `json:"id"`
	Env    string    `json:"env"`
	At     time.Time `json:"at"`
	Budget Budget    `json:"budget"`
}

func (h handler) budget(w http.ResponseWriter, r *http.Request) {
	s, ok := h.find(w, r)
	if !ok {
		return
	}
	text := r.URL.Query().Get("at")
	if text == "" {
		reply.JSON(w, http.StatusOK, at{s.Objective.ID, s.Env, s.DataUntil.UTC(), budget(s.Objective, s.Budget)})
		return
	}
	when, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		reply.Problem(w, http.StatusBadRequest, "bad_parameter", "at: must be an RFC 3339 instant such as 2026-03-10T12:00:00Z")
		return
	case when.After(s.DataUntil):
		reply.Problem(w, http.StatusBadRequest, "bad_parameter", "at: must not be after "+s.DataUntil.UTC().Format(time.RFC3339)+", where the data ends")
		return
	case h.history == nil:
		reply.Problem(w, http.StatusServiceUnavailable, "database_away", "no history is kept here")
		return
	}
	b, err := h.history.BudgetAt(r.Context(), s.Objective, s.Env, when)
	if err != nil {
		reply.Problem(w, http.StatusServiceUnavailable, "database_away", "the ledger cannot be read at present")
		return
	}
	reply.JSON(w, http.StatusOK, at{s.Objective.ID, s.Env, when.UTC(), budget(s.Objective, b)})
}
