package search

import (
	"testing"
)

// run searches with the answers of a system.
func run(t testing.TB, s Spec, answer func(n int, value int64) Result) (Step, []Probe) {
	t.Helper()
	var probes []Probe
	for {
		step := Next(s, probes)
		if step.Done {
			return step, probes
		}
		if len(probes) > s.Most() {
			t.Fatalf("%+v: %d probes, and at most %d were promised", s, len(probes), s.Most())
		}
		probes = append(probes, Probe{step.Value, answer(len(probes), step.Value)})
	}
}

// bears is a system that bears up to edge, counted from the soft end.
func bears(s Spec, edge int64) func(int, int64) Result {
	return func(_ int, value int64) Result {
		if s.Soft <= s.Hard && value <= edge || s.Soft > s.Hard && value >= edge {
			return Pass
		}
		return Fail
	}
}

func TestChaos_B4_shockFirst(t *testing.T) {
	s := Spec{Hard: 5000, Soft: 0, Resolution: 100}
	step, probes := run(t, s, bears(s, 5000))
	if step.Verdict != Holds || len(probes) != 2 || probes[0].Value != 5000 {
		t.Errorf("%+v after %v, want it to hold after the shock and its repetition", step, probes)
	}
}

func TestChaos_B4_boundary(t *testing.T) {
	for _, tt := range []struct {
		s    Spec
		edge int64
	}{
		{Spec{5000, 0, 100}, 1990}, {Spec{5000, 0, 100}, 0}, {Spec{5000, 0, 100}, 4999}, {Spec{5000, 0, 1}, 1234},
		{Spec{1_000_000, 0, 10_000}, 52_000}, {Spec{100, 100_000, 500}, 4000}, {Spec{1, 2, 1}, 2},
	} {
		step, probes := run(t, tt.s, bears(tt.s, tt.edge))
		if step.Verdict != Found {
			t.Errorf("%+v with an edge at %d: %+v", tt.s, tt.edge, step)
			continue
		}
		good := bears(tt.s, tt.edge)
		if good(0, step.Pass) != Pass || good(0, step.Fail) != Fail || far(step.Pass, step.Fail, tt.s.Resolution) {
			t.Errorf("%+v with an edge at %d: between %d and %d", tt.s, tt.edge, step.Pass, step.Fail)
		}
		// The shock, one probe a halving, and each border point until two agree.
		if most := 1 + tt.s.Steps() + 4; len(probes) > most {
			t.Errorf("%+v with an edge at %d: %d probes, want at most %d", tt.s, tt.edge, len(probes), most)
		}
		n := map[int64]int{}
		for _, p := range probes {
			n[p.Value]++
		}
		if n[step.Pass] < 2 || n[step.Fail] < 2 {
			t.Errorf("border points were asked %d and %d times, want twice at least", n[step.Pass], n[step.Fail])
		}
	}
}

func TestChaos_B4_steps(t *testing.T) {
	for s, want := range map[Spec]int{{5000, 0, 100}: 6, {0, 5000, 100}: 6, {6400, 0, 100}: 6, {6401, 0, 100}: 7, {100, 0, 100}: 0, {200, 0, 100}: 1} {
		if got := s.Steps(); got != want {
			t.Errorf("%+v takes %d halvings, want ceil(log2((hi-lo)/resolution)) = %d", s, got, want)
		}
	}
}

func TestChaos_B4_nonMonotonic(t *testing.T) {
	s := Spec{Hard: 5000, Soft: 0, Resolution: 100}
	// Fails everywhere, with no fault at all too.
	if step, _ := run(t, s, func(int, int64) Result { return Fail }); step.Verdict != Undone || step.Reason != NonMonotonic {
		t.Errorf("a system that fails without a fault gives %+v", step)
	}
	// Answers change half way: what was borne is not borne at the end.
	step, _ := run(t, s, func(n int, v int64) Result {
		if n < 7 {
			return bears(s, 2000)(n, v)
		}
		return Fail
	})
	if step.Verdict != Undone || step.Reason != NonMonotonic {
		t.Errorf("a system that grew worse meanwhile gives %+v", step)
	}
}

