package web

import (
	"fmt"
	"strconv"
	"strings"
)

// cronWords says in plain words what a cron text means, or "" where plain words
// would be longer than the text: then the list of next runs must do.
func cronWords(text string) string {
	switch strings.TrimSpace(text) {
	case "@hourly":
		return "every hour, on the hour"
	case "@daily", "@midnight":
		return "every day at 00:00"
	case "@weekly":
		return "every Sunday at 00:00"
	case "@monthly":
		return "on the 1st of every month at 00:00"
	case "@yearly", "@annually":
		return "every year on 1 January at 00:00"
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		return "every " + strings.TrimSpace(every)
	}
	f := strings.Fields(text)
	if len(f) != 5 {
		return ""
	}
	days, ok := dayWords(f[2], f[3], f[4])
	if !ok {
		return ""
	}
	minute, hour := f[0], f[1]
	if step, ok := strings.CutPrefix(minute, "*/"); ok && hour == "*" {
		return join("every "+step+" minutes", days)
	}
	if minute == "*" && hour == "*" {
		return join("every minute", days)
	}
	m, err := strconv.Atoi(minute)
	if err != nil {
		return ""
	}
	if hour == "*" {
		return join(fmt.Sprintf("every hour at minute %d", m), days)
	}
	var times []string
	for h := range strings.SplitSeq(hour, ",") {
		n, err := strconv.Atoi(h)
		if err != nil {
			return ""
		}
		times = append(times, fmt.Sprintf("%02d:%02d", n, m))
	}
	if days == "" {
		days = "every day"
	}
	return days + " at " + strings.Join(times, " and ")
}

func join(often, days string) string {
	if days == "" {
		return often
	}
	return often + ", " + strings.TrimPrefix(days, "every ")
}

// dayWords reads day of month, month and weekday; "" is every day.
func dayWords(dom, month, dow string) (string, bool) {
	in := ""
	if month != "*" {
		names, ok := list(month, months[:], 1)
		if !ok {
			return "", false
		}
		in = " in " + names
	}
	switch {
	case dom == "*" && dow == "*":
		if in != "" {
			return "every day" + in, true
		}
		return "", true
	case dom == "*" && dow == "1-5" || dom == "*" && strings.EqualFold(dow, "mon-fri"):
		return "Monday to Friday" + in, true
	case dom == "*":
		names, ok := list(dow, weekdays[:], 0)
		return "every " + names + in, ok
	case dow == "*":
		n, err := strconv.Atoi(dom)
		if err != nil || n < 1 || n > 31 {
			return "", false
		}
		if in == "" {
			in = " of every month"
		}
		return "on the " + ordinal(n) + in, true
	}
	return "", false
}

var (
	weekdays = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	months   = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
)

// list reads "2,4" or "tue" by names, counted from first.
func list(field string, names []string, first int) (string, bool) {
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
		out = append(out, names[n-first])
	}
	if n := len(out); n > 1 {
		return strings.Join(out[:n-1], ", ") + " and " + out[n-1], true
	}
	return out[0], true
}

func ordinal(n int) string {
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
