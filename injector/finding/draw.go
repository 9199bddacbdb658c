package finding

import (
	"fmt"
	"slices"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

// Terms where a scenario says nothing.
const (
	defaultDue = 14 * 24 * time.Hour
	// hurry divides the time to mend what has come back.
	hurry = 2
)

// Draw is what a run that has ended means for findings. Known are those of its
// service and scenario. It draws nothing from what showed nothing.
func Draw(r injector.Run, sc scenario.Scenario, known []Finding, now time.Time) []Change {
	if r.Search != "" || !r.State.Ended() {
		return nil // a search means to fail
	}
	var out []Change
	for _, o := range outcomes(r) {
		key := Key{r.Service, r.Scenario, o.ID}
		i := slices.IndexFunc(known, func(f Finding) bool { return f.Key() == key })
		switch {
		case i < 0 && o.Result == injector.Fail && sc.OnFail != nil:
			out = append(out, opened(r, sc, o, now))
		case i >= 0 && o.Result == injector.Fail:
			out = append(out, again(known[i], r, sc, o, now))
		case i >= 0 && o.Result == injector.Pass && effective(r):
			if c, ok := held(known[i], r, o, now); ok {
				out = append(out, c)
			}
		case i >= 0 && known[i].State == Verifying:
			f := known[i]
			f.State, f.LastRun = Claimed, r.ID
			out = append(out, Change{Finding: f, Event: Event{now, "engine", string(Claimed), r.ID, "the run showed nothing of it: " + r.Why}})
		}
	}
	return out
}

// outcomes are a run's mandatory assertions, and whether it had to be stopped.
func outcomes(r injector.Run) []injector.Assertion {
	var out []injector.Assertion
	for _, a := range r.Assertions {
		if !a.Optional && a.Phase != "steady" {
			out = append(out, a)
		}
	}
	stop := injector.Assertion{ID: Stop, Text: "the run ends by itself", Expected: "no stop condition met", Seen: "none", Result: injector.NoData, From: r.InjectAt, Until: r.RecoverAt}
	switch {
	case r.Verdict == injector.Failed && (r.Reason == string(injector.ByCondition) || r.Reason == string(injector.ByBudget)):
		stop.Result, stop.Seen = injector.Fail, r.Reason
	case r.State == injector.Completed:
		stop.Result = injector.Pass
	}
	return append(out, stop)
}

// effective reports whether r had an effect, so that what held has held under it.
func effective(r injector.Run) bool {
	return r.State == injector.Completed && !r.InjectAt.IsZero() && (r.Verdict == injector.Passed || r.Verdict == injector.Failed)
}

func opened(r injector.Run, sc scenario.Scenario, o injector.Assertion, now time.Time) Change {
	f := Finding{ID: Key{r.Service, r.Scenario, o.ID}.ID(), Service: r.Service, Scenario: r.Scenario, Assertion: o.ID, Title: o.Text,
		Severity: sc.OnFail.Severity, Owner: sc.OnFail.Owner, State: Open, DueAt: now.Add(due(sc)), OpenedAt: now, Run: r.ID}
	see(&f, r, o)
	return Change{f, Event{now, "engine", string(Open), r.ID, "expected " + o.Expected + ", saw " + o.Seen}, true}
}

func due(sc scenario.Scenario) time.Duration {
	if sc.OnFail == nil || sc.OnFail.Due == 0 {
		return defaultDue
	}
	return sc.OnFail.Due
}

// see writes what r saw into f.
func see(f *Finding, r injector.Run, o injector.Assertion) {
	f.Expected, f.Seen, f.LastRun = o.Expected, o.Seen, r.ID
	f.SeenFrom, f.SeenUntil = o.From, o.Until
	f.Text, f.Hash = r.Text, r.Hash
	if len(r.Receipts) > 0 {
		f.Config = r.Receipts[0].Config
	}
}

// again is a finding that failed once more. One that was said to be mended comes
// back louder, and with less time.
func again(f Finding, r injector.Run, sc scenario.Scenario, o injector.Assertion, now time.Time) Change {
	was := f.State
	see(&f, r, o)
	text := "still so: expected " + o.Expected + ", saw " + o.Seen
	switch {
	case was == Open || was == Reopened || was == Accepted && now.Before(f.RiskUntil):
		return Change{Finding: f, Event: Event{now, "engine", string(was), r.ID, text}}
	case was != Accepted:
		f.Severity = worse(f.Severity)
	}
	f.State, f.ClosedAt, f.Reopened = Reopened, time.Time{}, f.Reopened+1
	f.DueAt, f.EscalatedAt = now.Add(due(sc)/hurry), time.Time{}
	return Change{f, Event{now, "engine", string(Reopened), r.ID, fmt.Sprintf("was %s; %s; severity is %s now", was, text, f.Severity)}, true}
}

func worse(severity string) string {
	all := []string{"low", "medium", "high", "critical"}
	return all[min(slices.Index(all, severity)+1, len(all)-1)]
}

// held closes a finding whose assertion held under the very scenario that found it.
// Held under a milder one, or an edited one, it says nothing.
func held(f Finding, r injector.Run, o injector.Assertion, now time.Time) (Change, bool) {
	if f.State == Verified || f.Hash != r.Hash {
		return Change{}, false
	}
	f.State, f.ClosedAt, f.LastRun = Verified, now, r.ID
	return Change{Finding: f, Event: Event{now, "engine", string(Verified), r.ID, "held: " + o.Seen}}, true
}
