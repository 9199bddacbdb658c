package cron

import "time"

// Next is the first due instant after the given one, in UTC; ok is false where
// there is none within the horizon. Its work is bounded: it looks at each date
// of the horizon once, and at the minutes of at most a few.
func (s Schedule) Next(after time.Time) (next time.Time, ok bool) {
	if s.every > 0 {
		// Counted from a fixed instant, not from the last start: a restart must
		// not begin the wait anew.
		return after.Truncate(s.every).Add(s.every).UTC(), true
	}
	// Two days early: a zone may be a day ahead and a gap may push a wall time on.
	y, m, d := after.In(s.loc).AddDate(0, 0, -1).Date()
	for i := range Horizon {
		// A date is a date only; its noon in UTC carries it without any zone.
		date := time.Date(y, m, d+i, 12, 0, 0, 0, time.UTC)
		if !s.on(date) || !s.exists(date) {
			continue
		}
		if at, ok := s.within(date, after); ok {
			return at, true
		}
	}
	return time.Time{}, false
}

// on reports whether the date fields allow date.
func (s Schedule) on(date time.Time) bool {
	_, m, d := date.Date()
	switch {
	case s.month&(1<<uint(m)) == 0, s.dom&(1<<uint(d)) == 0, s.dow&(1<<uint(date.Weekday())) == 0:
		return false
	case s.week > 0:
		return date.Weekday() == s.day && (d-1)/7+1 == s.week
	}
	return true
}

// exists tells dates that a zone skipped when it crossed the date line: nothing
// is due on a day that never was.
func (s Schedule) exists(date time.Time) bool {
	y, m, d := date.Date()
	gotY, gotM, gotD := Wall(y, m, d, 23, 59, s.loc).In(s.loc).Date()
	return gotY == y && gotM == m && gotD == d || s.gapAtMidnight(y, m, d)
}

// gapAtMidnight: 23:59 may fall into a gap of an hour although the day was there.
func (s Schedule) gapAtMidnight(y int, m time.Month, d int) bool {
	gotY, gotM, gotD := Wall(y, m, d, 12, 0, s.loc).In(s.loc).Date()
	return gotY == y && gotM == m && gotD == d
}

// within finds the first instant of date after the given one. Wall times in
// order give instants in order, so the first that is later is the answer.
func (s Schedule) within(date, after time.Time) (time.Time, bool) {
	y, m, d := date.Date()
	for h := range 24 {
		if s.hour&(1<<uint(h)) == 0 {
			continue
		}
		// Skip a whole hour that is past: its last minute decides.
		if !Wall(y, m, d, h, 59, s.loc).After(after) {
			continue
		}
		for minute := range 60 {
			if s.minute&(1<<uint(minute)) == 0 {
				continue
			}
			if at := Wall(y, m, d, h, minute, s.loc); at.After(after) {
				return at.UTC(), true
			}
		}
	}
	return time.Time{}, false
}

// Wall places a wall time of a zone on the time line: the first instant that
// shows it, or, where a gap swallowed it, the first instant after the gap.
// time.Date promises neither.
func Wall(y int, m time.Month, d, hour, minute int, loc *time.Location) time.Time {
	naive := time.Date(y, m, d, hour, minute, 0, 0, time.UTC)
	// Offsets lie between -16 and +16 hours, so the answer is not before this.
	at := naive.Add(-16 * time.Hour).In(loc)
	for {
		_, offset := at.Zone()
		start, end := at.ZoneBounds()
		t := naive.Add(-time.Duration(offset) * time.Second)
		if t.Before(start) {
			return start.UTC() // the clocks jumped over it
		}
		if end.IsZero() || t.Before(end) {
			return t
		}
		at = end
	}
}

// Due is one coming instant, as people want to read it.
type Due struct {
	UTC   time.Time
	Local time.Time
	// Note says what the clock change does to it; empty on ordinary days.
	Note string
}

// Preview lists the next n due instants.
func (s Schedule) Preview(after time.Time, n int) []Due {
	var out []Due
	for range n {
		at, ok := s.Next(after)
		if !ok {
			return out
		}
		out = append(out, Due{UTC: at, Local: at.In(s.loc), Note: s.note(at)})
		after = at
	}
	return out
}

func (s Schedule) note(at time.Time) string {
	if s.every > 0 {
		return ""
	}
	local := at.In(s.loc)
	start, end := local.ZoneBounds()
	_, offset := local.Zone()
	if start.Equal(at) {
		_, before := at.Add(-time.Nanosecond).In(s.loc).Zone()
		asked := s.hour&(1<<uint(local.Hour())) != 0 && s.minute&(1<<uint(local.Minute())) != 0
		if offset > before && !asked {
			return "clocks go forward: the hour asked for does not exist, so it runs right after the gap"
		}
	}
	if !end.IsZero() {
		_, later := end.In(s.loc).Zone()
		if later < offset && !at.Before(end.Add(-time.Duration(offset-later)*time.Second)) {
			return "clocks go back: this wall time happens twice, it runs the first time"
		}
	}
	return ""
}

// Location is the zone of s.
func (s Schedule) Location() *time.Location { return s.loc }
