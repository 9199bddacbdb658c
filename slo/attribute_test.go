package slo

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestAttribute(t *testing.T) {
	at := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	causes := []Cause{
		{Kind: ByIncident, Ref: "inc-1", From: at(10).Add(30 * time.Second), To: at(20)},
		{Kind: ByDeploy, Ref: "v6", From: at(-60), To: at(-27)}, // a slow one, suspected until half an hour after its end
		{Kind: ByDeploy, Ref: "v7", From: at(5)},
		{Kind: ByDeploy, Ref: "v8", From: at(12)},
		{Kind: ByConfig, Ref: "rev-3", From: at(40)},
	}
	failed := []Failed{
		{At: at(2), Bad: 1},                     // v6
		{At: at(3), Bad: 1},                     // nothing had happened
		{At: at(6), Bad: 10},                    // v7
		{At: at(11), Experiment: "r-1", Bad: 4}, // its own mark
		{At: at(11), Bad: 5},                    // the incident, though v7 is fresh
		{At: at(20), Bad: 6},                    // v8, the later one
		{At: at(41), Bad: 7},                    // v8 still: a deploy goes before a configuration
		{At: at(50), Bad: 3},                    // rev-3
		{At: at(71), Bad: 2},                    // long after all of them
		{At: at(72), Bad: 0},
		{At: at(100), Bad: 1},
	}
	got := map[string]int64{}
	var ppm, bad int64
	for _, p := range Attribute(failed, causes) {
		got[string(p.Kind)+" "+p.Ref] = p.Bad
		ppm, bad = ppm+p.PPM, bad+p.Bad
	}
	want := map[string]int64{"experiment r-1": 4, "incident inc-1": 5, "deploy v6": 1, "deploy v7": 10, "deploy v8": 13, "config rev-3": 3, "unknown ": 4}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%s has %d failures, want %d", k, got[k], n)
		}
	}
	if len(got) != len(want) || ppm != million || bad != 40 {
		t.Errorf("%v: %d ppm, %d failures", got, ppm, bad)
	}
}

// Whatever failed and whatever happened: shares add up to all of it, to the unit.
func TestAttributionAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 4))
	for try := range 300 {
		var failed []Failed
		var causes []Cause
		var total int64
		for range rng.IntN(60) {
			f := Failed{At: noon.Add(time.Duration(rng.IntN(500)) * time.Minute), Bad: rng.Int64N(1 << (1 + rng.IntN(40)))}
			if rng.IntN(3) == 0 {
				f.Experiment = []string{"r-1", "r-2"}[rng.IntN(2)]
			}
			total += f.Bad
			failed = append(failed, f)
		}
		for range rng.IntN(9) {
			c := Cause{Kind: []CauseKind{ByIncident, ByDeploy, ByConfig}[rng.IntN(3)], Ref: string(rune('a' + rng.IntN(5))), From: noon.Add(time.Duration(rng.IntN(500)) * time.Minute)}
			if rng.IntN(2) == 0 {
				c.To = c.From.Add(time.Duration(rng.IntN(60)) * time.Minute)
			}
			causes = append(causes, c)
		}
		var bad, ppm int64
		shares := Attribute(failed, causes)
		for _, p := range shares {
			bad, ppm = bad+p.Bad, ppm+p.PPM
		}
		if bad != total || total > 0 && ppm != million || total == 0 && len(shares) > 0 {
			t.Fatalf("try %d: %d of %d failures, %d ppm", try, bad, total, ppm)
		}
		var kinds int64
		for _, p := range ByKind(shares) {
			kinds += p.PPM
		}
		if total > 0 && kinds != million {
			t.Fatalf("try %d: kinds add up to %d ppm", try, kinds)
		}
	}
}
