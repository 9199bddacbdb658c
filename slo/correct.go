package slo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// CorrectionMode says what a correction makes of its time.
type CorrectionMode string

// The modes.
const (
	// Remove takes the time out, good and bad: it is as if it had not been.
	Remove CorrectionMode = "remove"
	// Up keeps the time and counts its failures as good.
	Up CorrectionMode = "up"
)

// Correction is planned work, or any other time in which failures say nothing of
// the promise. Corrections are rows with an author and a reason, and each is in
// the audit: a budget that can be mended in silence is none.
type Correction struct {
	ID        string
	Objective string // "": all of the service
	Service   string
	Env       string // "": all
	From, To  time.Time
	// Mode is Remove where requests are budgeted and Up where time is, unless the
	// author chose.
	Mode              CorrectionMode
	Reason, Ticket    string
	Author            string
	At                time.Time
	RevokedAt         time.Time
	RevokedBy, Revoke string
}

// ErrCorrection is wrapped by every refusal of a correction.
var ErrCorrection = errors.New("bad correction")

// Check reports what is wrong with c.
func (c Correction) Check(now time.Time) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrCorrection, field, fmt.Sprintf(format, args...)))
	}
	if c.Service == "" && c.Objective == "" {
		bad("service", "must name a service or an objective")
	}
	if c.From.IsZero() || !c.From.Before(c.To) {
		bad("from, to", "must be instants in this order, got %s and %s", c.From.Format(time.RFC3339), c.To.Format(time.RFC3339))
	}
	if c.To.Sub(c.From) > 31*24*time.Hour {
		bad("to", "must be at most 31 days after from, got %s", Span(c.To.Sub(c.From)))
	}
	if c.From.After(now.Add(366 * 24 * time.Hour)) {
		bad("from", "must be within a year from now, got %s", c.From.Format(time.RFC3339))
	}
	if c.Mode != Remove && c.Mode != Up {
		bad("mode", "must be %s or %s, got %q", Remove, Up, c.Mode)
	}
	if c.Reason == "" {
		bad("reason", "must be given")
	}
	return errors.Join(errs...)
}

// DefaultMode is what a correction of o does where its author did not say.
func (o Objective) DefaultMode() CorrectionMode {
	if o.Sliced() {
		return Up
	}
	return Remove
}

// Touches reports whether c is in force for o in env.
func (c Correction) Touches(o Objective, env string) bool {
	return c.RevokedAt.IsZero() && (c.Objective == o.ID || c.Objective == "" && c.Service == o.Service) && (c.Env == "" || c.Env == env)
}

// Period is a span of time at minute edges.
type Period struct{ From, To time.Time }

// Corrected returns the parts of [from, to) that are removed and those that
// count as up, each without overlaps, ascending. Whole minutes are corrected: one
// that a correction touches is corrected. Where both modes meet, time is removed.
func Corrected(list []Correction, from, to time.Time) (removed, up []Period) {
	var r, u []Period
	for _, c := range list {
		p := Period{c.From.Truncate(time.Minute), c.To.Add(time.Minute - 1).Truncate(time.Minute)}
		if p.From.Before(from) {
			p.From = from
		}
		if p.To.After(to) {
			p.To = to
		}
		switch {
		case !p.From.Before(p.To):
		case c.Mode == Up:
			u = append(u, p)
		default:
			r = append(r, p)
		}
	}
	removed = merge(r)
	return removed, without(merge(u), removed)
}

func merge(list []Period) []Period {
	slices.SortFunc(list, func(a, b Period) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
	var out []Period
	for _, p := range list {
		if n := len(out); n > 0 && !p.From.After(out[n-1].To) {
			if p.To.After(out[n-1].To) {
				out[n-1].To = p.To
			}
			continue
		}
		out = append(out, p)
	}
	return out
}

// without takes the periods of b out of those of a; both are merged.
func without(a, b []Period) []Period {
	var out []Period
	for _, p := range a {
		for _, q := range b {
			if !q.From.Before(p.To) || !p.From.Before(q.To) {
				continue
			}
			if p.From.Before(q.From) {
				out = append(out, Period{p.From, q.From})
			}
			p.From = q.To
			if !p.From.Before(p.To) {
				break
			}
		}
		if p.From.Before(p.To) {
			out = append(out, p)
		}
	}
	return out
}
