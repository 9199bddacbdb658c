package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/finding"
	"breakwater/injector/gameday"
	"breakwater/injector/readiness"
	"breakwater/injector/scenario"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// practice is what a desk of game days, one of findings and a recorder would say.
func (h *house) practice() Practice {
	return Practice{Days: dayFake{h}, DayBell: dayForms{h}, Findings: findingFake{h}, FindingBell: findingForms{h}, Readiness: readyFake{h}, ReadyBell: readyForms{h}}
}

type (
	dayFake      struct{ *house }
	dayForms     struct{ *house }
	findingFake  struct{ *house }
	findingForms struct{ *house }
	readyFake    struct{ *house }
	readyForms   struct{ *house }
)

// ledger is a desk over the schedules of h, so that what comes is what a real one says.
type dayLedger struct {
	gameday.Ledger
	gameday.Runs
	*house
}

func (l dayLedger) Now(context.Context) (time.Time, error) { return l.now, nil }
func (l dayLedger) Schedules(context.Context) ([]injector.Schedule, error) {
	return l.schedules, l.broken
}
func (l dayLedger) Events(context.Context, string) ([]injector.Event, error) { return nil, nil }
func (l dayLedger) Documents(context.Context) ([]injector.Document, error) {
	var out []injector.Document
	for _, d := range [][2]string{{"coupon-429", "coupon"}, {"inventory-errors", "inventory"}, {"order-chain-latency", "order"}, {"points-slow", "points"}, {"search-shock", "search"}} {
		out = append(out, injector.Document{ID: d[0], Service: d[1]})
	}
	return out, l.broken
}

// dayText is a document of a game day.
func dayText(name, title, schedule, rest string) string {
	return "apiVersion: breakwater/v1\nkind: GameDay\nname: " + name + "\ntitle: \"" + title + "\"\nschedule: " + schedule + "\n" + rest
}

// days are the schedules of the mock page, with their documents.
func (h *house) days() []injector.Schedule {
	return []injector.Schedule{
		{ID: "weekly-small-drill", GameDay: "weekly-small-drill", Title: "Weekly small drill", Scenario: "points-slow", Scenarios: []string{"points-slow"}, Cron: "15 14 * * 2", Zone: "Europe/Berlin",
			NextAt: time.Date(2026, 12, 1, 13, 15, 0, 0, time.UTC), LastRun: "r-1263", Enabled: true, GrantPPM: 50_000, Text: dayText("weekly-small-drill", "Weekly small drill", `{cron: "15 14 * * 2", zone: Europe/Berlin}`, "scenarios: [points-slow]\nauto_approve: {budget_spent: \"5%\"}\n"),
			Last: []injector.Occurrence{{Schedule: "weekly-small-drill", ScheduledFor: h.now.Add(-13 * time.Minute), Runs: []string{"r-1287"}}, {Schedule: "weekly-small-drill", ScheduledFor: h.now.Add(-7 * 24 * time.Hour), Skipped: "frozen", Detail: "points is frozen"}}},
		{ID: "quarterly-order-chain", GameDay: "quarterly-order-chain", Title: "Quarterly order chain", Scenarios: []string{"order-chain-latency", "inventory-errors", "points-slow"}, Cron: "0 10 15 12 *", Zone: "Asia/Shanghai",
			NextAt: time.Date(2026, 12, 15, 2, 0, 0, 0, time.UTC), Enabled: true, Text: h.chain()},
		{ID: "coupon-429-drill", GameDay: "coupon-429-drill", Title: "Coupon 429 drill", Scenarios: []string{"coupon-429"}, Cron: "0 11 * * 3", Zone: "Europe/Berlin", NextAt: time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC), Enabled: true,
			Text: dayText("coupon-429-drill", "Coupon 429 drill", `{cron: "0 11 * * 3", zone: Europe/Berlin}`, "scenarios: [coupon-429]\n")},
		{ID: "search-shock", GameDay: "search-shock", Title: "Search shock", Scenarios: []string{"search-shock"}, Cron: "30 10 * * 5", Zone: "Europe/Berlin", NextAt: time.Date(2026, 11, 27, 9, 30, 0, 0, time.UTC), Enabled: true,
			Text: dayText("search-shock", "Search shock", `{cron: "30 10 * * 5", zone: Europe/Berlin, blackout: [{from: 2026-11-26, to: 2026-11-30}]}`, "scenarios: [search-shock]\n")},
		{ID: "hourly-flaky", GameDay: "hourly-flaky", Title: "Do retries still hide a flaky instance?", Scenarios: []string{"inventory-errors"}, Cron: "49 9-12 * * 1-5", Zone: "Europe/Berlin",
			NextAt: time.Date(2026, 11, 25, 8, 49, 0, 0, time.UTC), Enabled: true, Text: dayText("hourly-flaky", "Do retries still hide a flaky instance?", `{cron: "49 9-12 * * 1-5", zone: Europe/Berlin}`, "scenarios: [inventory-errors]\n")},
		{ID: "retired", GameDay: "retired", Title: "Retired", Scenarios: []string{"gone"}, Cron: "0 8 * * *", Zone: "UTC", Text: dayText("retired", "Retired", `{cron: "0 8 * * *"}`, "scenarios: [gone]\n")},
	}
}

