package slo

import (
	"math/bits"
	"slices"
	"time"
)

// SliceHour says of one hour which of its slices were good: one bit a slice, the
// first slice of the hour in the lowest. Hours without traffic have none.
type SliceHour struct {
	At       time.Time
	Measured uint64 // slices with valid events; of freshness: minutes with a good one
	Bad      uint64
	// BadUS is how much of each slice was bad, in microseconds rounded up: its
	// length times its share of bad events. Kept for RatioTimeslices alone.
	BadUS []int64
}

// MinuteCount is what one minute of a service holds of an objective.
type MinuteCount struct {
	At               time.Time
	Valid, Bad, Good int64
}

// SliceOf makes the slices of the hours that minutes lie in; minutes ascend.
func SliceOf(o Objective, minutes []MinuteCount) []SliceHour {
	t := o.terms()
	fresh := t.Indicator.Kind == Freshness
	per := int(t.Slice / time.Minute)
	if fresh {
		per = 1
	}
	var out []SliceHour
	var valid, bad [60]int64
	flush := func(h *SliceHour) {
		for i := range 60 / per {
			v, b := valid[i], min(bad[i], valid[i])
			if v <= 0 {
				continue
			}
			h.Measured |= 1 << i
			// good/valid < target, crosswise: an integer decides each slice.
			if !fresh && compare(v-b, whole, v, t.SlicePPB) < 0 {
				h.Bad |= 1 << i
			}
			if t.Method == RatioTimeslices {
				if h.BadUS == nil {
					h.BadUS = make([]int64, 60/per)
				}
				h.BadUS[i] = ceilDiv(b, t.Slice.Microseconds(), v)
			}
		}
		valid, bad = [60]int64{}, [60]int64{}
	}
	for _, m := range minutes {
		at := m.At.Truncate(time.Hour)
		if n := len(out); n == 0 || !out[n-1].At.Equal(at) {
			if n > 0 {
				flush(&out[n-1])
			}
			out = append(out, SliceHour{At: at})
		}
		i := int(m.At.Sub(at)/time.Minute) / per
		if fresh {
			valid[i] += m.Good
			continue
		}
		valid[i] += max(m.Valid, 0)
		bad[i] += max(m.Bad, 0)
	}
	if n := len(out); n > 0 {
		flush(&out[n-1])
	}
	return out
}

// strip is the slices of a window, one after the other.
type strip struct {
	from     time.Time
	slice    time.Duration
	n        int // slices of the whole window
	measured []bool
	bad      []int64 // 0 to full each
	full     int64   // 1, or microseconds of a slice where shares are budgeted
}

// stripOf lays the slices of hours that begin in [from, to) side by side; data
// reaches until.
func stripOf(o Objective, hours []SliceHour, from, to, until time.Time) strip {
	t := o.terms()
	slice := t.Slice
	s := strip{slice: slice, from: from.Add(slice - 1).Truncate(slice), full: 1}
	if t.Method == RatioTimeslices {
		s.full = slice.Microseconds()
	}
	if !s.from.Before(to) {
		return s
	}
	s.n = int((to.Sub(s.from) + slice - 1) / slice)
	s.measured, s.bad = make([]bool, s.n), make([]int64, s.n)
	if t.Indicator.Kind == Freshness {
		s.stale(o, hours, until)
		return s
	}
	for _, h := range hours {
		base := int(h.At.Sub(s.from) / slice)
		for m := h.Measured; m != 0; m &= m - 1 {
			bit := bits.TrailingZeros64(m)
			at := h.At.Add(time.Duration(bit) * slice)
			i := base + bit
			if at.Before(s.from) || i < 0 || i >= s.n {
				continue
			}
			s.measured[i] = true
			switch {
			case t.Method == RatioTimeslices && bit < len(h.BadUS):
				s.bad[i] = h.BadUS[bit]
			case h.Bad&(1<<bit) != 0:
				s.bad[i] = s.full
			}
		}
	}
	return s
}

// stale marks the slices at whose end the last good answer is older than the
// limit. Before the first one ever, nothing is measured: there was nothing that
// could grow old.
func (s *strip) stale(o Objective, hours []SliceHour, to time.Time) {
	limit := o.terms().Indicator.Limit
	i, last := 0, time.Time{}
	settle := func(until time.Time) { // slices that end before the next good minute
		for ; i < s.n; i++ {
			end := s.from.Add(time.Duration(i+1) * s.slice)
			if !end.Before(until) {
				return
			}
			if last.IsZero() {
				continue
			}
			s.measured[i] = true
			if end.Sub(last) > limit {
				s.bad[i] = s.full
			}
		}
	}
	for _, h := range hours {
		for m := h.Measured; m != 0; m &= m - 1 {
			end := h.At.Add(time.Duration(bits.TrailingZeros64(m)+1) * time.Minute)
			if end.After(to) {
				break
			}
			settle(end)
			last = end
		}
	}
	settle(to.Add(1))
}

// join makes one strip of several: a slice is bad if any of them is bad, and as
// bad as all of them together where shares are budgeted.
func join(parts []strip) strip {
	out := parts[0]
	for _, p := range parts[1:] {
		for i := range min(out.n, p.n) {
			out.measured[i] = out.measured[i] || p.measured[i]
			out.bad[i] = min(out.bad[i]+p.bad[i], out.full)
		}
	}
	return out
}

// count adds up the slices that begin in [from, to), corrected.
func (s strip) count(removed, up []Period, from, to time.Time) Slices {
	var c Slices
	r, u := cursor{list: removed}, cursor{list: up}
	for i := range s.n {
		at := s.from.Add(time.Duration(i) * s.slice)
		if at.Before(from) || !at.Before(to) || r.holds(at) {
			continue
		}
		c.Total++
		if s.measured[i] {
			c.Measured++
		}
		if s.bad[i] > 0 && !u.holds(at) {
			c.Bad++
			c.BadUS += s.bad[i]
		}
	}
	return c
}

// cursor walks ascending periods along with ascending instants.
type cursor struct {
	list []Period
}

func (c *cursor) holds(t time.Time) bool {
	for len(c.list) > 0 && !t.Before(c.list[0].To) {
		c.list = c.list[1:]
	}
	return len(c.list) > 0 && !t.Before(c.list[0].From)
}

// ceilDiv is ceil(a*b/c) for a, b >= 0 and a quotient that fits.
func ceilDiv(a, b, c int64) int64 {
	q := mulDiv(a, b, c)
	if compare(a, b, q, c) > 0 {
		q++
	}
	return q
}

// SortSlices puts hours in order.
func SortSlices(hours []SliceHour) {
	slices.SortFunc(hours, func(a, b SliceHour) int { return a.At.Compare(b.At) })
}
