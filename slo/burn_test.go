package slo

import (
	"math"
	"testing"
	"time"
)

func TestSLO_T9(t *testing.T) {
	tests := []struct {
		days int64
		want []int64 // thresholds of the four rules
	}{
		{30, []int64{14_400, 6000, 3000, 1000}},
		{28, []int64{13_440, 5600, 2800, 933}},
		{7, []int64{3360, 1400, 700, 233}},
		{90, []int64{43_200, 18_000, 9000, 3000}},
	}
	for _, tt := range tests {
		o := promise(t, "99.95")
		o.Window = time.Duration(tt.days) * 24 * time.Hour
		for i, p := range Pairs() {
			if got := p.ThresholdMilli(o); got != tt.want[i] {
				t.Errorf("%d d, rule %s: %d, want %d", tt.days, p.Name, got, tt.want[i])
			}
		}
	}
	// As error ratios, in events of a million: equality does not fire.
	ratios := map[string][]int64{"99.9": {14_400, 6000, 3000, 1000}, "99.95": {7200, 3000, 1500, 500}}
	for target, bad := range ratios {
		o := promise(t, target)
		for i, p := range Pairs() {
			if p.Exceeds(o, bad[i], million) || !p.Exceeds(o, bad[i]+1, million) {
				t.Errorf("%s, rule %s does not turn at %d of a million", target, p.Name, bad[i])
			}
		}
	}
	o := promise(t, "99.95")
	for i, want := range []time.Duration{50 * time.Hour, 5 * 24 * time.Hour, 10 * 24 * time.Hour, 30 * 24 * time.Hour} {
		if got := Exhausts(o, Pairs()[i].ThresholdMilli(o)); got != want {
			t.Errorf("a budget lasts %v at the rate of rule %d, want %v", got, i, want)
		}
	}
}

func TestSLO_T10(t *testing.T) {
	fast := Pairs()[0]
	tests := []struct {
		target string
		errPPM int64
		fires  time.Duration
		clears time.Duration
	}{
		{"99.95", million, 25_920 * time.Millisecond, 297_840 * time.Millisecond},
		{"99.9", million, 51_840 * time.Millisecond, 295_680 * time.Millisecond},
		{"99.95", 10_000, 2592 * time.Second, 84 * time.Second},
	}
	for _, tt := range tests {
		o := promise(t, tt.target)
		fires, ok := fast.Detects(o, tt.errPPM)
		if !ok || fires != tt.fires {
			t.Errorf("%s at %d ppm errors: fires after %v, %v, want %v", tt.target, tt.errPPM, fires, ok, tt.fires)
		}
		if clears := fast.Clears(o, tt.errPPM); clears != tt.clears {
			t.Errorf("%s at %d ppm errors: clears after %v, want %v", tt.target, tt.errPPM, clears, tt.clears)
		}
	}
	if _, ok := fast.Detects(promise(t, "99.95"), 7200); ok {
		t.Error("an error ratio at the threshold fires")
	}
	// The closed form is what the rule itself does, second by second.
	o := promise(t, "99.95")
	fired := 0
	for s := int64(1); s <= 60 && fired == 0; s++ {
		if fast.Exceeds(o, s*1000, 3600*1000) {
			fired = int(s)
		}
	}
	if fired != 26 {
		t.Errorf("a total outage fires in second %d, want 26", fired)
	}
}

func TestSLO_T11(t *testing.T) {
	for _, tt := range []struct {
		target string
		never  int // how many rules, the fast ones first
	}{{"93.05", 1}, {"93.06", 0}, {"83.33", 2}, {"83.34", 1}, {"66.66", 3}, {"66.67", 2}, {"99.95", 0}} {
		if got := Unreachable(promise(t, tt.target)); len(got) != tt.never {
			t.Errorf("at %s %d rules can never fire, want %d", tt.target, len(got), tt.never)
		}
	}
}

func TestSLO_T12(t *testing.T) {
	o := promise(t, "99.95")
	b := Burning(o, 15*time.Minute, Tally{Good: 13_200, Bad: 1800})
	if b.RateMilli != 240_000 || RateMilli(b.RateMilli) != "240×" {
		t.Errorf("12 %% errors burn at %d, want 240 000", b.RateMilli)
	}
	// 1000 a minute, evenly: 43.2 million in the window.
	if got := SpentBy(o.TargetPPB, 1800, 43_200_000); got != 83_333 {
		t.Errorf("15 min at 12 %% spend %d ppm, want 83 333", got)
	}
	if got := SpentBy(o.TargetPPB, 40_000, 43_200_000); got/10_000 != 185 {
		t.Errorf("40 min of outage spend %d ppm, want 185 %%", got)
	}
}

func TestSLO_T14(t *testing.T) {
	o := promise(t, "99.95")
	if b := Burning(o, time.Hour, Tally{Good: 90, Bad: 10}); b.RateMilli != 200_000 {
		t.Errorf("a night hour burns at %d, want 200 000", b.RateMilli)
	}
	if got := SpentBy(o.TargetPPB, 10, 2_000_000); got != 10_000 {
		t.Errorf("and spends %d ppm, want 1 %%", got)
	}
}

func TestFiringNeedsBothWindowsAndThreeFailures(t *testing.T) {
	o := promise(t, "99.95")
	burn := func(w time.Duration, bad, valid int64) Burn { return Burning(o, w, Tally{Good: valid - bad, Bad: bad}) }
	tests := []struct {
		name  string
		burns []Burn
		want  int
	}{
		{"both windows burn", []Burn{burn(time.Hour, 100, 1000), burn(5*time.Minute, 10, 100)}, 1},
		{"the trouble is over", []Burn{burn(time.Hour, 100, 1000), burn(5*time.Minute, 0, 100)}, 0},
		{"it has only begun", []Burn{burn(time.Hour, 7, 1000), burn(5*time.Minute, 7, 100)}, 0},
		{"two failures are no outage", []Burn{burn(time.Hour, 2, 10), burn(5*time.Minute, 2, 2)}, 0},
		{"no data", nil, 0},
	}
	for _, tt := range tests {
		if got := (Status{Objective: o, Burns: tt.burns}).Firing(); len(got) != tt.want {
			t.Errorf("%s: %d rules fire, want %d", tt.name, len(got), tt.want)
		}
	}
}

func FuzzPairIgnoresScale(f *testing.F) {
	f.Add(int64(7200), int64(million), int64(3))
	f.Fuzz(func(t *testing.T, bad, valid, k int64) {
		if bad < 0 || valid <= 0 || bad > valid || k <= 0 || valid > math.MaxInt64/k {
			t.Skip()
		}
		o := Objective{TargetPPB: 999_500_000, Window: month}
		for _, p := range Pairs() {
			one, many := p.Exceeds(o, bad, valid), p.Exceeds(o, bad*k, valid*k)
			if one != many {
				t.Fatalf("%d of %d and %d times as many differ under %s", bad, valid, k, p.Name)
			}
			if one && bad < valid && !p.Exceeds(o, bad+1, valid) {
				t.Fatalf("one more failure stopped %s", p.Name)
			}
		}
	})
}