func TestChaos_B4_twoOfThree(t *testing.T) {
	s := Spec{Hard: 5000, Soft: 0, Resolution: 100}
	seen := map[int64]int{}
	// One unlucky answer at each border point, when it is asked again.
	step, _ := run(t, s, func(n int, v int64) Result {
		seen[v]++
		right := bears(s, 2000)(n, v)
		if seen[v] == 2 {
			return map[Result]Result{Pass: Fail, Fail: Pass}[right]
		}
		return right
	})
	if step.Verdict != Found || step.Pass > 2000 || step.Fail <= 2000 {
		t.Errorf("one unlucky answer a border point gives %+v", step)
	}
}

func TestProbesWithoutAnAnswer(t *testing.T) {
	s := Spec{Hard: 5000, Soft: 0, Resolution: 100}
	step, probes := run(t, s, func(n int, v int64) Result {
		if n%3 != 0 {
			return None
		}
		return bears(s, 2000)(n, v)
	})
	if step.Verdict != Found {
		t.Errorf("two of three probes without an answer give %+v after %d", step, len(probes))
	}
	if step, probes = run(t, s, func(int, int64) Result { return None }); step.Reason != NoAnswer || len(probes) != tries {
		t.Errorf("no answer at all gives %+v after %d probes", step, len(probes))
	}
}

func TestCompare(t *testing.T) {
	found := func(pass, fail int64) Boundary { return Boundary{Verdict: Found, Pass: pass, Fail: fail} }
	down := Spec{Hard: 5000, Soft: 0, Resolution: 100}
	up := Spec{Hard: 100, Soft: 100_000, Resolution: 500}
	for _, tt := range []struct {
		s           Spec
		before, now Boundary
		want        Change
	}{
		{down, found(2000, 2100), found(1900, 2000), Same},
		{down, found(2000, 2100), found(1899, 1999), Worse},
		{down, found(2000, 2100), found(2101, 2200), Better},
		{down, Boundary{Verdict: Holds}, found(4000, 4100), Worse},
		{down, found(4000, 4100), Boundary{Verdict: Holds}, Better},
		{up, found(4000, 3500), found(4600, 4100), Worse},
		{up, found(4000, 3500), found(3000, 2500), Better},
	} {
		if got := Compare(tt.s, tt.before, tt.now); got != tt.want {
			t.Errorf("%+v to %+v is %s, want %s", tt.before, tt.now, got, tt.want)
		}
	}
}

// Whatever the answers are, a search ends, probes only what lies within, and a
// boundary that it claims was answered so twice.
func FuzzNext(f *testing.F) {
	f.Add(int64(5000), int64(0), int64(100), uint64(0x5a5a))
	f.Add(int64(1), int64(1<<40), int64(3), uint64(0xff00ff))
	f.Fuzz(func(t *testing.T, hard, soft, resolution int64, answers uint64) {
		hard, soft, resolution = hard&(1<<40-1), soft&(1<<40-1), resolution&(1<<30-1)
		s := Spec{hard, soft, resolution}
		step, probes := run(t, s, func(n int, v int64) Result {
			if v < min(hard, soft) || v > max(hard, soft) {
				t.Fatalf("%+v probes %d", s, v)
			}
			return []Result{Pass, Fail, Fail, None}[answers>>(2*n%64)&3]
		})
		if step.Verdict != Found {
			return
		}
		for v, want := range map[int64]Result{step.Pass: Pass, step.Fail: Fail} {
			if got := vote(answered(probes), v); got != want {
				t.Fatalf("%+v claims %s at %d, and the answers were %v", step, want, v, probes)
			}
		}
	})
}
