package web

import (
	"context"
	"slices"
	"time"

	"breakwater/slo"
)

// worstLeads puts first in each service the objective that the gate and the API go by,
// and orders services by it.
func (v *view) worstLeads() {
	for i := range v.services {
		all := v.services[i].Statuses
		first := 0
		for j := range all {
			if all[j].Rules(all[first]) {
				first = j
			}
		}
		worst := all[first]
		copy(all[1:first+1], all[:first])
		all[0] = worst
	}
	slices.SortStableFunc(v.services, func(a, b service) int { return worseFirst(a.Statuses[0], b.Statuses[0]) })
}

// pointsOf is the burn-down of st over a. It ends where data ends, which is where the
// window of every other figure of st ends, and its last point is st's own budget: what
// is counted while a page is made must not set a chart against the figure beside it. The
// time since then, where it is long, has no data.
func (s *Server) pointsOf(ctx context.Context, v view, st *slo.Status, a axis, step time.Duration) ([]slo.Point, error) {
	end := a.to
	if data := st.DataUntil.Add(time.Minute - 1).Truncate(time.Minute); !st.DataUntil.IsZero() && data.Before(end) {
		end = data
	}
	var points []slo.Point
	var err error
	if a.from.Before(end) {
		points, err = s.cfg.Ledger.Points(ctx, st.Objective, st.Env, a.from, end, step)
	} else {
		end = a.from // silent for longer than is looked at
	}
	if n := len(points); err == nil && n > 0 && points[n-1].At.Equal(end) {
		points = slices.Clone(points)
		points[n-1].RemainingPPM, points[n-1].NoData = st.Budget.RemainingPPM, st.Budget.NoData
	}
	for at := end.Add(step); err == nil && !at.After(v.now); at = at.Add(step) {
		points = append(points, slo.Point{At: at, NoData: true})
	}
	return points, err
}
