package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"breakwater/injector"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/gate"
)

// noon is the instant of every golden page.
var noon = time.Date(2026, 11, 24, 14, 27, 12, 0, time.UTC)

var errAway = errors.New("connection refused")

// house is a whole world to look at: what the ledger, the injector and the gate
// of a real control would say.
type house struct {
	now       time.Time
	statuses  []slo.Status
	away      time.Time
	points    []slo.Point
	recent    []retrylog.Exchange
	list      []injector.Run
	events    []injector.Event
	schedules []injector.Schedule
	series    []injector.Point
	stopped   []string
	halt      injector.Halt
	mayLift   bool
	broken    error // of every read and write that needs the database
	gateways  []injector.Gateway
	counted   []string // services that gateways count although nothing is promised
	closed    string   // why no document can be written
	evil      string   // markup in documents
}

func (h *house) Statuses() []slo.Status          { return h.statuses }
func (h *house) DatabaseAway() (time.Time, bool) { return h.away, !h.away.IsZero() }
func (h *house) Points(_ context.Context, o slo.Objective, _ string, from, to time.Time, step time.Duration) ([]slo.Point, error) {
	id := o.ID
	if h.points != nil || h.broken != nil {
		return h.points, h.broken
	}
	for _, st := range h.statuses {
		if st.Objective.ID == id && st.Budget.NoData {
			return curve(h.now, from, to, step, math.NaN()), nil
		} else if st.Objective.ID == id {
			return curve(h.now, from, to, step, float64(st.Budget.RemainingPPM)/10_000), nil
		}
	}
	return nil, fmt.Errorf("no objective %s", id)
}
func (h *house) Recent(_ context.Context, service string, n int) ([]retrylog.Exchange, error) {
	return h.recent[:min(n, len(h.recent))], h.broken
}
func (h *house) Runs(context.Context, int) ([]injector.Run, error) { return h.list, h.broken }
func (h *house) Active(context.Context) ([]injector.Run, error) {
	return slices.DeleteFunc(slices.Clone(h.list), func(r injector.Run) bool { return !r.State.Active() }), h.broken
}
func (h *house) Run(_ context.Context, id string) (injector.Run, error) {
	if h.broken != nil {
		return injector.Run{}, h.broken
	}
	for _, r := range h.list {
		if r.ID == id {
			return r, nil
		}
	}
	return injector.Run{}, fmt.Errorf("run %s: %w", id, injector.ErrNotFound)
}
func (h *house) Events(context.Context, string) ([]injector.Event, error) { return h.events, h.broken }
func (h *house) Schedules(context.Context) ([]injector.Schedule, error) {
	return h.schedules, h.broken
}
func (h *house) Series(context.Context, string, string, time.Time, time.Time) ([]injector.Point, error) {
	return h.series, h.broken
}
func (h *house) Abort(_ context.Context, id, actor string) error {
	h.stopped = append(h.stopped, id+" by "+actor)
	return h.broken
}
func (h *house) HaltAll(_ context.Context, actor string) error {
	h.stopped = append(h.stopped, "all by "+actor)
	return h.broken
}
func (h *house) Halted(context.Context) (injector.Halt, error) { return h.halt, h.broken }
func (h *house) Resume(_ context.Context, actor string) error {
	if h.broken == nil {
		h.stopped, h.halt = append(h.stopped, "lifted by "+actor), injector.Halt{}
	}
	return h.broken
}
func (h *house) Decide(_ context.Context, service string) (gate.Decision, error) {
	return gate.Decide(gate.Request{Service: service, Kind: gate.Feature}, h.statuses, gate.DefaultPolicy(), h.now), nil
}

