package finding

import (
	"context"
	"time"
)

// Standing is how findings stood at one instant.
type Standing struct {
	At     time.Time `json:"at"`
	Open   int       `json:"open"`   // found and not verified
	Severe int       `json:"severe"` // of them, high or critical by now
	// Opened and Closed are since the instant before; what came back was opened again.
	Opened int `json:"opened"`
	Closed int `json:"closed"`
}

// Findings lists what f lets through, what is due first on top.
func (d *Desk) Findings(ctx context.Context, f Filter) ([]Finding, error) {
	return d.cfg.Ledger.Findings(ctx, f)
}

// Finding returns one with its story, or injector.ErrNotFound.
func (d *Desk) Finding(ctx context.Context, id string) (Finding, []Event, error) {
	return d.cfg.Ledger.Finding(ctx, id)
}

// Burndown says how all stood at each instant, which go up.
func (d *Desk) Burndown(ctx context.Context, all []Finding, at []time.Time) ([]Standing, error) {
	stories := map[string][]Event{}
	for _, f := range all {
		if f.Reopened == 0 {
			continue // what never came back was opened once and closed at most once
		}
		_, story, err := d.cfg.Ledger.Finding(ctx, f.ID)
		if err != nil {
			return nil, err
		}
		stories[f.ID] = story
	}
	return Burndown(all, stories, at), nil
}

// Burndown is the pure part: stories are those of the findings that came back.
func Burndown(all []Finding, stories map[string][]Event, at []time.Time) []Standing {
	out := make([]Standing, len(at))
	for i, t := range at {
		out[i].At = t
	}
	for _, f := range all {
		for _, s := range f.spans(stories[f.ID]) {
			for i, t := range at {
				before := s.from.Before(t)
				if before && (s.until.IsZero() || !s.until.Before(t)) {
					out[i].Open++
					if f.Severe() {
						out[i].Severe++
					}
				}
				if i == 0 {
					continue // what came before it is not counted
				}
				if since := at[i-1]; before && !s.from.Before(since) {
					out[i].Opened++
				}
				if since := at[i-1]; !s.until.IsZero() && s.until.Before(t) && !s.until.Before(since) {
					out[i].Closed++
				}
			}
		}
	}
	return out
}

// span is when a finding was not verified; until is zero while it is so.
type span struct{ from, until time.Time }

// spans are those of f; a claim, or a risk that somebody answers for, closes nothing.
func (f Finding) spans(story []Event) []span {
	if len(story) == 0 {
		return []span{{f.OpenedAt, f.ClosedAt}}
	}
	var out []span
	open := false
	for _, e := range story {
		switch State(e.Kind) {
		case Open, Reopened:
			if !open {
				out, open = append(out, span{from: e.At}), true
			}
		case Verified:
			if open {
				out[len(out)-1].until, open = e.At, false
			}
		}
	}
	return out
}
