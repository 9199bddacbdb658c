package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

func cause(key string) Symptom {
	return Symptom{Service: "order", Env: "prod", Class: Causes, Tier: L2, Key: key, Severity: Note, Text: "pool of points is full"}
}

// T34: facts of the last five minutes become the lines people read.
func TestSLO_T34(t *testing.T) {
	o := promise(999_500_000)
	s := slo.Status{Objective: o, Env: "prod", At: noon, DataUntil: noon, Budget: slo.Weigh(o, slo.Tally{Good: 999_600, Bad: 400}), CoveragePPM: 1_000_000,
		Level: slo.Emergency, Measured: slo.Emergency, Reason: "80 % is spent.", EmptyAt: noon.Add(3 * time.Hour)}
	for _, w := range o.Windows() {
		s.Burns = append(s.Burns, slo.Burning(o, w, slo.Tally{Good: 9800, Bad: 200}))
	}
	deploy := slo.Cause{Kind: slo.ByDeploy, Ref: "v1.42", From: noon.Add(-20 * time.Minute), Actor: "ci"}
	config := slo.Cause{Kind: slo.ByConfig, Ref: "rev-9", From: noon.Add(-4 * time.Minute), Actor: "gateway"}
	e := Evidence{From: noon.Add(-5 * time.Minute), To: noon, Bad: 200, Total: 10_000,
		Facets: []Facet{{"code", "50003", 140, 140}, {"code", "50001", 60, 60}, {"rack", "A", 120, 2000}, {"rack", "B", 40, 4000}, {"rack", "C", 40, 4000},
			{"gateway", "gw-1", 200, 10_000}, {"caller", "app", 100, 5000}},
		Upstreams:   []Moved{{"points-service", 60, 1000, 48, 12_000}, {"inventory", 1, 1000, 12, 12_000}},
		Experiments: []string{"r-7"}, Deploy: &deploy, Config: &config, Protecting: []string{"breaker of points-service is open"}}
	c := Explain(s, e, noon)
	text := strings.ReplaceAll(strings.Join(c.Lines(), "\n"), "\u202f", " ")
	for _, want := range []string{
		"burns at 40× over 1 h and 40× over 5 min", "20 % of the error budget is left (100 of 500)", "empty 10 Mar 15:00 UTC at this pace (in 3 h)",
		"50003: 70 %", "rack A: 60 % of failures vs 20 % of traffic (lift 3.0)", "upstream points-service x15 ",
		"Experiment r-7 touches requests now", "Last deploy v1.42, 20 min ago by ci", "Last configuration rev-9, 4 min ago", "Protects now: breaker of points-service is open",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
	for _, never := range []string{"gateway gw-1", "rack B", "caller app", "inventory"} {
		if strings.Contains(text, never) {
			t.Errorf("%q says nothing, yet it is told:\n%s", never, text)
		}
	}
	// A frozen one says when it thaws.
	s.Level, s.ThawAt = slo.Frozen, noon.Add(5*time.Hour)
	if c := Explain(s, e, noon); !strings.Contains(c.Outlook, "thaws 10 Mar 17:00 UTC") {
		t.Errorf("outlook %q", c.Outlook)
	}

	t.Run("L2 facts attach to an open L1", func(t *testing.T) {
		w := newTown(t, o, time.Minute)
		for range 60 {
			w.count(1000, 0)
		}
		for range 5 {
			w.count(500, 500)
			w.look()
		}
		w.facts = []Symptom{cause("pool:points")}
		w.count(500, 500)
		w.look()
		open := w.open()
		if len(w.sent) != 1 || len(open) < 1 {
			t.Fatalf("sent %q, open %d", w.sent, len(open))
		}
		k := slices.IndexFunc(open, func(i Incident) bool { return i.Class == Errors })
		if len(open[k].Facts) != 1 || open[k].Facts[0].Text != "pool of points is full" {
			t.Errorf("facts %+v", open[k].Facts)
		}
		for _, i := range open {
			if i.Class == Causes {
				t.Error("and has an incident of its own")
			}
		}
	})
	t.Run("without one an L2 opens its own, which never pages, and joins later", func(t *testing.T) {
		w := newTown(t, o, time.Minute)
		for range 60 {
			w.count(1000, 0)
		}
		w.facts = []Symptom{cause("pool:points")}
		for range 30 {
			w.count(1000, 0)
			w.look()
		}
		if open := w.open(); len(w.sent) != 0 || len(open) != 1 || open[0].Tier != L2 || open[0].Severity != Note {
			t.Fatalf("sent %q, open %+v", w.sent, open)
		}
		w.facts = nil
		for range 5 {
			w.count(0, 1000)
			w.look()
		}
		open := w.open()
		k := slices.IndexFunc(open, func(i Incident) bool { return i.Class == Errors })
		if len(w.sent) != 1 || k < 0 || len(open[k].Facts) != 1 {
			t.Errorf("sent %q, open %+v", w.sent, open)
		}
	})
}

func TestSilencesHoldAndThenSpeak(t *testing.T) {
	w := newTown(t, promise(999_500_000), time.Minute)
	for range 60 {
		w.count(1000, 0)
	}
	w.state.Silences = []Silence{{ID: "s-1", Service: "order", From: noon, Until: w.now.Add(10 * time.Minute)}}
	until := w.state.Silences[0].Until
	for range 15 {
		w.count(0, 1000)
		w.look()
		if (len(w.sent) > 0) != !w.now.Before(until) {
			t.Fatalf("at %v, with a silence until %v: sent %q", w.now, until, w.sent)
		}
	}
	silenced := 0
	for _, y := range w.whys {
		if y.Outcome == "silenced" && strings.Contains(y.Text, "s-1") {
			silenced++
		}
	}
	if silenced == 0 || silenced > 2 { // of errors, and of the budget
		t.Errorf("said %d times why it is quiet", silenced)
	}
}

func TestNothingClosesWhileNothingIsSeen(t *testing.T) {
	w := newTown(t, promise(999_500_000), time.Minute)
	for range 60 {
		w.count(1000, 0)
	}
	for range 5 {
		w.count(0, 1000)
		w.look()
	}
	was := len(w.open())
	for range 60 { // the evaluation stands still, as with the database away
		s := w.status()
		s.At = noon
		w.now = w.now.Add(time.Minute)
		out := Step(Rules{NewID: func() string { return "x" }}, w.state, Look([]slo.Status{s}, w.now), nil, w.now)
		for _, c := range out.Changed {
			for k := range w.state.Incidents {
				if w.state.Incidents[k].ID == c.ID {
					w.state.Incidents[k] = c
				}
			}
		}
	}
	if len(w.open()) != was {
		t.Errorf("%d of %d are open after an hour without any look", len(w.open()), was)
	}
}

// Whatever happens, nobody is told twice the same, an end is told only of what was
// told, and a scope has one open incident of a class.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 3, 3, 3, 0, 0, 0, 1, 2, 200, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 400 {
			return
		}
		var state State
		now, n := noon, 0
		told := map[string]string{} // incident: last severity told, "" after its end
		for _, b := range script {
			now = now.Add(time.Duration(b>>4) * time.Minute)
			s := slo.Status{Objective: promise(999_500_000), Env: "prod", At: now, DataUntil: now, Level: slo.Normal, Budget: slo.Budget{Valid: 1}}
			sight := Look([]slo.Status{s}, now)
			for k, sev := range []Severity{Ticket, Page} {
				if b&(1<<k) != 0 {
					sight.Add(Symptom{"order", "prod", Errors, L1, string(sev), sev, "fails", 0})
				}
			}
			if b&4 != 0 {
				sight.Add(Symptom{"order", "prod", Budget, L1, "frozen", Freeze, "is frozen", 0})
			}
			if b&8 != 0 {
				sight.Add(cause("pool"))
			}
			out := Step(Rules{NewID: func() string { n++; return fmt.Sprint(n) }, Routes: []Route{{Name: "r", Receivers: []Receiver{{Name: "h", Type: Webhook}}}}}, state, sight, nil, now)
			for _, c := range out.Changed {
				k := slices.IndexFunc(state.Incidents, func(i Incident) bool { return i.ID == c.ID })
				if k < 0 {
					state.Incidents = append(state.Incidents, c)
				} else {
					state.Incidents[k] = c
				}
			}
			for _, m := range out.Messages {
				i := m.Incident
				switch m.Kind {
				case Opened, Escalated:
					if i.Tier != L1 {
						t.Fatalf("told of a %s", i.Tier)
					}
					if was := told[i.ID]; was != "" && Severity(was).rank() >= i.Severity.rank() {
						t.Fatalf("told of %s %s after %s", i.ID, i.Severity, was)
					}
					told[i.ID] = string(i.Severity)
				case Resolved:
					if told[i.ID] == "" {
						t.Fatalf("told of the end of %s, of which nobody knew", i.ID)
					}
					told[i.ID] = ""
				}
			}
			seen := map[Class]int{}
			for _, i := range state.Incidents {
				if i.Open() {
					seen[i.Class]++
				}
				if seen[i.Class] > 1 {
					t.Fatalf("two open incidents of %s", i.Class)
				}
			}
		}
	})
}

