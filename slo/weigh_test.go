package slo

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestSLO_T1(t *testing.T) {
	tests := []struct {
		target string
		days   int64
		want   time.Duration
	}{
		{"99.95", 30, 1296 * time.Second}, {"99.95", 1, 43_200 * time.Millisecond},
		{"99.95", 28, 1_209_600 * time.Millisecond}, {"99.95", 90, 3888 * time.Second},
		{"99.9", 30, 2592 * time.Second}, {"99.9", 1, 86_400 * time.Millisecond},
		{"99.99", 30, 259_200 * time.Millisecond},
	}
	for _, tt := range tests {
		o := promise(t, tt.target)
		o.Window = time.Duration(tt.days) * 24 * time.Hour
		if got := o.Outage(); got != tt.want {
			t.Errorf("%s over %d d allows %v of outage, want %v", tt.target, tt.days, got, tt.want)
		}
	}
}

func TestOutageLeftIsNeverSaidLonger(t *testing.T) {
	o := promise(t, "99.9")
	o.Window = 30 * 24 * time.Hour
	for _, tt := range []struct {
		remainingPPM int64
		want         time.Duration
	}{
		{1_000_000, 2592 * time.Second},
		{14_619, 37 * time.Second}, // 37.89 s
		{385, 0},                   // 0.998 s
		{0, 0},
		{-250_000, 0},
	} {
		if got := (&Status{Objective: o, Budget: Budget{RemainingPPM: tt.remainingPPM}}).OutageLeft(); got != tt.want {
			t.Errorf("%d ppm left are %v of outage, want %v", tt.remainingPPM, got, tt.want)
		}
	}
}

func TestSLO_T2(t *testing.T) {
	o := promise(t, "99.95")
	tests := []struct {
		good, bad        int64
		spent, remaining int64
		shown            string
		met              bool
		level            Level
	}{
		{9998, 2, 400_000, 600_000, "60\u202f%", true, Warn},
		{9996, 4, 800_000, 200_000, "20\u202f%", true, Emergency},
		{9995, 5, 1_000_000, 0, "0\u202f%", true, Emergency},
		{9992, 8, 1_600_000, -600_000, "\u221260\u202f%", false, Frozen},
		{99_987, 13, 260_000, 740_000, "74\u202f%", true, Normal},
	}
	for _, tt := range tests {
		b := Weigh(o, Tally{Good: tt.good, Bad: tt.bad})
		if b.SpentPPM != tt.spent || b.RemainingPPM != tt.remaining || Percent(b.RemainingPPM) != tt.shown {
			t.Errorf("%d bad: spent %d, left %d (%s), want %d, %d (%s)", tt.bad, b.SpentPPM, b.RemainingPPM, Percent(b.RemainingPPM), tt.spent, tt.remaining, tt.shown)
		}
		if Met(o, b.Tally) != tt.met {
			t.Errorf("%d bad of %d: met is %v", tt.bad, b.Valid, !tt.met)
		}
		if got := measure(o, tt.good, tt.bad); got != tt.level {
			t.Errorf("%d bad of %d: %s, want %s", tt.bad, b.Valid, got, tt.level)
		}
	}
}

func measure(o Objective, good, bad int64) Level {
	t := Tally{Good: good, Bad: bad}
	return Measure(DefaultPolicy(), Measurement{TargetPPB: o.TargetPPB, Closed: t, Running: t, CoveragePPM: million})
}

func TestSLO_T3(t *testing.T) {
	o := promise(t, "99.95")
	for good, want := range map[int64]Level{999_801: Normal, 999_800: Warn, 999_600: Emergency, 999_500: Emergency, 999_499: Frozen} {
		if got := measure(o, good, 1_000_000-good); got != want {
			t.Errorf("%d good of a million: %s, want %s", good, got, want)
		}
	}
	if b := Weigh(o, Tally{Good: 999_500, Bad: 500}); b.Remaining != 0 || b.RemainingPPM != 0 {
		t.Errorf("at the target %d events are left, want 0", b.Remaining)
	}
}

func TestSLO_T4(t *testing.T) {
	o := promise(t, "99.95")
	ok, breach := WeighSlices(o, Slices{Total: 43_200, Bad: 21, Measured: 43_200}), WeighSlices(o, Slices{Total: 43_200, Bad: 22, Measured: 43_200})
	if ok.Allowed != 21 || !Met(o, ok.Tally) || Met(o, breach.Tally) {
		t.Errorf("43 200 slices allow %d (21 met %v, 22 met %v), want 21, true, false", ok.Allowed, Met(o, ok.Tally), Met(o, breach.Tally))
	}
}

func TestSLO_S28(t *testing.T) {
	o := promise(t, "99.95")
	s := Slices{Total: 43_200, Bad: 10, Measured: 10_080}
	b := WeighSlices(o, s)
	if b.Valid != 43_200 || b.Tally.Good != 43_190 || s.Unmeasured() != 33_120 || s.MeasuredPPM()/10_000 != 23 {
		t.Errorf("7 of 30 days: valid %d, good %d, unmeasured %d, measured %d ppm", b.Valid, b.Tally.Good, s.Unmeasured(), s.MeasuredPPM())
	}
}

