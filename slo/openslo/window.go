package openslo

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

const day = 24 * time.Hour

// standard is what a window is taken for while its own is told of as a mistake.
const standard = 30 * day

// window takes the one time window: rolling, or a calendar's.
func window(n conf.Node, t *slo.Terms) time.Duration {
	list := n.List()
	if len(list) != 1 {
		if n.IsList() {
			n.Errorf("must hold exactly one window, got %d", len(list))
		}
		return standard
	}
	m := list[0].Map()
	duration := m.Need("duration")
	rolling, given := m.Get("isRolling").Bool(false)
	calendar := m.Get("calendar")
	m.Done()
	switch {
	case rolling && calendar.Present():
		calendar.Errorf("must not be given beside isRolling: true")
	case rolling:
		return rollingSpan(duration)
	case calendar.Present():
		unit, count := calendarSpan(duration)
		t.Calendar = calendarOf(calendar, unit, count)
		return nominal(unit, count)
	case given:
		m.Get("isRolling").Errorf("must be a rolling window (isRolling: true), or have a calendar")
	default:
		list[0].Errorf("must hold isRolling: true or a calendar")
	}
	return standard
}

func rollingSpan(duration conf.Node) time.Duration {
	if !duration.Present() {
		return standard
	}
	text := strings.Trim(duration.Got(), `"`)
	if strings.HasSuffix(text, "M") || strings.HasSuffix(text, "Q") || strings.HasSuffix(text, "Y") {
		duration.Errorf("must be in m, h, d or w, got %s", text).Hint("months differ in length, so a rolling window is counted in days: 30d")
		return standard
	}
	d := duration.Span(standard, time.Minute, 366*day)
	if d%time.Minute != 0 {
		duration.Errorf("must be whole minutes, got %s", text)
		return standard
	}
	return d
}

var shorthand = regexp.MustCompile(`^([1-9][0-9]{0,2})([mhdwMQY])$`)

// units are the letters of calendar durations, and how long each is by name.
func units() map[string]slo.Unit {
	return map[string]slo.Unit{"d": slo.Day, "w": slo.Week, "M": slo.Month, "Q": slo.Quarter, "Y": slo.Year}
}

// nominal is how long a calendar period is called, before a date makes it exact.
func nominal(unit slo.Unit, count int) time.Duration {
	days := map[slo.Unit]int{slo.Day: 1, slo.Week: 7, slo.Month: 30, slo.Quarter: 91, slo.Year: 365}[unit]
	return time.Duration(max(days, 1)*max(count, 1)) * day
}

// calendarSpan reads 1w, 1M, 1Q. "1m" is a minute there and not a month, which
// nobody means.
func calendarSpan(n conf.Node) (slo.Unit, int) {
	if !n.Present() {
		return slo.Month, 1
	}
	text := strings.Trim(n.Got(), `"`)
	parts := shorthand.FindStringSubmatch(text)
	if parts == nil {
		e := n.Errorf("must be a number and a unit such as 1w, 1M or 1Q, got %s", text)
		for letter, unit := range units() {
			if strings.EqualFold(strings.TrimSuffix(strings.ToLower(text), "ly"), string(unit)) || strings.EqualFold(text, string(unit)+"s") {
				e.Hint("did you mean 1%s?", letter)
			}
		}
		return slo.Month, 1
	}
	count, _ := strconv.Atoi(parts[1]) // three digits at most
	unit, ok := units()[parts[2]]
	switch {
	case parts[2] == "m":
		n.Errorf("must be days or longer, got a %d minute calendar window; did you mean %dM", count, count).Hint("m is minutes, M is months")
		return slo.Month, 1
	case !ok:
		n.Errorf("must be days or longer for a calendar window, got %s", text)
		return slo.Day, 1
	}
	return unit, count
}

func calendarOf(n conf.Node, unit slo.Unit, count int) *slo.Calendar {
	m := n.Map()
	start, zone := m.Need("startTime"), m.Need("timeZone")
	c := slo.Calendar{Unit: unit, Start: strings.Trim(start.Got(), `"`), Zone: strings.Trim(zone.Got(), `"`)}
	if count > 1 {
		c.Count = count
	}
	m.Done()
	if !start.Present() || !zone.Present() {
		return &c
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} { // other ways to write it
		if at, err := time.Parse(form, c.Start); err == nil {
			c.Start = at.Format("2006-01-02 15:04:05")
		}
	}
	if _, err := time.Parse("2006-01-02 15:04:05", c.Start); err != nil {
		e := start.Errorf("must be a date and a time such as 2026-01-05 00:00:00, got %s", start.Got())
		if weekday(c.Start) {
			e.Hint("write the date of any %s; periods begin on that day of the week", c.Start)
		}
	}
	// A zone's name is part of what is promised: it is kept as it was written.
	if _, err := time.LoadLocation(c.Zone); err != nil || c.Zone == "" || c.Zone == "Local" {
		zone.Errorf("must be the IANA name of a time zone such as Europe/Berlin or UTC, got %s", zone.Got())
	}
	return &c
}

func weekday(text string) bool {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(text, d.String()) {
			return true
		}
	}
	return false
}
