package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
	"breakwater/injector/finding"
	"breakwater/injector/gameday"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

var (
	_ gameday.Ledger = (*drill)(nil)
	_ finding.Ledger = (*drill)(nil)
)

// fair is a world with people: who asks is in the context.
type fair struct {
	*drill
	e        *injector.Engine
	g        *gateway
	days     *gameday.Desk
	findings *finding.Desk
	told     []string
	audit    []string
}

type askerKey struct{}

func as(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, askerKey{}, name)
}

func newFair(t *testing.T, env string, documents ...string) *fair {
	t.Helper()
	t.Parallel() // most of it waits for the database
	f := &fair{drill: newDrill(t), g: newGateway("gw")}
	actor := func(ctx context.Context) string { name, _ := ctx.Value(askerKey{}).(string); return name }
	audit := func(_ context.Context, actor, action, object, _ string) error {
		f.audit = append(f.audit, actor+" "+action+" "+object)
		return nil
	}
	f.e = injector.New(injector.Config{Ledger: f.drill, Env: env, Log: quiet(), Actor: actor, Audit: audit,
		Core: func(service string) bool { return service == "order" }})
	f.days = gameday.New(gameday.Config{Ledger: f.drill, Runs: f.drill, Scheduler: f.e.Scheduler(), Actor: actor, Audit: audit, Log: quiet(),
		Findings: f.drill.Findings,
		Owns:     func(ctx context.Context, service string) bool { return actor(ctx) == "olga" && service == "order" },
		Remind: func(_ context.Context, r gameday.Reminder) error {
			f.told = append(f.told, fmt.Sprintf("%s in %v, %d missing", r.Day.Name, r.Day.PlannedAt.Sub(f.at), r.Missing))
			return nil
		}})
	f.findings = finding.New(finding.Config{Ledger: f.drill, Actor: actor, Audit: audit, Log: quiet(),
		Tell: func(_ context.Context, x finding.Finding, why string) error {
			f.told = append(f.told, x.ID+" "+why)
			return nil
		}})
	f.bring(documents...)
	f.poll(f.e, f.g)
	return f
}

func (f *fair) bring(documents ...string) {
	f.t.Helper()
	set, _, err := scenario.Parse(conf.File{Name: "docs.yaml", Data: []byte(strings.Join(documents, "---\n"))})
	f.must(err)
	f.must(f.e.Desk().Import(f.t.Context(), set))
	f.must(f.days.Import(f.t.Context(), set))
}

// second lets one second pass for everybody.
func (f *fair) second() {
	f.t.Helper()
	f.pass(time.Second)
	f.g.serve()
	f.poll(f.e, f.g)
	_, err := f.e.Scheduler().Tick(f.t.Context())
	f.must(err)
	f.tick(f.e)
	f.must(f.days.Tick(f.t.Context()))
	if f.at.Second()%4 == 0 {
		f.must(f.findings.Tick(f.t.Context()))
	}
	f.poll(f.e, f.g)
}

// over lets time pass until a game day has ended.
func (f *fair) over(id string) gameday.Held {
	f.t.Helper()
	for range 900 {
		h, _, err := f.HeldDay(f.t.Context(), id)
		f.must(err)
		if !h.EndedAt.IsZero() {
			return h
		}
		f.second()
	}
	f.t.Fatalf("%s is never over", id)
	return gameday.Held{}
}

func (f *fair) runs(h gameday.Held) []injector.Run {
	f.t.Helper()
	all, err := f.DayRuns(f.t.Context(), h.Name, h.PlannedAt)
	f.must(err)
	return all
}

// on is slowPoints under another name, against another service.
func on(service string) string {
	text := strings.Replace(slowPoints, "id: slow-points", "id: slow-"+service, 1)
	text = strings.Replace(text, "target: {service: points}", "target: {service: "+service+"}", 1)
	text = strings.Replace(text, "amplification: points", "amplification: "+service, 1)
	return text + "on_fail: {finding: {severity: high, owner: team-" + service + ", due: 14d}}\n"
}

const dayOf = "apiVersion: breakwater/v1\nkind: GameDay\nname: weekly\n"

