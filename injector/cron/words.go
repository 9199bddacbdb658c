package cron

import (
	"fmt"
	"strings"
	"time"
)

// Words says when s is due, in plain words.
func (s Schedule) Words() string {
	zone := " " + s.loc.String()
	if s.every > 0 {
		return "every " + strings.TrimSuffix(strings.TrimSuffix(s.every.String(), "0s"), "0m")
	}
	return s.times() + zone + ", " + s.dates()
}

func (s Schedule) times() string {
	hours, minutes := bits(s.hour, 24), bits(s.minute, 60)
	switch {
	case len(hours)*len(minutes) <= 4:
		var all []string
		for _, h := range hours {
			for _, m := range minutes {
				all = append(all, fmt.Sprintf("%02d:%02d", h, m))
			}
		}
		return "at " + list(all, "and")
	case len(minutes) == 60 && len(hours) == 24:
		return "every minute"
	case len(hours) == 24:
		return "each hour at " + minutesPast(minutes)
	case len(minutes) == 60:
		return "every minute of the hours " + numbers(hours)
	}
	return "at " + minutesPast(minutes) + " of the hours " + numbers(hours)
}

func minutesPast(all []int) string {
	if len(all) == 1 {
		return fmt.Sprintf("minute %d", all[0])
	}
	return "minutes " + numbers(all)
}

func (s Schedule) dates() string {
	months := bits(s.month, 13)
	of, each := "", s.month&star != 0 || len(months) == 12
	switch {
	case each:
		of = "each month"
	case s.quarter():
		of = "each quarter"
	default:
		var names []string
		for _, m := range months {
			names = append(names, time.Month(m).String())
		}
		of = list(names, "and")
	}
	days, weekdays := bits(s.dom, 32), bits(s.dow, 7)
	switch {
	case s.week > 0:
		return "on the " + []string{"", "first", "second", "third", "fourth", "fifth"}[s.week] + " " + s.day.String() + " of " + of
	case s.dom&star == 0:
		return "on day " + numbers(days) + " of " + of
	case s.dow&star == 0 && len(weekdays) < 7:
		text := ""
		if len(weekdays) == 5 && weekdays[0] == 1 && weekdays[4] == 5 {
			text = "Monday to Friday"
		} else {
			var names []string
			for _, d := range weekdays {
				names = append(names, time.Weekday(d).String())
			}
			text = list(names, "and")
		}
		if each {
			return "every " + text
		}
		return "every " + text + " of " + of
	case each:
		return "every day"
	}
	return "every day of " + of
}

func (s Schedule) quarter() bool {
	const first = 1<<1 | 1<<4 | 1<<7 | 1<<10
	return s.month&(1<<13-1) == first
}

// bits lists the numbers below n that a field allows.
func bits(field uint64, n int) (out []int) {
	for i := range n {
		if field&(1<<uint(i)) != 0 {
			out = append(out, i)
		}
	}
	return out
}

func numbers(all []int) string {
	var out []string
	for _, n := range all {
		out = append(out, fmt.Sprint(n))
	}
	return list(out, "and")
}

func list(all []string, and string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " " + and + " " + all[len(all)-1]
}
