package store

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Every minute of a month as the end of a window: head minutes, head hours, days,
// tail hours and tail minutes add up to the direct sum, and a window of whole days
// is at most 112 rows of them, any other at most 193.
func TestSLO_T29_SegmentsAtEveryOffset(t *testing.T) {
	const days = 64
	rng := rand.New(rand.NewPCG(29, 29))
	// Prefix sums of what is kept by the minute, by the hour and by the day.
	minute, hour, daily := make([]int64, days*24*60+1), make([]int64, days*24+1), make([]int64, days+1)
	for i := range days * 24 * 60 {
		n := rng.Int64N(1 << 40)
		minute[i+1] = minute[i] + n
		if i%60 == 0 {
			hour[i/60+1] = hour[i/60]
		}
		if i%1440 == 0 {
			daily[i/1440+1] = daily[i/1440]
		}
		hour[i/60+1] += n
		daily[i/1440+1] += n
	}
	start := sloNoon.Truncate(day)
	index := func(at time.Time, unit time.Duration) int { return int(at.Sub(start) / unit) }
	check := func(from, to time.Time, most int) {
		var a asks
		a.add(ask{"order", "prod", from, to})
		var sum int64
		rows := 0
		take := func(list []int64, lo, hi time.Time, unit time.Duration) {
			if from, to := index(lo, unit), index(hi, unit); from < to {
				sum += list[to] - list[from]
				rows += to - from
			}
		}
		take(minute, a.since[0], a.firstHour[0], time.Minute)
		take(hour, a.firstHour[0], a.firstDay[0], time.Hour)
		take(daily, a.firstDay[0], a.lastDay[0], day)
		take(hour, a.lastDay[0], a.lastHour[0], time.Hour)
		take(minute, a.lastHour[0], a.end[0], time.Minute)
		if want := minute[index(to, time.Minute)] - minute[index(from, time.Minute)]; sum != want || rows > most {
			t.Fatalf("%s to %s: %d of %d rows, want %d of at most %d", from, to, sum, rows, want, most)
		}
	}
	for m := range 46_000 {
		from := start.Add(time.Duration(m) * time.Minute)
		check(from, from.Add(30*day), 112)
		if length := time.Duration(1+rng.IntN(30*24*60)) * time.Minute; m%10 == 0 {
			check(from, from.Add(length), 193)
		}
	}
}
