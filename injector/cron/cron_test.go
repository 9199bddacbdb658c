package cron

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func parse(t *testing.T, s Spec) Schedule {
	t.Helper()
	out, err := Parse(s, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return out
}

func TestChaos_C49_clockChanges(t *testing.T) {
	tests := []struct {
		name, cron, zone, after string
		want                    []string // local
	}{
		{"spring gap runs right after it", "30 2 * * 0", "America/New_York", "2025-03-03T00:00:00Z",
			[]string{"2025-03-09T03:00:00-04:00", "2025-03-16T02:30:00-04:00"}},
		{"autumn runs the first time only", "30 1 * * 0", "America/New_York", "2025-10-27T00:00:00Z",
			[]string{"2025-11-02T01:30:00-04:00", "2025-11-09T01:30:00-05:00"}},
		{"a gap of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2025-10-04T00:00:00Z",
			[]string{"2025-10-05T02:30:00+11:00", "2025-10-06T02:15:00+11:00"}},
		{"midnight that does not exist", "0 0 * * *", "America/Santiago", "2025-09-06T05:00:00Z",
			[]string{"2025-09-07T01:00:00-03:00", "2025-09-08T00:00:00-03:00"}},
		{"a date that never was is skipped", "0 9 * * *", "Pacific/Apia", "2011-12-29T08:00:00Z",
			[]string{"2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00"}},
		{"and so is its anniversary", "0 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z",
			[]string{"2012-12-30T09:00:00+14:00"}},
		{"several wall times in one gap are one run", "0,20,40 2 * * *", "Europe/Berlin", "2025-03-29T12:00:00Z",
			[]string{"2025-03-30T03:00:00+02:00", "2025-03-31T02:00:00+02:00"}},
		{"every minute needs no clock change", "* * * * *", "UTC", "2025-03-29T12:00:30Z",
			[]string{"2025-03-29T12:01:00Z", "2025-03-29T12:02:00Z"}},
		{"leap day", "0 0 29 2 *", "UTC", "2025-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := parse(t, Spec{Cron: tt.cron, Zone: tt.zone})
			after := at(t, tt.after)
			for _, want := range tt.want {
				got, ok := s.Next(after)
				if !ok || !got.Equal(at(t, want)) {
					t.Fatalf("got %v, %v, want %s", got.In(s.loc).Format(time.RFC3339), ok, want)
				}
				after = got
			}
		})
	}
}

func TestChaos_C51_refused(t *testing.T) {
	tests := []struct {
		spec  Spec
		field string
	}{
		{Spec{Cron: "TZ=UTC"}, "cron"},
		{Spec{Cron: "TZ=0"}, "cron"},
		{Spec{Cron: "TZ=TZ=TZ="}, "cron"},
		{Spec{Cron: "TZ= * * * * *"}, "cron"},
		{Spec{Cron: "CRON_TZ=Europe/Berlin 0 10 * * *"}, "cron"},
		{Spec{Cron: ""}, "cron"},
		{Spec{Cron: " 0 10 * * *"}, "cron"},
		{Spec{Cron: "0 10 * *"}, "cron"},
		{Spec{Cron: "0 0 30 2 *"}, "cron"},
		{Spec{Cron: "0 0 31 4 *"}, "cron"},
		{Spec{Cron: "0 0 , * *"}, "cron"},
		{Spec{Cron: "@every -5m"}, "cron"},
		{Spec{Cron: "@every 0s"}, "cron"},
		{Spec{Cron: "@every 59m"}, "cron"},
		{Spec{Cron: "@reboot"}, "cron"},
		{Spec{Cron: "*/90 * * * *"}, "cron"},
		{Spec{Cron: "*/60 * * * *"}, "cron"},
		{Spec{Cron: "0 */24 * * *"}, "cron"},
		{Spec{Cron: "0 10-12/3 * * *"}, "cron"},
		{Spec{Cron: "0 10 * * 7"}, "cron"},
		{Spec{Cron: "0 10 * * MON#1"}, "cron"},
		{Spec{Cron: "0 10 * * *", Zone: "Local"}, "zone"},
		{Spec{Cron: "0 10 * * *", Zone: "Mars/Olympus"}, "zone"},
		{Spec{Cron: "0 10 * * *", Week: 6, Day: "mon"}, "nth"},
		{Spec{Cron: "0 10 * * *", Week: 1, Day: "monday"}, "nth"},
		{Spec{Cron: "0 10 1 * *", Week: 1, Day: "mon"}, "nth"},
		{Spec{Cron: "@every 2h", Week: 1, Day: "mon"}, "nth"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%+v", tt.spec), func(t *testing.T) {
			_, err := Parse(tt.spec, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			field, ok := errors.AsType[*FieldError](err)
			if !ok || field.Field != tt.field {
				t.Errorf("got %v, want a mistake of %s", err, tt.field)
			}
		})
	}
}

