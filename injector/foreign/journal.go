package foreign

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Run is a run of ours as control's API tells of it, as far as a journal needs it.
type Run struct {
	ID          string      `json:"id"`
	Scenario    string      `json:"scenario"`
	Title       string      `json:"title"`
	Service     string      `json:"service"`
	State       string      `json:"state"`
	Reason      string      `json:"reason"`
	Verdict     string      `json:"verdict"`
	Why         string      `json:"why"`
	Hash        string      `json:"hash"`
	PlannedAt   time.Time   `json:"planned_at"`
	StartedAt   time.Time   `json:"started_at"`
	InjectAt    time.Time   `json:"inject_at"`
	RecoverAt   time.Time   `json:"recover_at"`
	EndedAt     time.Time   `json:"ended_at"`
	Attempts    int64       `json:"attempts"`
	Injected    int64       `json:"injected"`
	ExpectedPPM int64       `json:"expected_ppm"`
	Receipts    []Receipt   `json:"receipts"`
	Assertions  []Assertion `json:"assertions"`
}

// Receipt is a gateway's word that it took a fault, and gave it back.
type Receipt struct {
	Gateway   string    `json:"gateway"`
	Fault     string    `json:"fault"`
	Hash      string    `json:"hash"`
	ArmedAt   time.Time `json:"armed_at"`
	RemovedAt time.Time `json:"removed_at"`
	ByLease   bool      `json:"by_lease"`
}

// Assertion is what was expected, and what was seen.
type Assertion struct {
	ID       string    `json:"id"`
	Phase    string    `json:"phase"`
	Text     string    `json:"text"`
	Expected string    `json:"expected"`
	Seen     string    `json:"seen"`
	N        int64     `json:"n"`
	Result   string    `json:"result"`
	Optional bool      `json:"optional"`
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
}

// activity is one entry of a journal, as Chaos Toolkit writes it.
type activity struct {
	Activity  map[string]any `json:"activity"`
	Output    any            `json:"output"`
	Status    string         `json:"status"` // succeeded, failed
	Start     string         `json:"start"`
	End       string         `json:"end"`
	Duration  float64        `json:"duration"`
	Tolerance *bool          `json:"tolerance_met,omitempty"`
}

type steady struct {
	Met    *bool      `json:"steady_state_met"`
	Probes []activity `json:"probes"`
}

// stamp is how Chaos Toolkit writes instants: UTC without a zone.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000")
}

func span(from, until time.Time) float64 {
	if from.IsZero() || until.Before(from) {
		return 0
	}
	return until.Sub(from).Seconds()
}

// Journal writes r as a journal of Chaos Toolkit. Its status says how the run went,
// deviated whether what was promised held: two things that it keeps apart, as we do.
func Journal(r Run, version string) ([]byte, error) {
	status := "completed"
	switch {
	case r.State == "aborted" && r.Reason == "stop_condition" || r.State == "engine_error":
		status = "failed"
	case r.State == "aborted" || r.State == "cancelled":
		status = "interrupted"
	case r.State != "completed":
		status = "aborted" // it never began
	}
	begin := r.StartedAt
	if begin.IsZero() {
		begin = r.PlannedAt
	}
	probe := func(a Assertion) activity {
		met := a.Result == "pass"
		ok := "succeeded"
		if a.Result == "error" || a.Result == "no_data" || a.Result == "pending" {
			ok = "failed" // it could not tell
		}
		return activity{
			Activity:  map[string]any{"type": "probe", "name": a.Phase + " " + a.ID + ": " + a.Text, "tolerance": a.Expected, "provider": provider(r)},
			Output:    map[string]any{"seen": a.Seen, "n": a.N, "result": a.Result},
			Status:    ok,
			Start:     stamp(a.From),
			End:       stamp(a.Until),
			Duration:  span(a.From, a.Until),
			Tolerance: &met,
		}
	}
	phases := map[string]*steady{"steady": {Probes: []activity{}}, "during": {Probes: []activity{}}, "after": {Probes: []activity{}}}
	for _, a := range r.Assertions {
		p := phases[a.Phase]
		if p == nil {
			continue
		}
		x := probe(a)
		p.Probes = append(p.Probes, x)
		if met := (p.Met == nil || *p.Met) && (*x.Tolerance || a.Optional); true {
			p.Met = &met
		}
	}
	var run, rollbacks []activity
	for _, x := range r.Receipts {
		run = append(run, activity{
			Activity: map[string]any{"type": "action", "name": "fault " + x.Fault + " at " + x.Gateway, "provider": provider(r)},
			Output:   map[string]any{"hash": x.Hash, "attempts": r.Attempts, "injected": r.Injected, "expected_ppm": r.ExpectedPPM},
			Status:   "succeeded", Start: stamp(x.ArmedAt), End: stamp(x.RemovedAt), Duration: span(x.ArmedAt, x.RemovedAt),
		})
		gone := "succeeded"
		if x.RemovedAt.IsZero() {
			gone = "failed"
		}
		rollbacks = append(rollbacks, activity{
			Activity: map[string]any{"type": "action", "name": "give back " + x.Fault + " at " + x.Gateway, "provider": provider(r)},
			Output:   map[string]any{"by_lease": x.ByLease}, Status: gone, Start: stamp(x.RemovedAt), End: stamp(x.RemovedAt),
		})
	}
	out := map[string]any{
		"chaoslib-version": "1.0.0", // of the format
		"platform":         "breakwater " + version,
		"experiment":       experiment(r.Scenario, r.Title, r.Service),
		"start":            stamp(begin), "end": stamp(r.EndedAt), "duration": span(begin, r.EndedAt),
		"status":   status,
		"deviated": r.Verdict == "failed",
		"steady_states": map[string]any{
			"before": phases["steady"], "after": phases["after"], "during": []*steady{phases["during"]},
		},
		"run": none(run), "rollbacks": none(rollbacks),
		"extensions": []map[string]any{{"name": "breakwater", "run": r.ID, "state": r.State, "reason": r.Reason, "verdict": r.Verdict, "why": r.Why, "hash": r.Hash}},
	}
	return indent(out)
}

func none(list []activity) []activity { return append([]activity{}, list...) }

// provider is how an experiment of Chaos Toolkit does what a run of ours does.
func provider(r Run) map[string]any { return command(r.Scenario) }

func command(scenario string) map[string]any {
	return map[string]any{"type": "process", "path": "breakwater", "arguments": []string{"experiment", "run", scenario, "--ci"}, "timeout": 86_400}
}

func experiment(scenario, title, service string) map[string]any {
	if title == "" {
		title = scenario
	}
	return map[string]any{
		"version": "1.0.0", "title": title,
		"description": "Runs the scenario " + scenario + " of breakwater, whose verdict is its exit code: 0 passed, 1 failed, 3 inconclusive.",
		"tags":        []string{"breakwater", service},
		"steady-state-hypothesis": map[string]any{
			"title": "the scenario passes", "probes": []map[string]any{{"type": "probe", "name": "run " + scenario, "tolerance": 0, "provider": command(scenario)}},
		},
		"method": []map[string]any{}, "rollbacks": []map[string]any{},
		"runtime": map[string]any{"hypothesis": map[string]any{"strategy": "after-method-only"}},
	}
}

// Experiment writes an experiment of Chaos Toolkit that runs a scenario of ours, and
// deviates where it does not pass.
func Experiment(scenario, title, service string) ([]byte, error) {
	if strings.TrimSpace(scenario) == "" {
		return nil, fmt.Errorf("an experiment must run a scenario")
	}
	return indent(experiment(scenario, title, service))
}

func indent(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return []byte(b.String()), nil
}
