package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"breakwater/slo"
)

// What two promises of a service ask for each second reads no row of the last days
// twice, and less than half of what each window for itself would.
func TestWindowsShareTheirRows(t *testing.T) {
	until := sloNoon.Add(37 * time.Minute)
	o := slo.Objective{ID: "availability", Service: "order", TargetPPB: 999_000_000, Window: 30 * day}
	a := asks{shared: until.Truncate(day).Add(-sharedBack)}
	for range 2 {
		f := o.Frame(until.Add(20 * time.Second))
		for _, p := range []slo.Period{f.Closed, f.Running} {
			a.add(ask{"order", "prod", p.From, p.To})
		}
		for _, w := range o.Windows() {
			p := f.Burn(o, w)
			a.add(ask{"order", "prod", p.From, p.To})
		}
	}
	p, _ := share(&a)
	rows := func(a *asks) (n int, minutes map[time.Time]int) {
		minutes = map[time.Time]int{}
		for i := range a.service {
			for _, s := range []struct {
				lo, hi time.Time
				unit   time.Duration
			}{{a.since[i], a.firstHour[i], time.Minute}, {a.firstHour[i], a.firstDay[i], time.Hour}, {a.firstDay[i], a.lastDay[i], day}, {a.lastDay[i], a.lastHour[i], time.Hour}, {a.lastHour[i], a.end[i], time.Minute}} {
				for at := s.lo; at.Before(s.hi); at = at.Add(s.unit) {
					n++
					for m := at; m.Before(at.Add(s.unit)); m = m.Add(time.Minute) {
						minutes[m]++
					}
				}
			}
		}
		return n, minutes
	}
	alone, _ := rows(&a)
	shared, minutes := rows(&p.asks)
	if shared*2 > alone {
		t.Errorf("%d rows are read, each window for itself would read %d", shared, alone)
	}
	for at, n := range minutes {
		if n > 1 && at.After(until.Add(-72*time.Hour)) {
			t.Errorf("%s is read %d times", at, n)
		}
	}
}

// Whatever is asked for is made of parts that hold each minute of it once, and parts
// that are old are not cut where another one begins: their minutes may be gone.
func TestPartsHoldWhatIsAskedFor(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	at := func() time.Time { return sloNoon.Add(-time.Duration(rng.IntN(12*24*60)) * time.Minute) }
	for range 300 {
		a := asks{shared: sloNoon.Truncate(day).Add(-sharedBack)}
		for range 1 + rng.IntN(12) {
			a.add(ask{[]string{"order", "cart"}[rng.IntN(2)], "prod", at(), at()})
		}
		p, of := share(&a)
		for i := range a.service {
			next := a.since[i]
			for _, n := range of[i] {
				if p.service[n] != a.service[i] || !p.since[n].Equal(next) {
					t.Fatalf("part %d begins at %s, want %s", n, p.since[n], next)
				}
				next = p.end[n]
				if inside := a.since[i].Before(p.since[n]); inside && p.since[n].Before(a.shared) {
					t.Errorf("a span is cut at %s", p.since[n])
				}
			}
			if a.since[i].Before(a.end[i]) && !next.Equal(a.end[i]) {
				t.Errorf("parts end at %s, want %s", next, a.end[i])
			}
		}
	}
}