// said is text, or markup in the hostile house.
func (h *house) said(text string) string {
	if len(h.schedules) > 0 && strings.HasPrefix(h.schedules[0].Title, `">`) {
		return h.schedules[0].Title
	}
	return text
}

func (h *house) chain() string {
	return dayText("quarterly-order-chain", "Quarterly order chain", `{cron: "0 10 15 12 *", zone: Asia/Shanghai}`, `waves:
  - {name: inventory alone, scenarios: [inventory-errors]}
  - {name: both, scenarios: [order-chain-latency, points-slow]}
roles: {commander: `+fmt.Sprintf("%q", h.said("sre-lead"))+`, scribe: points-owner, observers: [carl, dora]}
approvals: 2
deadline: 2h
stop: [{sli: order.error_rate, op: ">", value: "8%", for: 45s}, {burn_rate: order, over: 240, windows: [1m, 5m]}]
`)
}

func (f dayFake) Ahead(ctx context.Context, from, until time.Time) ([]gameday.Ahead, error) {
	l := dayLedger{house: f.house}
	return gameday.New(gameday.Config{Ledger: l, Runs: l}).Ahead(ctx, from, until)
}
func (f dayFake) Decisions(_ context.Context, from, until time.Time) ([]injector.Occurrence, error) {
	if len(f.schedules) == 0 {
		return nil, f.broken
	}
	at := func(days, minutes int) time.Time {
		return time.Date(2026, 11, 24+days, 13, 15+minutes, 0, 0, time.UTC)
	}
	all := []injector.Occurrence{
		{Schedule: "weekly-small-drill", ScheduledFor: f.list[0].PlannedAt, DecidedAt: f.list[0].PlannedAt, Runs: []string{"r-1287"}},
		{Schedule: "hourly-flaky", ScheduledFor: at(-1, -26), DecidedAt: at(-1, -26), Skipped: "overlap", Detail: f.said("r-1280 has not ended")},
		{Schedule: "search-shock", ScheduledFor: at(-4, -225), DecidedAt: at(-4, 42), Skipped: "missed", Detail: "no control was there in time, decided 16020 s late"},
		{Schedule: "weekly-small-drill", ScheduledFor: f.list[2].PlannedAt, DecidedAt: f.list[2].PlannedAt, Runs: []string{"r-1263"}},
		{Schedule: "search-shock", ScheduledFor: at(-11, -225), DecidedAt: at(-11, -225), Skipped: "blackout", Detail: "the day lies in a blackout"},
	}
	all = append(all, injector.Occurrence{Schedule: "weekly-small-drill", ScheduledFor: at(-14, 0), DecidedAt: at(-14, 0), Skipped: "freeze", Detail: "points is frozen"})
	var out []injector.Occurrence
	for _, o := range all {
		if !o.ScheduledFor.Before(from) && o.ScheduledFor.Before(until) {
			out = append(out, o)
		}
	}
	return out, f.broken
}
func (f dayFake) Documents(context.Context) ([]gameday.Document, error) {
	if len(f.schedules) == 0 {
		return nil, f.broken
	}
	return []gameday.Document{{Name: "weekly-small-drill"}, {Name: "release-rehearsal", Title: f.said("Release rehearsal")}}, f.broken
}

