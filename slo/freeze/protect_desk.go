package freeze

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/internal/retrylog"
	"breakwater/slo"
)

// MeasureArchive lists measures, those that ended too, and what gateways told of them.
type MeasureArchive interface {
	Measures(ctx context.Context, service string, since time.Time, limit int) ([]Measure, error)
	MeasureTurns(ctx context.Context, since time.Time) ([]retrylog.Transition, error)
}

// Shown is a measure with what it does in words, as API and pages have it.
type Shown struct {
	Measure
	Text string `json:"text"`
	// Live: gateways and experiments obey it now.
	Live bool `json:"live"`
	// Since which state on it holds: when the budget is better than that it ends.
	HoldsFrom slo.Level `json:"holds_from"`
	// UntilAt is when that is, if nothing else fails; null: nobody can tell.
	UntilAt *time.Time `json:"until_at"`
	// LapsesAt is when it ends if nothing is heard of its service until then; null: it
	// has ended.
	LapsesAt *time.Time `json:"lapses_at"`
	// Blind: nothing is known of the service at present, and what was decided holds on.
	Blind bool `json:"blind,omitempty"`
	// Gateways have told that they obey it.
	Gateways []string `json:"gateways"`
}

// Protecting lists the measures that hold and those that ended since an instant, the
// latest first, of the services that whoever ctx is about may see.
func (d *Desk) Protecting(ctx context.Context, archive MeasureArchive, service string, since time.Time) ([]Shown, error) {
	now := d.instant()
	all, err := archive.Measures(ctx, service, since, 1000)
	if err != nil {
		return nil, err
	}
	oldest := now
	for _, m := range all {
		if m.Live(now) && m.From.Before(oldest) {
			oldest = m.From
		}
	}
	var turns []retrylog.Transition
	if oldest.Before(now) {
		// Gateways write by their own clocks.
		if turns, err = archive.MeasureTurns(ctx, oldest.Add(-2*time.Minute)); err != nil {
			return nil, err
		}
	}
	known, statuses := d.book.Known(), d.source.Statuses()
	_, blind := Wanted(known.Policies, statuses, now)
	out := []Shown{}
	for _, m := range all {
		if !auth.From(ctx).Covers(m.Service) {
			continue
		}
		s := Shown{Measure: m, Text: m.Text(), Live: m.Live(now), HoldsFrom: m.holdsFrom(known.Policies), Gateways: []string{}}
		if m.EndedAt == nil {
			lapses := m.SeenAt.Add(Lapse)
			s.LapsesAt, s.Blind, s.UntilAt = &lapses, blind(m.Service, m.Env), m.until(s.HoldsFrom, statuses)
		}
		if s.Live {
			s.Gateways = m.obeyedBy(turns)
		}
		out = append(out, s)
	}
	return out, nil
}

// holdsFrom is the mildest state in which one of its policies asks for m; the state
// that called for it where they have changed since.
func (m Measure) holdsFrom(policies []Policy) slo.Level {
	from := m.State
	for _, p := range policies {
		if !slices.Contains(m.Policies, p.Name) {
			continue
		}
		for _, a := range p.Acts {
			asks := m.Kind == Shed && a.Keep != "" && a.Keep == m.Keep || m.Kind == Limit && a.Limit != nil || m.Kind == StopAll && a.Drills == StopDrills || m.Kind == RefuseAll && a.Drills == RefuseDrills || m.Kind == CapDeploys && a.Deploys != nil
			if asks && slo.Rank(a.From) < slo.Rank(from) {
				from = a.From
			}
		}
	}
	return from
}

// until is when the freeze that m rests on thaws at best. What holds in milder states
// too ends by figures of which no time can be told.
func (m Measure) until(from slo.Level, statuses []slo.Status) *time.Time {
	var set []slo.Status
	for _, s := range statuses {
		if s.Objective.Service == m.Service && s.Env == m.Env {
			set = append(set, s)
		}
	}
	if s, ok := slo.Worst(set); ok && from == slo.Frozen && s.Level == slo.Frozen {
		return instant(s.ThawAt)
	}
	return nil
}

// obeyedBy are the gateways whose last word about m is that it is in force there.
func (m Measure) obeyedBy(turns []retrylog.Transition) []string {
	effect := string(m.Kind)
	if m.Limit != nil {
		effect += "_" + string(m.Limit.Direction)
	}
	on := map[string]bool{}
	for _, t := range turns {
		if t.Service != m.Service || t.Env != "" && t.Env != m.Env {
			continue
		}
		switch effect {
		case t.To:
			on[t.Gateway] = true
		case t.From:
			delete(on, t.Gateway)
		}
	}
	out := []string{}
	for name := range on {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Measures serves GET /api/v1/measures?service=&days=: the protective measures that
// hold, dry runs too, and those that ended within so many days, one unless said.
func (d *Desk) Measures(archive MeasureArchive) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		back, ok := days(w, r, 1)
		if !ok {
			return
		}
		list, err := d.Protecting(r.Context(), archive, strings.TrimSpace(r.URL.Query().Get("service")), d.instant().Add(-back))
		if err != nil {
			reply.Away(w)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"measures": list})
	}
}

// days reads how far to look back.
func days(w http.ResponseWriter, r *http.Request, otherwise int) (time.Duration, bool) {
	n := otherwise
	if text := r.URL.Query().Get("days"); text != "" {
		if n = map[string]int{"1": 1, "7": 7, "30": 30, "90": 90}[text]; n == 0 {
			reply.Problem(w, http.StatusBadRequest, "bad_parameter", "days: must be 1, 7, 30 or 90")
			return 0, false
		}
	}
	return time.Duration(n) * 24 * time.Hour, true
}