func TestGameDayWavesOneAfterTheOther(t *testing.T) {
	f := newFair(t, "test", on("points"), on("order"), dayOf+"waves: [{scenarios: [slow-points]}, {scenarios: [slow-points, slow-order]}]\n")
	h, err := f.days.Start(as(t.Context(), "anna"), "weekly")
	f.must(err)
	runs := f.runs(h)
	if len(runs) != 3 || runs[0].Wave != 0 || runs[1].Wave != 1 || runs[2].Wave != 1 {
		t.Fatalf("%+v, want one run in the first wave and two in the second", runs)
	}
	together := false
	for range 300 {
		f.second()
		runs = f.runs(h)
		if runs[0].State != injector.Completed && (runs[1].State.Active() || runs[2].State.Active()) {
			t.Fatalf("the second wave began while the first was %s", runs[0].State)
		}
		if runs[1].State.Ended() && runs[2].State.Ended() {
			break
		}
		together = together || runs[1].State == injector.Injecting && runs[2].State == injector.Injecting
	}
	for _, r := range runs {
		if r.State != injector.Completed || r.Verdict != injector.Passed {
			t.Errorf("%s: %s %s %s", r.Scenario, r.State, r.Verdict, r.Why)
		}
	}
	if h = f.over(h.ID); !together || h.Stopped != "" {
		t.Errorf("the runs of a wave went together: %v; stopped %q", together, h.Stopped)
	}
}

func TestGameDayUnrecoveredWaveEndsIt(t *testing.T) {
	never := strings.Replace(on("points"), `{id: a1, sli: order.success, op: ">=", value: "99%"`, `{id: a1, sli: order.p95, op: "<=", value: "1ms"`, 1)
	f := newFair(t, "test", never, on("order"), dayOf+"scenarios: [slow-points, slow-order]\n")
	h, err := f.days.Start(as(t.Context(), "anna"), "weekly")
	f.must(err)
	h = f.over(h.ID)
	runs := f.runs(h)
	if runs[0].State != injector.Completed || runs[1].State != injector.Skipped || runs[1].Reason != "earlier_run" || !strings.Contains(runs[1].Why, "has not recovered") {
		t.Errorf("%s %s, then %s %s %q: want the second skipped since the first has not recovered",
			runs[0].State, runs[0].Why, runs[1].State, runs[1].Reason, runs[1].Why)
	}
}

func TestChaos_C34_childrenEndBeforeTheDay(t *testing.T) {
	long := strings.Replace(on("points"), "inject: 15s", "inject: 30m", 1)
	f := newFair(t, "test", long, dayOf+"scenarios: [slow-points]\ndeadline: 1m\n")
	h, err := f.days.Start(as(t.Context(), "anna"), "weekly")
	f.must(err)
	for range 600 {
		f.second()
		h, _, err = f.HeldDay(t.Context(), h.ID)
		f.must(err)
		r := f.runs(h)[0]
		if !h.EndedAt.IsZero() && !r.State.Ended() {
			t.Fatalf("the day is over while its run is %s", r.State)
		}
		if !h.EndedAt.IsZero() {
			break
		}
	}
	r := f.runs(h)[0]
	if r.State != injector.Aborted || r.Reason != "gameday_over" || h.EndedAt.Before(r.EndedAt) || h.EndedAt.Sub(h.PlannedAt) > 2*time.Minute {
		t.Errorf("run %s %s ended %v, day ended %v: want the run aborted first, both soon after 1 min", r.State, r.Reason, r.EndedAt, h.EndedAt)
	}
}

func TestGameDayStopsTogether(t *testing.T) {
	f := newFair(t, "test", on("points"), on("order"), dayOf+"waves: [{scenarios: [slow-points, slow-order]}]\n"+
		"stop: [{sli: order.error_rate, op: \">\", value: \"10%\", for: 5s}]\n")
	h, err := f.days.Start(as(t.Context(), "anna"), "weekly")
	f.must(err)
	f.g.badPer = 4 // of 50, twice: 16 % fail while both inject, and no run alone minds
	h = f.over(h.ID)
	for _, r := range f.runs(h) {
		if r.State != injector.Aborted || r.Verdict != injector.Failed {
			t.Errorf("%s: %s %s %s, want aborted and failed by the day's own condition", r.Scenario, r.State, r.Verdict, r.Reason)
		}
	}
	if !strings.HasPrefix(h.Stopped, "stop_condition: ") {
		t.Errorf("stopped by %q", h.Stopped)
	}
}