// held are one under way, one that comes and waits for people, one that was called
// off and one that is over.
func (h *house) held() []gameday.Held {
	if len(h.schedules) == 0 {
		return nil
	}
	const hash = "5f2c9d7e11aa0b3c"
	began, at := h.now.Add(-13*time.Minute), time.Date(2026, 12, 15, 2, 0, 0, 0, time.UTC)
	return []gameday.Held{
		{ID: injector.DayID("quarterly-order-chain", at), Name: "quarterly-order-chain", Title: h.said("Quarterly order chain"), Actor: h.said("schedule quarterly-order-chain"), Text: h.chain(), Hash: hash, Needs: 2, PlannedAt: at,
			Approvals: []injector.Approved{{Actor: h.said("sre-operator"), Hash: hash, At: h.now.Add(-time.Hour)}, {Actor: "early-bird", Hash: "0123456789abcdef", At: h.now.Add(-30 * time.Hour)}}},
		{ID: injector.DayID("search-shock", time.Date(2026, 12, 4, 9, 30, 0, 0, time.UTC)), Name: "search-shock", Title: "Search shock", Actor: "schedule search-shock", PlannedAt: time.Date(2026, 12, 4, 9, 30, 0, 0, time.UTC), Stopped: "user: " + h.said("stopped by anna")},
		{ID: injector.DayID("weekly-small-drill", began), Name: "weekly-small-drill", Title: "Weekly small drill", Actor: "schedule weekly-small-drill", Text: dayText("weekly-small-drill", "Weekly small drill", `{cron: "15 14 * * 2", zone: Europe/Berlin}`, "scenarios: [points-slow]\n"), Hash: hash, PlannedAt: began, StartedAt: began},
		{ID: "g-by-hand-1", Name: "release-rehearsal", Title: "Release rehearsal", Actor: "anna", Text: h.chain(), Hash: hash, Needs: 1, PlannedAt: h.now.Add(-5 * 24 * time.Hour), StartedAt: h.now.Add(-5 * 24 * time.Hour), EndedAt: h.now.Add(-5*24*time.Hour + 25*time.Minute),
			Approvals: []injector.Approved{{Actor: "ben", Hash: hash, At: h.now.Add(-5 * 24 * time.Hour)}}},
	}
}

func (f dayFake) Marks(_ context.Context, from, until time.Time) ([]slo.Cause, error) {
	if len(f.statuses) == 0 || f.broken != nil {
		return nil, f.broken
	}
	var out []slo.Cause
	for _, c := range []slo.Cause{
		{Kind: slo.ByDeploy, Service: "order", Ref: f.said("v1.44"), From: f.now.Add(-110 * time.Minute)}, {Kind: slo.ByDeploy, Service: "cart", Ref: "3.9", From: f.now.Add(-200 * time.Minute)},
		{Kind: slo.ByDeploy, Service: "catalog", Ref: "5.12", From: f.now.Add(-350 * time.Minute)}, {Kind: slo.ByIncident, Service: "order", Ref: "INC-207", From: f.now.Add(-681 * time.Minute), To: f.now.Add(-658 * time.Minute)},
	} {
		if !c.From.Before(from) && c.From.Before(until) {
			out = append(out, c)
		}
	}
	return out, nil
}
func (f dayFake) Held(context.Context) ([]gameday.Held, error) { return f.held(), f.broken }
func (f dayFake) Story(ctx context.Context, id string) (gameday.Story, error) {
	if f.broken != nil {
		return gameday.Story{}, f.broken
	}
	for _, h := range f.held() {
		if h.ID != id && h.Name != id {
			continue
		}
		s := gameday.Story{Held: h, Now: f.now, Timeline: f.timeline(h)}
		s.Day, _ = documentOf(h.Text)
		for _, r := range f.list {
			if r.GameDay == h.Name && r.PlannedAt.Sub(h.PlannedAt).Abs() < time.Minute {
				s.Runs = append(s.Runs, r)
			}
		}
		if h.Name == "release-rehearsal" {
			s.Runs = append(s.Runs, f.list[1], f.list[2])
			s.Findings = f.found()[:2]
		}
		for _, service := range []string{"inventory", "order", "points"} {
			s.Checklist = append(s.Checklist, gameday.Check{Service: service, Answers: f.answers(service)})
		}
		return s, nil
	}
	return gameday.Story{}, fmt.Errorf("game day %s: %w", id, injector.ErrNotFound)
}

func documentOf(text string) (scenario.GameDay, error) {
	a := gameday.New(gameday.Config{Ledger: dayLedger{}, Runs: oneSchedule{text: text}})
	all, err := a.Ahead(context.Background(), time.Time{}, time.Time{})
	if err != nil || len(all) == 0 {
		return scenario.GameDay{}, err
	}
	return all[0].Day, nil
}

type oneSchedule struct {
	gameday.Runs
	text string
}

func (o oneSchedule) Schedules(context.Context) ([]injector.Schedule, error) {
	return []injector.Schedule{{Text: o.text}}, nil
}
func (o oneSchedule) Documents(context.Context) ([]injector.Document, error) { return nil, nil }

