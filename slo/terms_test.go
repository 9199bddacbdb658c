package slo

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// with is an objective of target with terms.
func with(t testing.TB, target string, terms Terms) Objective {
	o := promise(t, target)
	o.Terms = &terms
	return o
}

func TestSLO_T5(t *testing.T) {
	o := with(t, "95", Terms{Method: Timeslices})
	o.Window = 14 * 24 * time.Hour
	minutes := int64(o.Window / time.Minute)
	ok, broken := WeighSlices(o, Slices{Total: minutes, Bad: 1008}), WeighSlices(o, Slices{Total: minutes, Bad: 1009})
	if ok.Allowed != 1008 || !Met(o, ok.Tally) || Met(o, broken.Tally) {
		t.Errorf("timeslices allow %d of %d minutes, want 1008", ok.Allowed, minutes)
	}
	// An attack leaves 1 % of each minute good, all other minutes are good by 99 %.
	o = with(t, "95", Terms{Method: RatioTimeslices})
	o.Window = 14 * 24 * time.Hour
	for n, want := range map[int64]bool{822: true, 823: false} {
		b := WeighSlices(o, Slices{Total: minutes, Bad: minutes, BadUS: (minutes-n)*600_000 + n*59_400_000})
		if Met(o, b.Tally) != want {
			t.Errorf("%d minutes at 1 %% keep the promise: %v, want %v", n, !want, want)
		}
	}
	// In a thousandth of requests, so that 0.99 n is whole.
	o = promise(t, "95")
	for n, want := range map[int64]bool{14_297_800: true, 14_298_000: false} {
		bad := 3_360_000 + n*99/100
		if Met(o, Tally{Good: 336_000_000 + n - bad, Bad: bad}) != want {
			t.Errorf("%d thousandths of attack requests keep the promise: %v, want %v", n, !want, want)
		}
	}
}

func TestSLO_T8(t *testing.T) {
	week := 7 * 24 * time.Hour
	from := noon.Add(-week)
	// 60 bad minutes on the first day, all other minutes good but for the corrected day.
	var hours []SliceHour
	for h := range 7 * 24 {
		s := SliceHour{At: from.Add(time.Duration(h) * time.Hour), Measured: 1<<60 - 1}
		if h == 3 || h >= 48 && h < 72 {
			s.Bad = 1<<60 - 1
		}
		hours = append(hours, s)
	}
	planned := Correction{Service: "order", From: from.Add(48 * time.Hour), To: from.Add(72 * time.Hour)}
	o := with(t, "99", Terms{Method: Timeslices})
	o.Window = week
	for mode, want := range map[CorrectionMode]struct{ total, ppm int64 }{Remove: {8640, 6944}, Up: {10_080, 5952}} {
		planned.Mode = mode
		r := read(Measured{Objective: o, DataUntil: noon, Parts: []Counted{{Objective: o, Slices: hours}}, Corrections: []Correction{planned}})
		if s := r.slices; s.Bad != 60 || s.Total != want.total || Part(s.Bad, s.Total) != want.ppm {
			t.Errorf("%s: %d bad of %d, %d ppm, want 60 of %d, %d ppm", mode, s.Bad, s.Total, Part(s.Bad, s.Total), want.total, want.ppm)
		}
	}
	if o.DefaultMode() != Up || promise(t, "99").DefaultMode() != Remove {
		t.Error("time is not counted as up, or requests are not dropped, by default")
	}
	// Of requests: dropped with their good ones, or their failures counted as good.
	p := promise(t, "99")
	tally, _ := p.Tally(Sums{All: Tally{Good: 800, Bad: 20}.Minus(Tally{Good: 80, Bad: 20})})
	if tally.Good != 720 || tally.Bad != 0 {
		t.Errorf("dropped, %d good and %d bad are left, want 720 and 0", tally.Good, tally.Bad)
	}
	tally, _ = p.Tally(Sums{All: Tally{Good: 800, Bad: 20}, Up: Tally{Good: 80, Bad: 20}})
	if tally.Good != 820 || tally.Bad != 0 {
		t.Errorf("counted as up, %d good and %d bad are left, want 820 and 0", tally.Good, tally.Bad)
	}
}

