package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/injector/cron"
	"breakwater/slo"
)

// Calendar is a month or a week of game days, or the list of them.
type Calendar struct {
	Title, Kind       string // Kind: month, week or list
	Prev, Next, Today Link
	Views             []Link
	Days              []string // of the week, by name
	Weeks             []CalWeek
	Agenda            []AgendaRow
	Rest              Link // to all of the month
}

// CalWeek is one line of the grid.
type CalWeek struct {
	Name string
	Days []CalDay
}

// CalDay is one cell. Lanes are the same ones all along a week, so that a bar lies
// in one line.
type CalDay struct {
	ISO, Number, Weekday, Month string
	Out, Today, Has             bool
	Lanes                       []CalBar
	Events                      []CalEvent
	More                        *Link
}

// CalBar is the part of a stretch of time that lies in one day; without a class it
// only keeps its lane.
type CalBar struct{ Class, Text, Title, Note, Href, Icon string }

// CalEvent is something at one instant.
type CalEvent struct{ Class, Icon, Text, Note, Title, Href string }

// AgendaRow is an event in the list.
type AgendaRow struct {
	Time                 Time
	UTC, In              string
	Title, Href, Service string
	State                Chip
	Why                  string
}

// happening is one due instant, whatever became of it or will.
type happening struct {
	at             time.Time
	key, href      string // of the schedule; where more stands
	title, service string
	chip           Chip
	why            string
	cut            bool // nothing begins, or began
}

// stretch is a time in which nothing may begin.
type stretch struct {
	from, until      time.Time
	text, note, href string
	open             bool // it ends later than anybody knows
}

// calSpan is what a calendar shows, in one zone.
type calSpan struct {
	lang
	kind        string
	zone        *time.Location
	at          time.Time // a day of it
	from, until time.Time
	month       time.Month
	weeks       int
}

// midnightOf is the first instant of a date; clocks may skip midnight itself.
func midnightOf(y int, m time.Month, d int, zone *time.Location) time.Time {
	return cron.Wall(y, m, d, 0, 0, zone)
}

// calendarSpan reads ?view= and ?at= of the address.
func calendarSpan(r *http.Request, now time.Time, zone *time.Location) calSpan {
	c := calSpan{kind: r.URL.Query().Get("view"), zone: zone}
	if c.kind != "week" && c.kind != "list" {
		c.kind = "month"
	}
	y, m, d := now.In(zone).Date()
	if asked, err := time.Parse(time.DateOnly, r.URL.Query().Get("at")); err == nil && asked.Year() >= 2000 && asked.Year() < 2200 {
		y, m, d = asked.Date()
	}
	c.at, c.month = midnightOf(y, m, d, zone), m
	monday := func(y int, m time.Month, d int) (int, time.Month, int) {
		// A date is a date only; its noon in UTC carries it without any zone.
		noon := time.Date(y, m, d, 12, 0, 0, 0, time.UTC)
		return noon.AddDate(0, 0, -(int(noon.Weekday())+6)%7).Date()
	}
	switch c.kind {
	case "week":
		y, m, d = monday(y, m, d)
		c.weeks = 1
	case "list":
		c.from, c.until = midnightOf(y, m, 1, zone), midnightOf(y, m+1, 1, zone)
		return c
	default:
		last := time.Date(y, m+1, 0, 12, 0, 0, 0, time.UTC)
		y, m, d = monday(y, m, 1)
		c.weeks = int(last.Sub(time.Date(y, m, d, 12, 0, 0, 0, time.UTC))/(7*24*time.Hour)) + 1
	}
	c.from, c.until = midnightOf(y, m, d, zone), midnightOf(y, m, d+7*c.weeks, zone)
	return c
}

