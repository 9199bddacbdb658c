package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
	"breakwater/injector/finding"
	"breakwater/internal/retrylog"
)

// hold runs the weekly game day once, with so many failures a poll.
func (f *fair) hold(bad int64) []injector.Run {
	f.t.Helper()
	f.g.badPer = bad
	h, err := f.days.Start(as(f.t.Context(), "anna"), "weekly")
	f.must(err)
	runs := f.runs(f.over(h.ID))
	f.g.badPer = 0
	for range 12 { // quiet again before the next baseline
		f.second()
	}
	return runs
}

func (f *fair) found() finding.Finding {
	f.t.Helper()
	all, err := f.Findings(f.t.Context(), finding.Filter{})
	f.must(err)
	if len(all) != 1 {
		f.t.Fatalf("%d findings, want one: %+v", len(all), all)
	}
	return all[0]
}

func TestFindingUntilADrillShowsThatItIsGone(t *testing.T) {
	f := newFair(t, "test", on("points"), dayOf+"scenarios: [slow-points]\n")
	if runs := f.hold(5); runs[0].Verdict != injector.Failed {
		t.Fatalf("%s: %s", runs[0].Verdict, runs[0].Why)
	}
	x := f.found()
	if x.State != finding.Open || x.Assertion != "d1" || x.Severity != "high" || x.Owner != "team-points" || x.Text == "" || x.SeenUntil.IsZero() ||
		x.DueAt.Sub(x.OpenedAt) != 14*24*time.Hour {
		t.Errorf("%+v", x)
	}
	f.hold(5)
	if again := f.found(); again.State != finding.Open || again.Reopened != 0 || again.LastRun == x.LastRun || !again.DueAt.Equal(x.DueAt) {
		t.Errorf("failed twice it is %+v, want the same finding with a newer run", again)
	}
	desk := as(t.Context(), "dora")
	if _, err := f.findings.Claim(desk, x.ID, ""); !errors.Is(err, finding.ErrText) {
		t.Errorf("claimed without a word: %v", err)
	}
	if _, err := f.findings.Claim(desk, x.ID, "timeout lowered"); err != nil {
		t.Fatal(err)
	}
	// Not mended at all: it comes back, louder.
	f.hold(5)
	if back := f.found(); back.State != finding.Reopened || back.Reopened != 1 || back.Severity != "critical" || back.DueAt.Sub(f.at) > 7*24*time.Hour {
		t.Errorf("%+v, want it reopened, critical, with half the time", back)
	}
	_, err := f.findings.Claim(desk, x.ID, "a fallback was added")
	f.must(err)
	f.hold(0)
	if gone := f.found(); gone.State != finding.Verified || gone.ClosedAt.IsZero() {
		t.Errorf("%+v, want it verified", gone)
	}
	_, story, err := f.Finding(t.Context(), x.ID)
	f.must(err)
	var kinds []string
	for _, e := range story {
		kinds = append(kinds, e.Kind)
	}
	want := "open open claimed_fixed verifying reopened claimed_fixed verifying verified"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("its story is %q, want %q", got, want)
	}
	if len(f.told) != 2 {
		t.Errorf("told %q, want the opening and the return", f.told)
	}
}

func TestFindingIsLookedAtAgainAsItWas(t *testing.T) {
	f := newFair(t, "test", on("points"), dayOf+"scenarios: [slow-points]\n")
	f.hold(5)
	x := f.found()
	_, err := f.findings.Claim(as(t.Context(), "dora"), x.ID, "it is mended")
	f.must(err)
	// The scenario is made milder: by itself it closes nothing.
	f.bring(strings.Replace(on("points"), "30%", "20%", 1), dayOf+"scenarios: [slow-points]\n")
	runs := f.hold(0)
	if len(runs) != 2 || runs[1].Hash != x.Hash || runs[1].Wave != 1 || runs[1].ExpectedPPM != 300_000 {
		t.Fatalf("%d runs, want the milder one, then the one that found it", len(runs))
	}
	if gone := f.found(); gone.State != finding.Verified || gone.LastRun != runs[1].ID {
		t.Errorf("%+v, want it verified by the second run", gone)
	}
}