func TestCorrected(t *testing.T) {
	at := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	list := []Correction{
		{Mode: Remove, From: at(10).Add(30 * time.Second), To: at(20).Add(time.Second)}, // touches minutes 10 to 20
		{Mode: Remove, From: at(15), To: at(30)},
		{Mode: Up, From: at(0), To: at(40)},
		{Mode: Up, From: at(500), To: at(600)}, // outside
	}
	removed, up := Corrected(list, at(-5), at(35))
	if len(removed) != 1 || !removed[0].From.Equal(at(10)) || !removed[0].To.Equal(at(30)) {
		t.Errorf("removed %v, want minutes 10 to 30", removed)
	}
	if len(up) != 2 || !up[0].From.Equal(at(0)) || !up[0].To.Equal(at(10)) || !up[1].From.Equal(at(30)) || !up[1].To.Equal(at(35)) {
		t.Errorf("up %v, want 0 to 10 and 30 to 35", up)
	}
}

func TestSLO_T11_RulesThatCannotFireAreRefusedOrReScaled(t *testing.T) {
	own := with(t, "90", Terms{Pairs: []Pair{{Name: "fast", Long: time.Hour, SpendPPM: 20_000, Severity: "page"}}})
	err := own.Check()
	if !errors.Is(err, ErrTerms) || !strings.Contains(err.Error(), "burn rule fast: can never fire: even a total outage burns at 10× only, and it waits for 14.4×") {
		t.Errorf("refused with %v", err)
	}
	if got := Unreachable(own); len(got) != 1 || got[0].Name != "fast" {
		t.Errorf("unreachable: %v", got)
	}
	own.Terms.Pairs[0].SpendPPM = 6900 // half of what an outage spends in an hour
	if err := own.Check(); err != nil {
		t.Errorf("a rule that can be reached is refused: %v", err)
	}
	for _, target := range []string{"50", "66", "80", "93", "99.95"} {
		o := promise(t, target)
		for _, p := range o.Rules() {
			if !p.Reachable(o) {
				t.Errorf("at %s rule %s can never fire", target, p.Name)
			}
			if after, ok := p.Detects(o, million); p.Rescaled && (!ok || after > p.Long/2 || after < p.Long/2-p.Long/100) {
				t.Errorf("at %s rule %s sees an outage after %v, want half of %v", target, p.Name, after, p.Long)
			}
			if p.Rescaled != (len(Unreachable(o)) > 0 && p.SpendPPM != pairNamed(p.Name).SpendPPM) {
				t.Errorf("at %s rule %s: rescaled is %v", target, p.Name, p.Rescaled)
			}
		}
	}
}

func pairNamed(name string) Pair {
	for _, p := range Pairs() {
		if p.Name == name {
			return p
		}
	}
	return Pair{}
}

func TestSLO_S4(t *testing.T) {
	// 10 % is refused as a target; where it comes by another way, no rule may look
	// as if it watched.
	if _, err := ParseTarget("10%"); !errors.Is(err, ErrTarget) {
		t.Errorf("a target of 10 %%: %v", err)
	}
	o := Objective{ID: "o", Service: "order", TargetPPB: 100_000_000, Window: month}
	var never []string
	for _, p := range Unreachable(o) {
		never = append(never, p.Name)
	}
	if strings.Join(never, " ") != "1h 6h 1d" {
		t.Errorf("unreachable: %v, want those above a burn rate of 1.11", never)
	}
	for _, p := range o.Rules() {
		if !p.Reachable(o) {
			t.Errorf("rule %s is kept and can never fire", p.Name)
		}
	}
}

func TestSLO_S9(t *testing.T) {
	o := promise(t, "99.95")
	o.Window = 14 * 24 * time.Hour
	want := []int64{6720, 2800, 1400, 467}
	for i, p := range o.Rules() {
		if got := p.ThresholdMilli(o); got != want[i] {
			t.Errorf("14 d, rule %s: %d, want %d", p.Name, got, want[i])
		}
	}
	o.Terms = &Terms{AlertsOff: true}
	if err := o.Check(); err != nil || len(o.Rules()) != 0 {
		t.Errorf("without alerts: %v, %d rules", err, len(o.Rules()))
	}
	if s := (Status{Objective: o, Burns: []Burn{Burning(o, time.Hour, Tally{Bad: 100}), Burning(o, 5*time.Minute, Tally{Bad: 100})}}); len(s.Firing()) != 0 {
		t.Error("an objective without alerts fires")
	}
}