// What is worth a line, at its very limits.
func TestLimitsOfAContext(t *testing.T) {
	e := Evidence{Bad: 1000, Total: 100_000, Facets: []Facet{
		{"rack", "just", 300, 20_000}, {"caller", "few", 299, 100}, {"tenant", "flat", 400, 27_000}, {"route", "two", 2, 2}}}
	got := concentrations(e)
	if len(got) != 1 || got[0].Value != "just" || got[0].LiftMilli != 1500 {
		t.Errorf("%+v", got)
	}
	lines := moved([]Moved{{"double", 40, 1000, 200, 10_000}, {"less", 38, 1000, 200, 10_000}, {"rare", 9, 1000, 1, 10_000}, {"new", 50, 1000, 0, 10_000}, {"few", 2, 10, 0, 10}})
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "upstream new: ") || !strings.HasPrefix(lines[1], "upstream double x2 ") {
		t.Errorf("%q", lines)
	}
	o := promise(999_000_000)
	for _, tt := range []struct {
		bad, valid int64
		want       bool
	}{{10, 20, true}, {10, 21, false}, {9, 9, false}, {1000, 2001, false}} {
		if got := absolute(o, slo.Burn{Bad: tt.bad, Valid: tt.valid}); got != tt.want {
			t.Errorf("%d of %d: %v", tt.bad, tt.valid, got)
		}
	}
}

// What comes back within the hour is the same incident, and is held open longer.
func TestAFlappingIncidentIsHeldLonger(t *testing.T) {
	w := newTown(t, promise(999_500_000), time.Minute)
	w.base = slo.Tally{Good: 100_000_000}
	for range 60 {
		w.count(1000, 0)
	}
	var holds []time.Duration
	for range 3 {
		for range 3 {
			w.count(0, 1000)
			w.look()
		}
		failed := w.now
		for len(w.open()) > 0 {
			w.count(1000, 0)
			w.look()
		}
		holds = append(holds, w.now.Sub(failed))
		w.count(1000, 0)
	}
	n := 0
	for _, i := range w.state.Incidents {
		if i.Class == Errors {
			n++
		}
	}
	if n != 1 || holds[1]-holds[0] != 15*time.Minute || holds[2]-holds[1] != 30*time.Minute {
		t.Errorf("%d incidents, held for %v", n, holds)
	}
}
