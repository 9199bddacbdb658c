package gameday

import (
	"context"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
)

// world answers from fixed schedules.
type world struct {
	Ledger
	Runs
	at        time.Time
	schedules []injector.Schedule
	documents []injector.Document
}

func (w *world) Now(context.Context) (time.Time, error) { return w.at, nil }
func (w *world) Schedules(context.Context) ([]injector.Schedule, error) {
	return w.schedules, nil
}
func (w *world) Documents(context.Context) ([]injector.Document, error) { return w.documents, nil }

// scheduled is a game day whose next instant is computed from at, as Import does it.
func scheduled(t *testing.T, at time.Time, text string) injector.Schedule {
	t.Helper()
	g, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	calendar, err := g.Schedule.Compile(at)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := calendar.Next(at)
	return injector.Schedule{ID: g.Name, GameDay: g.Name, Title: g.Title, Scenarios: g.Scenarios, Cron: g.Schedule.Cron, Zone: g.Schedule.Zone, NextAt: next, Enabled: true, Text: text}
}

const weekly = "apiVersion: breakwater/v1\nkind: GameDay\nname: weekly\ntitle: \"Small drill, weekly; every Sunday\"\nscenarios: [s]\n"

func desk(w *world) *Desk { return New(Config{Ledger: w, Runs: w}) }

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// The wall time that a gap swallows runs right after it, the one that comes twice the
// first time; calendar, feed and scheduler say the same.
func TestUX_U5_calendarAndFeedAgree(t *testing.T) {
	for _, tt := range []struct{ cron, from, utc, local string }{
		{"30 2 * * 0", "2025-03-03T00:00:00Z", "2025-03-09T10:00:00Z", "Sun 2025-03-09 03:00 PDT"},
		{"30 1 * * 0", "2025-10-27T00:00:00Z", "2025-11-02T08:30:00Z", "Sun 2025-11-02 01:30 PDT"},
	} {
		w := &world{at: instant(t, tt.from)}
		w.schedules = []injector.Schedule{scheduled(t, w.at, weekly+"schedule: {cron: \""+tt.cron+"\", zone: America/Los_Angeles}\n")}
		if got := w.schedules[0].NextAt; !got.Equal(instant(t, tt.utc)) {
			t.Errorf("%s: the scheduler has %v, want %s", tt.cron, got, tt.utc)
		}
		p, err := desk(w).Next(t.Context(), "weekly", 5)
		if err != nil || len(p.Coming) != 5 {
			t.Fatalf("%+v, %v", p, err)
		}
		if c := p.Coming[0]; !c.UTC.Equal(instant(t, tt.utc)) || c.Local != tt.local || c.Note == "" {
			t.Errorf("%s: the preview has %+v, want %s, %s with a note", tt.cron, c, tt.utc, tt.local)
		}
		if gap := p.Coming[1].UTC.Sub(p.Coming[0].UTC); gap < 6*24*time.Hour {
			t.Errorf("%s: again after %v", tt.cron, gap)
		}
		feed, err := desk(w).Feed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range p.Coming {
			if n := strings.Count(feed, "DTSTART:"+stamp(c.UTC)+"\r\n"); n != 1 {
				t.Errorf("%s: the feed has the %dth instant %v %d times", tt.cron, i, c.UTC, n)
			}
		}
		if strings.Contains(feed, "DTSTART:20251102T0930") {
			t.Error("the feed has the hour that comes again")
		}
	}
}

func TestFeedIsCalendar(t *testing.T) {
	w := &world{at: instant(t, "2026-12-01T00:00:00Z")}
	text := weekly + "schedule: {cron: \"0 10 * * *\", zone: Europe/Berlin, blackout: [{from: 2026-12-24, to: 2026-12-26}], hours: {from: \"09:00\", to: \"17:00\"}}\n"
	w.schedules = []injector.Schedule{scheduled(t, w.at, text)}
	feed, err := desk(w).Feed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(feed, "\r\n"), "\r\n") {
		if len(line) > 75 || strings.ContainsAny(line, "\r\n") {
			t.Errorf("line of %d octets: %q", len(line), line)
		}
	}
	unfolded := strings.ReplaceAll(feed, "\r\n ", "")
	for _, want := range []string{"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n", "SUMMARY:Small drill\\, weekly\\; every Sunday\r\n", "TRIGGER:-PT15M\r\n", "END:VCALENDAR\r\n"} {
		if !strings.Contains(unfolded, want) {
			t.Errorf("the feed lacks %q:\n%s", want, unfolded)
		}
	}
	for _, never := range []string{"20261224", "20261225", "20261205"} { // two of the blackout, a Saturday
		if strings.Contains(feed, "DTSTART:"+never) {
			t.Errorf("the feed has %s, which will be skipped", never)
		}
	}
	if strings.Count(feed, "BEGIN:VEVENT") != strings.Count(feed, "UID:") || strings.Count(feed, "BEGIN:VEVENT") < 30 {
		t.Errorf("%d events", strings.Count(feed, "BEGIN:VEVENT"))
	}
}

func FuzzFold(f *testing.F) {
	f.Add("SUMMARY:" + strings.Repeat("ü", 100))
	f.Add(strings.Repeat("x", 75))
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\r\n") {
			return
		}
		var out strings.Builder
		fold(&out, text)
		// Unfolded it is what it was, and no line is too long.
		if got := strings.TrimSuffix(strings.ReplaceAll(out.String(), "\r\n ", ""), "\r\n"); got != text {
			t.Fatalf("%q became %q", text, got)
		}
		for line := range strings.SplitSeq(out.String(), "\r\n") {
			if len(line) > 75 {
				t.Fatalf("%d octets", len(line))
			}
		}
	})
}
