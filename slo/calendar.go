package slo

import (
	"fmt"
	"time"
)

// Unit is what calendar periods are made of.
type Unit string

// The units.
const (
	Day     Unit = "day"
	Week    Unit = "week"
	Month   Unit = "month"
	Quarter Unit = "quarter"
	Year    Unit = "year"
)

// Calendar is a window that begins anew: every Count units from Start on, by the
// clocks of Zone. Days that are 23 or 25 hours long are so here too.
type Calendar struct {
	Unit  Unit   `json:"unit"`
	Count int    `json:"count"` // 0: 1
	Start string `json:"start"` // "2006-01-02 15:04:05", local to Zone; of any period, past or to come
	Zone  string `json:"zone"`  // an IANA name
}

// startForm is how OpenSLO writes the start of a calendar.
const startForm = "2006-01-02 15:04:05"

// Check reports what is wrong with c.
func (c Calendar) Check() error {
	if _, err := time.LoadLocation(c.Zone); err != nil || c.Zone == "" || c.Zone == "Local" {
		return fmt.Errorf("zone must be an IANA name such as Europe/Berlin, got %q", c.Zone)
	}
	if _, err := time.Parse(startForm, c.Start); err != nil {
		return fmt.Errorf("start must be such as %q, got %q", "2026-01-01 00:00:00", c.Start)
	}
	if c.Count < 0 || c.Count > 1000 {
		return fmt.Errorf("must be 1 to 1000 units, got %d", c.Count)
	}
	switch c.Unit {
	case Day, Week, Month, Quarter, Year:
		return nil
	}
	return fmt.Errorf("unit must be day, week, month, quarter or year, got %q", c.Unit)
}

// Period is the period that holds the instant just before until, at whole
// minutes. A Calendar that Check refuses has an empty one.
func (c Calendar) Period(until time.Time) (from, to time.Time) {
	zone, err := time.LoadLocation(c.Zone)
	if err != nil || c.Check() != nil {
		return until, until
	}
	anchor, err := time.Parse(startForm, c.Start)
	if err != nil {
		return until, until
	}
	last := until.Add(-1).In(zone)
	n := c.guess(anchor, last)
	// The guess is off by one at most, by a month that is shorter than its day or
	// by a clock that was turned; walking settles it.
	for c.begin(anchor, n, zone).After(last) {
		n--
	}
	for !c.begin(anchor, n+1, zone).After(last) {
		n++
	}
	return c.begin(anchor, n, zone).UTC(), c.begin(anchor, n+1, zone).UTC()
}

func (c Calendar) count() int { return max(c.Count, 1) }

// guess is about which period from the anchor on holds t.
func (c Calendar) guess(anchor, t time.Time) int {
	months := (t.Year()-anchor.Year())*12 + int(t.Month()) - int(anchor.Month())
	switch c.Unit {
	case Day, Week:
		// Dates alone are compared, so no clock can come in between.
		days := int(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).
			Sub(time.Date(anchor.Year(), anchor.Month(), anchor.Day(), 0, 0, 0, 0, time.UTC)) / (24 * time.Hour))
		if c.Unit == Week {
			return floorDiv(days, 7*c.count())
		}
		return floorDiv(days, c.count())
	case Quarter:
		return floorDiv(months, 3*c.count())
	case Year:
		return floorDiv(months, 12*c.count())
	}
	return floorDiv(months, c.count())
}

// begin is where the n-th period from the anchor begins. The day is kept where
// the month has it, else it is the month's last; a local time that a clock change
// leaves out is the instant of the change, and the first of one that comes twice.
func (c Calendar) begin(anchor time.Time, n int, zone *time.Location) time.Time {
	n *= c.count()
	year, month, day := anchor.Date()
	switch c.Unit {
	case Day:
		day += n
	case Week:
		day += 7 * n
	case Quarter:
		month += time.Month(3 * n)
	case Year:
		month += time.Month(12 * n)
	default:
		month += time.Month(n)
	}
	if c.Unit != Day && c.Unit != Week {
		first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		year, month = first.Year(), first.Month()
		day = min(day, first.AddDate(0, 1, -1).Day())
	}
	hour, minute, second := anchor.Clock()
	return local(year, month, day, hour, minute, second, zone).Truncate(time.Minute)
}

// local is the instant at which zone's clocks first show a time or, where they
// leap over it, the instant of the leap. time.Date promises neither.
func local(year int, month time.Month, day, hour, minute, second int, zone *time.Location) time.Time {
	wall := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	// The offset in force at the instant lies within a day of the wall time.
	_, before := wall.Add(-24 * time.Hour).In(zone).Zone()
	_, after := wall.Add(24 * time.Hour).In(zone).Zone()
	early := wall.Add(-time.Duration(max(before, after)) * time.Second)
	late := wall.Add(-time.Duration(min(before, after)) * time.Second)
	for _, t := range []time.Time{early, late} {
		if shown(t.In(zone)).Equal(wall) {
			return t
		}
	}
	// Neither shows it: the clocks leapt. Between the two lies the change.
	lo, hi := early, late
	for hi.Sub(lo) > time.Second {
		mid := lo.Add(hi.Sub(lo) / 2).Truncate(time.Second)
		if !mid.After(lo) {
			break
		}
		if shown(mid.In(zone)).Before(wall) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// shown is what t's clocks show, as if they stood in UTC.
func shown(t time.Time) time.Time {
	y, m, d := t.Date()
	hh, mm, ss := t.Clock()
	return time.Date(y, m, d, hh, mm, ss, 0, time.UTC)
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Span is what o weighs when data reaches until: [from, to), of which [from,
// counted) can have been counted. to lies beyond only for a calendar period.
func (o Objective) Span(until time.Time) (from, counted, to time.Time) {
	from, to = until.Add(-o.Window), until
	if o.Terms != nil && o.Terms.Calendar != nil {
		from, to = o.Terms.Calendar.Period(until)
	}
	counted = until
	if counted.After(to) {
		counted = to
	}
	return from, counted, to
}

// At is o with its window as long as the period that holds until.
func (o Objective) At(until time.Time) Objective {
	if o.Terms != nil && o.Terms.Calendar != nil {
		from, to := o.Terms.Calendar.Period(until)
		o.Window = to.Sub(from)
	}
	return o
}

// first is the later of from and the instant counting began at, at a whole minute.
func (o Objective) first(from time.Time) time.Time {
	if c := o.Counted; c.After(from) {
		return c.Add(time.Minute - 1).Truncate(time.Minute)
	}
	return from
}
