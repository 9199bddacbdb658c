package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

// What an address answers is asked of once when each phase ends, in the phase, and
// stays with the run: a service that is broken only while the fault is on fails the
// run, though it answers well when the verdict is made.
func TestProbesAreAskedInTheirPhase(t *testing.T) {
	probe := func(id string) string {
		return "{id: " + id + ", probe: \"http://order/" + id + "\", matches: \"^well\"}"
	}
	text := strings.Replace(slowPoints, "  during:\n", "  during:\n    - "+probe("p2")+"\n", 1)
	text = strings.Replace(text, "  after: [", "  after: ["+strings.TrimSuffix(probe("p3"), "}")+", within: 20s}, ", 1)
	text = strings.Replace(text, "  steady: [", "  steady: ["+probe("p1")+", ", 1)
	for _, tt := range []struct {
		name    string
		ill     string // the probe that is not answered as it should be
		verdict injector.Verdict
		why     string
	}{
		{"all well", "", injector.Passed, "everything held"},
		{"not steady", "p1", injector.Inconclusive, "steady_state_not_met: p1"},
		{"broken by the fault", "p2", injector.Failed, "p2: expected answers 200-299 with ^well, saw answered 200, and its body does not match"},
		{"not well again", "p3", injector.Failed, "p3: expected answers"},
		{"nobody answers", "-p2", injector.Failed, "saw no answer: connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDrill(t)
			asked := map[string][]injector.State{}
			var id string
			e := injector.New(injector.Config{Ledger: d, Log: quiet(), MayProbe: func(p scenario.Probe) bool { h, _ := p.Host(); return h == "order" },
				Probe: func(_ context.Context, p scenario.Probe) (int, []byte, error) {
					name := p.URL[strings.LastIndex(p.URL, "/")+1:]
					asked[name] = append(asked[name], d.run(id).State)
					switch tt.ill {
					case name:
						return 200, []byte("ill"), nil
					case "-" + name:
						return 0, nil, errors.New("connection refused")
					}
					return 200, []byte("well"), nil
				}})
			g := newGateway("gw")
			d.poll(e, g)
			r, _, err := e.Desk().Start(t.Context(), "", text, "anna")
			d.must(err)
			id = r.ID
			r = d.until(e, r.ID, injector.Completed, g)
			if r.Verdict != tt.verdict || !strings.Contains(r.Why, tt.why) {
				t.Errorf("%s %s: %q, want %s %q", r.State, r.Verdict, r.Why, tt.verdict, tt.why)
			}
			for name, want := range map[string]injector.State{"p1": injector.Baseline, "p2": injector.Injecting, "p3": injector.Recovering} {
				if tt.ill == "p1" && name != "p1" {
					want = ""
				}
				for _, state := range asked[name] {
					if state != want {
						t.Errorf("%s was asked while %s, want %s", name, state, want)
					}
				}
				if (len(asked[name]) == 0) != (want == "") || name == "p2" && len(asked[name]) > 1 {
					t.Errorf("%s was asked %d times", name, len(asked[name]))
				}
			}
		})
	}
	d := newDrill(t)
	if _, _, err := d.engine(nil).Desk().Start(t.Context(), "", text, "anna"); err == nil || !strings.Contains(err.Error(), "probe_barred") {
		t.Errorf("a probe of a host that nobody allowed: %v", err)
	}
}
