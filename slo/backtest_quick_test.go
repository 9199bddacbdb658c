package slo

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// slowTry is Try as it reads: each evaluation by Next, each window looked up for itself.
func slowTry(o Objective, p Policy, slots []Slot, from, to time.Time, step time.Duration) (moves []Move, fired int, worst int64) {
	between := func(from, to time.Time) (t Tally) {
		for _, s := range slots {
			if !s.At.Before(from) && s.At.Before(to) {
				t.Good, t.Bad = t.Good+s.Valid-s.Bad, t.Bad+s.Bad
			}
		}
		return t
	}
	var s State
	for t := from.Add(step); !t.After(to); t = t.Add(step) {
		at := o.At(t)
		start, _, _ := at.Span(t)
		tally := between(start, t)
		b, before := Weigh(at, tally), s.Level
		s = Next(p, s, Measurement{TargetPPB: o.TargetPPB, Closed: tally, Running: tally, CoveragePPM: million}, t)
		if before != s.Level && before != "" {
			moves = append(moves, Move{At: t, From: before, To: s.Level, SpentPPM: b.SpentPPM, Reason: s.Reason})
		}
		worst = max(worst, b.SpentPPM)
		for _, r := range o.Rules() {
			long, short := between(t.Add(-r.Long), t), between(t.Add(-r.Short()), t)
			if o.Guard().Lets(r, at, long.Bad, long.Good+long.Bad) && r.Exceeds(at, long.Bad, long.Good+long.Bad) && r.Exceeds(at, short.Bad, short.Good+short.Bad) {
				fired++
			}
		}
	}
	return moves, fired, worst
}

// A replay that looks nothing up twice finds what a plain one finds.
func TestReplayIsThatOfTheStateMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 12 {
		o := Objective{ID: "o", Service: "order", TargetPPB: 990_000_000, Window: time.Duration(1+rng.IntN(8)) * time.Hour}
		p := DefaultPolicy()
		p.Hold, p.MinFreeze = time.Duration(rng.IntN(30))*time.Minute, time.Duration(rng.IntN(60))*time.Minute
		var slots []Slot
		ill := false
		for m := range 12 * 60 {
			if ill = ill != (rng.IntN(60) == 0); rng.IntN(5) == 0 || m > 300 && m < 300+rng.IntN(200) {
				continue // a minute without traffic
			}
			s := Slot{At: noon.Add(time.Duration(m) * time.Minute), Valid: rng.Int64N(50)}
			if ill {
				s.Bad = s.Valid * rng.Int64N(4) / 3 / 2
			}
			slots = append(slots, s)
		}
		from, to := noon.Add(2*time.Hour), noon.Add(11*time.Hour)
		moves, fired, worst := slowTry(o, p, slots, from, to, time.Minute)
		got := Try(o, p, slots, from, to, time.Minute)
		minutes := 0
		for _, f := range got.Fires {
			end := f.To
			if end.IsZero() {
				end = to.Add(time.Minute)
			}
			minutes += int(end.Sub(f.From) / time.Minute)
		}
		if !reflect.DeepEqual(got.Moves, moves) || minutes != fired || got.WorstPPM != worst {
			t.Fatalf("%d moves, %d minutes of alerts, worst %d; want %d, %d, %d\n%+v\n%+v", len(got.Moves), minutes, got.WorstPPM, len(moves), fired, worst, got.Moves, moves)
		}
	}
}

// twoMonths are the minutes of an objective up to an instant, of which a replay takes
// the last month.
func twoMonths() (o Objective, slots []Slot, to time.Time) {
	slots = make([]Slot, 60*24*60)
	for m := range slots {
		slots[m] = Slot{At: noon.Add(time.Duration(m) * time.Minute), Valid: 80, Bad: int64(m % 50 / 49)}
	}
	o = Objective{ID: "o", Service: "order", TargetPPB: 999_000_000, Window: 30 * 24 * time.Hour}
	return o, slots, noon.Add(60 * 24 * time.Hour)
}

// A month of minutes is replayed with a few pieces of memory, not some for each minute.
func TestReplayOfAMonthMakesNoGarbage(t *testing.T) {
	o, slots, to := twoMonths()
	n := testing.AllocsPerRun(1, func() { Try(o, DefaultPolicy(), slots, to.Add(-30*24*time.Hour), to, time.Minute) })
	if n > 500 {
		t.Errorf("%.0f pieces of memory for 43 200 evaluations", n)
	}
}

// Numbers of 128 bits and numbers without end say the same.
func FuzzRatesAreExact(f *testing.F) {
	f.Add(int64(3), int64(1000), int64(999_000_000), int64(20_000), int64(3600), int64(2_592_000))
	f.Add(int64(1)<<55, int64(1)<<60, int64(999_999_999), int64(1_000_000), int64(1)<<30, int64(1)<<30)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(1), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, bad, valid, target, spend, long, window int64) {
		if bad < 0 || valid <= 0 || target < 0 || target >= whole || spend < 0 || long < 1 || window < 1 || long > 1<<31 || window > 1<<31 {
			return
		}
		o := Objective{TargetPPB: target, Window: time.Duration(window) * time.Second}
		p := Pair{Long: time.Duration(long) * time.Second, SpendPPM: spend}
		if got, want := compareRate(p, o, bad, valid), product(bad, whole, million, long).Cmp(product(valid, whole-target, spend, window)); got != want {
			t.Errorf("%d of %d compares as %d, want %d", bad, valid, got, want)
		}
		n, rest := new(big.Int).QuoRem(product(bad, whole, million), product(valid, whole-target), new(big.Int))
		if rest.Sign() > 0 {
			n.Add(n, big.NewInt(1))
		}
		if got := spentUp(target, bad, valid); n.IsInt64() && got != n.Int64() {
			t.Errorf("%d of %d at %d spends %d, want %s", bad, valid, target, got, n)
		}
	})
}

func BenchmarkReplayOfAMonth(b *testing.B) {
	o, slots, to := twoMonths()
	b.ReportAllocs()
	for b.Loop() {
		Try(o, DefaultPolicy(), slots, to.Add(-30*24*time.Hour), to, time.Minute)
	}
}