func TestSLO_S11(t *testing.T) {
	o := promise(t, "99.95")
	o.Window = 7 * 24 * time.Hour
	rate, spends := []int64{3360, 1400, 700, 233}, []int64{20_000, 50_000, 100_000, 100_000}
	for i, p := range o.Rules() {
		if p.ThresholdMilli(o) != rate[i] || p.SpendPPM != spends[i] {
			t.Errorf("7 d, rule %s: above %d, spends %d ppm, want %d and %d", p.Name, p.ThresholdMilli(o), p.SpendPPM, rate[i], spends[i])
		}
		if !strings.HasPrefix(p.Reason, strings.ReplaceAll(Percent(p.SpendPPM), thin, " ")) {
			t.Errorf("rule %s does not say what it spends: %s", p.Name, p.Reason)
		}
	}
}

func TestSLO_S12(t *testing.T) {
	for _, p := range Pairs() {
		if p.Short()*12 != p.Long || p.Short()%time.Minute != 0 {
			t.Errorf("rule %s: %v beside %v, want a twelfth", p.Name, p.Short(), p.Long)
		}
	}
	if p := Pairs()[3]; p.Short() != 6*time.Hour {
		t.Errorf("72 h goes with %v, want 6 h", p.Short())
	}
}

func TestSLO_T23(t *testing.T) {
	o := with(t, "99", Terms{Indicator: Indicator{Kind: DepTimeout}})
	tally, _ := o.Tally(Sums{All: Tally{Good: 995, Bad: 5, DepTimeouts: 9, DepCalls: 13}})
	b := Weigh(o, tally)
	if Share(tally.Good, b.Valid) != "99.1"+thin+"%" {
		t.Errorf("without timeouts: %s, want 99.1 %%", Share(tally.Good, b.Valid))
	}
	for _, l := range (Status{Objective: o, Budget: b}).Explain() {
		if l.ID == "dep_mean" && l.Value != "0.013" {
			t.Errorf("timeouts a request: %s, want 0.013", l.Value)
		}
	}
}

func TestSLO_T24(t *testing.T) {
	o := Quantile(promise(t, "99"), 950_000_000, 300*time.Millisecond)
	if o.TargetPPB != 950_000_000 || o.Limit() != 300*time.Millisecond || o.Check() != nil {
		t.Fatalf("P95 within 300 ms is kept as %+v", o)
	}
	for slow, want := range map[int64]bool{1: true, 2: false} {
		tally, _ := o.Tally(Sums{All: Tally{Good: 20, OverLimit: slow}})
		if Met(o, tally) != want {
			t.Errorf("%d of 20 are slow: met is %v, want %v", slow, !want, want)
		}
	}
	// Who gave up past the limit did find it slow, and is valid here alone.
	tally, _ := o.Tally(Sums{All: Tally{Good: 90, Bad: 5, Aborted: 8, OverLimit: 10, AbortedOver: 5}})
	if tally.Good != 90 || tally.Bad != 10 {
		t.Errorf("with aborted ones %d good and %d bad, want 90 and 10", tally.Good, tally.Bad)
	}
}

func TestSLO_S17(t *testing.T) {
	o := Quantile(promise(t, "99"), 990_000_000, time.Second)
	rows := []Tally{{Good: 1000, OverLimit: 10}, {Bad: 1, OverLimit: 1}} // by code: 200 and 500
	tally, _ := o.Tally(Sums{All: rows[0].Plus(rows[1])})
	if tally.Good != 990 || tally.Good+tally.Bad != 1001 {
		t.Errorf("%d of %d, want one ratio 990 of 1001", tally.Good, tally.Good+tally.Bad)
	}
}

func TestRatiosOfCounters(t *testing.T) {
	quality := with(t, "99", Terms{Indicator: Indicator{Kind: RatioOf, Bad: []Counter{"bad", "degraded"}, Total: []Counter{"good", "bad"}}})
	if err := quality.Check(); err != nil {
		t.Fatal(err)
	}
	tally, _ := quality.Tally(Sums{All: Tally{Good: 95, Bad: 5, Degraded: 10}})
	if tally.Good != 85 || tally.Bad != 15 {
		t.Errorf("%d good, %d bad, want 85 and 15", tally.Good, tally.Bad)
	}
	first := FirstTry(Tally{Good: 98, Bad: 2, FirstTryBad: 12})
	if first.Good != 88 || first.Bad != 12 {
		t.Errorf("first tries: %d good, %d bad, want 88 and 12", first.Good, first.Bad)
	}
}

