package slo

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones of these tests, wherever they run
)

func monthly(zone string) *Calendar {
	return &Calendar{Unit: Month, Start: "2020-01-01 00:00:00", Zone: zone}
}

func TestSLO_T6(t *testing.T) {
	for _, tt := range []struct {
		month   time.Time
		minutes int64
		budget  time.Duration
	}{
		{time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC), 44_580, 1_337_400 * time.Millisecond},
		{time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), 43_260, 1_297_800 * time.Millisecond},
		{time.Date(2026, 2, 15, 12, 0, 0, 0, time.UTC), 40_320, 1_209_600 * time.Millisecond},
		{time.Date(2028, 2, 15, 12, 0, 0, 0, time.UTC), 41_760, 1_252_800 * time.Millisecond},
	} {
		o := with(t, "99.95", Terms{Calendar: monthly("America/New_York")}).At(tt.month)
		if got := int64(o.Window / time.Minute); got != tt.minutes || o.Outage() != tt.budget {
			t.Errorf("%s has %d minutes and allows %v, want %d and %v", tt.month.Format("January 2006"), got, o.Outage(), tt.minutes, tt.budget)
		}
	}
}

func TestSLO_S30(t *testing.T) {
	o := with(t, "99.9", Terms{Calendar: monthly("Europe/Berlin")})
	until := time.Date(2026, 3, 3, 15, 30, 20, 0, time.UTC)
	f := o.Frame(until)
	if want := time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC); !f.Running.From.Equal(want) || !f.Closed.From.Equal(want) {
		t.Errorf("on the 3rd the window begins at %v, want %v", f.Running.From, want)
	}
	if !f.Closed.To.Equal(until.Truncate(time.Minute)) || !f.Running.To.Equal(until.Truncate(time.Minute).Add(time.Minute)) {
		t.Errorf("counted up to %v and %v", f.Closed.To, f.Running.To)
	}
	if want := time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC); !f.End.Equal(want) {
		t.Errorf("the period ends at %v, want %v, summer time", f.End, want)
	}
	// The last instant of a month belongs to it, the first minute after does not.
	if f := o.Frame(f.End); !f.Running.From.Equal(time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("at its end March begins at %v", f.Running.From)
	}
	if next := o.Frame(f.End.Add(time.Second)); !next.Running.From.Equal(f.End) || !next.Closed.From.Equal(next.Closed.To) {
		t.Errorf("a second later April begins at %v, closed %v", next.Running.From, next.Closed)
	}
}

func TestSLO_S26(t *testing.T) {
	o := with(t, "99", Terms{Calendar: monthly("UTC"), Planned: 30_000})
	o.Window = 30 * 24 * time.Hour
	soFar := map[int64]int64{1: -4_000_000, 2: -1_500_000, 5: 0, 10: 500_000}
	for day := int64(1); day <= 30; day++ {
		b := WeighPeriod(o, Tally{Good: day*1000 - 50, Bad: 50}, time.Duration(day)*24*time.Hour)
		if b.Allowed != 300 || b.RemainingPPM != 833_333 || b.IsEstimate || Percent(b.RemainingPPM) != "83.3"+thin+"%" {
			t.Errorf("day %d: %d allowed, %d ppm left, want 300 and 833 333", day, b.Allowed, b.RemainingPPM)
		}
		if want, ok := soFar[day]; ok && b.SoFarPPM != want {
			t.Errorf("day %d: %d ppm left so far, want %d", day, b.SoFarPPM, want)
		}
	}
	// More than was planned: the plan was wrong, the budget is of what came.
	if b := WeighPeriod(o, Tally{Good: 59_900, Bad: 100}, 24*time.Hour); b.Base != 60_000 || b.Allowed != 600 {
		t.Errorf("twice the plan allows %d of %d", b.Allowed, b.Base)
	}
}

func TestSLO_S27(t *testing.T) {
	o := with(t, "90", Terms{Calendar: monthly("UTC")})
	o.Window = 30 * 24 * time.Hour
	b := WeighPeriod(o, Tally{Good: 99_000, Bad: 1000}, 7*24*time.Hour)
	if b.SoFar != 10_000 || b.Allowed != 42_857 || !b.IsEstimate {
		t.Errorf("so far %d, of the period %d, estimate %v, want 10 000, 42 857, true", b.SoFar, b.Allowed, b.IsEstimate)
	}
	if b := WeighPeriod(o, Tally{Good: 99_000, Bad: 1000}, o.Window); b.Allowed != 10_000 || b.IsEstimate {
		t.Errorf("at its end %d are allowed, estimate %v", b.Allowed, b.IsEstimate)
	}
}

// A calendar's first failure is a failure of the month, not of its first minute.
func TestACalendarIsJudgedOnTheWholePeriod(t *testing.T) {
	o := with(t, "99.9", Terms{Calendar: monthly("UTC")})
	until := time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)
	m := Measured{Objective: o.At(until), DataUntil: until, Parts: []Counted{{Objective: o,
		Closed: Sums{All: Tally{Good: 995, Bad: 5}}, Running: Sums{All: Tally{Good: 995, Bad: 5}}}}}
	r := read(m)
	if got := Measure(DefaultPolicy(), r.measurement(million)); got != Normal {
		t.Errorf("5 of 1000 in the first hour of a month: %s, want normal: 744 are allowed at this pace", got)
	}
	if b := r.budget(); b.Allowed != 744 || !b.IsEstimate || b.SoFarPPM >= 0 {
		t.Errorf("budget %+v", b)
	}
}

