// Package cron computes when a schedule is due, by the calendar of its zone.
//
// robfig/cron parses the text and does no more: its own Next loses and doubles
// runs where clocks change and may never return. Here the local dates are walked
// one by one and each wall time is placed on the time line: a wall time that a
// gap swallows becomes the first instant after the gap, one that happens twice
// is its first occurrence.
package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a zone must mean the same on a machine without zone files

	robfig "github.com/robfig/cron/v3"
)

// Spec is a schedule as written.
type Spec struct {
	Cron string // five fields, or @daily and the like
	Zone string // IANA name; empty: UTC
	// Week and Day narrow the dates to the first (second ...) such weekday of
	// the month; Week 0 leaves them alone. Cron text cannot say it: day of month
	// and weekday together mean either, never both.
	Week int
	Day  string // mon to sun
	// Quarterly keeps January, April, July and October alone.
	Quarterly bool
}

// Horizon is how far ahead a due instant is looked for. What does not happen in
// eight years (a 30 February) is a mistake; the longest honest wait is the one
// for 29 February over 2100.
const Horizon = 8 * 366

// Schedule is a Spec that can happen. It is a value, safe to share.
type Schedule struct {
	minute, hour, dom, month, dow uint64
	every                         time.Duration
	week                          int
	day                           time.Weekday
	loc                           *time.Location
}

// FieldError names the part of a Spec that is wrong.
type FieldError struct {
	Field string // cron, zone, nth
	Text  string
	Hint  string
}

func (e *FieldError) Error() string {
	if e.Hint != "" {
		return e.Field + ": " + e.Text + " (" + e.Hint + ")"
	}
	return e.Field + ": " + e.Text
}

// Parse checks s, all of it: the error joins a *FieldError for each mistake.
// From is the instant from which the schedule must be able to happen.
func Parse(s Spec, from time.Time) (Schedule, error) {
	var out Schedule
	var errs []error
	loc, err := zone(s.Zone)
	errs = append(errs, err)
	out.loc = loc
	errs = append(errs, out.text(s.Cron), out.nth(s))
	if err := errors.Join(errs...); err != nil {
		return Schedule{}, err
	}
	if _, ok := out.Next(from); !ok {
		return Schedule{}, &FieldError{"cron", fmt.Sprintf("must happen within 8 years, got %q, which never does", s.Cron), ""}
	}
	return out, nil
}

func zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	loc, err := time.LoadLocation(name)
	// "Local" is whatever the machine says, and differs between two replicas.
	if err != nil || name == "Local" || strings.TrimSpace(name) != name {
		return time.UTC, &FieldError{"zone", fmt.Sprintf("must be a zone name, got %q", name), "such as Europe/Berlin or UTC"}
	}
	return loc, nil
}

func (s *Schedule) text(text string) error {
	bad := func(hint, format string, args ...any) error {
		return &FieldError{"cron", fmt.Sprintf(format, args...), hint}
	}
	switch {
	case strings.TrimSpace(text) == "":
		return bad("", "must be five fields such as \"0 10 * * 2\", got nothing")
	case strings.Contains(text, "="):
		return bad("put the zone into the field zone", "must have no time zone inside, got %q", text)
	case strings.TrimSpace(text) != text || strings.ContainsAny(text, "\t\r\n"):
		return bad("", "must have single spaces between its fields and none around them, got %q", text)
	}
	if rest, ok := strings.CutPrefix(text, "@every"); ok {
		every, err := time.ParseDuration(strings.TrimSpace(rest))
		if err != nil || every < time.Hour {
			return bad("for more often write the minutes: \"*/10 * * * *\"", "must be @every 1h or longer, got %q", text)
		}
		s.every = every
		return nil
	}
	if err := steps(text); err != nil {
		return err
	}
	parsed, err := robfig.NewParser(robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow | robfig.Descriptor).Parse(text)
	if err != nil {
		hint := ""
		if strings.HasSuffix(text, " 7") {
			hint = "Sunday is 0"
		}
		return bad(hint, "must be five fields such as \"0 10 * * 2\": %v", err)
	}
	spec, ok := parsed.(*robfig.SpecSchedule)
	if !ok {
		return bad("", "must be five fields such as \"0 10 * * 2\", got %q", text)
	}
	s.minute, s.hour, s.dom, s.month, s.dow = spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow
	if s.dom&star == 0 && s.dow&star == 0 {
		return bad("write nth: {week: 1, day: mon} for the first Monday, and quarterly: true for the quarters",
			"must set day of month or weekday, not both, got %q: cron takes either for enough", text)
	}
	return nil
}

// star is the bit by which the parser marks a field written as "*".
const star = 1 << 63

// steps refuses a step that never takes a second one: "*/90" of the minutes
// looks like every hour and a half, and is hourly.
func steps(text string) error {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return nil // the parser says it
	}
	sizes := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	for i, f := range fields {
		for part := range strings.SplitSeq(f, ",") {
			span, step, found := strings.Cut(part, "/")
			n, err := strconv.Atoi(step)
			if !found || err != nil {
				continue
			}
			lo, hi := sizes[i][0], sizes[i][1]
			if from, to, isRange := strings.Cut(span, "-"); isRange {
				a, errA := strconv.Atoi(from)
				b, errB := strconv.Atoi(to)
				if errA != nil || errB != nil {
					continue
				}
				lo, hi = a, b
			} else if a, err := strconv.Atoi(span); err == nil {
				lo = a
			}
			if n > hi-lo {
				return &FieldError{"cron", fmt.Sprintf("must have a step below its range of %d, got %q", hi-lo+1, part), ""}
			}
		}
	}
	return nil
}

func (s *Schedule) nth(spec Spec) error {
	if spec.Quarterly {
		s.month &= 1<<1 | 1<<4 | 1<<7 | 1<<10
	}
	if spec.Week == 0 && spec.Day == "" {
		if spec.Quarterly && s.every > 0 {
			return &FieldError{"cron", "must be five fields where quarterly is set", ""}
		}
		return nil
	}
	days := map[string]time.Weekday{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
	day, ok := days[spec.Day]
	switch {
	case spec.Week < 1 || spec.Week > 5:
		return &FieldError{"nth", fmt.Sprintf("week must be 1 to 5, got %d", spec.Week), ""}
	case !ok:
		return &FieldError{"nth", fmt.Sprintf("day must be mon to sun, got %q", spec.Day), ""}
	case s.every > 0:
		return &FieldError{"nth", "must stand beside five fields, got @every", ""}
	case s.minute != 0 && (s.dom&star == 0 || s.dow&star == 0):
		return &FieldError{"nth", "must stand beside \"*\" for day of month and weekday", ""}
	}
	s.week, s.day = spec.Week, day
	return nil
}