func (h *house) timeline(d gameday.Held) []gameday.Note {
	at := d.PlannedAt
	out := []gameday.Note{{At: at.Add(-24 * time.Hour), Actor: "engine", Kind: "reminder", Text: "begins at 2026-12-15 02:00:00Z; approvals missing: 2"}}
	if at.After(h.now) {
		out[0].At = h.now.Add(-2 * time.Hour)
	}
	for _, a := range d.Approvals {
		out = append(out, gameday.Note{At: a.At, Actor: a.Actor, Kind: "approval", Text: "agrees to " + a.Hash[:12] + ", 1 of 2"})
	}
	if !d.StartedAt.IsZero() {
		out = append(out, gameday.Note{At: at, Actor: "gameday", Kind: "state", Text: "points-slow: injecting: injecting 30 % for 3m0s", Run: "r-1287"}, gameday.Note{At: at.Add(3 * time.Minute), Actor: h.said("points-owner"), Kind: "note", Text: h.said("the pager stayed quiet, orders go on without points")})
	}
	if !d.EndedAt.IsZero() {
		out = append(out, gameday.Note{At: d.EndedAt.Add(time.Hour), Actor: "anna", Kind: "debrief", Text: h.said("The fallback body lacks the currency; everything else held.")})
	}
	slices.SortFunc(out, func(a, b gameday.Note) int { return a.At.Compare(b.At) })
	return out
}

// found are findings in every state.
func (h *house) found() []finding.Finding {
	if len(h.statuses) == 0 {
		return nil
	}
	day := func(n int) time.Time { return h.now.Add(time.Duration(n) * 24 * time.Hour) }
	f := func(n int, service, title, severity, owner string, state finding.State, opened, due int) finding.Finding {
		return finding.Finding{ID: fmt.Sprintf("f-00000000%02d", n), Service: service, Scenario: h.said(service + "-slow"), Assertion: fmt.Sprintf("d%d", n), Title: h.said(title), Expected: h.said("at most 3 %"), Seen: h.said("8.4 %"), Severity: severity, Owner: h.said(owner),
			State: state, OpenedAt: day(opened), DueAt: day(due), Run: "r-1251", LastRun: "r-1263", Text: "kind: Scenario\n", Hash: "ab12", Config: "cfg-77", SeenFrom: day(opened), SeenUntil: day(opened).Add(9 * time.Minute)}
	}
	late := f(1, "points", "breaker of points opened within 20 s", "critical", "team-points", finding.Open, -40, -5)
	late.EscalatedAt = day(-4)
	back := f(2, "order", "share of failed requests of order is at most 3 %", "high", "team-order", finding.Reopened, -70, 3)
	back.Reopened, back.ClaimedBy, back.ClaimedAt = 2, "ben", day(-9)
	claimed := f(3, "coupon", "no trip on 429, waits kept", "medium", "team-coupon", finding.Claimed, -20, 9)
	claimed.ClaimedBy, claimed.ClaimedAt = "ben", day(-1)
	again := f(4, "points", "fallback body is marked", "medium", "team-points", finding.Verifying, -33, 1)
	again.ClaimedBy, again.ClaimedAt = "ben", day(-3)
	risk := f(5, "search", "tries sent for each request of search is at most 1.2", "low", "", finding.Accepted, -90, -60)
	risk.RiskBy, risk.RiskUntil = "ada", day(44)
	gone := f(6, "order", "alert fires within 2 min", "high", "team-order", finding.Verified, -120, -100)
	gone.ClosedAt = day(-98)
	out := []finding.Finding{late, again, back, claimed, risk, gone}
	for i, st := range h.statuses[min(100, len(h.statuses)):] { // many services have as many
		x := late
		x.ID, x.Service = fmt.Sprintf("f-1%09d", i), st.Objective.Service
		out = append(out, x)
	}
	return out
}