func TestFindingOfARunWithoutEffectStays(t *testing.T) {
	f := newFair(t, "test", on("points"), dayOf+"scenarios: [slow-points]\n")
	f.hold(5)
	_, err := f.findings.Claim(as(t.Context(), "dora"), f.found().ID, "it is mended")
	f.must(err)
	f.g.perPoll = 0
	runs := f.hold(0)
	if x := f.found(); x.State != finding.Claimed {
		t.Errorf("after %s (%s) it is %s, want claimed as before", runs[0].Verdict, runs[0].Why, x.State)
	}
}

func TestFindingOverdue(t *testing.T) {
	f := newFair(t, "test", on("points"), dayOf+"scenarios: [slow-points]\n")
	f.hold(5)
	x := f.found()
	late := func() int {
		all, err := f.findings.Overdue(t.Context(), f.at)
		f.must(err)
		return len(all)
	}
	if late() != 0 {
		t.Error("it is late at once")
	}
	f.pass(14*24*time.Hour + time.Minute)
	for range 3 {
		f.must(f.findings.Tick(t.Context()))
	}
	if late() != 1 || len(f.told) != 2 || !strings.Contains(f.told[1], "overdue") {
		t.Errorf("%d late, told %q: want it told of once", late(), f.told)
	}
	for _, who := range []string{"team-points"} {
		if _, err := f.findings.Accept(as(t.Context(), who), x.ID, "we shall live with it", f.at.Add(24*time.Hour)); !errors.Is(err, finding.ErrSelf) {
			t.Errorf("%s accepts its own risk: %v", who, err)
		}
	}
	if _, err := f.findings.Accept(as(t.Context(), "eve"), x.ID, "we shall live with it", f.at.Add(400*24*time.Hour)); !errors.Is(err, finding.ErrText) {
		t.Errorf("accepted for longer than a year: %v", err)
	}
	_, err := f.findings.Accept(as(t.Context(), "eve"), x.ID, "we shall live with it", f.at.Add(24*time.Hour))
	f.must(err)
	if late() != 0 {
		t.Error("accepted, it is late")
	}
	f.pass(25 * time.Hour)
	if late() != 1 {
		t.Error("the acceptance has expired, and it is not late")
	}
	// It is looked at again by itself, although nobody claims anything.
	f.bring(strings.Replace(on("points"), "30%", "20%", 1), dayOf+"scenarios: [slow-points]\n")
	if runs := f.hold(0); len(runs) != 2 {
		t.Errorf("%d runs, want what is overdue looked at again", len(runs))
	}
}

func TestScenarioOfAnIncident(t *testing.T) {
	f := newFair(t, "test", on("points"))
	for i := range 40 {
		tries := []retrylog.Try{{Endpoint: "a:1", Kind: "try_timeout", LatencyUS: 800_000}}
		if i%4 == 0 {
			tries = []retrylog.Try{{Endpoint: "a:1", Status: 503, LatencyUS: 2000}, {Endpoint: "b:1", Status: 200, LatencyUS: 3000}}
		}
		f.keep("points", "exchange", "", "q", f.at.Add(time.Duration(i)*time.Second), retrylog.Record{Exchange: &retrylog.Exchange{
			Count: 1, RequestID: "q", Start: f.at, End: f.at, Gateway: "gw", Env: "test", Service: "points", Route: "deduct", Status: 504,
			Outcome: retrylog.UpstreamFailure, Origin: "gateway", Tries: tries}})
	}
	i, err := f.BadTime(t.Context(), "points", f.at, f.at.Add(time.Minute))
	f.must(err)
	text, err := i.Scenario("team-points")
	f.must(err)
	sc, err := injector.ParseText(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(sc.Faults) != 1 || sc.Faults[0].ID != "late" || sc.Faults[0].Rule.LatencyMS != 2000 || sc.Target.Routes[0] != "deduct" || sc.OnFail == nil {
		t.Errorf("%+v, want 2.5 times the timeout of 800 ms\n%s", sc.Faults, text)
	}
	if _, err := (finding.Incident{Service: "x"}).Scenario("o"); !errors.Is(err, finding.ErrNothing) {
		t.Errorf("of nothing: %v", err)
	}
}
