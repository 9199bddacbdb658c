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
	minute := make([]int64, days*24*60)
	hour, daily := make([]int64, days*24), make([]int64, days)
	prefix := make([]int64, len(minute)+1)
	for i := range minute {
		minute[i] = rng.Int64N(1 << 40)
		hour[i/60] += minute[i]
		daily[i/1440] += minute[i]
		prefix[i+1] = prefix[i] + minute[i]
	}
	start := sloNoon.Truncate(day)
	index := func(at time.Time, unit time.Duration) int { return int(at.Sub(start) / unit) }
	check := func(from, to time.Time, most int) {
		var a asks
		a.add(ask{"order", "prod", from, to})
		var sum int64
		rows := 0
		take := func(list []int64, lo, hi time.Time, unit time.Duration) {
			for i := index(lo, unit); i < index(hi, unit); i++ {
				sum += list[i]
				rows++
			}
		}
		take(minute, a.since[0], a.firstHour[0], time.Minute)
		take(hour, a.firstHour[0], a.firstDay[0], time.Hour)
		take(daily, a.firstDay[0], a.lastDay[0], day)
		take(hour, a.lastDay[0], a.lastHour[0], time.Hour)
		take(minute, a.lastHour[0], a.end[0], time.Minute)
		if want := prefix[index(to, time.Minute)] - prefix[index(from, time.Minute)]; sum != want || rows > most {
			t.Fatalf("%s to %s: %d of %d rows, want %d of at most %d", from, to, sum, rows, want, most)
		}
	}
	for m := range 46_000 {
		from := start.Add(time.Duration(m) * time.Minute)
		check(from, from.Add(30*day), 112)
		if length := time.Duration(1+rng.IntN(30*24*60)) * time.Minute; m%3 == 0 {
			check(from, from.Add(length), 193)
		}
	}
}