func (h *house) server(t testing.TB) *Server {
	t.Helper()
	cfg := Config{Ledger: h, Drills: h, Gate: h, Env: "production", Now: func() time.Time { return h.now }, MayLift: func(*http.Request) bool { return h.mayLift },
		Heartbeat: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	h.pages(&cfg)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// status weighs a promise of 99.95 % as the evaluator would.
func status(now time.Time, service string, good, bad int64, level slo.Level, hourBad int64) slo.Status {
	o := slo.Objective{ID: service + "-availability", Service: service, Owner: "team-" + service, TargetPPB: 999_500_000,
		Window: 30 * 24 * time.Hour, Since: now.Add(-40 * 24 * time.Hour), Revision: 3, Text: "apiVersion: openslo/v1\nkind: SLO\nmetadata:\n  name: " + service + "-availability\n"}
	t := slo.Tally{Good: good, Bad: bad, Neutral: good / 26, Throttled: good / 1700, FirstTryBad: bad * 6, Exchanges: good + bad + good/26, ChaosBad: bad / 15}
	st := slo.Status{Objective: o, Env: "production", At: now, DataUntil: now.Add(-time.Second), Budget: slo.Weigh(o, t), CoveragePPM: 1_000_000,
		Level: level, Measured: level, Since: now.Add(-22*time.Hour - 22*time.Minute)}
	perHour := (good + bad) / (30 * 24)
	for _, w := range []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour} {
		valid := int64(float64(perHour) * w.Hours())
		b := int64(float64(hourBad) * math.Sqrt(w.Hours()))
		st.Burns = append(st.Burns, slo.Burning(o, w, slo.Tally{Good: valid - b, Bad: b}))
	}
	for i := range 24 {
		v := int64(600 + 250*math.Sin(float64(i)+float64(len(service))))
		switch {
		case level == slo.Frozen && i > 17:
			v += 40_000 / int64(25-i)
		case level == slo.Warn && i == 12:
			v += 9_000
		case level == slo.Emergency:
			v += int64(i * 40)
		case level == slo.Normal:
			v /= 3
		}
		st.Spark = append(st.Spark, v)
	}
	st.Reason = slo.SpentPercent(st.Budget.SpentPPM) + " of the error budget is spent."
	if level == slo.Frozen {
		st.FrozenAt = st.Since
		st.ThawAt = now.Add(3*24*time.Hour + 7*time.Hour + 12*time.Minute)
		st.Reason = slo.SpentPercent(st.Budget.SpentPPM) + " of the error budget is spent: " + slo.Count(bad) + " failed, " + slo.Count(st.Budget.Allowed) + " were allowed."
	}
	return st
}

// quiet has counted nothing at all.
func quiet(now time.Time, service string) slo.Status {
	st := status(now, service, 0, 0, slo.Unknown, 0)
	st.Spark, st.DataUntil = nil, time.Time{}
	st.Reason = "No request has been counted in the window."
	return st
}

// blind has counts, but of too few gateways.
func blind(now time.Time, service string) slo.Status {
	st := status(now, service, 4_000_000, 800, slo.Unknown, 1)
	st.Level, st.CoveragePPM = slo.Unknown, 710_000
	for i := range 9 {
		st.Spark[6+i] = -1
	}
	st.Reason = "Only 71\u202f% of the gateway-minutes were reported, 90\u202f% are needed; normal is held."
	return st
}

// curve falls from 91 % to what is left now, mostly in two accidents and a drill.
func curve(now, from, to time.Time, step time.Duration, end float64) []slo.Point {
	var out []slo.Point
	left, n := 91.0, float64(to.Sub(from)/step)
	fall := 91 - end
	for at := from.Add(step); !at.After(to); at = at.Add(step) {
		share := float64(at.Sub(from)) / float64(to.Sub(from))
		p := slo.Point{At: at, Valid: int64(3000 + 900*math.Sin(share*9)), Bad: int64(1 + 2*math.Abs(math.Sin(share*40)))}
		switch {
		case share > 0.30 && share < 0.36:
			left, p.Bad = left-fall*0.6/(n*0.06), 140
		case share > 0.62 && share < 0.66:
			left, p.Bad, p.ChaosBad = left-fall*0.2/(n*0.04), 46, 44
		default:
			left -= fall * 0.2 / (n * 0.9)
		}
		p.RemainingPPM = int64(left * 10_000)
		p.NoData = share > 0.80 && share < 0.86 || at.After(now) || math.IsNaN(end)
		if p.NoData {
			p.Valid, p.Bad, p.ChaosBad = 0, 0, 0
		}
		out = append(out, p)
	}
	return out
}

// shop is the world of most tests: every state once, one run under way.
func shop(now time.Time) *house {
	h := &house{now: now}
	h.statuses = []slo.Status{
		status(now, "order", 107_966_300, 33_700, slo.Warn, 100),
		status(now, "points", 71_983_512, 16_488, slo.Warn, 90),
		status(now, "coupon", 62_367_053, 32_947, slo.Frozen, 260),
		status(now, "search", 427_810_396, 189_604, slo.Emergency, 500),
		blind(now, "recommendation"),
		quiet(now, "invoice-export"),
		status(now, "payment", 21_596_825, 3_175, slo.Normal, 3),
		status(now, "catalog", 804_951_700, 48_300, slo.Normal, 30),
		status(now, "settlement-reconciliation-eu-central-1-nightly-batch-worker", 2_639_894, 106, slo.Normal, 0),
	}
	minute := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	h.list = []injector.Run{
		{ID: "r-1287", Scenario: "points-slow", Title: "Points answers after 5 s", Service: "points", GameDay: "weekly-small-drill", State: injector.Injecting, Epoch: 4,
			Actor: "schedule", PlannedAt: minute(-13), StartedAt: minute(-13), BaselineAt: now.Add(-12*time.Minute - 12*time.Second), InjectAt: now.Add(-7*time.Minute - 12*time.Second),
			BaselineFor: 5 * time.Minute, InjectFor: 10 * time.Minute, RecoverFor: 5 * time.Minute, Attempts: 211, Injected: 127, ExpectedPPM: 600_000, Good: 19_764, Bad: 108,
			BudgetSpentPPM: 2_000, CapPPM: 50_000, Text: "kind: Scenario\nname: points-slow\n", Hash: "7be1f30c0a",
			Receipts: []injector.Receipt{{Gateway: "gw-1", Fault: "r-1287/latency", ArmedAt: now.Add(-7*time.Minute - 11*time.Second)}, {Gateway: "gw-2", Fault: "r-1287/latency", ArmedAt: now.Add(-7*time.Minute - 10*time.Second)}},
			Assertions: []injector.Assertion{
				{ID: "s1", Phase: "steady", Text: "order.success", Expected: "at least 99.5\u202f% over 5\u202fmin", Seen: "99.994\u202f%", N: 13_800, Result: injector.Pass},
				{ID: "b1", Phase: "during", Text: "breaker of points opened", Expected: "opened within 20\u202fs", Seen: "after 14\u202fs at gw-1", N: 1, Result: injector.Pass,
					Rows: []injector.Row{{At: now.Add(-7*time.Minute + 2*time.Second), Text: "breaker of points at gw-1: closed to open: error_rate"}}},
				{ID: "d1", Phase: "during", Text: "order.error_rate", Expected: "at most 3\u202f% after 30\u202fs", Seen: "0.02\u202f%", N: 18_492, Result: injector.Pass},
				{ID: "a1", Phase: "after", Text: "order.p95", Expected: "<= 300 ms", Result: injector.Pending},
			}, Cohorts: []injector.Part{{Phase: "during", Cohort: "exposed", Good: 12, Bad: 108}, {Phase: "during", Cohort: "control", Good: 84, Bad: 0, Degraded: 3}, {Phase: "during", Cohort: "unmatched", Good: 19_668}}},
		past(now, "r-1270", "Catalogue truncates half of its JSON", "catalog", -5*24*60, injector.Passed, "everything held while 212 of 700 tries were hit"),
		past(now, "r-1263", "Points answers after 5 s", "points", -7*24*60, injector.Failed, "order.error_rate was 4.1 % for 40 s, at most 3 % was expected."),
		past(now, "r-1251", "Low traffic at night, 2 req/s, all errors", "payment", -11*24*60, injector.Inconclusive, "no_effect: 12 of 700 tries were hit, too few to show anything"),
	}
	h.list[3].State, h.list[3].Reason = injector.Aborted, "engine_lost"
	for i := range 140 {
		p := injector.Point{At: h.list[0].BaselineAt.Add(time.Duration(i*5) * time.Second), Good: 240, Bad: int64(i % 2), Attempts: 80}
		if i > 59 && i < 66 {
			p.Bad, p.Injected = int64(9-i%7), 3
		}
		h.series = append(h.series, p)
	}
	h.events = []injector.Event{
		{At: minute(-13), Kind: "state", Text: "arming: waiting for every gateway to confirm the rule at 0 %", Actor: "schedule"},
		{At: h.list[0].BaselineAt, Kind: "state", Text: "baseline: the rule at 0 % is confirmed by each gateway, 2 in all"},
		{At: h.list[0].InjectAt, Kind: "state", Text: "injecting: injecting 30 % for 3m0s"},
		{At: h.list[0].InjectAt.Add(time.Second), Kind: "receipt", Text: "recovering: the duration is over, waiting for every gateway to give back the rule"},
		{At: minute(-2), Kind: "guard", Text: "no_alert_way: no AlertRoute leads alerts of points to anybody"},
	}
	h.schedules = h.days()
	for i := range 12 {
		x := retrylog.Exchange{Count: 1, RequestID: fmt.Sprintf("01jdk%07dq", i*7919), End: now.Add(-time.Duration(i*i*17+3) * time.Second), Service: "order", Route: []string{"order-create", "order-get"}[i%2],
			Method: "POST", Caller: []string{"web", "app", "partner"}[i%3], Status: []int{502, 504, 503}[i%3], Outcome: []retrylog.Outcome{retrylog.UpstreamFailure, retrylog.Timeout, retrylog.LocalRefusal}[i%3],
			LatencyUS: int64(180_000 + i*220_000), Tries: make([]retrylog.Try, 1+i%2)}
		switch i % 3 {
		case 0:
			x.Tries[len(x.Tries)-1].Kind = "reset_before_first_byte"
		case 1:
			x.Timeout = "total"
		default:
			x.Refusal = "breaker:open"
		}
		if i%4 == 1 {
			x.Experiment = "r-1287"
		}
		h.recent = append(h.recent, x)
	}
	return h
}

func past(now time.Time, id, title, service string, minutes int, verdict injector.Verdict, why string) injector.Run {
	at := now.Add(time.Duration(minutes) * time.Minute)
	return injector.Run{ID: id, Scenario: id, Title: title, Service: service, GameDay: "weekly-small-drill", State: injector.Completed, Verdict: verdict, Why: why, Actor: "schedule",
		PlannedAt: at, StartedAt: at, BaselineAt: at, InjectAt: at.Add(5 * time.Minute), RecoverAt: at.Add(15 * time.Minute), EndedAt: at.Add(20 * time.Minute),
		BaselineFor: 5 * time.Minute, InjectFor: 10 * time.Minute, RecoverFor: 5 * time.Minute, Attempts: 4_000, Injected: 1_013, ExpectedPPM: 250_000, Good: 9_000, Bad: 41, BudgetSpentPPM: 800,
		Receipts: []injector.Receipt{{Gateway: "gw-1", Fault: id + "/error", ArmedAt: at, RemovedAt: at.Add(15 * time.Minute)}, {Gateway: "gw-2", Fault: id + "/error", ArmedAt: at, RemovedAt: at.Add(15 * time.Minute), ByLease: true}}}
}

// halted is the shop after Stop all, seen by an operator.
func halted(now time.Time) *house {
	h := shop(now)
	h.halt, h.mayLift = injector.Halt{At: now.Add(-12 * time.Minute), Actor: "anna"}, true
	h.list[0].State, h.list[0].Reason = injector.Aborting, "halt"
	return h
}

// many is a house of n services.
func many(now time.Time, n int) *house {
	h := shop(now)
	levels := []slo.Level{slo.Normal, slo.Normal, slo.Normal, slo.Warn, slo.Normal, slo.Emergency, slo.Normal, slo.Frozen}
	h.statuses = nil
	for i := range n {
		level := levels[i%len(levels)]
		bad := map[slo.Level]int64{slo.Normal: 60, slo.Warn: 250, slo.Emergency: 430, slo.Frozen: 700}[level]
		h.statuses = append(h.statuses, status(now, fmt.Sprintf("service-%03d", i), 1_000_000, bad+int64(i%17), level, bad/200))
	}
	return h
}

// hostile has markup in every text that is stored and not ours.
func hostile(now time.Time) *house {
	h := shop(now)
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	h.statuses[0].Objective.Service, h.statuses[0].Objective.Owner, h.statuses[0].Reason, h.statuses[0].Objective.Text = evil, evil, evil, evil
	r := &h.list[0]
	r.Title, r.Scenario, r.GameDay, r.Actor, r.Why, r.Reason, r.Text, r.Service = evil, evil, evil, evil, evil, evil, evil, evil
	r.Receipts[0].Gateway, r.Assertions[0].Text, r.Assertions[0].Seen = evil, evil, evil
	h.events[0].Text, h.events[0].Actor = evil, evil
	h.halt = injector.Halt{At: now.Add(-50 * time.Hour), Actor: evil}
	h.schedules[0].Title, h.schedules[0].Cron, h.schedules[0].Zone = evil, evil, evil
	h.evil = evil
	h.recent[0].Route, h.recent[0].Caller, h.recent[0].RequestID, h.recent[0].Experiment = evil, evil, evil, evil
	return h
}

func empty(now time.Time) *house { return &house{now: now, points: []slo.Point{}} }

// lost is the shop with the database out of reach.
func lost(now time.Time) *house {
	h := shop(now)
	h.away, h.broken = now.Add(-3*time.Minute), errAway
	h.list, h.schedules, h.events, h.recent = nil, nil, nil, nil
	return h
}
