package freeze

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// Past has what levels were, for as long as it is kept.
type Past interface {
	Transitions(ctx context.Context, service string, since time.Time, limit int) ([]slo.Transition, error)
}

// Span is one freeze, from its beginning to its end.
type Span struct {
	Service   string     `json:"service"`
	Env       string     `json:"env"`
	Objective string     `json:"objective,omitempty"` // whose budget was spent
	By        string     `json:"by,omitempty"`        // who froze by hand
	From      time.Time  `json:"from"`
	Earlier   bool       `json:"earlier,omitempty"` // it began before From, which is as far as was looked
	To        *time.Time `json:"to"`                // null: it goes on
	Reason    string     `json:"reason"`
	Ended     string     `json:"ended,omitempty"` // why
}

// Frozen lists the freezes since an instant, of the services that whoever ctx is about
// may see, the latest first.
func (d *Desk) Frozen(ctx context.Context, past Past, service string, since time.Time) ([]Span, error) {
	moves, err := past.Transitions(ctx, service, since, 10_000)
	if err != nil {
		return nil, err
	}
	all := spans(moves, d.source.Statuses(), d.book.Known().Orders, since, d.instant())
	return slices.DeleteFunc(all, func(s Span) bool {
		return service != "" && s.Service != service || !auth.From(ctx).Covers(s.Service)
	}), nil
}

// spans puts changes of level and freezes by hand together. A level that becomes
// unknown holds what it was, so it ends no freeze.
func spans(moves []slo.Transition, statuses []slo.Status, orders []Order, since, now time.Time) []Span {
	out := []Span{}
	type key struct{ service, env, objective string }
	open, seen := map[key]int{}, map[key]bool{}
	moves = slices.Clone(moves)
	slices.SortStableFunc(moves, func(a, b slo.Transition) int { return a.At.Compare(b.At) })
	for _, m := range moves {
		k := key{m.Service, m.Env, m.Objective}
		at, was := open[k]
		switch {
		case m.To == slo.Frozen && !was:
			open[k] = len(out)
			out = append(out, Span{Service: m.Service, Env: m.Env, Objective: m.Objective, From: m.At.UTC(), Reason: m.Reason})
		case m.From == slo.Frozen && m.To != slo.Unknown && m.To != slo.Frozen:
			if !was && !seen[k] {
				at, was = len(out), true
				out = append(out, Span{Service: m.Service, Env: m.Env, Objective: m.Objective, From: since.UTC(), Earlier: true})
			}
			if was {
				end := m.At.UTC()
				out[at].To, out[at].Ended = &end, m.Reason
				delete(open, k)
			}
		}
		seen[k] = true
	}
	for _, s := range statuses {
		k := key{s.Objective.Service, s.Env, s.Objective.ID}
		at, was := open[k]
		switch {
		case s.Level == slo.Frozen && was:
			out[at].Reason = s.Reason // as it stands now
		case s.Level == slo.Frozen:
			span := Span{Service: k.service, Env: k.env, Objective: k.objective, From: s.FrozenAt.UTC(), Reason: s.Reason}
			if s.FrozenAt.Before(since) {
				span.From, span.Earlier = since.UTC(), true
			}
			out = append(out, span)
		}
	}
	for _, o := range orders {
		end := o.EndedAt
		if end == nil && o.Until != nil && !now.Before(*o.Until) {
			end = o.Until
		}
		if end != nil && end.Before(since) {
			continue
		}
		span := Span{Service: o.Service, Env: o.Env, By: o.By, From: o.At.UTC(), To: utcOf(end), Reason: o.Reason}
		if o.At.Before(since) {
			span.From, span.Earlier = since.UTC(), true
		}
		switch {
		case o.EndedBy != "":
			span.Ended = "taken back by " + o.EndedBy
		case end != nil:
			span.Ended = "its time was over"
		}
		out = append(out, span)
	}
	slices.SortStableFunc(out, func(a, b Span) int {
		return cmp.Or(b.From.Compare(a.From), strings.Compare(a.Service, b.Service), strings.Compare(a.Objective, b.Objective))
	})
	return out
}

func utcOf(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return instant(*t)
}

// History serves GET /api/v1/freezes/history?service=&days=: freezes that were and are,
// of 30 days unless said.
func (d *Desk) History(past Past) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		back, ok := days(w, r, 30)
		if !ok {
			return
		}
		list, err := d.Frozen(r.Context(), past, strings.TrimSpace(r.URL.Query().Get("service")), d.instant().Add(-back))
		if err != nil {
			reply.Away(w)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"freezes": list})
	}
}
