package scenario

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/internal/conf"
)

// decodeDay reads one game day without the scenarios it names.
func decodeDay(t *testing.T, text string) (GameDay, error) {
	t.Helper()
	var log conf.Log
	docs := conf.Split(conf.File{Name: "day.yaml", Data: []byte(text)}, &log)
	if len(docs) != 1 {
		t.Fatalf("%d documents in\n%s: %v", len(docs), text, log.Err())
	}
	g := DecodeGameDay(docs[0], &log)
	return g, log.Err()
}

func TestGameDayDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/gamedays.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(samples) != 2 {
		t.Fatalf("%d samples, want 2", len(samples))
	}
	weekly, err := decodeDay(t, samples[0][1])
	if err != nil {
		t.Fatal(err)
	}
	if len(weekly.Waves) != 2 || len(weekly.Scenarios) != 2 || weekly.Remind != 24*time.Hour || weekly.Deadline != 2*time.Hour ||
		len(weekly.Stop) != 1 || !weekly.Reverify || weekly.Schedule.Hours == nil || weekly.Approvals != 1 || weekly.GrantPPM != 50_000 {
		t.Errorf("the weekly sample is read as %+v", weekly)
	}
	quarterly, err := decodeDay(t, samples[1][1])
	if err != nil {
		t.Fatal(err)
	}
	if len(quarterly.Waves) != 3 || len(quarterly.Waves[2].Scenarios) != 2 || len(quarterly.Scenarios) != 4 {
		t.Errorf("the quarterly sample is read as %+v", quarterly)
	}
}

const dayHead = "apiVersion: breakwater/v1\nkind: GameDay\nname: d\n"

func TestGameDayMistakes(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"nothing to run", "title: x", "scenarios: must be given"},
		{"both forms", "scenarios: [a]\nwaves: [{scenarios: [b]}]", "waves: must stand alone"},
		{"an empty wave", "waves: [{scenarios: []}]", "must name at least one"},
		{"one person in two roles", "scenarios: [a]\nroles: {commander: anna, scribe: anna}", "must be somebody else"},
		{"hours that end before they begin", "scenarios: [a]\nschedule: {cron: \"0 9 * * *\", hours: {from: \"17:00\", to: \"09:00\"}}", "must end after they begin"},
		{"no time of day", "scenarios: [a]\nschedule: {cron: \"0 9 * * *\", hours: {from: \"9 am\", to: \"17:00\"}}", "must be a time of day"},
		{"a day that is none", "scenarios: [a]\nschedule: {cron: \"0 9 * * *\", hours: {days: [monday], from: \"09:00\", to: \"17:00\"}}", "monday"},
		{"more than all is left", "scenarios: [a]\nguards: {budget_left: \"100%\"}", "must be below 100%"},
		{"a guard that is none", "scenarios: [a]\nguards: {luck: \"30%\"}", "luck"},
		{"two deadlines", "scenarios: [a]\nschedule: {cron: \"0 9 * * *\", missed: skip, start_deadline: 5m}", "must be left out"},
		{"a deadline that the engine has not", "scenarios: [a]\nschedule: {cron: \"0 9 * * *\", start_deadline: 1h}", "start_deadline: must be"},
		{"a concurrency nobody knows", "scenarios: [a]\nschedule: {cron: \"0 9 * * *\", concurrency: replace}", "concurrency"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decodeDay(t, dayHead+tt.text+"\n")
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "day.yaml:") {
				t.Errorf("got %v, want a mistake at its place that says %q", err, tt.says)
			}
		})
	}
}

func TestHours(t *testing.T) {
	g, err := decodeDay(t, dayHead+"scenarios: [a]\nschedule: {cron: \"0 9 * * *\", zone: Europe/Berlin, hours: {from: \"09:00\", to: \"17:00\"}, blackout: [{from: 2026-12-24, to: 2026-12-26}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"2026-07-06T06:59:59Z": "outside_hours", // 08:59 on a Monday in summer
		"2026-07-06T07:00:00Z": "",
		"2026-07-06T14:59:00Z": "",
		"2026-07-06T15:00:00Z": "outside_hours",
		"2026-12-07T07:30:00Z": "outside_hours", // 08:30 in winter
		"2026-07-05T10:00:00Z": "outside_hours", // Sunday
		"2026-12-24T10:00:00Z": "blackout",
		"2026-12-23T23:30:00Z": "blackout", // it is the 24th there
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Schedule.Closed(at, loc); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func FuzzGameDay(f *testing.F) {
	f.Add("scenarios: [a]\nschedule: {cron: \"0 9 * * *\", hours: {from: \"09:00\", to: \"24:00\"}}")
	f.Add("waves: [{name: x, scenarios: [a, b]}]\nroles: {commander: c}")
	f.Fuzz(func(t *testing.T, text string) {
		var log conf.Log
		for _, d := range conf.Split(conf.File{Name: "d", Data: []byte(dayHead + text)}, &log) {
			g := DecodeGameDay(d, &log)
			if log.Err() != nil {
				continue
			}
			n := 0
			for _, w := range g.Waves {
				n += len(w.Scenarios)
			}
			// What is accepted runs something, each of it in one wave.
			if n == 0 || n != len(g.Scenarios) {
				t.Fatalf("%d scenarios in %d waves: %+v", len(g.Scenarios), len(g.Waves), g)
			}
		}
	})
}
