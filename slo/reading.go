package slo

import (
	"math/big"
	"time"
)

// reading is what one Measured comes to: the tallies that decide, and what is
// shown beside them.
type reading struct {
	objective Objective
	frame     Frame
	closed    Tally
	running   Tally
	spared    int64
	slices    Slices
	burns     []Tally
	strip     strip // of an objective on time
	removed   []Period
	up        []Period
}

// parts is the unit a composite on events is weighed in: what its members have
// spent, weighted, as so many of this many.
const parts = 1_000_000_000_000_000

// read makes tallies of what was measured.
func read(m Measured) reading {
	o := m.Objective
	r := reading{objective: o, frame: o.Frame(m.DataUntil)}
	r.removed, r.up = Corrected(m.Corrections, r.frame.Back.Add(-o.Window), r.frame.End)
	switch {
	case o.Sliced():
		r.readSlices(m)
	case o.terms().Indicator.Kind == Composite:
		r.closed = compose(o, m.Parts, func(p Counted) Sums { return p.Closed })
		r.running = compose(o, m.Parts, func(p Counted) Sums { return p.Running })
		for i := range o.Windows() {
			r.burns = append(r.burns, compose(o, m.Parts, func(p Counted) Sums { return nth(p.Burns, i) }))
		}
	case len(m.Parts) > 0:
		p := m.Parts[0]
		r.closed, _ = o.Tally(p.Closed)
		r.running, r.spared = o.Tally(p.Running)
		for i := range o.Windows() {
			t, _ := o.Tally(nth(p.Burns, i))
			r.burns = append(r.burns, t)
		}
	}
	r.running.Lost, r.running.MeasuredMins, r.running.ExpectedMins = m.Reported.Lost, m.Reported.MeasuredMins, m.Reported.ExpectedMins
	return r
}

func nth(list []Sums, i int) Sums {
	if i < len(list) {
		return list[i]
	}
	return Sums{}
}

func nthTally(list []Tally, i int) Tally {
	if i < len(list) {
		return list[i]
	}
	return Tally{}
}

func (r *reading) readSlices(m Measured) {
	o, f := r.objective, r.frame
	var strips []strip
	for _, p := range m.Parts {
		member := p.Objective
		terms := member.terms()
		// A member is cut as the whole is: slices can only be put side by side where
		// they are of one kind.
		terms.Method = o.terms().Method
		if terms.Indicator.Kind == Freshness {
			terms.Method = Timeslices
		}
		member.Terms = &terms
		s := stripOf(member, p.Slices, f.Back, f.End, f.Running.To)
		if full := o.fullSlice(); s.full != full {
			for i := range s.bad {
				s.bad[i] *= full / s.full
			}
			s.full = full
		}
		strips = append(strips, s)
	}
	if len(strips) == 0 {
		return
	}
	r.strip = join(strips)
	// The whole window is the denominator, the part still to come included.
	r.slices = r.strip.count(r.removed, r.up, r.frame.Running.From, f.End)
	closed := r.strip.count(r.removed, r.up, f.Closed.From, f.Closed.To)
	closed.Total = r.slices.Total
	r.running, r.closed = r.slices.Tally(o), closed.Tally(o)
	if r.slices.Measured == 0 {
		r.running, r.closed = Tally{}, Tally{} // no slice was ever measured: nothing is known
	}
	for _, w := range o.Windows() {
		b := f.Burn(o, w)
		s := r.strip.count(r.removed, r.up, b.From, b.To)
		t := s.Tally(o)
		if s.Measured == 0 {
			t = Tally{}
		}
		r.burns = append(r.burns, t)
	}
}

// fullSlice is what a wholly bad slice of o weighs.
func (o Objective) fullSlice() int64 {
	if t := o.terms(); t.Method == RatioTimeslices {
		return t.Slice.Microseconds()
	}
	return 1
}

