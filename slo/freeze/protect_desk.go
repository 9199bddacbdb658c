package freeze

import (
	"context"
	"net/http"
	"strings"
	"time"

	"breakwater/internal/auth"
)

// MeasureArchive lists measures, those that ended too.
type MeasureArchive interface {
	Measures(ctx context.Context, service string, since time.Time, limit int) ([]Measure, error)
}

// Shown is a measure with what it does in words, as API and pages have it.
type Shown struct {
	Measure
	Text string `json:"text"`
	// Live: gateways and experiments obey it now.
	Live bool `json:"live"`
}

// Show puts measures in the words of API and pages.
func Show(all []Measure, now time.Time) []Shown {
	out := []Shown{}
	for _, m := range all {
		out = append(out, Shown{m, m.Text(), m.Live(now)})
	}
	return out
}

// Measures serves GET /api/v1/measures?service=&days=: the protective measures that
// hold, dry runs too, and those that ended within so many days, one unless said.
func (d *Desk) Measures(archive MeasureArchive) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, now := r.URL.Query(), d.instant()
		back := 24 * time.Hour
		if text := q.Get("days"); text != "" {
			days := map[string]int{"1": 1, "7": 7, "30": 30, "90": 90}[text]
			if days == 0 {
				auth.Problem(w, http.StatusBadRequest, "bad_parameter", "days: must be 1, 7, 30 or 90")
				return
			}
			back = time.Duration(days) * 24 * time.Hour
		}
		all, err := archive.Measures(r.Context(), strings.TrimSpace(q.Get("service")), now.Add(-back), 1000)
		if err != nil {
			away(w)
			return
		}
		var mine []Measure
		for _, m := range all {
			if auth.From(r.Context()).Covers(m.Service) {
				mine = append(mine, m)
			}
		}
		write(w, http.StatusOK, map[string]any{"measures": Show(mine, now)})
	}
}
