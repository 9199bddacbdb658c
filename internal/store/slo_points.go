package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// Points returns the burn-down of o in env: the budget left at the end of each
// step of [from, to), the last one at to. Each point is the exact budget of the
// window that ends there, the same that an evaluation at that instant has seen.
// Steps of hours end on the hour, so that months are read from hours, and the
// last one is what is left over.
func (s *Store) Points(ctx context.Context, o slo.Objective, env string, from, to time.Time, step time.Duration) ([]slo.Point, error) {
	step = max(step.Truncate(time.Minute), time.Minute)
	end := ceilMinute(to)
	grid := end
	if step >= time.Hour {
		step = step.Truncate(time.Hour)
		grid = end.Truncate(time.Hour)
	}
	n := max(int((grid.Sub(from)+step-1)/step), 0)
	from = grid.Add(-time.Duration(n) * step)
	var points []slo.Point
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		corrected, err := activeCorrections(ctx, tx)
		if err != nil {
			return err
		}
		corrected = slices.DeleteFunc(corrected, func(c slo.Correction) bool {
			return !c.Touches(o, env) || !c.To.After(from.Add(-o.Window)) || !c.From.Before(end)
		})
		// A plain window that slides is what entered less what left; whatever
		// begins anew, is corrected or made of parts is weighed point by point.
		if terms := o.Spec(); len(corrected) == 0 && terms.Calendar == nil && !o.Sliced() && terms.Indicator.Kind != slo.Composite &&
			terms.Chaos != slo.ChaosCap && o.Counted.IsZero() {
			points, err = slide(ctx, tx, o, env, from, grid, end, step)
			return err
		}
		points, err = weighEach(ctx, tx, o, env, from, grid, end, step)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("burn-down of %s: %w", o.ID, err)
	}
	return points, nil
}

func slide(ctx context.Context, tx pgx.Tx, o slo.Objective, env string, from, grid, end time.Time, step time.Duration) ([]slo.Point, error) {
	var a asks
	a.add(ask{o.Service, env, from.Add(-o.Window), from})
	a.add(ask{o.Service, env, end.Add(-o.Window), end})
	a.add(ask{o.Service, env, grid, end})
	base, err := tallies(ctx, tx, &a)
	if err != nil {
		return nil, err
	}
	entering, err := series(ctx, tx, o, env, from, grid, step)
	if err != nil {
		return nil, err
	}
	leaving, err := series(ctx, tx, o, env, from.Add(-o.Window), grid.Add(-o.Window), step)
	if err != nil {
		return nil, err
	}
	first, _ := o.Tally(slo.Sums{All: base[0]})
	good, bad := first.Good, first.Bad
	points := make([]slo.Point, int(grid.Sub(from)/step))
	for i := range points {
		p := slo.Point{At: from.Add(time.Duration(i+1) * step)}
		for len(entering) > 0 && entering[0].At.Before(p.At) {
			e := entering[0]
			good, bad = good+e.Valid-e.Bad, bad+e.Bad
			p.Valid, p.Bad, p.ChaosBad = p.Valid+e.Valid, p.Bad+e.Bad, p.ChaosBad+e.ChaosBad
			entering = entering[1:]
		}
		for len(leaving) > 0 && leaving[0].At.Before(p.At.Add(-o.Window)) {
			l := leaving[0]
			good, bad = good-(l.Valid-l.Bad), bad-l.Bad
			leaving = leaving[1:]
		}
		b := slo.Weigh(o, slo.Tally{Good: good, Bad: bad})
		p.RemainingPPM, p.Weighed, p.NoData = b.RemainingPPM, b.Valid, b.NoData
		points[i] = p
	}
	if grid.Before(end) {
		last, _ := o.Tally(slo.Sums{All: base[1]})
		rest, _ := o.Tally(slo.Sums{All: base[2]})
		b := slo.Weigh(o, last)
		points = append(points, slo.Point{At: end, RemainingPPM: b.RemainingPPM, Weighed: b.Valid, NoData: b.NoData,
			Valid: rest.Good + rest.Bad, Bad: rest.Bad, ChaosBad: rest.ChaosBad})
	}
	return points, nil
}

// maxWeighed bounds how many points are weighed one by one.
const maxWeighed = 1500