// compose weighs a composite at spans that of picks.
func compose(o Objective, members []Counted, of func(Counted) Sums) Tally {
	tallies := make([]Tally, len(members))
	for i, p := range members {
		tallies[i], _ = p.Objective.Tally(of(p))
	}
	return mix(o, members, tallies)
}

// mix weighs a composite by the tallies of its members: what it has spent is the
// sum of what they have, each by its weight, as exact fractions; only the sum is
// rounded, up.
func mix(o Objective, members []Counted, tallies []Tally) Tally {
	c := new(big.Rat)
	var out Tally
	any := false
	for i, t := range tallies {
		p := members[i]
		n := t.Good + t.Bad
		out = out.Plus(t)
		if n <= 0 {
			continue
		}
		any = true
		spent := new(big.Rat).SetFrac(
			product(t.Bad, whole, p.WeightPPM),
			product(n, whole-p.Objective.TargetPPB, million))
		c.Add(c, spent)
	}
	out.Good, out.Bad = 0, 0
	if !any {
		return out
	}
	c.Mul(c, new(big.Rat).SetFrac(product(whole-o.TargetPPB, parts/whole), big.NewInt(1)))
	n, rest := new(big.Int).QuoRem(c.Num(), c.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	out.Bad = parts
	if n.IsInt64() && n.Int64() < parts {
		out.Bad = n.Int64()
	}
	out.Good = parts - out.Bad
	return out
}

// elapsed is how much of the period is counted.
func (r reading) elapsed() time.Duration { return r.frame.Running.To.Sub(r.frame.Running.From) }

// budget weighs what is running.
func (r reading) budget() Budget {
	o := r.objective
	var b Budget
	switch {
	case o.Sliced():
		b = Weigh(o, r.running)
		b.Slices = r.slices
	case o.terms().Calendar != nil:
		b = WeighPeriod(o, r.running, r.elapsed())
	default:
		b = Weigh(o, r.running)
	}
	b.ChaosSpared = r.spared
	return b
}

// measurement is what the freeze machine sees: a calendar period is judged on the
// whole of it, so that its first failure does not spend a day's budget.
func (r reading) measurement(coveragePPM int64) Measurement {
	m := Measurement{TargetPPB: r.objective.TargetPPB, Closed: r.closed, Running: r.running, CoveragePPM: coveragePPM}
	if o := r.objective; o.terms().Calendar != nil && !o.Sliced() {
		for _, t := range []*Tally{&m.Closed, &m.Running} {
			span := r.frame.Closed
			if t == &m.Running {
				span = r.frame.Running
			}
			if base, _ := o.base(*t, span.To.Sub(span.From)); t.Good+t.Bad > 0 {
				t.Good = base - t.Bad
			}
		}
	}
	m.Sample = Sample{Lines: r.running.Sampled, VarGood: r.running.VarGood, VarBad: r.running.VarBad}
	return m
}

// Fold weighs a Measured that was read for one instant alone, without any state:
// the budget as an evaluation there would have seen it.
func Fold(m Measured) Budget { return read(m).budget() }

// FoldPoint is Fold as a point of a burn-down, with what came in the step that
// ends there.
func FoldPoint(m Measured, step Period, sums []Sums) Point {
	r := read(m)
	b := r.budget()
	p := Point{At: m.DataUntil, RemainingPPM: b.RemainingPPM, Weighed: b.Valid, NoData: b.NoData}
	if r.objective.Sliced() {
		s := r.strip.count(r.removed, r.up, step.From, step.To)
		t := Slices{Total: s.Measured, Bad: s.Bad, BadUS: s.BadUS}.Tally(r.objective)
		p.Valid, p.Bad = t.Good+t.Bad, t.Bad
		return p
	}
	for i, part := range m.Parts {
		t, _ := part.Objective.Tally(nth(sums, i))
		p.Valid, p.Bad, p.ChaosBad = p.Valid+t.Good+t.Bad, p.Bad+t.Bad, p.ChaosBad+t.ChaosBad
	}
	return p
}
