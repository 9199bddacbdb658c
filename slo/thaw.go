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

// walk is a window that moves on: what leaves it is known exactly, what enters
// it is a pace.
type walk struct {
	window     time.Duration
	from       time.Time
	slots      []Slot
	pace       Pace
	valid, bad int64 // of slots still inside
}

func newWalk(window time.Duration, slots []Slot, pace Pace, from time.Time) *walk {
	w := &walk{window: window, from: from, slots: slots, pace: pace}
	for _, s := range slots {
		w.valid += s.Valid
		w.bad += s.Bad
	}
	return w
}

// at moves on to t, never back, and returns what the window will hold then.
func (w *walk) at(t time.Time) (valid, bad int64) {
	for len(w.slots) > 0 {
		s := w.slots[0]
		// A slot is gone when its end has left, as in the sums: minutes and
		// hours leave whole.
		if s.At.Add(s.For).Add(w.window).After(t) {
			break
		}
		w.valid -= s.Valid
		w.bad -= s.Bad
		w.slots = w.slots[1:]
	}
	d := min(t.Sub(w.from), w.window)
	bad = w.pace.in(w.pace.Bad, d)
	return w.valid + max(w.pace.in(w.pace.Valid, d), bad), w.bad + bad
}

// step is how fine a walk looks: minutes, as the sums have them.
const step = time.Minute

// ThawAt is when the freeze s ends if nothing fails any more and traffic goes on
// at pace: a walk over the very rows that leave the window, through the same
// hold and minimum as the state machine. The zero time: never, as long as no
// traffic comes.
func ThawAt(p Policy, o Objective, s State, slots []Slot, pace Pace, now time.Time) time.Time {
	pace.Bad = 0
	w := newWalk(o.Window, slots, pace, now)
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
	for t := now; !t.After(now.Add(o.Window)); t = t.Add(step) {
		if valid, bad := w.at(t); Over(o.TargetPPB, bad, valid) {
			if t.Equal(now) {
				return time.Time{}
			}
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
