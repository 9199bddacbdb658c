package slo

import "time"

// Pace is how much traffic is expected to come: Valid and Bad events each Per.
type Pace struct {
	Valid, Bad int64
	Per        time.Duration
}

// PaceOf is the traffic of the slots that begin at or after since, until until.
func PaceOf(slots []Slot, since, until time.Time) Pace {
	var p Pace
	first := until
	for _, s := range slots {
		// What began before since and what had not begun is no measure.
		if s.At.Before(since) || !s.At.Before(until) {
			continue
		}
		p.Valid += s.Valid
		p.Bad += s.Bad
		if s.At.Before(first) {
			first = s.At
		}
	}
	p.Per = until.Sub(first)
	return p
}

// in is how much of n, expected each p.Per, has come after d.
func (p Pace) in(n int64, d time.Duration) int64 {
	if n <= 0 || p.Per <= 0 || d <= 0 {
		return 0
	}
	return mulDiv(n, int64(d), int64(p.Per))
}

// mover is a window that moves on into the time to come.
type mover interface {
	// at moves on to t and returns what the window will hold then. Between two
	// instants at which something leaves it may be asked in any order.
	at(t time.Time) (valid, bad int64)
	// next is when something leaves the window next, after t; zero: nothing does.
	next(t time.Time) time.Time
}

// walk moves a window on: what leaves it is known exactly, what enters it is a
// pace.
type walk struct {
	window     time.Duration
	from       time.Time
	slots      []Slot
	pace       Pace
	valid, bad int64 // of what is still inside
	// fixed is the denominator where it does not move: the slices of a window, or
	// all of a calendar period.
	fixed int64
	end   time.Time // of the calendar period, at which all leaves at once
	// scale is how many parts an event is told in, 0 for whole ones: a pace of ten
	// failures an hour would else come in jumps, and a forecast with them.
	scale int64
}

// parts of an event are enough for a forecast.
const eventParts = 1000

func newWalk(window time.Duration, slots []Slot, pace Pace, from time.Time) *walk {
	w := &walk{window: window, from: from, slots: slots, pace: pace}
	for _, s := range slots {
		w.valid += s.Valid
		w.bad += s.Bad
	}
	return w
}

func (w *walk) at(t time.Time) (valid, bad int64) {
	if !w.end.IsZero() {
		return w.inPeriod(t)
	}
	for len(w.slots) > 0 {
		s := w.slots[0]
		// A slot is gone when its end has left, as in the sums: minutes and
		// hours leave whole.
		if s.At.Add(s.For).Add(w.window).After(t) {
			break
		}
		w.valid = max(w.valid-s.Valid, 0)
		w.bad = max(w.bad-s.Bad, 0)
		w.slots = w.slots[1:]
	}
	d, k := min(t.Sub(w.from), w.window), max(w.scale, 1)
	came := w.pace.in(w.pace.Bad*k, d)
	bad = w.bad*k + came
	valid = w.fixed * k
	if valid == 0 {
		valid = w.valid*k + max(w.pace.in(w.pace.Valid*k, d), came)
	}
	return max(valid, bad), bad
}

// inPeriod is at for a calendar period: nothing leaves before its end.
func (w *walk) inPeriod(t time.Time) (valid, bad int64) {
	k := max(w.scale, 1)
	if t.Before(w.end) {
		bad = w.bad*k + w.pace.in(w.pace.Bad*k, t.Sub(w.from))
		return max(w.fixed*k, bad), bad
	}
	d := t.Sub(w.end)
	if d <= 0 || w.pace.Valid <= 0 {
		return 0, 0 // a new period of which nothing is known
	}
	bad = w.pace.in(w.pace.Bad*k, d)
	return max(w.pace.in(w.pace.Valid*k, w.window), bad), bad
}