// turn is the address of the same calendar on another day.
func (c calSpan) turn(r *http.Request, kind string, at time.Time) string {
	q := url.Values{}
	for _, key := range []string{"zone", "tv"} {
		if v := r.URL.Query().Get(key); v != "" {
			q.Set(key, v)
		}
	}
	if kind != "month" {
		q.Set("view", kind)
	}
	if !at.IsZero() {
		q.Set("at", at.Format(time.DateOnly))
	}
	return (&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String()
}

// calendar draws what happens and what bars it.
func (v view) calendar(c calSpan, all []happening, bars []stretch) Calendar {
	c.lang = v.lang
	y, m, d := c.at.In(c.zone).Date()
	noon := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 12, 0, 0, 0, time.UTC) }
	out := Calendar{Kind: c.kind, Title: v.written(noon(y, m, 1), "January 2006"), Today: Link{Name: "Today", Href: c.turn(v.r, c.kind, time.Time{})}}
	prev, next := noon(y, m-1, 1), noon(y, m+1, 1)
	layout := phrase("January")
	if c.kind == "week" {
		first := c.from.In(c.zone)
		_, week := first.ISOWeek()
		out.Title = v.say("Week %s, %s to %s", strconv.Itoa(week), v.written(first, "2 Jan"), v.written(first.AddDate(0, 0, 6), "2 Jan 2006"))
		prev, next, layout = noon(y, m, d-7), noon(y, m, d+7), phrase("2 January")
	}
	out.Prev, out.Next = Link{Name: v.written(prev, layout), Href: c.turn(v.r, c.kind, prev)}, Link{Name: v.written(next, layout), Href: c.turn(v.r, c.kind, next)}
	asked := time.Time{}
	if v.r.URL.Query().Has("at") {
		asked = noon(y, m, d)
	}
	for _, k := range []string{phrase("Week"), phrase("Month"), phrase("List")} {
		key := strings.ToLower(k)
		out.Views = append(out.Views, Link{Name: k, Href: c.turn(v.r, key, asked), Here: key == c.kind})
	}
	slices.SortStableFunc(all, func(a, b happening) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key, b.key)) })
	if c.kind == "list" {
		out.Agenda, out.Rest = v.agenda(c, all)
		return out
	}
	out.Days = []string{v.word("Mon"), v.word("Tue"), v.word("Wed"), v.word("Thu"), v.word("Fri"), v.word("Sat"), v.word("Sun")}
	byDay := map[string][]happening{}
	for _, h := range all {
		key := h.at.In(c.zone).Format(time.DateOnly)
		byDay[key] = append(byDay[key], h)
	}
	today := v.now.In(c.zone).Format(time.DateOnly)
	fy, fm, fd := c.from.In(c.zone).Date()
	for w := range c.weeks {
		_, number := noon(fy, fm, fd+7*w).ISOWeek()
		week := CalWeek{Name: "W" + strconv.Itoa(number)}
		lanes := c.lanes(fy, fm, fd+7*w, bars)
		for i := range 7 {
			date := noon(fy, fm, fd+7*w+i)
			key := date.Format(time.DateOnly)
			day := CalDay{ISO: key, Number: strconv.Itoa(date.Day()), Weekday: v.written(date, "Mon"), Month: v.written(date, "Jan"), Today: key == today,
				Out: c.kind == "month" && date.Month() != c.month, Lanes: lanes[i]}
			day.Events, day.More = c.cell(v.r, date, byDay[key])
			day.Has = len(day.Events) > 0 || slices.ContainsFunc(day.Lanes, func(b CalBar) bool { return b.Class != "" })
			week.Days = append(week.Days, day)
		}
		out.Weeks = append(out.Weeks, week)
	}
	return out
}

// cell are the events of one day: those of one schedule as one where there are many,
// and no more than fit.
func (c calSpan) cell(r *http.Request, date time.Time, all []happening) (out []CalEvent, more *Link) {
	most := 3
	if c.kind == "week" {
		most = 12
	}
	n := map[string]int{}
	for _, h := range all {
		n[h.key+h.chip.Text]++
	}
	said := map[string]bool{}
	left := 0
	for _, h := range all {
		kind := h.key + h.chip.Text
		many := n[kind]
		if many > 2 && said[kind] {
			continue
		}
		said[kind] = true
		if len(out) == most {
			left++
			continue
		}
		e := CalEvent{Class: h.chip.Class, Icon: h.chip.Icon, Note: c.word(h.chip.Text), Href: h.href}
		if h.cut {
			e.Class = "cut"
		}
		if h.why != "" {
			e.Note = c.say("%s: %s", e.Note, h.why)
		}
		e.Text = h.at.In(c.zone).Format("15:04") + " " + cmp.Or(h.service, h.title)
		if many > 2 {
			e.Text += c.say(" and %s more", strconv.Itoa(many-1))
		}
		e.Title = c.say("%s, %s, %s", e.Text, h.title, e.Note)
		out = append(out, e)
	}
	if left > 0 {
		more = &Link{Name: c.say("%s more", slo.Count(int64(left))), Href: c.turn(r, "week", date)}
	}
	return out, more
}

