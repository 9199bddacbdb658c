package gameday

import (
	"context"
	"fmt"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

// Coming is one due instant, as people want to read it.
type Coming struct {
	ID    string    `json:"id"`
	UTC   time.Time `json:"utc"`
	Local string    `json:"local"`
	// Skipped says why nothing will start then: blackout, outside_hours.
	Skipped string `json:"skipped,omitempty"`
	Note    string `json:"note,omitempty"` // what a change of clocks does to it
}

// Preview is when a game day is held.
type Preview struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Cron   string   `json:"cron"`
	Zone   string   `json:"zone"`
	Words  string   `json:"words"`
	Coming []Coming `json:"next"`
}

// Next lists the next n due instants of a schedule, from what the scheduler has
// stored on.
func (d *Desk) Next(ctx context.Context, name string, n int) (Preview, error) {
	all, err := d.cfg.Runs.Schedules(ctx)
	if err != nil {
		return Preview{}, err
	}
	for _, s := range all {
		if s.ID == name && s.Enabled {
			return preview(s, n)
		}
	}
	return Preview{}, fmt.Errorf("schedule %q: %w", name, injector.ErrNotFound)
}

func preview(s injector.Schedule, n int) (Preview, error) {
	out := Preview{Name: s.ID, Title: s.Title, Cron: s.Cron, Zone: s.Zone, Coming: []Coming{}}
	g, err := parse(s.Text)
	if err != nil || g.Schedule == nil {
		return out, err
	}
	// What is stored is the truth; the calendar goes on from there.
	from := s.NextAt.Add(-time.Second)
	calendar, err := g.Schedule.Compile(from)
	if err != nil {
		return out, err
	}
	out.Words = calendar.Words()
	for _, due := range calendar.Preview(from, n) {
		out.Coming = append(out.Coming, Coming{ID: injector.DayID(s.ID, due.UTC), UTC: due.UTC, Local: due.Local.Format("Mon 2006-01-02 15:04 MST"),
			Skipped: g.Schedule.Closed(due.UTC, calendar.Location()), Note: due.Note})
	}
	return out, nil
}

// How far ahead a feed reaches, and how many of one schedule it holds: one of every
// minute is no calendar.
const (
	feedFor  = 366 * 24 * time.Hour
	feedMost = 60
)

// Feed writes what comes as iCalendar (RFC 5545): one event for each due instant, in
// UTC. A rule of repetition would leave clock changes, blackouts and hours to the
// reader's program, which knows nothing of them.
func (d *Desk) Feed(ctx context.Context) (string, error) {
	all, err := d.cfg.Runs.Schedules(ctx)
	if err != nil {
		return "", err
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return "", err
	}
	docs, err := d.cfg.Runs.Documents(ctx)
	if err != nil {
		return "", err
	}
	lasts := map[string]time.Duration{}
	for _, doc := range docs {
		if sc, err := injector.ParseText(doc.Text); err == nil {
			lasts[doc.ID] = sc.Phases.Total()
		}
	}
	var out strings.Builder
	line := func(format string, args ...any) { fold(&out, fmt.Sprintf(format, args...)) }
	line("BEGIN:VCALENDAR")
	line("VERSION:2.0")
	line("PRODID:-//breakwater//game days//EN")
	line("CALSCALE:GREGORIAN")
	line("X-WR-CALNAME:Game days")
	for _, s := range all {
		if !s.Enabled {
			continue
		}
		p, err := preview(s, feedMost)
		g, errDay := parse(s.Text)
		if err != nil || errDay != nil {
			continue
		}
		length := length(g, lasts)
		for _, c := range p.Coming {
			if c.UTC.Sub(now) > feedFor || c.Skipped != "" {
				continue
			}
			line("BEGIN:VEVENT")
			line("UID:%s@breakwater", c.ID)
			line("DTSTAMP:%s", stamp(now))
			line("DTSTART:%s", stamp(c.UTC))
			line("DTEND:%s", stamp(c.UTC.Add(length)))
			line("SUMMARY:%s", escape(p.Title))
			text := p.Words + "\n" + c.Local + "\nScenarios: " + strings.Join(s.Scenarios, ", ")
			if c.Note != "" {
				text += "\n" + c.Note
			}
			line("DESCRIPTION:%s", escape(text))
			if g.Remind > 0 {
				line("BEGIN:VALARM")
				line("ACTION:DISPLAY")
				line("DESCRIPTION:%s", escape(p.Title))
				line("TRIGGER:-PT%dM", int64(g.Remind/time.Minute))
				line("END:VALARM")
			}
			line("END:VEVENT")
		}
	}
	line("END:VCALENDAR")
	return out.String(), nil
}

// length is how long all waves take one after another when nothing goes wrong.
func length(g scenario.GameDay, lasts map[string]time.Duration) time.Duration {
	total := time.Duration(0)
	for _, w := range g.Waves {
		longest := time.Duration(0)
		for _, id := range w.Scenarios {
			longest = max(longest, lasts[id])
		}
		total += longest
	}
	return max(total, time.Minute)
}

func stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

func escape(text string) string {
	return strings.NewReplacer("\\", "\\\\", ";", "\\;", ",", "\\,", "\r", "", "\n", "\\n").Replace(text)
}

// fold ends a line as RFC 5545 wants it: CRLF, and no more than 75 octets before a
// continuation, never within a character.
func fold(out *strings.Builder, text string) {
	room := 75
	for len(text) > room {
		n := room
		for n > 1 && text[n]&0xC0 == 0x80 {
			n--
		}
		out.WriteString(text[:n] + "\r\n ")
		text, room = text[n:], 74
	}
	out.WriteString(text + "\r\n")
}
