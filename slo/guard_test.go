package slo

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestSLO_T13(t *testing.T) {
	o := promise(t, "99.9")
	fast, guard := Pairs()[0], DefaultGuard()
	tests := []struct {
		bad, valid int64
		bound      float64 // of the error ratio, in percent
		fires      bool
		boundAlone bool
	}{
		{1, 10, 2.26, false, true}, // the count stops it
		{1, 100, 0.22, false, false},
		{3, 100, 1.21, false, false},
		{5, 100, 2.45, true, true},
		{20, 1000, 1.39, false, false},
		{3, 20, 6.16, true, true}, // three are enough
	}
	for _, tt := range tests {
		if got := float64(guard.WilsonPPM(tt.bad, tt.valid)) / 10_000; math.Abs(got-tt.bound) > 0.006 {
			t.Errorf("%d of %d: lower bound %.3f %%, want %.2f", tt.bad, tt.valid, got, tt.bound)
		}
		if got := guard.Lets(fast, o, tt.bad, tt.valid); got != tt.fires {
			t.Errorf("%d of %d: fires %v, want %v", tt.bad, tt.valid, got, tt.fires)
		}
		if got := (Guard{ZMilli: 1645}).Lets(fast, o, tt.bad, tt.valid); got != tt.boundAlone {
			t.Errorf("%d of %d by the bound alone: %v, want %v", tt.bad, tt.valid, got, tt.boundAlone)
		}
	}
	if b := Burning(o, time.Hour, Tally{Good: 9, Bad: 1}); b.RateMilli != 100_000 {
		t.Errorf("1 of 10 burns at %d, want 100 000", b.RateMilli)
	}
	// Guards are the objective's to turn off.
	o.Terms = &Terms{Guard: &Guard{}}
	s := Status{Objective: o, Burns: []Burn{Burning(o, time.Hour, Tally{Good: 9, Bad: 1}), Burning(o, 5*time.Minute, Tally{Bad: 1})}}
	if len(s.Firing()) == 0 {
		t.Error("without guards one of ten does not fire")
	}
}

// The exact comparison and the formula with its root agree wherever the root is
// not too coarse to tell.
func TestGuardIsTheWilsonBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	o, guard := promise(t, "99.9"), Guard{ZMilli: 1645}
	for range 20_000 {
		valid := 1 + rng.Int64N(1_000_000)
		bad := rng.Int64N(min(valid, 1+valid/20)) + 1
		p := Pairs()[rng.IntN(4)]
		n, z, x := float64(valid), 1.645, float64(bad)/float64(valid)
		low := (x + z*z/(2*n) - z*math.Sqrt(x*(1-x)/n+z*z/(4*n*n))) / (1 + z*z/n)
		threshold := float64(p.SpendPPM) / 1e6 * float64(o.Window) / float64(p.Long) * 0.001
		if math.Abs(low-threshold) < 1e-12 {
			continue
		}
		if got := guard.Lets(p, o, bad, valid); got != (low > threshold) {
			t.Fatalf("%d of %d under %s: %v, bound %v, threshold %v", bad, valid, p.Name, got, low, threshold)
		}
	}
}

func TestSLO_T16(t *testing.T) {
	// 100 000 lines of a tenth each, 60 of them bad.
	s := Sample{Lines: 100_000, VarGood: 99_940 * 90, VarBad: 60 * 90}
	good, bad := int64(999_400), int64(600)
	target := promise(t, "99.95").TargetPPB
	if !s.Undetermined(target, good, bad) {
		t.Error("600 +- 144 of a million is said to decide 500")
	}
	// The interval is 4.56e-4 to 7.44e-4.
	for ratio, want := range map[int64]bool{999_543_000: true, 999_545_000: false, 999_257_000: true, 999_255_000: false} {
		if got := s.Undetermined(ratio, good, bad); got != want {
			t.Errorf("a target of %s is undetermined: %v, want %v", TargetPercent(ratio), got, want)
		}
	}
	t1 := Tally{Good: good, Bad: bad}
	m := Measurement{TargetPPB: target, Closed: t1, Running: t1, CoveragePPM: million, Sample: s}
	state := Next(DefaultPolicy(), State{Level: Normal, Since: noon}, m, noon)
	if state.Measured != Unknown || state.Level != Normal || DefaultPolicy().Blind(m) != "undetermined" {
		t.Errorf("measured %s, in force %s, %q, want unknown, normal held", state.Measured, state.Level, DefaultPolicy().Blind(m))
	}
	m.Sample = Sample{} // the same counts, exact
	if got := Measure(DefaultPolicy(), m); got != Frozen {
		t.Errorf("600 exact failures of 500 allowed measure %s", got)
	}
}

func TestSLO_T17(t *testing.T) {
	target := promise(t, "99.95").TargetPPB
	for lines, want := range map[int64]bool{5999: true, 6000: false} {
		s := Sample{Lines: lines, VarGood: lines * 90}
		if got := s.Undetermined(target, lines*10, 0); got != want {
			t.Errorf("no failure in %d sampled lines is undetermined: %v, want %v", lines, got, want)
		}
	}
}

func TestSLO_T18(t *testing.T) {
	// All failures are kept, a tenth of the successes: weighted they are one in a
	// thousand, and failures have no variance.
	good, bad := int64(9990*10), int64(100)
	if Part(bad, good+bad) != 1000 {
		t.Errorf("weighted %d ppm, want 1000", Part(bad, good+bad))
	}
	if Part(bad, 9990+bad) != 9910 {
		t.Errorf("unweighted %d ppm, want 9910: ten times too high", Part(bad, 9990+bad))
	}
	s := Sample{Lines: 9990, VarGood: 9990 * 90}
	if s.Undetermined(promise(t, "99.95").TargetPPB, good, bad) {
		t.Error("0.1 % with all failures kept is said not to decide 0.05 %")
	}
}

func TestSLO_T19(t *testing.T) {
	if n := SampleSize(400_000, 500_000); n < 352_500 || n > 353_500 {
		t.Errorf("telling 0.04 %% from 0.05 %% takes %d samples, want about 353 000", n)
	}
	if SampleSize(500_000, 500_000) != 0 {
		t.Error("two ratios that are one can be told apart")
	}
}

func TestSLO_T14_SpendIsWeighedByTraffic(t *testing.T) {
	b := newBook(t)
	b.objective = promise(t, "99.95")
	for m := range 60 {
		b.add(noon.Add(time.Duration(m-61)*time.Minute), 33_332, 0)
	}
	b.add(noon.Add(-time.Minute), 100, 10)
	b.until = noon
	e := NewEvaluator(b, Config{})
	if err := e.Tick(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	got := e.Statuses()[0].Burn(5 * time.Minute)
	// 4 minutes of 33 332 and one of 100: 10 of 2 000 020 * 0.0005.
	if got.SpentPPM != SpentBy(b.objective.TargetPPB, 10, 60*33_332+100) || got.SpentPPM/1000 != 9 {
		t.Errorf("ten failures spend %d ppm, want 1 %% of the budget", got.SpentPPM)
	}
}