func TestChaos_C53_firstMondayOfTheQuarter(t *testing.T) {
	_, err := Parse(Spec{Cron: "0 10 1-7 1,4,7,10 1"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if field, ok := errors.AsType[*FieldError](err); !ok || !strings.Contains(field.Hint, "nth") {
		t.Errorf("got %v, want a refusal that suggests nth", err)
	}
	s := parse(t, Spec{Cron: "0 10 * * *", Zone: "Europe/Berlin", Week: 1, Day: "mon", Quarterly: true})
	var got []string
	for _, d := range s.Preview(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 5) {
		got = append(got, d.Local.Format("2006-01-02 15:04"))
	}
	want := []string{"2026-01-05 10:00", "2026-04-06 10:00", "2026-07-06 10:00", "2026-10-05 10:00", "2027-01-04 10:00"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPreviewNotesClockChanges(t *testing.T) {
	s := parse(t, Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"})
	notes := map[string]string{"2026-03-29": "forward", "2026-10-25": "twice"}
	for date, word := range notes {
		day := at(t, date+"T00:00:00Z").Add(-time.Hour)
		got := s.Preview(day, 2)
		if len(got) != 2 || !strings.Contains(got[0].Note, word) || got[1].Note != "" {
			t.Errorf("%s: %+v, want a note with %q on the first alone", date, got, word)
		}
	}
}

// zones are those whose rules are unlike others': half hours, midnight changes,
// Ramadan, two-hour jumps, southern summers, and a few plain ones.
const zones = `UTC Africa/Cairo Africa/Casablanca Africa/El_Aaiun Africa/Johannesburg Africa/Lagos America/Anchorage
America/Asuncion America/Chicago America/Denver America/Halifax America/Havana America/Los_Angeles America/Mexico_City
America/Miquelon America/New_York America/Nuuk America/Phoenix America/Santiago America/Sao_Paulo America/Scoresbysund
America/St_Johns America/Thule America/Tijuana Antarctica/Casey Antarctica/Macquarie Antarctica/Troll Asia/Almaty
Asia/Amman Asia/Beirut Asia/Colombo Asia/Damascus Asia/Dhaka Asia/Gaza Asia/Hebron Asia/Jerusalem Asia/Kathmandu
Asia/Kolkata Asia/Riyadh Asia/Shanghai Asia/Singapore Asia/Tehran Asia/Tokyo Atlantic/Azores Atlantic/Bermuda
Atlantic/Reykjavik Australia/Adelaide Australia/Brisbane Australia/Eucla Australia/Lord_Howe Australia/Sydney
Europe/Berlin Europe/Chisinau Europe/Dublin Europe/Istanbul Europe/Lisbon Europe/London Europe/Moscow Pacific/Apia
Pacific/Auckland Pacific/Chatham Pacific/Easter Pacific/Fiji Pacific/Honolulu Pacific/Kiritimati Pacific/Marquesas
Pacific/Norfolk Pacific/Pago_Pago`

// TestSweep holds Next against the plain truth: over a year every local date has
// exactly one run, on that date, at the wall time asked for or right after a gap.
func TestSweep(t *testing.T) {
	texts := map[string][2]int{"0 0 * * *": {0, 0}, "30 1 * * *": {1, 30}, "0 2 * * *": {2, 0}, "59 23 * * *": {23, 59}, "0 10 * * *": {10, 0}}
	for name := range strings.FieldsSeq(zones) {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for text, wall := range texts {
			s := parse(t, Spec{Cron: text, Zone: name})
			date := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
			after := Wall(2024, 12, 31, 23, 59, loc)
			if wall == [2]int{23, 59} {
				after = after.Add(time.Minute)
			}
			for date.Year() == 2025 {
				got, ok := s.Next(after)
				local := got.In(loc)
				start, _ := local.ZoneBounds()
				afterGap := start.Equal(local)
				// A gap that reaches midnight pushes the run to the next date (Nuuk).
				pushed := afterGap && local.Hour() == 0 && local.AddDate(0, 0, -1).Format(time.DateOnly) == date.Format(time.DateOnly)
				if !ok || local.Format(time.DateOnly) != date.Format(time.DateOnly) && !pushed {
					t.Fatalf("%s %s: got %v, want a run on %s", name, text, local, date.Format(time.DateOnly))
				}
				if (local.Hour() != wall[0] || local.Minute() != wall[1]) && !afterGap {
					t.Fatalf("%s %s: got %v, which is neither the wall time nor the end of a gap", name, text, local)
				}
				after, date = got, date.AddDate(0, 0, 1)
			}
		}
	}
}

func FuzzNext(f *testing.F) {
	f.Add("30 2 * * 0", "America/New_York", int64(1741000000))
	f.Add("* * * * *", "Pacific/Apia", int64(1325100000))
	f.Add("@every 168h", "UTC", int64(0))
	f.Fuzz(func(t *testing.T, text, zone string, unix int64) {
		from := time.Unix(unix%(200*365*86400), 0)
		s, err := Parse(Spec{Cron: text, Zone: zone}, from)
		if err != nil {
			return
		}
		// What can happen goes on, and never stands still.
		next, ok := s.Next(from)
		if !ok || !next.After(from) {
			t.Fatalf("%q in %q after %v: %v, %v", text, zone, from, next, ok)
		}
	})
}

func BenchmarkNextImpossible(b *testing.B) {
	b.ReportAllocs()
	s := Schedule{minute: 1, hour: 1, dom: 1 << 30, month: 1 << 2, dow: star | 0x7f, loc: time.UTC}
	for b.Loop() {
		if _, ok := s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
			b.Fatal("30 February came")
		}
	}
}
