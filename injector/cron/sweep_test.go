package cron

import (
	"archive/zip"
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var whole = flag.Bool("whole", false, "sweep every zone, not one in sixty")

// everyZone lists the zones of the release's own data, which is what is embedded.
func everyZone(t *testing.T) []string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("where the toolchain is: %v", err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatalf("the toolchain has no zone data: %v", err)
	}
	defer z.Close()
	var out []string
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			out = append(out, f.Name)
		}
	}
	if len(out) < 500 {
		t.Fatalf("%d zones, want all", len(out))
	}
	return out
}

// TestChaos_C49_everyZone: over four years each local date of each zone has exactly
// one run at each of seven times, at that wall time or right after a gap, and no
// other instant has one. The dates are walked by their own arithmetic, not by Next.
func TestChaos_C49_everyZone(t *testing.T) {
	texts := map[string][2]int{"0 0 * * *": {0, 0}, "30 0 * * *": {0, 30}, "30 1 * * *": {1, 30}, "0 2 * * *": {2, 0}, "30 2 * * *": {2, 30},
		"0 10 * * *": {10, 0}, "59 23 * * *": {23, 59}}
	zones, dates, runs := 0, 0, 0
	for i, name := range everyZone(t) {
		if !*whole && i%60 != 0 && !strings.Contains(zonesUnlikeOthers, " "+name+" ") {
			continue
		}
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones++
		first, last := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(2027, 12, 31, 12, 0, 0, 0, time.UTC)
		for text, wall := range texts {
			s := parse(t, Spec{Cron: text, Zone: name})
			after := Wall(2024, 1, 1, wall[0], wall[1], loc).Add(-time.Nanosecond)
			for date := first; !date.After(last); date = date.AddDate(0, 0, 1) {
				dates++
				want := due(date, wall, loc)
				got, ok := s.Next(after)
				if !ok || !got.Equal(want) {
					t.Fatalf("%s %q after %v: got %v, want %v for %s", name, text, after.In(loc), got.In(loc), want.In(loc), date.Format(time.DateOnly))
				}
				runs++
				after = got
			}
		}
	}
	t.Logf("%d zones, %d dates, %d runs", zones, dates, runs)
}

// zonesUnlikeOthers are always swept: they change by half an hour, at midnight, or in
// Ramadan.
const zonesUnlikeOthers = " Australia/Lord_Howe America/Santiago Africa/Cairo Africa/Casablanca America/Nuuk Asia/Gaza Antarctica/Troll America/New_York Europe/Berlin "

// due is the truth by the slow way: the first minute of the time line, looked at one
// by one, whose wall clock shows date and wall, or has just passed it.
func due(date time.Time, wall [2]int, loc *time.Location) time.Time {
	y, m, d := date.Date()
	guess := time.Date(y, m, d, wall[0], wall[1], 0, 0, loc)
	// Where clocks are not set for a day before and after, there is nothing to look for.
	since, until := guess.ZoneBounds()
	if guess.Add(-24*time.Hour).After(since) && (until.IsZero() || guess.Add(24*time.Hour).Before(until)) {
		_, offset := guess.Zone()
		return time.Date(y, m, d, wall[0], wall[1], -offset, 0, time.UTC)
	}
	shows := func(at time.Time) int64 { // minutes of the wall clock, as one number
		l := at.In(loc)
		ly, lm, ld := l.Date()
		return time.Date(ly, lm, ld, l.Hour(), l.Minute(), 0, 0, time.UTC).Unix() / 60
	}
	want := time.Date(y, m, d, wall[0], wall[1], 0, 0, time.UTC).Unix() / 60
	// From three hours before the guess no wall time of the date was passed yet.
	at := guess.Add(-3 * time.Hour).UTC().Truncate(15 * time.Minute)
	for shows(at) < want {
		step := time.Minute
		if shows(at.Add(15*time.Minute)) < want && shows(at.Add(15*time.Minute)) == shows(at)+15 {
			step = 15 * time.Minute
		}
		at = at.Add(step)
	}
	return at
}