func (w *walk) next(t time.Time) time.Time {
	if !w.end.IsZero() {
		if t.Before(w.end) {
			return w.end
		}
		return time.Time{}
	}
	for _, s := range w.slots {
		if at := s.At.Add(s.For).Add(w.window); at.After(t) {
			return at
		}
	}
	return time.Time{}
}

// walks are the windows of a composite's members, moved on together.
type walks struct {
	objective Objective
	members   []Counted
	each      []*walk
}

func (w *walks) at(t time.Time) (valid, bad int64) {
	tallies := make([]Tally, len(w.each))
	for i, m := range w.each {
		v, b := m.at(t)
		tallies[i] = Tally{Good: v - b, Bad: b}
	}
	all := mix(w.objective, w.members, tallies)
	return all.Good + all.Bad, all.Bad
}

func (w *walks) next(t time.Time) time.Time {
	var first time.Time
	for _, m := range w.each {
		if at := m.next(t); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// walk is the window of r, ready to move on: it holds what r holds, and loses
// what slots say of each part.
func (r reading) walk(m Measured, slots [][]Slot, pace Pace, now time.Time) mover {
	o := r.objective
	one := func(i int, t Tally) *walk {
		w := &walk{window: o.Window, from: now, pace: pace, valid: t.Good + t.Bad, bad: t.Bad}
		if pace.Bad > 0 {
			w.scale = eventParts
		}
		if i < len(slots) {
			w.slots = slots[i]
		}
		if o.terms().Calendar != nil {
			w.end, w.fixed = r.frame.End, r.budget().Base
		}
		return w
	}
	switch {
	case o.Sliced():
		w := one(0, r.running)
		w.slots, w.fixed = r.badSlices(), r.running.Good+r.running.Bad
		return w
	case o.terms().Indicator.Kind == Composite:
		w := &walks{objective: o, members: m.Parts}
		for i, p := range m.Parts {
			t, _ := p.Objective.Tally(p.Running)
			each := one(i, t)
			each.pace = PaceOf(each.slots, r.frame.Running.To.Add(-2*time.Hour), r.frame.Running.To)
			if pace.Bad == 0 {
				each.pace.Bad = 0
			}
			each.end, each.fixed = time.Time{}, 0
			w.each = append(w.each, each)
		}
		return w
	}
	return one(0, r.running)
}

// badSlices are the bad slices of the window, one slot each.
func (r reading) badSlices() []Slot {
	var out []Slot
	cut, up := cursor{list: r.removed}, cursor{list: r.up}
	for i, bad := range r.strip.bad {
		at := r.strip.from.Add(time.Duration(i) * r.strip.slice)
		if bad > 0 && !at.Before(r.frame.Running.From) && !cut.holds(at) && !up.holds(at) {
			out = append(out, Slot{At: at, For: r.strip.slice, Bad: bad})
		}
	}
	return out
}

// hours are the hours of the window in the unit of the objective.
func (r reading) hours(slots [][]Slot) []Slot {
	if !r.objective.Sliced() {
		if len(slots) != 1 {
			return nil // of a composite on events no single hour can be told
		}
		return slots[0]
	}
	var out []Slot
	for i, bad := range r.strip.bad {
		at := r.strip.from.Add(time.Duration(i) * r.strip.slice).Truncate(time.Hour)
		if at.Before(r.frame.Running.From) || !r.strip.measured[i] {
			continue
		}
		if n := len(out); n == 0 || !out[n-1].At.Equal(at) {
			out = append(out, Slot{At: at, For: time.Hour})
		}
		s := &out[len(out)-1]
		s.Valid, s.Bad = s.Valid+r.strip.full, s.Bad+bad
	}
	return out
}

// correctSlots takes out of slots what was corrected; a slot belongs to where it
// begins.
func correctSlots(slots []Slot, removed, up []Period) []Slot {
	if len(removed)+len(up) == 0 {
		return slots
	}
	out := make([]Slot, 0, len(slots))
	r, u := cursor{list: removed}, cursor{list: up}
	for _, s := range slots {
		if r.holds(s.At) {
			continue
		}
		if u.holds(s.At) {
			s.Bad, s.ChaosBad = 0, 0
		}
		out = append(out, s)
	}
	return out
}

// step is how fine a walk looks: minutes, as the sums have them.
const step = time.Minute

// ThawAt is when the freeze s ends if nothing fails any more and traffic goes on
// at pace: a walk over the very rows that leave the window, through the same
// hold and minimum as the state machine. The zero time: never, as long as no
// traffic comes.
func ThawAt(p Policy, o Objective, s State, slots []Slot, pace Pace, now time.Time) time.Time {
	pace.Bad = 0
	return thawAt(p, o, s, newWalk(o.Window, slots, pace, now), now)
}

func thawAt(p Policy, o Objective, s State, w mover, now time.Time) time.Time {
	good := s.GoodSince
	end := now.Add(o.Window + p.Hold + p.MinFreeze + time.Hour)
	for t := now; !t.After(end); {
		next := t.Truncate(step).Add(step)
		valid, bad := w.at(t)
		if valid == 0 || SpentAtLeast(o.TargetPPB, bad, valid, million-p.ThawPPM+1) {
			good = time.Time{}
			t = next
			continue
		}
		if good.IsZero() {
			good = t
		}
		thaw := good.Add(p.Hold)
		if least := s.FrozenAt.Add(p.MinFreeze); thaw.Before(least) {
			thaw = least
		}
		if thaw.Before(next) {
			if thaw.Before(t) {
				return t
			}
			return thaw
		}
		t = next
	}
	return time.Time{}
}

// EmptyAt is when the budget is spent if pace goes on, old failures leaving the
// window as they do. The zero time: not within the window, or spent already.
func EmptyAt(o Objective, slots []Slot, pace Pace, now time.Time) time.Time {
	if pace.Bad <= 0 {
		return time.Time{}
	}
	w := newWalk(o.Window, slots, pace, now)
	w.scale = eventParts
	return emptyAt(o.TargetPPB, w, now, now.Add(o.Window))
}

// emptyAt looks only where something leaves: in between, failures and requests
// enter evenly, so the budget is empty within such a stretch exactly if it is at
// the end of it, and halving finds the minute.
func emptyAt(target int64, w mover, now, end time.Time) time.Time {
	over := func(t time.Time) bool {
		valid, bad := w.at(t)
		return Over(target, bad, valid)
	}
	if over(now) {
		return time.Time{}
	}
	for t := now; t.Before(end); {
		next := w.next(t)
		if next.IsZero() || next.After(end) {
			next = end.Add(step)
		}
		// Minutes from t on, the last of them before anything leaves.
		n := int64((next.Sub(t) - 1) / step)
		if n > 0 && over(t.Add(time.Duration(n)*step)) {
			lo, hi := int64(0), n
			for hi-lo > 1 {
				if mid := (lo + hi) / 2; over(t.Add(time.Duration(mid) * step)) {
					hi = mid
				} else {
					lo = mid
				}
			}
			return t.Add(time.Duration(hi) * step)
		}
		t = t.Add(time.Duration(n+1) * step)
		if !t.After(end) && over(t) {
			return t
		}
	}
	return time.Time{}
}

// spark is the burn rate of each of the last 24 hours, -1 without data.
func spark(o Objective, hours []Slot, until time.Time) []int64 {
	const n = 24
	out := make([]int64, n)
	last := until.Add(-1).Truncate(time.Hour)
	for i := range out {
		out[i] = -1
	}
	for _, s := range hours {
		if i := n - 1 - int(last.Sub(s.At.Truncate(time.Hour))/time.Hour); i >= 0 && i < n && s.Valid > 0 {
			out[i] = Burning(o, time.Hour, Tally{Good: s.Valid - s.Bad, Bad: s.Bad}).RateMilli
		}
	}
	return out
}
