package slo

import (
	"slices"
	"time"
)

// Backtest is what an objective and a policy would have made of what was counted.
type Backtest struct {
	From, To time.Time
	Step     time.Duration
	// Levels is how long each level would have been in force.
	Levels map[Level]time.Duration
	Moves  []Move
	Fires  []Fire
	// Freezes is how often releases would have stopped, WorstPPM the most that was
	// ever spent, End what would be left now.
	Freezes  int
	WorstPPM int64
	End      Budget
	Valid    int64
	Bad      int64
	// Skipped are rules whose short window is finer than what is kept of so long
	// ago.
	Skipped []Pair
}

// Move is a change of level.
type Move struct {
	At       time.Time
	From, To Level
	SpentPPM int64
	Reason   string
}

// Fire is one span in which a burn rule would have fired.
type Fire struct {
	Rule     string
	Severity string
	From, To time.Time // To is zero where it fires to the end
	Bad      int64     // of the long window, at its worst
}

// sumAt are prefix sums of slots.
type sumAt struct {
	at         []int64 // nanoseconds
	valid, bad []int64
}

func sumUp(slots []Slot) sumAt {
	s := sumAt{at: make([]int64, len(slots)), valid: make([]int64, len(slots)+1), bad: make([]int64, len(slots)+1)}
	for i, x := range slots {
		s.at[i] = x.At.UnixNano()
		s.valid[i+1] = s.valid[i] + x.Valid
		s.bad[i+1] = s.bad[i] + x.Bad
	}
	return s
}

// edge is how many slots begin before an instant. Instants of a replay go on, and so
// does the edge, where looking each up anew would be most of its work.
type edge struct{ n int }

func (e *edge) to(s *sumAt, at time.Time) int {
	ns := at.UnixNano()
	for e.n > 0 && s.at[e.n-1] >= ns {
		e.n-- // a period that begins anew
	}
	for e.n < len(s.at) && s.at[e.n] < ns {
		e.n++
	}
	return e.n
}

// between is what the slots from the i-th to before the j-th hold.
func (s *sumAt) between(i, j int) Tally {
	if j < i {
		return Tally{}
	}
	bad := s.bad[j] - s.bad[i]
	return Tally{Good: s.valid[j] - s.valid[i] - bad, Bad: bad}
}

// Try runs o under p over slots, one evaluation a step, each as it would have
// been: with what was in the window then and nothing of what came later. Slots
// ascend and reach back a window before from, where there was any traffic; they
// count events of o, or of each minute where o is on time. What came late is in
// them, so a backtest sees a little more than an evaluation did.
func Try(o Objective, p Policy, slots []Slot, from, to time.Time, step time.Duration) Backtest {
	out := Backtest{From: from, To: to, Step: step, Levels: map[Level]time.Duration{}}
	if o.Sliced() {
		slots = slicesAsSlots(o, slots, from, to)
	}
	sums := sumUp(slots)
	var first, end, begin edge
	all := sums.between(first.to(&sums, from), end.to(&sums, to))
	out.Valid, out.Bad = all.Good+all.Bad, all.Bad
	rules := slices.DeleteFunc(o.Rules(), func(r Pair) bool {
		if r.Short() < step {
			out.Skipped = append(out.Skipped, r)
			return true
		}
		return false
	})
	firing, longs, shorts := make([]*Fire, len(rules)), make([]edge, len(rules)), make([]edge, len(rules))
	calendar, guard := o.terms().Calendar != nil && !o.Sliced(), o.Guard()
	var s State
	end = edge{}
	for t := from.Add(step); !t.After(to); t = t.Add(step) {
		at := o.At(t)
		start, _, _ := at.Span(t)
		until := end.to(&sums, t)
		tally := sums.between(begin.to(&sums, start), until)
		b := Weigh(at, tally)
		m := Measurement{TargetPPB: o.TargetPPB, Closed: tally, Running: tally, CoveragePPM: million}
		if calendar {
			b = WeighPeriod(at, tally, t.Sub(start))
			if b.Valid > 0 {
				m.Running.Good = b.Base - tally.Bad
				m.Closed = m.Running
			}
		}
		before := s.Level
		s = p.next(s, m, t)
		if before != s.Level && before != "" {
			out.Moves = append(out.Moves, Move{At: t, From: before, To: s.Level, SpentPPM: b.SpentPPM, Reason: p.reason(s, m)})
		}
		if s.Level == Frozen && before != Frozen {
			out.Freezes++
		}
		out.Levels[s.Level] += step
		out.WorstPPM = max(out.WorstPPM, b.SpentPPM)
		out.End = b
		for i, r := range rules {
			long, short := sums.between(longs[i].to(&sums, t.Add(-r.Long)), until), sums.between(shorts[i].to(&sums, t.Add(-r.Short())), until)
			fires := r.Exceeds(at, short.Bad, short.Good+short.Bad) && r.Exceeds(at, long.Bad, long.Good+long.Bad) && guard.Lets(r, at, long.Bad, long.Good+long.Bad)
			switch {
			case fires && firing[i] == nil:
				firing[i] = &Fire{Rule: r.Name, Severity: r.Severity, From: t, Bad: long.Bad}
			case fires:
				firing[i].Bad = max(firing[i].Bad, long.Bad)
			case firing[i] != nil:
				firing[i].To = t
				out.Fires = append(out.Fires, *firing[i])
				firing[i] = nil
			}
		}
	}
	for _, f := range firing {
		if f != nil {
			out.Fires = append(out.Fires, *f)
		}
	}
	slices.SortStableFunc(out.Fires, func(a, b Fire) int { return a.From.Compare(b.From) })
	return out
}

// slicesAsSlots turns minutes into slices, one slot each, with those that had no
// traffic as good ones.
func slicesAsSlots(o Objective, minutes []Slot, from, to time.Time) []Slot {
	if len(minutes) == 0 {
		return nil
	}
	counts := make([]MinuteCount, len(minutes))
	for i, m := range minutes {
		counts[i] = MinuteCount{At: m.At, Valid: m.Valid, Bad: m.Bad, Good: m.Valid - m.Bad}
	}
	first, _, _ := o.At(from).Span(from)
	s := stripOf(o, SliceOf(o, counts), first, to, to)
	out := make([]Slot, s.n)
	for i := range out {
		out[i] = Slot{At: s.from.Add(time.Duration(i) * s.slice), For: s.slice, Valid: s.full, Bad: s.bad[i]}
	}
	return out
}

// Recomputation is what counting anew would change.
type Recomputation struct {
	At     time.Time
	DryRun bool
	// Minutes were looked at; Sums are those of them, of hours or of days that are
	// not what their rows add up to.
	Minutes int64
	Sums    []Difference
	// Decisions are changes of level whose counts are different by now: late events
	// came, a correction was made, or the promise has another revision.
	Decisions []Redecided
	Budget    Budget // as it is now, made anew
}

// Difference is a stored sum that is wrong.
type Difference struct {
	Span             string // minute, hour, day
	At               time.Time
	StoredGood, Good int64
	StoredBad, Bad   int64
}

// Redecided is a decision beside what the figures say of the same instant today.
// What was decided stays: it was right by what was known.
type Redecided struct {
	Transition Transition
	Good, Bad  int64
	Measured   Level // without the memory a state has
	Revision   int64
}