func (f findingFake) Findings(_ context.Context, q finding.Filter) ([]finding.Finding, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	var out []finding.Finding
	for _, x := range f.found() {
		if q.Service == "" || q.Service == x.Service {
			out = append(out, x)
		}
	}
	return out, nil
}
func (f findingFake) Finding(_ context.Context, id string) (finding.Finding, []finding.Event, error) {
	if f.broken != nil {
		return finding.Finding{}, nil, f.broken
	}
	for _, x := range f.found() {
		if x.ID == id {
			story := []finding.Event{{At: x.OpenedAt, Actor: "engine", Kind: "open", Run: "r-1251", Text: f.said("expected at most 3 %, saw 8.4 %")}}
			if x.Reopened > 0 {
				story = append(story, finding.Event{At: x.OpenedAt.Add(200 * time.Hour), Actor: "engine", Kind: "verified", Text: "held: 0.1 %"}, finding.Event{At: x.OpenedAt.Add(900 * time.Hour), Actor: "engine", Kind: "reopened", Text: "was verified; still so; severity is high now"})
			}
			if !x.EscalatedAt.IsZero() {
				story = append(story, finding.Event{At: x.EscalatedAt, Actor: "engine", Kind: "overdue", Text: "was due 2026-11-19 and is told to " + x.Owner})
			}
			return x, story, nil
		}
	}
	return finding.Finding{}, nil, fmt.Errorf("finding %s: %w", id, injector.ErrNotFound)
}
func (f findingFake) Burndown(ctx context.Context, all []finding.Finding, at []time.Time) ([]finding.Standing, error) {
	stories := map[string][]finding.Event{}
	for _, x := range all {
		if x.Reopened > 0 {
			_, stories[x.ID], _ = f.Finding(ctx, x.ID)
		}
	}
	return finding.Burndown(all, stories, at), f.broken
}

// answers are some of each state.
func (h *house) answers(service string) []readiness.Answer {
	facts := readiness.Facts{Service: service, Now: h.now, Success: []string{service + "-availability"}, Routes: 4, Limited: 2, Retried: 2, Bounded: 2, Gateways: 2, Schedules: []string{"weekly-small-drill"}, Held: h.now.Add(-7 * 24 * time.Hour), Findings: 3, Open: 2}
	if service == "order" {
		facts.Latency, facts.Contracts, facts.Opened = []string{"order-latency"}, []string{"order-v1"}, &readiness.Proof{Run: "r-1270", At: h.now.Add(-5 * 24 * time.Hour)}
		facts.Given = []readiness.Given{{Item: "limits", Evidence: h.said("load test of May, wiki/limits"), Actor: h.said("ben"), Yes: true, At: h.now.Add(-20 * 24 * time.Hour)}}
	}
	if service == "points" {
		facts.Overdue = 1
	}
	return readiness.Assess(facts)
}

func (f readyFake) Assess(_ context.Context, service string) ([]readiness.Answer, error) {
	return f.answers(service), f.broken
}
func (f readyFake) Glance(ctx context.Context, since time.Time) ([]readiness.Trend, error) {
	return f.Look(ctx, "", since)
}

func (f readyFake) Look(_ context.Context, service string, since time.Time) ([]readiness.Trend, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	var out []readiness.Trend
	for _, st := range f.statuses {
		name := st.Objective.Service
		if service != "" && service != name {
			continue
		}
		var days []readiness.Day
		for n := 60; n >= 0 && name != "invoice-export"; n -= 1 {
			at := f.now.Add(-time.Duration(n) * 24 * time.Hour)
			d := readiness.DayOf(f.answers(name), at)
			if n > 20 {
				delete(d.States, "")
				d.States["sli"], d.States["cadence"] = readiness.No, readiness.No
				d = readiness.Counted(d.States, at)
			}
			if n < 31 || n > 36 { // nobody looked for some days
				days = append(days, d)
			}
		}
		out = append(out, readiness.TrendOf(name, days))
	}
	return out, nil
}

// The forms note what they were asked, as the handlers of the API would.
func (f dayForms) Start(w http.ResponseWriter, r *http.Request)   { f.noted(w, r, "start") }
func (f dayForms) Approve(w http.ResponseWriter, r *http.Request) { f.noted(w, r, "approve") }
func (f dayForms) Abort(w http.ResponseWriter, r *http.Request)   { f.noted(w, r, "abort") }
func (f dayForms) Write(w http.ResponseWriter, r *http.Request)   { f.noted(w, r, "write") }
func (f findingForms) Close(w http.ResponseWriter, r *http.Request) {
	f.noted(w, r, "close")
}
func (f findingForms) Accept(w http.ResponseWriter, r *http.Request) { f.noted(w, r, "accept") }
func (f readyForms) Answer(w http.ResponseWriter, r *http.Request)   { f.noted(w, r, "answer") }

func (h *house) noted(w http.ResponseWriter, r *http.Request, what string) {
	text, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(text, &body)
	for _, v := range body {
		if s, _ := v.(string); strings.Contains(s, "refuse") {
			reply.Problem(w, http.StatusConflict, "content", "the game day is another one than was agreed to")
			return
		}
	}
	h.stopped = append(h.stopped, what+" "+r.PathValue("id")+r.PathValue("service")+" "+string(text))
	w.WriteHeader(http.StatusCreated)
}
