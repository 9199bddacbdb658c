package web

import (
	"strings"
	"time"

	"breakwater/slo"
)

// when writes instants in one zone. The zone is named once, in the header of
// the page, so single times do not repeat it.
type when struct {
	zone *time.Location
	now  time.Time
	lang
}

// Time is an instant with its machine-readable twin, for <time datetime>.
type Time struct{ ISO, Text string }

func (w when) iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// clock is the time of day to the second.
func (w when) clock(t time.Time) Time { return Time{w.iso(t), t.In(w.zone).Format("15:04:05")} }

// written writes t as layout says. A language has its own order of day and month, so its
// catalogue holds layouts too; names of days and months are words of it.
func (l lang) written(t time.Time, layout string) string {
	if l.words == nil {
		return t.Format(layout)
	}
	text := t.Format(l.word(layout))
	for _, name := range []string{"Mon", "Jan"} {
		if word := t.Format(name); strings.Contains(text, word) {
			return strings.Replace(text, word, l.word(word), 1)
		}
	}
	return text
}

// lasting is a duration, as slo.Span writes it in English: "6 d 23 h".
func (l lang) lasting(d time.Duration) string {
	parts := strings.Split(slo.Span(d), thinSpace)
	if l.words == nil || len(parts) < 2 {
		return strings.Join(parts, thinSpace)
	}
	for i, p := range parts[1:] { // "d 23", then "h"
		name, rest, more := strings.Cut(p, " ")
		parts[i+1] = l.of("unit", name)
		if more {
			parts[i+1] += " " + rest
		}
	}
	return strings.Join(parts, thinSpace)
}

// day is "Tue 24 Nov 14:27"; the day is left out today, the year never needed.
func (w when) day(t time.Time) Time {
	return Time{w.iso(t), w.written(t.In(w.zone), "Mon 2 Jan 15:04")}
}

// short is the time alone today, the day with it otherwise.
func (w when) short(t time.Time) Time {
	if sameDay(t.In(w.zone), w.now.In(w.zone)) {
		return w.clock(t)
	}
	return w.day(t)
}

func sameDay(a, b time.Time) bool {
	return a.Year() == b.Year() && a.YearDay() == b.YearDay()
}

// in is "in 6 d 23 h" or "2 h ago".
func (w when) in(t time.Time) string {
	d := t.Sub(w.now)
	switch {
	case d > -time.Second && d < time.Second:
		return w.say("now")
	case d > 0:
		return w.say("in %s", w.lasting(d))
	default:
		return w.say("%s ago", w.lasting(-d))
	}
}

// midnight is the start of the day of the pages' clock.
func (w when) midnight() time.Time {
	y, m, d := w.now.In(w.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, w.zone)
}

func (w when) zoneName() string {
	name, _ := w.now.In(w.zone).Zone()
	return name
}

// soon is a future instant, also relative: "Fri 27 Nov 21:40, in 3 d 7 h".
func (w when) soon(t time.Time) string {
	text := w.day(t).Text
	if sameDay(t.In(w.zone), w.now.In(w.zone)) {
		text = w.clock(t).Text
	}
	return w.say("%s, %s", text, w.in(t))
}
