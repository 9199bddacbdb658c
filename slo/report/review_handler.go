package report

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// ReviewDesk makes periodic reports of what the asker's scope covers.
type ReviewDesk struct {
	Source Source
	Ledger slo.ReviewLedger
	Trail  freeze.OverrideTrail // nil: overrides are not told of
	Now    func() time.Time     // nil: the clock
}

// ServeHTTP serves GET /api/v1/reports/budget?period=&at=&zone=&service=&team=&format=.
// Without at it is the last period that is over; format is json, md or html.
func (d *ReviewDesk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, now := r.URL.Query(), time.Now()
	if d.Now != nil {
		now = d.Now()
	}
	unit, zone, format := slo.Unit(orElse(q.Get("period"), string(slo.Week))), orElse(q.Get("zone"), "UTC"), orElse(q.Get("format"), "json")
	if format != "json" && format != "md" && format != "html" {
		badParameter(w, "format", "must be json, md or html")
		return
	}
	at, err := reviewInstant(q.Get("at"), unit, zone, now)
	if err != nil {
		badParameter(w, "period, at, zone", err.Error())
		return
	}
	who := auth.From(r.Context())
	statuses := slo.Only(d.Source.Statuses(), func(s *slo.Status) bool {
		o := &s.Objective
		return who.Covers(o.Service) && (!q.Has("service") || o.Service == q.Get("service")) && (!q.Has("team") || o.Owner == q.Get("team")) &&
			(!q.Has("env") || s.Env == q.Get("env"))
	})
	if len(statuses) == 0 {
		reply.Problem(w, http.StatusNotFound, "unknown_slo", "no such SLO is known here")
		return
	}
	read, err := slo.ReviewOf(r.Context(), d.Ledger, statuses, unit, zone, at, now)
	switch {
	case errors.Is(err, slo.ErrReview):
		badParameter(w, "at", err.Error())
		return
	case err != nil:
		failed(w, err)
		return
	}
	out := ReviewOf(read)
	if d.Trail != nil {
		moves, err := d.Trail.OverrideMoves(r.Context(), read.From, read.To)
		if err != nil {
			failed(w, err)
			return
		}
		narrow := q.Has("service") || q.Has("team") || q.Has("env")
		count := freeze.CountOverrides(moves, func(service, env string) bool {
			return who.Covers(service) && (!narrow || slices.ContainsFunc(statuses, func(s slo.Status) bool {
				return s.Objective.Service == service && (env == "" || s.Env == env)
			}))
		})
		out.Overrides = &count
	}
	w.Header().Set("Cache-Control", "no-store")
	switch format {
	case "html":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		err = out.HTML(w)
	case "md":
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		err = out.Markdown(w)
	default:
		reply.JSON(w, http.StatusOK, out)
	}
	if err != nil { // nothing was written yet, or the client has gone
		reply.Problem(w, http.StatusInternalServerError, "internal", "the report cannot be rendered")
	}
}

// reviewInstant reads a date or an instant; without one it is the last instant of
// the period before the one that goes on.
func reviewInstant(text string, unit slo.Unit, zone string, now time.Time) (time.Time, error) {
	from, _, err := slo.ReviewPeriod(unit, zone, now)
	if err != nil {
		return now, err
	}
	if text == "" {
		return from.Add(-time.Minute), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	day, err := time.ParseInLocation("2006-01-02", text, in(zone, now).Location())
	if err != nil {
		return now, errors.New("at must be a date such as 2026-03-10, or an RFC 3339 instant")
	}
	return day.Add(12 * time.Hour), nil // whatever its clocks do at midnight
}
