package freeze

import (
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

func at(service string, l slo.Level, ago time.Duration) slo.Status {
	return slo.Status{Objective: slo.Objective{ID: service + "-availability", Service: service}, Env: "prod", Level: l, Reason: "because.", At: noon.Add(-ago)}
}

func never(string, string) bool { return false }

func TestMeasuresInDocuments(t *testing.T) {
	head := "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: a\n"
	got, err := parse(head + `measures:
  - {from: emergency, experiments: refuse, limit: {direction: relax, factor: 150%}}
  - {from: frozen, shed_below: critical, experiments: stop, limit: {direction: tighten, factor: 50%, rate: 50/10s, burst: 20}}
`)
	if err != nil || len(got) != 1 || len(got[0].Acts) != 2 {
		t.Fatal(got, err)
	}
	if a := got[0].Acts[0]; a.From != slo.Emergency || a.Drills != RefuseDrills || a.Keep != "" || *a.Limit != (LimitChange{Direction: Relax, FactorPPM: 1_500_000}) {
		t.Errorf("%+v %+v", a, a.Limit)
	}
	if a := got[0].Acts[1]; a.Keep != KeepCritical || a.Drills != StopDrills || *a.Limit != (LimitChange{Tighten, 500_000, 50, 10 * time.Second, 20}) {
		t.Errorf("%+v %+v", a, a.Limit)
	}
	for text, want := range map[string]string{
		"measures: [{from: frozen}]":                                                         "f.yaml:4:12: measures[0]: must say what is done",
		"measures: [{from: unknown, experiments: stop}]":                                     "must be normal, warn, emergency or frozen",
		"measures: [{experiments: stop}]":                                                    "from: must be given",
		"measures: [{from: frozen, shed_below: sheddable}]":                                  "must be default or critical",
		"measures: [{from: frozen, limit: {factor: 50%}}]":                                   "must say its direction",
		"measures: [{from: frozen, limit: {direction: widen, factor: 50%}}]":                 "must be tighten or relax",
		"measures: [{from: frozen, limit: {direction: tighten}}]":                            "must have a factor, a rate or both",
		"measures: [{from: frozen, limit: {direction: tighten, factor: 150%}}]":              "must be 1% to 99%",
		"measures: [{from: frozen, limit: {direction: tighten, factor: 0%}}]":                "must be 1% to 99%",
		"measures: [{from: frozen, limit: {direction: relax, factor: 50%}}]":                 "must be more than 100%",
		"measures: [{from: frozen, limit: {direction: relax, factor: 1001%}}]":               "at most 1000%",
		"measures: [{from: frozen, limit: {direction: tighten, factor: 0.5}}]":               "must be a share",
		"measures: [{from: frozen, limit: {direction: tighten, rate: 5}}]":                   "must be a rate such as",
		"measures: [{from: frozen, limit: {direction: tighten, rate: 5/2d}}]":                "at most 24 h",
		"measures: [{from: frozen, limit: {direction: tighten, factor: 50%, burst: 2}}]":     "must stand beside a rate",
		"measures: [{from: frozen, experiments: stop}, {from: frozen, experiments: refuse}]": "must stand once, got frozen again",
		"measures: [{from: frozen, experiments: stop, shed: default}]":                       "shed",
	} {
		if _, err := parse(head + text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", text, err, want)
		}
	}
}

// Each state calls for what policies name from it or a milder one on; all policies
// have a say, and the strictest rules.
func TestStatesCallForMeasures(t *testing.T) {
	all := Default()
	all.Name = "all"
	all.Acts = []Act{{From: slo.Emergency, Drills: RefuseDrills}, {From: slo.Frozen, Keep: KeepDefault, Drills: StopDrills, Limit: &LimitChange{Direction: Tighten, FactorPPM: 500_000}}}
	own := Default()
	own.Name, own.Services = "own", []string{"order"}
	own.Acts = []Act{{From: slo.Warn, Limit: &LimitChange{Direction: Relax, FactorPPM: 2_000_000}}, {From: slo.Frozen, Keep: KeepCritical, Limit: &LimitChange{Direction: Tighten, FactorPPM: 700_000, Tokens: 10, Per: time.Second}}}
	trial := Default()
	trial.Name, trial.Envs, trial.DryRun = "trial", []string{"prod"}, true
	trial.Acts = []Act{{From: slo.Warn, Keep: KeepCritical}}
	policies := []Policy{all, own, trial}
	text := func(list []Measure) string {
		var out []string
		for _, m := range list {
			line := m.Text() + " by " + strings.Join(m.Policies, "+")
			if m.DryRun {
				line += " (dry)"
			}
			out = append(out, line)
		}
		return strings.Join(out, "; ")
	}
	const dry = "requests below tier critical are shed by trial (dry)"
	for _, tt := range []struct {
		level slo.Level
		want  string
	}{
		{slo.Normal, ""},
		{slo.Unknown, ""},
		{slo.Warn, "rate limits are relaxed to 200% by own; " + dry},
		{slo.Emergency, "rate limits are relaxed to 200% by own; no experiment starts by all; " + dry},
		{slo.Frozen, "rate limits are tightened to 50% or, if less, 10 per " + slo.Span(time.Second) + " by all+own; " +
			"requests below tier critical are shed by all+own; " + dry + "; experiments are stopped, and none starts by all"},
	} {
		got, _ := Wanted(policies, []slo.Status{at("order", tt.level, 0)}, noon)
		if line := text(got); !same(line, tt.want) {
			t.Errorf("%s calls for\n%s\nwant\n%s", tt.level, line, tt.want)
		}
	}
	got, _ := Wanted(policies, []slo.Status{at("points", slo.Frozen, 0), {Objective: slo.Objective{Service: "order"}, Level: slo.Frozen, At: noon}}, noon)
	for _, m := range got {
		if m.Service != "points" || m.Keep == KeepCritical && !m.DryRun {
			t.Errorf("order was never seen anywhere, and its own policy rules nobody else: %+v", m)
		}
	}
	// The state that is held while data is missing is the state.
	held := at("order", slo.Frozen, 0)
	held.Measured = slo.Unknown
	if got, _ := Wanted(policies, []slo.Status{held}, noon); len(got) != 4 {
		t.Errorf("a held freeze calls for %s", text(got))
	}
}

// same compares two lists without their order.
func same(a, b string) bool {
	x, y := strings.Split(a, "; "), strings.Split(b, "; ")
	if len(x) != len(y) {
		return false
	}
	for _, part := range x {
		if !strings.Contains("; "+b+"; ", "; "+part+"; ") {
			return false
		}
	}
	return true
}

func TestMeasuresBeginHoldAndEnd(t *testing.T) {
	p := Default()
	p.Name, p.Acts = "shop", []Act{{From: slo.Emergency, Keep: KeepDefault}, {From: slo.Frozen, Drills: StopDrills}}
	policies := []Policy{p}
	now := noon
	var live []Measure
	step := func(statuses ...slo.Status) Turn {
		wanted, blind := Wanted(policies, statuses, now)
		turn := Turned(live, wanted, blind, now)
		live = turn.after(live)
		return turn
	}
	see := func(l slo.Level) slo.Status { s := at("order", l, 0); s.At = now; return s }
	if turn := step(see(slo.Frozen)); len(turn.Start) != 2 || len(live) != 2 || live[0].ID == "" || !live[0].From.Equal(now) || !strings.Contains(live[0].Reason, "order (prod) is frozen") {
		t.Fatalf("%+v", turn)
	}
	shed := live[0]
	now = now.Add(time.Second)
	if turn := step(see(slo.Frozen)); len(turn.Start)+len(turn.End)+len(turn.Seen) != 0 {
		t.Errorf("the same again: %+v", turn)
	}
	now = now.Add(time.Minute)
	if turn := step(see(slo.Emergency)); len(turn.End) != 1 || turn.End[0].Kind != StopAll || turn.End[0].Ended == "" || len(turn.Seen) != 1 || len(live) != 1 || live[0].ID != shed.ID || !live[0].SeenAt.Equal(now) {
		t.Errorf("at emergency: %+v, live %+v", turn, live)
	}
	// An evaluation that stands still takes nothing away, for a while.
	stuck := see(slo.Emergency)
	now = now.Add(9 * time.Minute)
	if turn := step(stuck); len(turn.End) != 0 || !live[0].Live(now) {
		t.Errorf("after nine minutes in the dark: %+v", turn)
	}
	if turn := step(); len(turn.End) != 0 {
		t.Errorf("before anything was evaluated: %+v", turn)
	}
	now = now.Add(time.Minute)
	if live[0].Live(now) {
		t.Error("gateways would still be told after ten minutes")
	}
	if turn := step(stuck); len(turn.End) != 1 || !strings.Contains(turn.End[0].Ended, "nothing was known") {
		t.Errorf("after ten minutes in the dark: %+v", turn)
	}
	step(see(slo.Frozen))
	policies[0].Acts[0].Keep = KeepCritical
	if turn := step(see(slo.Frozen)); len(turn.End) != 1 || len(turn.Start) != 1 || turn.Start[0].Keep != KeepCritical {
		t.Errorf("a policy that asks for more: %+v", turn)
	}
	policies[0].DryRun = true
	if step(see(slo.Frozen)); len(live) != 2 || live[0].Live(now) || live[1].Live(now) {
		t.Errorf("under a dry run: %+v", live)
	}
	if turn := step(see(slo.Normal)); len(turn.End) != 2 || len(live) != 0 {
		t.Errorf("at the thaw: %+v", turn)
	}
	if turn := Turned([]Measure{shed}, nil, never, now); len(turn.End) != 1 {
		t.Errorf("without a policy: %+v", turn)
	}
}