func TestGameDayApproval(t *testing.T) {
	day := dayOf + "scenarios: [slow-points]\nroles: {commander: clara}\nremind: 30m\nschedule: {cron: \"0 * * * *\"}\n"
	f := newFair(t, "prod", on("points"), day)
	f.pass(40 * time.Minute)
	for range 3 {
		f.second()
	}
	if len(f.told) != 1 || !strings.Contains(f.told[0], "1 missing") {
		t.Errorf("told %q, want one reminder that an approval is missing", f.told)
	}
	open, err := f.HeldDays(t.Context(), true, 10)
	f.must(err)
	h := open[0]
	if _, err := f.days.Approve(as(t.Context(), "clara"), h.ID, ""); !errors.Is(err, gameday.ErrSelf) {
		t.Errorf("the commander approves: %v", err)
	}
	if _, err := f.days.Approve(as(t.Context(), "ben"), h.ID, "another"); !errors.Is(err, gameday.ErrContent) {
		t.Errorf("another content: %v", err)
	}
	h, err = f.days.Approve(as(t.Context(), "ben"), "weekly", h.Hash)
	f.must(err)
	// An edit takes the approval back.
	f.bring(strings.Replace(on("points"), "30%", "31%", 1), day)
	f.pass(20 * time.Minute)
	f.second()
	runs := f.runs(h)
	if len(runs) != 1 || runs[0].State != injector.PendingApproval {
		t.Fatalf("%+v, want one run that waits: what was agreed to is another", runs)
	}
	h, err = f.days.Approve(as(t.Context(), "ben"), h.ID, "")
	f.must(err)
	if r := f.runs(h)[0]; r.State != injector.Scheduled {
		t.Errorf("agreed to, the run is %s, want scheduled", r.State)
	}
	if !strings.Contains(strings.Join(f.audit, "\n"), "ben gameday.approve "+h.ID) || !strings.Contains(strings.Join(f.audit, "\n"), "clara gameday.approve.refused") {
		t.Errorf("audit %q", f.audit)
	}
}

// What guards the start of a game day is asked when it is due, and again when the last
// approval comes: that may be days later.
func TestGameDayIsGuardedByWhatIsLeft(t *testing.T) {
	f := newFair(t, "prod", on("points"), dayOf+"scenarios: [slow-points]\nguards: {budget_left: \"30%\"}\n")
	left := func(ppm int64) {
		f.e.Scheduler().Budgets = budgets{Known: true, Allowed: 1000, RemainingPPM: ppm, TargetPPB: 999_000_000}
	}
	left(300_000)
	if _, err := f.days.Start(as(t.Context(), "anna"), "weekly"); !errors.Is(err, injector.ErrFrozen) || !strings.Contains(err.Error(), "points has 30 % of its budget left, and more than 30 % must be left") {
		t.Errorf("with too little left: %v", err)
	}
	left(310_000)
	h, err := f.days.Start(as(t.Context(), "anna"), "weekly")
	f.must(err)
	left(290_000)
	h, err = f.days.Approve(as(t.Context(), "ben"), h.ID, "")
	f.must(err)
	if r := f.runs(h)[0]; r.State != injector.Skipped || r.Reason != string(injector.NoBudget) {
		t.Errorf("agreed to when too little is left, the run is %s, %s; want skipped for its budget", r.State, r.Reason)
	}
	f.over(h.ID)
}

func TestGameDayOfACoreServiceNeedsTwo(t *testing.T) {
	f := newFair(t, "prod", on("order"), dayOf+"scenarios: [slow-order]\nauto_approve: {budget_spent: \"5%\"}\n")
	f.e.Scheduler().Budgets = budgets{Known: true, Allowed: 1000, RemainingPPM: 900_000, TargetPPB: 999_000_000}
	h, err := f.days.Start(as(t.Context(), "anna"), "weekly")
	f.must(err)
	if h.Needs != 2 {
		t.Errorf("needs %d, want 2: no grant holds for what users cannot do without", h.Needs)
	}
	if _, err := f.days.Approve(as(t.Context(), "anna"), h.ID, ""); !errors.Is(err, gameday.ErrSelf) {
		t.Errorf("who started it approves: %v", err)
	}
	r := f.runs(h)[0]
	if r.Class != injector.ClassC {
		t.Errorf("the run is of class %q, want C", r.Class)
	}
	if _, err := f.e.Desk().Approve(as(t.Context(), "olga"), r.ID, "", "olga"); !errors.Is(err, injector.ErrOfDay) {
		t.Errorf("a part of the game day is agreed to by itself: %v", err)
	}
	for i, who := range []string{"ben", "ben", "carl", "dora", "olga"} {
		waits := "the owner of order"
		if who == "olga" {
			waits = ""
		}
		h, err = f.days.Approve(as(t.Context(), who), h.ID, "")
		f.must(err)
		if state := f.runs(h)[0].State; (state == injector.Scheduled) != (who == "olga") || h.WaitsFor(f.at) != waits {
			t.Errorf("after %d approvals the run is %s, and the day waits for %q, want %q", i+1, state, h.WaitsFor(f.at), waits)
		}
	}
	// From then on no other one of class C is begun.
	other := strings.Replace(on("order"), "service: order", "service: coupon", 1)
	e := injector.New(injector.Config{Ledger: f.drill, Env: "prod", Log: quiet(), Core: func(string) bool { return true }})
	document := strings.Replace(other, "30%", "5%", 1) + "accept: [no_match, no_baseline]\n"
	if _, _, err := e.Desk().Start(t.Context(), "", document, "anna"); !errors.Is(err, injector.ErrOverlap) {
		t.Errorf("a run of class C beside the game day gave %v", err)
	}
}

