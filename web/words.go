package web

import (
	"fmt"
	"strconv"
	"strings"
)

// cronWords says in plain words what a cron text means, or "" where plain words
// would be longer than the text: then the list of next runs must do.
func (l lang) cronWords(text string) string {
	switch strings.TrimSpace(text) {
	case "@hourly":
		return l.say("every hour, on the hour")
	case "@daily", "@midnight":
		return l.say("every day at 00:00")
	case "@weekly":
		return l.say("every Sunday at 00:00")
	case "@monthly":
		return l.say("on the 1st of every month at 00:00")
	case "@yearly", "@annually":
		return l.say("every year on 1 January at 00:00")
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		return l.say("every %s", strings.TrimSpace(every))
	}
	f := strings.Fields(text)
	if len(f) != 5 {
		return ""
	}
	days, ok := l.dayWords(f[2], f[3], f[4])
	if !ok {
		return ""
	}
	minute, hour := f[0], f[1]
	if step, ok := strings.CutPrefix(minute, "*/"); ok && hour == "*" {
		return l.often(l.say("every %s minutes", step), days)
	}
	if minute == "*" && hour == "*" {
		return l.often(l.say("every minute"), days)
	}
	m, err := strconv.Atoi(minute)
	if err != nil {
		return ""
	}
	if hour == "*" {
		return l.often(l.say("every hour at minute %d", m), days)
	}
	times := ""
	for h := range strings.SplitSeq(hour, ",") {
		n, err := strconv.Atoi(h)
		if err != nil {
			return ""
		}
		at := fmt.Sprintf("%02d:%02d", n, m)
		if times == "" {
			times = at
		} else {
			times = l.say("%s and %s", times, at)
		}
	}
	if days == "" {
		days = l.say("every day")
	}
	return l.say("%s at %s", days, times)
}

func (l lang) often(often, days string) string {
	if days == "" {
		return often
	}
	return l.say("%s, %s", often, strings.TrimPrefix(days, "every "))
}

// dayWords reads day of month, month and weekday; "" is every day.
func (l lang) dayWords(dom, month, dow string) (string, bool) {
	in := ""
	if month != "*" {
		names, ok := l.names(month, months[:], 1)
		if !ok {
			return "", false
		}
		in = names
	}
	within := func(days string) string {
		if in == "" {
			return days
		}
		return l.say("%s in %s", days, in)
	}
	switch {
	case dom == "*" && dow == "*":
		if in != "" {
			return within(l.say("every day")), true
		}
		return "", true
	case dom == "*" && dow == "1-5" || dom == "*" && strings.EqualFold(dow, "mon-fri"):
		return within(l.say("Monday to Friday")), true
	case dom == "*":
		names, ok := l.names(dow, weekdays[:], 0)
		return within(l.say("every %s", names)), ok
	case dow == "*":
		n, err := strconv.Atoi(dom)
		if err != nil || n < 1 || n > 31 {
			return "", false
		}
		if in == "" {
			return l.say("on the %s of every month", l.ordinal(n)), true
		}
		return l.say("on the %s in %s", l.ordinal(n), in), true
	}
	return "", false
}

var (
	weekdays = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	months   = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
)

// names reads "2,4" or "tue" by names, counted from first.
func (l lang) names(field string, names []string, first int) (string, bool) {
	var out []string
	for part := range strings.SplitSeq(field, ",") {
		n, err := strconv.Atoi(part)
		for i, name := range names {
			if err != nil && len(part) == 3 && strings.EqualFold(part, name[:3]) {
				n, err = i+first, nil
			}
		}
		if err != nil || n < first || n-first >= len(names) {
			return "", false
		}
		out = append(out, l.word(names[n-first]))
	}
	return l.and(out...), true
}

func (l lang) ordinal(n int) string {
	if l.words != nil {
		return l.say("day %d", n)
	}
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
