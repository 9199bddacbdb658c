package now

import (
	"cmp"
	"slices"
	"time"
)

// What counts as suffering: so many in a minute at least, and a share that is a
// multiple of the usual one, or high in any case.
const (
	fewestHits  = 3
	leastPPM    = 2_000
	certainPPM  = 20_000
	timesUsual  = 4
	gapMinutes  = 2
	freshWithin = 3 * time.Minute
)

// Looked is how far back minutes are read.
const Looked = time.Hour

// Span is the time in which a service has suffered, and the time before that it is
// compared with.
type Span struct {
	State  State
	Before time.Time // the beginning of what it is compared with
	Onset  time.Time // a whole minute
	To     time.Time
	// Whole: it has suffered for as long as minutes were looked at.
	Whole bool
}

// Find tells since when the service of minutes suffers at now.
func Find(minutes []Minute, now time.Time) Span {
	to := now.Add(time.Minute - 1).Truncate(time.Minute)
	s := Span{State: Fine, Before: to.Add(-Looked), Onset: to.Add(-5 * time.Minute), To: to}
	var asked, lately int64
	for _, m := range minutes {
		if m.At.After(now.Add(-10 * time.Minute)) {
			asked += m.Exchanges
		}
		if !m.At.Before(s.Onset) {
			lately += m.Exchanges
		}
	}
	if asked == 0 {
		s.State = NoData
		return s
	}
	if lately == 0 { // hardly ever asked: five minutes without a request tell nothing of it
		s.Onset = to.Add(-10 * time.Minute)
	}
	for _, way := range []struct {
		state State
		bad   func(Minute) int64
	}{{Hit, Minute.Hits}, {Covered, func(m Minute) int64 { return m.FirstTryBad + m.Degraded }}} {
		onset, over, whole := run(minutes, now, way.bad)
		if !onset.IsZero() {
			s.State, s.Onset, s.Whole = way.state, onset, whole
			break
		}
		if way.state == Hit && over.After(s.Onset) {
			s.Onset = over
		}
	}
	if len(minutes) > 0 {
		s.Before = minutes[0].At
	}
	if s.Onset.Before(s.Before) {
		s.Before = s.Onset
	}
	return s
}

// run finds the first minute of the row of bad ones that reaches to now; where none does,
// over is when the last bad one was.
func run(minutes []Minute, now time.Time, bad func(Minute) int64) (onset, over time.Time, whole bool) {
	limit := usual(minutes, bad)
	suffers := func(m Minute) bool {
		n := bad(m)
		return n >= fewestHits && part(n, m.Asked()) >= limit
	}
	last := -1
	for i := len(minutes) - 1; i >= 0; i-- {
		switch {
		case !suffers(minutes[i]):
		case last < 0 && now.Sub(minutes[i].At) > freshWithin:
			return time.Time{}, minutes[i].At.Add(time.Minute), false
		case last >= 0 && minutes[last].At.Sub(minutes[i].At) > (gapMinutes+1)*time.Minute:
			return minutes[last].At, time.Time{}, false
		default:
			last = i
		}
	}
	if last < 0 {
		return time.Time{}, time.Time{}, false
	}
	return minutes[last].At, time.Time{}, last == 0 && now.Sub(minutes[0].At) > Looked-5*time.Minute
}

// usual is the share from which a minute suffers. What is usual is told by the
// better half of the minutes: an outage of half an hour does not become usual.
func usual(minutes []Minute, bad func(Minute) int64) int64 {
	sorted := slices.DeleteFunc(slices.Clone(minutes), func(m Minute) bool { return m.Asked() == 0 })
	slices.SortStableFunc(sorted, func(a, b Minute) int { return cmp.Compare(part(bad(a), a.Asked()), part(bad(b), b.Asked())) })
	var n, all int64
	for _, m := range sorted[:len(sorted)/2] {
		n, all = n+bad(m), all+m.Asked()
	}
	return min(max(timesUsual*part(n, all), leastPPM), certainPPM)
}

// Since tells the second of the onset, where kept failures say it: the first from
// which on five seconds hold a quarter of the worst five.
func Since(s Span, seconds []Second) time.Time {
	const width = 5 * time.Second
	var most int64
	sum := func(from int) (n int64) {
		for i := from; i < len(seconds) && seconds[i].At.Sub(seconds[from].At) < width; i++ {
			n += seconds[i].Failures
		}
		return n
	}
	for i := range seconds {
		most = max(most, sum(i))
	}
	for i, x := range seconds {
		if n := sum(i); n >= 2 && n*4 >= most {
			return x.At
		}
	}
	return s.Onset
}

// part is a*10^6/b, 0 of nothing.
func part(a, b int64) int64 {
	if b <= 0 || a <= 0 {
		return 0
	}
	return mulDiv(a, million, b)
}