func TestSLO_S1(t *testing.T) {
	o := promise(t, "99.95")
	// 43 199 minutes of 100 requests and one without any: sums do not notice.
	var sum Tally
	for minute := range 43_200 {
		if minute != 20_000 {
			sum.Good += 100
		}
	}
	s := Status{Objective: o, Budget: Weigh(o, sum), Burns: []Burn{Burning(o, time.Hour, sum), Burning(o, 5*time.Minute, Tally{})}}
	if s.Budget.RemainingPPM != million || Share(sum.Good, s.Budget.Valid) != "100\u202f%" {
		t.Errorf("left %d ppm of %s", s.Budget.RemainingPPM, Share(sum.Good, s.Budget.Valid))
	}
	text, err := json.Marshal(s) // refuses NaN and infinity
	if err != nil || strings.Contains(string(text), "NaN") {
		t.Errorf("status is not plain JSON: %v", err)
	}
	if !s.Burn(5 * time.Minute).NoData {
		t.Error("a window without requests is not marked as such")
	}
}

func TestSLO_S24(t *testing.T) {
	o := promise(t, "99.95")
	b := Weigh(o, Tally{Neutral: 7})
	if !b.NoData || b.Valid != 0 || b.RemainingPPM != 0 {
		t.Errorf("no valid event weighs as %+v, want no data", b)
	}
	if got := measure(o, 0, 0); got != Unknown {
		t.Errorf("no valid event measures %s, want unknown", got)
	}
	if Share(0, 0) != "no data" || Rate(Burning(o, time.Hour, Tally{})) != "no data" {
		t.Errorf("shown as %q and %q", Share(0, 0), Rate(Burning(o, time.Hour, Tally{})))
	}
}

func TestSLO_S7(t *testing.T) {
	for _, target := range []string{"99.9", "99.95", "99.99", "99.999", "97.3"} {
		o := promise(t, target)
		bad := (whole - o.TargetPPB) / 10_000
		tally := Tally{Good: whole/10_000 - bad, Bad: bad}
		if b := Weigh(o, tally); Percent(b.RemainingPPM) != "0\u202f%" || measure(o, tally.Good, tally.Bad) != Emergency {
			t.Errorf("%s exactly spent: %s left, %s, want 0 %%, emergency", target, Percent(b.RemainingPPM), measure(o, tally.Good, tally.Bad))
		}
	}
}

func TestSLO_S15(t *testing.T) {
	o := promise(t, "90")
	s := Status{Objective: o, Budget: Weigh(o, Tally{Good: 933, Bad: 67})}
	if s.Budget.RemainingPPM != 330_000 || Ratio(s.Budget.RemainingPPM) != "0.33" || Percent(s.Budget.RemainingPPM) != "33\u202f%" {
		t.Errorf("left %d ppm, %s, %s", s.Budget.RemainingPPM, Ratio(s.Budget.RemainingPPM), Percent(s.Budget.RemainingPPM))
	}
	for _, l := range s.Explain() {
		if l.ID == "remaining" && l.Value != "33\u202f%" {
			t.Errorf("explained as %s", l.Value)
		}
	}
}

func TestBudgetFitsTheLargestCounts(t *testing.T) {
	o := Objective{TargetPPB: whole - 1, Window: month}
	b := Weigh(o, Tally{Good: math.MaxInt64 / 2, Bad: math.MaxInt64 / 2})
	if b.RemainingPPM >= 0 || b.SpentPPM+b.RemainingPPM != million || !Over(o.TargetPPB, b.Tally.Bad, b.Valid) {
		t.Errorf("half of 2^63 failed: %+v", b)
	}
}

// One more failure never raises a budget, one more success never lowers it, and
// what is shown never contradicts what was decided.
func FuzzWeigh(f *testing.F) {
	f.Add(int64(999_500_000), int64(99_950), int64(50))
	f.Add(int64(999_999_999), int64(1)<<60, int64(1)<<40)
	f.Add(int64(500_000_000), int64(0), int64(1))
	f.Fuzz(func(t *testing.T, target, good, bad int64) {
		if target <= 0 || target >= whole || good < 0 || bad < 0 || good > 1<<61 || bad > 1<<61 || good+bad == 0 {
			t.Skip()
		}
		o := Objective{TargetPPB: target, Window: month}
		b := Weigh(o, Tally{Good: good, Bad: bad})
		worse, better := Weigh(o, Tally{Good: good, Bad: bad + 1}), Weigh(o, Tally{Good: good + 1, Bad: bad})
		if worse.RemainingPPM > b.RemainingPPM || worse.Remaining > b.Remaining {
			t.Fatalf("one more failure raised %+v to %+v", b, worse)
		}
		if better.RemainingPPM < b.RemainingPPM || better.Remaining < b.Remaining {
			t.Fatalf("one more success lowered %+v to %+v", b, better)
		}
		if b.SpentPPM+b.RemainingPPM != million {
			t.Fatalf("spent %d and left %d do not add up", b.SpentPPM, b.RemainingPPM)
		}
		over := Over(target, bad, good+bad)
		if over != (b.RemainingPPM < 0) || over != (b.Remaining < 0) || over == Met(o, b.Tally) {
			t.Fatalf("over is %v with %d ppm and %d events left", over, b.RemainingPPM, b.Remaining)
		}
		if worst := Rank(measure(o, good, bad+1)); worst < Rank(measure(o, good, bad)) {
			t.Fatalf("one more failure lowered the level")
		}
	})
}
