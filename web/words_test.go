package web

import (
	"math"
	"testing"
	"time"
)

func TestCronWords(t *testing.T) {
	for text, want := range map[string]string{
		"15 14 * * 2":    "every Tuesday at 14:15",
		"15 14 * * tue":  "every Tuesday at 14:15",
		"0 9,17 * * 1-5": "Monday to Friday at 09:00 and 17:00",
		"30 2 * * 0,6":   "every Sunday and Saturday at 02:30",
		"0 10 15 * *":    "on the 15th of every month at 10:00",
		"0 10 1 1,7 *":   "on the 1st in January and July at 10:00",
		"*/5 * * * *":    "every 5 minutes",
		"* * * * *":      "every minute",
		"30 * * * *":     "every hour at minute 30",
		"@daily":         "every day at 00:00",
		"@every 2m":      "every 2m",
		"0 8 * * *":      "every day at 08:00",
		"0 8-17/3 * * *": "",
		"":               "",
		"nonsense":       "",
		"0 0 * * 9":      "",
	} {
		if got := (lang{}).cronWords(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	w := when{zone: berlin, now: noon}
	if got := w.day(noon); got != (Time{"2026-11-24T14:27:12Z", "Tue 24 Nov 15:27"}) {
		t.Errorf("day is %v", got)
	}
	if got := w.midnight(); !got.Equal(time.Date(2026, 11, 23, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("midnight is %v", got)
	}
	if got := clock(432 * time.Second); got != "7:12" {
		t.Errorf("clock is %q", got)
	}
	if got := clock(-time.Second); got != "0:00" {
		t.Errorf("clock before the start is %q", got)
	}
	if got := w.in(noon.Add(-2 * time.Hour)); got != "2\u202fh ago" {
		t.Errorf("in is %q", got)
	}
}

func TestNiceHoldsItsRange(t *testing.T) {
	for _, r := range [][2]float64{{0, 1}, {0, 0}, {0, 3.4}, {-5.6, 100}, {-24_000, 100}, {0, 17}, {0, 0.003}} {
		from, to, ticks := nice(r[0], r[1])
		if from > r[0] || to < r[1] || len(ticks) < 4 || len(ticks) > 7 || ticks[0] != from || math.Abs(ticks[len(ticks)-1]-to) > 1e-9 {
			t.Errorf("%v: %v to %v by %v", r, from, to, ticks)
		}
	}
}

func TestAGapLiftsThePen(t *testing.T) {
	from := noon.Add(-time.Hour)
	a := axis{from: from, to: noon, min: 0, max: 100}
	at := []time.Time{from, from.Add(15 * time.Minute), from.Add(30 * time.Minute), from.Add(45 * time.Minute), noon}
	line, area := a.path(at, []float64{100, 50, math.NaN(), 25, 0}, 0)
	if line != "M0 0L250 50M750 75L1000 100" {
		t.Errorf("line is %q", line)
	}
	if area != "M0 100L0 0L250 50L250 100zM750 100L750 75L1000 100L1000 100z" {
		t.Errorf("area is %q", area)
	}
	gaps := a.gaps(at, []float64{100, 50, math.NaN(), 25, 0}, 15*time.Minute)
	if len(gaps) != 1 || gaps[0] != (Stretch{"25", "50", "75"}) {
		t.Errorf("gaps are %v", gaps)
	}
}