func TestChaosModes(t *testing.T) {
	all := Tally{Good: 990_000, Bad: 10_000, ChaosGood: 50_000, ChaosBad: 6000}
	for _, tt := range []struct {
		terms             Terms
		good, bad, spared int64
	}{
		{Terms{}, 990_000, 10_000, 0},
		{Terms{Chaos: ChaosCount}, 990_000, 10_000, 0},
		{Terms{Chaos: ChaosExclude}, 940_000, 4000, 6000},
		{Terms{Chaos: ChaosCap, ChaosCapPPM: 100_000}, 991_000, 9000, 1000}, // a tenth of 10 000 allowed at 99 %
		{Terms{Chaos: ChaosCap, ChaosCapPPM: million}, 996_000, 4000, 6000},
	} {
		o := with(t, "99", tt.terms)
		got, spared := o.Tally(Sums{All: all})
		room, capped := (Status{Objective: o, Budget: Weigh(o, got)}).ChaosRoom()
		if want := max(tt.terms.ChaosCapPPM-SpentBy(o.TargetPPB, 6000, got.Good+got.Bad), 0); capped != (tt.terms.Chaos == ChaosCap) || capped && room != want {
			t.Errorf("%s: experiments may still spend %d ppm, %v, want %d", tt.terms.Chaos, room, capped, want)
		}
		if got.Good != tt.good || got.Bad != tt.bad || spared != tt.spared || got.ChaosBad != 6000 {
			t.Errorf("%s: %d good, %d bad, %d spared, chaos %d, want %d, %d, %d and 6000", tt.terms.Chaos, got.Good, got.Bad, spared, got.ChaosBad, tt.good, tt.bad, tt.spared)
		}
	}
}

func TestEveryMistakeOfTermsIsReported(t *testing.T) {
	o := with(t, "99", Terms{
		Indicator: Indicator{Kind: RatioOf, Bad: []Counter{"bda"}, Total: []Counter{"good"}}, Method: "minutes",
		Planned: -1, Chaos: ChaosCap, GroupBy: "caller", Calendar: &Calendar{Unit: "moon", Start: "2026", Zone: "Mars"},
	})
	o.Window = 90 * time.Second
	err := o.Check()
	for _, want := range []string{"window: must be whole minutes", "method: must be", `got "bda"`, "planned: must not be negative", "calendar: zone must be", "chaos cap: must be above 0", "group_by: must be route"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s\n%v", want, err)
		}
	}
	a := Quantile(promise(t, "99"), 990_000_000, time.Second)
	b := Quantile(promise(t, "99"), 950_000_000, time.Minute)
	b.ID = "other"
	c := with(t, "99", Terms{Indicator: Indicator{Kind: Composite, Members: []Member{{Objective: "nobody", WeightPPM: 1}}}})
	c.ID = "both"
	err = CheckSet([]Objective{a, b, c})
	for _, want := range []string{"since a service counts by one limit", `member "nobody" is no objective`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s\n%v", want, err)
		}
	}
}

func TestTermsSurviveTheirStore(t *testing.T) {
	terms := Terms{Indicator: Indicator{Kind: Latency, Limit: time.Second, QuantilePPB: 950_000_000}, Method: Timeslices, Slice: 5 * time.Minute,
		Calendar: &Calendar{Unit: Month, Start: "2026-01-01 00:00:00", Zone: "America/New_York"}, Guard: &Guard{MinBad: 1}, Pairs: []Pair{{Name: "x", Long: time.Hour, SpendPPM: 1}}}
	text, err := json.Marshal(terms)
	if err != nil {
		t.Fatal(err)
	}
	var back Terms
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(back); err != nil || string(again) != string(text) {
		t.Errorf("kept as %s, read as %s, %v", text, again, err)
	}
}

func TestSLO_S48(t *testing.T) {
	key := Status{Objective: promise(t, "99.9"), Level: Warn}
	key.Objective.ID = "order-availability"
	info := Status{Objective: with(t, "99.9", Terms{Informational: true}), Level: Frozen}
	info.Objective.ID = "order-info"
	if got, ok := Worst([]Status{info, key}); !ok || got.Objective.ID != "order-availability" {
		t.Errorf("an objective that only informs decides: %s", got.Objective.ID)
	}
	if got, ok := Worst([]Status{info}); !ok || got.Objective.ID != "order-info" {
		t.Error("alone it is not even shown")
	}
}
