package readiness

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/reply"
)

// Keeper keeps what people answer.
type Keeper interface {
	AddAnswer(ctx context.Context, service string, g Given) error
}

// Source is what an API needs; all of it.
type Source struct {
	Assess func(ctx context.Context, service string) ([]Answer, error)
	// Trends are those of one service, or of all for "".
	Trends func(ctx context.Context, service string, since time.Time) ([]Trend, error)
	// Looked is told what was found, so that a day shows the newest; nil: nobody.
	Looked func(ctx context.Context, service string, d Day) error
	Keeper Keeper
	Now    func(ctx context.Context) (time.Time, error)
	Actor  func(ctx context.Context) string
	// Covers reports whether whoever asks has a say over a service; nil: everybody.
	Covers func(ctx context.Context, service string) bool
	// Audit is told of an answer before it counts.
	Audit func(ctx context.Context, actor, action, object, detail string) error
	Log   *slog.Logger
}

// API answers the JSON side of readiness; {service} is read by PathValue.
type API struct{ s Source }

// NewAPI returns the handlers over s.
func NewAPI(s Source) *API {
	if s.Covers == nil {
		s.Covers = func(context.Context, string) bool { return true }
	}
	return &API{s}
}

// Show answers GET /api/v1/readiness/{service}.
func (a *API) Show(w http.ResponseWriter, r *http.Request) {
	service := r.PathValue("service")
	if !a.covered(w, r, service) {
		return
	}
	all, err := a.s.Assess(r.Context(), service)
	if err != nil {
		a.away(w, err)
		return
	}
	reply.JSON(w, http.StatusOK, struct {
		Service string   `json:"service"`
		Ready   int      `json:"ready"`
		Of      int      `json:"of"`
		Answers []Answer `json:"answers"`
	}{service, Ready(all), len(all), all})
}

// Answer answers POST /api/v1/readiness/{service}: {"item": "limits", "yes": true,
// "evidence": "where it can be looked at"}.
func (a *API) Answer(w http.ResponseWriter, r *http.Request) {
	service := r.PathValue("service")
	var ask struct {
		Item     string
		Yes      bool
		Evidence string
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		reply.Problem(w, http.StatusBadRequest, "bad_request", "the body must be JSON: "+err.Error())
		return
	}
	switch {
	case !Known(ask.Item):
		reply.Problem(w, http.StatusBadRequest, "bad_request", "item: must be one of "+strings.Join(Items(), ", ")+", got "+ask.Item)
		return
	case !ByHand(ask.Item):
		reply.Problem(w, http.StatusConflict, "computed", ask.Item+" is computed from what the system holds; nobody answers it by hand")
		return
	case len(strings.TrimSpace(ask.Evidence)) < 5 || len(ask.Evidence) > 2000:
		reply.Problem(w, http.StatusBadRequest, "bad_request", "evidence: must say where it can be looked at, in 5 to 2000 letters")
		return
	case !a.covered(w, r, service):
		return
	}
	now, err := a.s.Now(r.Context())
	if err == nil {
		actor := a.s.Actor(r.Context())
		if err = a.s.Audit(r.Context(), actor, "readiness.answer", service+"/"+ask.Item, ask.Evidence); err == nil {
			err = a.s.Keeper.AddAnswer(r.Context(), service, Given{Item: ask.Item, Evidence: ask.Evidence, Actor: actor, Yes: ask.Yes, At: now})
		}
	}
	if err != nil {
		a.away(w, err)
		return
	}
	a.keep(r.Context(), service, now)
	a.Show(w, r)
}

// keep writes the day down anew. That it cannot does not take the answer back.
func (a *API) keep(ctx context.Context, service string, now time.Time) {
	if a.s.Looked == nil {
		return
	}
	all, err := a.s.Assess(ctx, service)
	if err == nil {
		err = a.s.Looked(ctx, service, DayOf(all, now))
	}
	if err != nil {
		a.s.Log.Error("readiness is not written down", "service", service, "err", err)
	}
}

// The days of a trend that are shown, and that may be asked for.
const (
	trendDays = 90
	mostDays  = 800
)

// Trend answers GET /api/v1/readiness/{service}/trend?days=90.
func (a *API) Trend(w http.ResponseWriter, r *http.Request) {
	if !a.covered(w, r, r.PathValue("service")) {
		return
	}
	if all, ok := a.trends(w, r, r.PathValue("service")); ok {
		reply.JSON(w, http.StatusOK, all[0])
	}
}

// All answers GET /api/v1/readiness?days=90: the trend of every service.
func (a *API) All(w http.ResponseWriter, r *http.Request) {
	if all, ok := a.trends(w, r, ""); ok {
		reply.JSON(w, http.StatusOK, struct {
			Items    []string `json:"items"`
			Services []Trend  `json:"services"`
		}{Items(), all})
	}
}

func (a *API) trends(w http.ResponseWriter, r *http.Request, service string) ([]Trend, bool) {
	days := trendDays
	if text := r.URL.Query().Get("days"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostDays {
			reply.Problem(w, http.StatusBadRequest, "bad_request", "days: must be 1 to "+strconv.Itoa(mostDays)+", got "+text)
			return nil, false
		}
		days = n
	}
	now, err := a.s.Now(r.Context())
	var all []Trend
	if err == nil {
		all, err = a.s.Trends(r.Context(), service, now.AddDate(0, 0, 1-days))
	}
	if err != nil {
		a.away(w, err)
		return nil, false
	}
	return slices.DeleteFunc(all, func(t Trend) bool { return !a.s.Covers(r.Context(), t.Service) }), true
}

// covered answers who asks for a service that is not theirs.
func (a *API) covered(w http.ResponseWriter, r *http.Request, service string) bool {
	ok := a.s.Covers(r.Context(), service)
	if !ok {
		reply.Problem(w, http.StatusForbidden, "scope", "service "+service+" is outside the scope of this token")
	}
	return ok
}

func (a *API) away(w http.ResponseWriter, err error) {
	a.s.Log.Error("readiness", "err", err)
	reply.Problem(w, http.StatusServiceUnavailable, "ledger_away", "the ledger cannot be read or written now")
}