func weighEach(ctx context.Context, tx pgx.Tx, o slo.Objective, env string, from, grid, end time.Time, step time.Duration) ([]slo.Point, error) {
	var ends []time.Time
	for t := from.Add(step); !t.After(grid); t = t.Add(step) {
		ends = append(ends, t)
	}
	if grid.Before(end) {
		ends = append(ends, end)
	}
	if len(ends) > maxWeighed {
		ends = ends[len(ends)-maxWeighed:]
	}
	each := make([]slo.Measured, len(ends))
	steps := make([]slo.Period, len(ends))
	for i, t := range ends {
		each[i] = slo.Measured{Objective: o.At(t), Env: env, Seen: true, DataUntil: t}
		steps[i] = slo.Period{From: t.Add(-step), To: t}
		if i > 0 && steps[i].From.Before(ends[i-1]) {
			steps[i].From = ends[i-1]
		}
	}
	sums, err := foldAll(ctx, tx, each, steps)
	if err != nil {
		return nil, err
	}
	points := make([]slo.Point, len(ends))
	for i := range each {
		points[i] = slo.FoldPoint(each[i], steps[i], sums[i])
	}
	return points, nil
}

// foldAll reads what Fold needs of each of list, which are one objective at several
// instants, and the sums of a step of each.
func foldAll(ctx context.Context, tx pgx.Tx, list []slo.Measured, steps []slo.Period) ([][]slo.Sums, error) {
	corrected, err := activeCorrections(ctx, tx)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	members, err := partsOf(ctx, tx, list[0].Objective)
	if err != nil {
		return nil, err
	}
	var r reader
	sums := make([][]slo.Sums, len(list))
	// Slices are read once, for the instant that reaches furthest each way.
	shared := make([]slo.Counted, len(members))
	back := list[0].DataUntil
	for i := range list {
		m := &list[i]
		m.Parts = slices.Clone(members)
		f := m.Objective.Frame(m.DataUntil)
		if f.Back.Before(back) {
			back = f.Back
		}
		for _, c := range corrected {
			if touches(c, m) && c.To.After(f.Back) && c.From.Before(f.End) {
				m.Corrections = append(m.Corrections, c)
			}
		}
		sums[i] = make([]slo.Sums, len(members))
		if m.Objective.Sliced() {
			continue
		}
		for j := range m.Parts {
			service := m.Parts[j].Objective.Service
			r.span(m, service, f.Running, &m.Parts[j].Running)
			if i < len(steps) {
				r.span(m, service, steps[i], &sums[i][j])
			}
		}
	}
	counted, err := tallies(ctx, tx, &r.sums)
	if err != nil {
		return nil, err
	}
	for _, fill := range r.fill {
		fill(counted, nil)
	}
	if !list[0].Objective.Sliced() {
		return sums, nil
	}
	var ask []sliceAsk
	for j, p := range members {
		shared[j] = p
		ask = append(ask, sliceAsk{&shared[j], list[0].Env, back, list[len(list)-1].DataUntil})
	}
	if err := readSlices(ctx, tx, ask); err != nil {
		return nil, err
	}
	for i := range list {
		for j := range list[i].Parts {
			list[i].Parts[j].Slices = shared[j].Slices
		}
	}
	return sums, nil
}

// partsOf are the parts o is counted by: itself, or the members of a composite.
func partsOf(ctx context.Context, tx pgx.Tx, o slo.Objective) ([]slo.Counted, error) {
	terms := o.Spec()
	if terms.Indicator.Kind != slo.Composite {
		return []slo.Counted{{Objective: o, WeightPPM: 1_000_000}}, nil
	}
	rows, err := tx.Query(ctx, objectivesSQL)
	if err != nil {
		return nil, fmt.Errorf("list objectives: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[objectiveRow])
	if err != nil {
		return nil, fmt.Errorf("list objectives: %w", err)
	}
	var out []slo.Counted
	for _, member := range terms.Indicator.Members {
		for _, r := range found {
			if r.ID == member.Objective {
				part, err := r.value()
				if err != nil {
					return nil, err
				}
				out = append(out, slo.Counted{Objective: part, WeightPPM: member.WeightPPM})
			}
		}
	}
	return out, nil
}

// BudgetAt is o's budget in env as it stood at an instant, minute edges, under the
// corrections that are in force now.
func (s *Store) BudgetAt(ctx context.Context, o slo.Objective, env string, at time.Time) (slo.Budget, error) {
	list := []slo.Measured{{Objective: o.At(ceilMinute(at)), Env: env, Seen: true, DataUntil: at}}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		_, err := foldAll(ctx, tx, list, nil)
		return err
	})
	if err != nil {
		return slo.Budget{}, fmt.Errorf("budget of %s: %w", o.ID, err)
	}
	return slo.Fold(list[0]), nil
}