// One undertaking of class C at a time: a game day of one is not begun beside it, and
// the runs of its own wave go on beside each other.
func TestGameDaysOfClassCOneAtATime(t *testing.T) {
	both := dayOf + "waves: [{scenarios: [slow-order, slow-points]}]\napprovals: 0\n"
	f := newFair(t, "prod", on("order"), on("points"), both, strings.Replace(dayOf, "weekly", "other", 1)+"scenarios: [slow-points]\n")
	f.e.Scheduler().Core = func(string) bool { return true }
	f.e.Scheduler().Budgets = budgets{Known: true, Allowed: 1000, RemainingPPM: 900_000, TargetPPB: 999_000_000}
	h, err := f.days.Start(as(t.Context(), "anna"), "weekly")
	f.must(err)
	if !slices.Equal(h.Owners, []string{"order", "points"}) || h.WaitsFor(f.at) != "2 more, among them the owner of order, and of points" {
		t.Errorf("owners %v, waits for %q", h.Owners, h.WaitsFor(f.at))
	}
	for _, r := range f.runs(h) {
		f.must(f.Move(t.Context(), injector.Move{Run: r.ID, From: r.State, To: injector.Scheduled, At: f.at, Actor: "test"}))
	}
	if _, err := f.days.Start(as(t.Context(), "anna"), "other"); !errors.Is(err, injector.ErrOverlap) {
		t.Errorf("another game day of class C is begun: %v", err)
	}
	for range 20 {
		f.second()
	}
	for _, r := range f.runs(h) {
		if strings.Contains(r.Why, "class C") || r.Reason == string(injector.Overlap) {
			t.Errorf("%s of the wave is held up by its neighbour: %s %s", r.Scenario, r.Reason, r.Why)
		}
	}
}

func TestChaos_C59_runNowMeetsTheSameGuards(t *testing.T) {
	f := newFair(t, "test", on("points"), dayOf+"scenarios: [slow-points]\nschedule: {cron: \"0 * * * *\"}\n")
	f.pass(time.Hour - 2*time.Second)
	for range 15 {
		f.second()
	}
	if _, err := f.days.Start(as(t.Context(), "anna"), "weekly"); !errors.Is(err, injector.ErrOverlap) {
		t.Errorf("the game day by hand while the scheduled one runs: %v", err)
	}
	if _, _, err := f.e.Desk().Start(as(t.Context(), "anna"), "slow-points", "", "anna"); !errors.Is(err, injector.ErrOverlap) {
		t.Errorf("its scenario by hand: %v", err)
	}
	if all := strings.Join(f.audit, "\n"); !strings.Contains(all, "anna gameday.start weekly") || !strings.Contains(all, "anna run.start") {
		t.Errorf("audit %q", f.audit)
	}
}

func TestGameDayCalledOff(t *testing.T) {
	f := newFair(t, "test", on("points"), dayOf+"scenarios: [slow-points]\nschedule: {cron: \"0 * * * *\"}\n")
	f.must(f.days.Abort(as(t.Context(), "anna"), "weekly"))
	f.pass(time.Hour)
	f.second()
	all := f.decided("weekly")
	if len(all) != 1 || all[0].skipped != "user" {
		t.Errorf("%+v, want it skipped, by a person", all)
	}
	held, err := f.HeldDays(t.Context(), false, 10)
	f.must(err)
	if len(held) != 1 || held[0].EndedAt.IsZero() || !strings.Contains(held[0].Stopped, "anna") {
		t.Errorf("%+v, want it over, called off by anna", held)
	}
}