// lanes are the bars of one week, by day: each keeps its line from its first day to
// its last. What finds no line is left to the list and to the conflicts.
func (c calSpan) lanes(y int, m time.Month, d int, bars []stretch) [7][]CalBar {
	const most = 3
	var out [7][]CalBar
	var days [8]time.Time
	for i := range days {
		days[i] = midnightOf(y, m, d+i, c.zone)
	}
	var taken [most]int // the first free day of each lane
	used := 0
	for _, b := range bars {
		first, last := -1, -1
		for i := range 7 {
			if b.from.Before(days[i+1]) && b.until.After(days[i]) {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
		lane := slices.IndexFunc(taken[:], func(free int) bool { return free <= first })
		if first < 0 || lane < 0 {
			continue
		}
		taken[lane], used = last+1, max(used, lane+1)
		for i := first; i <= last; i++ {
			for len(out[i]) <= lane {
				out[i] = append(out[i], CalBar{})
			}
			out[i][lane] = b.part(c, i == first, i == last, b.from.Before(days[i]), b.until.After(days[i+1]))
		}
	}
	for i := range out {
		for len(out[i]) < used {
			out[i] = append(out[i], CalBar{})
		}
	}
	return out
}

// part is what of b lies in one day; before and after say that it goes beyond it.
func (b stretch) part(c calSpan, first, last, before, after bool) CalBar {
	p := CalBar{Class: "frozen", Href: b.href, Note: b.note, Title: c.say("%s, %s", b.text, b.note)}
	if before && !first {
		p.Class += " on"
	}
	switch {
	case after && !last && before && !first:
		p.Class += " mid"
	case after && !last:
		p.Class += " first"
	}
	switch {
	case first:
		p.Text, p.Icon = b.text, "s-frozen"
	case last && !after && !b.open:
		if h, m, _ := b.until.In(c.zone).Clock(); h+m > 0 { // a whole day needs no word
			p.Text = c.say("to %s", b.until.In(c.zone).Format("15:04"))
		}
	}
	return p
}

// mostAgenda is how many rows the list of a month has: an hourly drill has hundreds.
const mostAgenda = 100

// agenda is the list, in order of time. Of very many it has those from a day ago on.
func (v view) agenda(c calSpan, all []happening) (out []AgendaRow, rest Link) {
	shown, rest := bounded(v, all, mostAgenda)
	if rest.Href != "" {
		from, _ := slices.BinarySearchFunc(all, v.now.AddDate(0, 0, -1), func(h happening, t time.Time) int { return h.at.Compare(t) })
		shown = all[min(from, len(all)-mostAgenda):][:mostAgenda]
	}
	for _, h := range shown {
		row := AgendaRow{Time: Time{v.iso(h.at), v.written(h.at.In(c.zone), "Mon 2 Jan 15:04")}, UTC: h.at.UTC().Format("15:04Z"), In: v.in(h.at), Title: h.title, Href: h.href, Service: h.service,
			State: h.chip, Why: h.why}
		if row.State.Class != "chaos" && !strings.HasPrefix(row.State.Class, "fg-") {
			row.State.Class = "fg-" + row.State.Class
		} else if row.State.Class == "chaos" {
			row.State.Class = "fg-chaos"
		}
		out = append(out, row)
	}
	return out, rest
}

func dayHref(id string) string { return "/gamedays/" + url.PathEscape(id) }