func TestCalendarsAtClockChanges(t *testing.T) {
	day := func(zone, start, until string) (string, string) {
		c := Calendar{Unit: Day, Start: start, Zone: zone}
		at, err := time.Parse(time.RFC3339, until)
		if err != nil {
			t.Fatal(err)
		}
		from, to := c.Period(at)
		return from.Format("2006-01-02T15:04Z"), to.Format("2006-01-02T15:04Z")
	}
	for _, tt := range []struct{ zone, start, until, from, to string }{
		// 02:30 does not exist: the day begins when the clocks leap, at 03:00.
		{"Europe/Berlin", "2026-01-01 02:30:00", "2026-03-29T12:00:00Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"},
		// 02:30 comes twice: the first of them.
		{"Europe/Berlin", "2026-01-01 02:30:00", "2026-10-25T12:00:00Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"},
		// Midnight does not exist on the day the clocks leap.
		{"America/Sao_Paulo", "2018-01-01 00:00:00", "2018-11-04T12:00:00Z", "2018-11-04T03:00Z", "2018-11-05T02:00Z"},
		// A zone that is 45 minutes off.
		{"Asia/Kathmandu", "2026-01-01 00:00:00", "2026-06-01T12:00:00Z", "2026-05-31T18:15Z", "2026-06-01T18:15Z"},
		// Half an hour of summer time.
		{"Australia/Lord_Howe", "2026-01-01 00:00:00", "2026-04-05T06:00:00Z", "2026-04-04T13:00Z", "2026-04-05T13:30Z"},
	} {
		if from, to := day(tt.zone, tt.start, tt.until); from != tt.from || to != tt.to {
			t.Errorf("%s at %s: %s to %s, want %s to %s", tt.zone, tt.until, from, to, tt.from, tt.to)
		}
	}
	// The 31st where there is none is the last day.
	c := Calendar{Unit: Month, Start: "2026-01-31 00:00:00", Zone: "UTC"}
	if from, to := c.Period(time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)); from.Day() != 28 || to.Day() != 31 {
		t.Errorf("from the 31st on, February's period is %v to %v", from, to)
	}
}

// Whatever the zone and the start: periods cover all time without a gap, begin at
// whole minutes, and show the clock they were asked to unless it is leapt over.
func FuzzCalendar(f *testing.F) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu",
		"Pacific/Apia", "Africa/Casablanca", "America/St_Johns", "Asia/Tehran", "Pacific/Chatham", "Antarctica/Troll", "Europe/Dublin", "America/Havana"}
	units := []Unit{Day, Week, Month, Quarter, Year}
	f.Add(uint8(1), uint8(2), uint8(1), int64(1_700_000_000), int64(1_772_000_000))
	f.Add(uint8(6), uint8(0), uint8(1), int64(1_325_200_000), int64(1_325_300_000)) // a day that was left out
	f.Add(uint8(3), uint8(0), uint8(3), int64(1_500_000_000), int64(1_541_300_000))
	f.Fuzz(func(t *testing.T, zone, unit, count uint8, start, until int64) {
		if start < 0 || start > 4_000_000_000 || until < 0 || until > 4_000_000_000 {
			t.Skip()
		}
		c := Calendar{Unit: units[int(unit)%len(units)], Count: int(count%12) + 1, Zone: zones[int(zone)%len(zones)],
			Start: time.Unix(start-start%60, 0).UTC().Format(startForm)}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(until, 0).UTC()
		from, to := c.Period(at)
		if !from.Before(at) || to.Before(at) || !from.Before(to) {
			t.Fatalf("%+v at %v: %v to %v does not hold it", c, at, from, to)
		}
		if !from.Truncate(time.Minute).Equal(from) {
			t.Fatalf("%+v begins at %v", c, from)
		}
		if again, end := c.Period(to); !again.Equal(from) || !end.Equal(to) {
			t.Fatalf("%+v: its last instant belongs to %v, want %v", c, again, from)
		}
		next, _ := c.Period(to.Add(time.Minute))
		if !next.Equal(to) {
			t.Fatalf("%+v: after %v comes %v", c, to, next)
		}
		loc, err := time.LoadLocation(c.Zone)
		if err != nil {
			t.Fatal(err)
		}
		want, err := time.Parse(startForm, c.Start)
		if err != nil {
			t.Fatal(err)
		}
		if got := from.In(loc); got.Hour() != want.Hour() || got.Minute() != want.Minute() {
			// Then the minute before shows a clock before the one asked for: it was leapt over.
			if before := shown(from.Add(-time.Minute).In(loc)); before.Add(time.Minute).Equal(shown(got)) {
				t.Fatalf("%+v begins at %v, want %02d:%02d", c, got, want.Hour(), want.Minute())
			}
		}
	})
}
