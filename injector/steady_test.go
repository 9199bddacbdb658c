package injector

import (
	"testing"
	"time"
)

// What gateways tell a moment after the injection began counts its effect as well: it
// must not make the time before look unsteady.
func TestSteadyEndsWhereTheInjectionBegins(t *testing.T) {
	sc, err := ParseText(`apiVersion: breakwater/v1
kind: Scenario
id: points-fails
title: Points fails
target: {service: points}
sample: {percent: "40%", key: attempt, seed: auto}
phases: {baseline: 12s, inject: 30s, recover: 10s}
faults: [{id: bad, error: {status: 500}}]
hypothesis:
  steady: [{id: s1, sli: points.success, op: ">=", value: "98%"}]
  during: [{id: d1, sli: points.error_rate, against: baseline, margin: "5%"}]
stop: [{sli: points.error_rate, op: ">", value: "90%", for: 45s}]
`)
	if err != nil {
		t.Fatal(err)
	}
	t0 := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	run := Run{ID: "r-1", Service: "points", State: Injecting, BaselineAt: t0, InjectAt: t0.Add(14500 * time.Millisecond), StartedAt: t0}
	r := &replay{counts: map[string]map[time.Time]*Point{"points": {}}, now: t0.Add(30 * time.Second)}
	for s := 5; s <= 30; s += 5 {
		at := t0.Add(time.Duration(s) * time.Second)
		p := &Point{At: at, Good: 100}
		if s > 10 {
			p.Bad = 60
		}
		r.counts["points"][at] = p
	}
	d := drive{Engine: New(Config{Ledger: r}), run: run, sc: sc, now: r.now}
	o, err := d.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := o.Seen["s1"]; s.Bad != 0 || s.Good == 0 {
		t.Errorf("the time before is %+v, want no failure in it", s)
	}
	if s := o.Seen["d1"]; s.Bad == 0 || s.RefBad != 0 || s.RefGood == 0 {
		t.Errorf("it is held against %+v, want no failure of before", s)
	}
	if a := assess(run, sc.Steady[0], "steady", o); a.Result != Pass {
		t.Errorf("got %+v", a)
	}
}
