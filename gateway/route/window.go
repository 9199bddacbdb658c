package route

import (
	"fmt"
	"strings"
	"time"
)

// Window is a part of every day, or of some days of the week, by the wall clock
// of a zone: "22:00-06:00 Asia/Shanghai", "mon-fri 09:00-17:30 Europe/Berlin".
// The start belongs to it, the end does not.
//
// What a clock change leaves out is in no window, and what it repeats is in one
// twice: people who write 02:30 mean what the clock on their wall shows.
type Window struct {
	days        uint8 // bit 0 is Sunday
	from, until int   // seconds of the day; until < from runs over midnight
	zone        *time.Location
}

const (
	day     = 24 * 60 * 60
	allDays = 1<<7 - 1
)

func weekdays() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// ParseWindow reads a window. Its errors say what must be and what was found.
func ParseWindow(text string) (Window, error) {
	w := Window{days: allDays}
	words := strings.Fields(text)
	if len(words) == 3 {
		days, err := parseDays(words[0])
		if err != nil {
			return Window{}, err
		}
		w.days, words = days, words[1:]
	}
	if len(words) != 2 {
		return Window{}, fmt.Errorf("must be like 22:00-06:00 Asia/Shanghai or mon-fri 09:00-17:30 Europe/Berlin, got %q", text)
	}
	from, until, ok := strings.Cut(words[0], "-")
	w.from, w.until = parseClock(from), parseClock(until)
	if !ok || w.from < 0 || w.until < 0 || w.from == day {
		return Window{}, fmt.Errorf("must be two times of day such as 22:00-06:00, got %q", words[0])
	}
	if w.from == w.until {
		return Window{}, fmt.Errorf("must not begin where it ends, got %q", words[0])
	}
	zone, err := time.LoadLocation(words[1])
	// "Local" is another zone on every machine, and documents are read on several.
	if err != nil || strings.EqualFold(words[1], "Local") {
		return Window{}, fmt.Errorf("must name a zone such as UTC or Europe/Berlin, got %q", words[1])
	}
	w.zone = zone
	return w, nil
}

// parseDays reads "mon", "mon-fri", "sat,sun"; "fri-mon" runs over the weekend.
func parseDays(text string) (set uint8, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, span := strings.Cut(part, "-")
		a, b := weekday(first), weekday(last)
		if !span {
			b = a
		}
		if a < 0 || b < 0 {
			return 0, fmt.Errorf("must be days such as mon-fri or sat,sun, got %q", text)
		}
		for d := a; ; d = (d + 1) % 7 {
			set |= 1 << d
			if d == b {
				break
			}
		}
	}
	return set, nil
}

func weekday(name string) int {
	for i, d := range weekdays() {
		if d == name {
			return i
		}
	}
	return -1
}

// parseClock reads HH:MM or HH:MM:SS as seconds of the day; 24:00 is its end. -1
// for anything else.
func parseClock(text string) int {
	if len(text) != 5 && len(text) != 8 {
		return -1
	}
	seconds := 0
	for i, most := range []int{24, 59, 59}[:(len(text)+1)/3] {
		a, b := text[3*i], text[3*i+1]
		if a < '0' || a > '9' || b < '0' || b > '9' || i > 0 && text[3*i-1] != ':' {
			return -1
		}
		n := int(a-'0')*10 + int(b-'0')
		if n > most {
			return -1
		}
		seconds = seconds*60 + n
	}
	if len(text) == 5 {
		seconds *= 60
	}
	if seconds > day {
		return -1
	}
	return seconds
}

// Holds reports whether now lies in w.
func (w Window) Holds(now time.Time) bool {
	local := now.In(w.zone)
	h, m, s := local.Clock()
	at, today := (h*60+m)*60+s, local.Weekday()
	if w.from < w.until {
		return w.on(today) && at >= w.from && at < w.until
	}
	// Over midnight it is two pieces, and the one after midnight belongs to the
	// day on which it began.
	return w.on(today) && at >= w.from || w.on((today+6)%7) && at < w.until
}

func (w Window) on(d time.Weekday) bool { return w.days&(1<<d) != 0 }

// String gives w in its one normal form; ParseWindow reads it.
func (w Window) String() string {
	if w.zone == nil {
		return ""
	}
	text := clock(w.from) + "-" + clock(w.until) + " " + w.zone.String()
	if w.days == allDays {
		return text
	}
	var days []string
	for i, d := range weekdays() {
		if w.on(time.Weekday(i)) {
			days = append(days, d)
		}
	}
	return strings.Join(days, ",") + " " + text
}

// MarshalText implements encoding.TextMarshaler.
func (w Window) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler: a configuration that was sent
// can be read again.
func (w *Window) UnmarshalText(text []byte) (err error) {
	*w, err = ParseWindow(string(text))
	return err
}

func clock(s int) string {
	if s%60 == 0 {
		return fmt.Sprintf("%02d:%02d", s/3600, s/60%60)
	}
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
