package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/gateway/plan"
	"breakwater/injector"
	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
)

// The ledger of the engine is this package's Store.
var _ injector.Ledger = (*store.Store)(nil)

// drill is a world of one database, a clock that tests move, engines and a
// gateway that does what it is told.
type drill struct {
	*store.Store
	t  testing.TB
	db *pgxpool.Pool
	mu sync.Mutex
	at time.Time
}

func newDrill(t testing.TB) *drill {
	t.Helper()
	db := pgtest.Pool(t)
	return &drill{Store: store.New(db), t: t, db: db, at: time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// keep puts a record into the ledger as ingest would.
func (d *drill) keep(service, kind, run, request string, at time.Time, r retrylog.Record) {
	d.t.Helper()
	_, err := d.db.Exec(d.t.Context(), `
insert into event (service, env, at, kind, gateway, experiment, request_id, body)
values (@service, 'test', @at, @kind, 'gw', @run, @request, @body::jsonb)`, pgx.StrictNamedArgs{
		"service": service, "at": at, "kind": kind, "run": run, "request": request, "body": string(retrylog.AppendRecord(nil, &r))})
	d.must(err)
}

// turn is a change of a breaker, as a gateway reports it.
func (d *drill) turn(service, gateway, endpoint string, at time.Time, from, to string) {
	d.t.Helper()
	d.keep(service, "transition", "", "", at, retrylog.Record{Transition: &retrylog.Transition{
		At: at, Gateway: gateway, Env: "test", Policy: "breaker", Service: service, Endpoint: endpoint, From: from, To: to, Reason: "test"}})
}

// touched is a request that a run's fault hit.
func (d *drill) touched(run, request, fault string) {
	d.t.Helper()
	d.keep("points", "exchange", run, request, d.at, retrylog.Record{Exchange: &retrylog.Exchange{
		Count: 1, RequestID: request, Start: d.at, End: d.at, Gateway: "gw", Env: "test", Service: "points", Route: "deduct", Status: 503,
		Outcome: retrylog.UpstreamFailure, Origin: "upstream", Experiment: run, Tries: []retrylog.Try{{Endpoint: "a:1", Status: 503, Fault: fault}}}})
}

// heard says how far a gateway's events reach.
func (d *drill) heard(gateway string, at time.Time) {
	d.t.Helper()
	_, err := d.db.Exec(d.t.Context(), `
insert into gateway (env, gateway, boot, seq, until_at, stopped, last_ack) values ('test', @gateway, 'b', 1, @at, false, @at)
on conflict (env, gateway) do update set until_at = excluded.until_at`, pgx.StrictNamedArgs{"gateway": gateway, "at": at})
	d.must(err)
}

// Now is the clock of the world; it stands in for the database's.
func (d *drill) Now(context.Context) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, nil
}

func (d *drill) pass(by time.Duration) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = d.at.Add(by)
	return d.at
}

func (d *drill) engine(budgets injector.Budgets) *injector.Engine {
	return injector.New(injector.Config{Ledger: d, Budgets: budgets, Log: slog.New(slog.DiscardHandler),
		Actor: func(context.Context) string { return "anna" }})
}

func (d *drill) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *drill) tick(e *injector.Engine) {
	d.t.Helper()
	now, _ := d.Now(d.t.Context())
	d.must(e.Tick(d.t.Context(), now))
}

func (d *drill) run(id string) injector.Run {
	d.t.Helper()
	r, err := d.Run(d.t.Context(), id)
	d.must(err)
	return r
}

// gateway is one that polls, arms what the plan names and counts traffic.
type gateway struct {
	name, boot      string
	plan            plan.Plan
	tallies         map[string]*plan.Tally
	refuse          string
	halted          bool
	config          string
	degrades        bool  // all that points answers comes from a fallback
	perPoll, badPer int64 // requests of each service a poll, and how many of them fail while injected
	bears           int64 // milliseconds of latency that fail nobody
}

func newGateway(name string) *gateway {
	return &gateway{name: name, boot: name + "-1", perPoll: 50, tallies: map[string]*plan.Tally{}}
}

func (g *gateway) tally(run, service string) *plan.Tally {
	t, ok := g.tallies[run+"/"+service]
	if !ok {
		t = &plan.Tally{Run: run, Service: service}
		g.tallies[run+"/"+service] = t
	}
	return t
}

// serve makes a second of traffic under the plan in force.
func (g *gateway) serve() {
	services := []string{"points", "order"}
	for _, s := range services {
		t := g.tally("", s)
		t.Good += g.perPoll
		if g.degrades && s == "points" {
			t.Degraded += g.perPoll
		}
	}
	for _, f := range g.plan.Faults {
		if !slices.Contains(services, f.Fault.Target.Service) {
			continue
		}
		t := g.tally(f.Fault.Run, f.Fault.Target.Service)
		t.Attempts += g.perPoll
		t.Injected += g.perPoll * f.Fault.PPM / 1_000_000
		if f.Fault.PPM > 0 && f.Fault.LatencyMS > g.bears {
			g.tally("", "order").Bad += g.badPer
			g.tally("", "order").Good -= g.badPer
		}
	}
}

func (g *gateway) receipt() plan.Receipt {
	r := plan.Receipt{Gateway: g.name, Boot: g.boot, Epoch: g.plan.Epoch, Revision: g.plan.Revision, Halted: g.halted, ConfigHash: g.config}
	for _, f := range g.plan.Faults {
		a := plan.Armed{Run: f.Fault.Run, Fault: f.Fault.ID, Hash: f.Hash, PPM: f.Fault.PPM, Reason: g.refuse}
		if g.refuse != "" {
			r.Refused = append(r.Refused, a)
		} else if !g.halted {
			r.Armed = append(r.Armed, a)
		}
	}
	for _, t := range g.tallies {
		r.Tallies = append(r.Tallies, *t)
	}
	return r
}

// poll asks e for the plan, twice where it changed, as a real gateway does.
func (d *drill) poll(e *injector.Engine, g *gateway) {
	d.t.Helper()
	for range 2 {
		before := g.plan
		text, err := json.Marshal(g.receipt())
		d.must(err)
		req := httptest.NewRequest(http.MethodGet, pathOf(g.plan), nil)
		req.Header.Set(plan.ReceiptHeader, string(text))
		rec := httptest.NewRecorder()
		e.PlanHandler().ServeHTTP(rec, req)
		if rec.Code != http.StatusOK {
			d.t.Fatalf("plan: %d %s", rec.Code, rec.Body)
		}
		var next plan.Plan
		d.must(json.Unmarshal(rec.Body.Bytes(), &next))
		if next.Epoch < before.Epoch || next.Revision < before.Revision {
			d.t.Fatalf("plan went back from %d/%d to %d/%d", before.Epoch, before.Revision, next.Epoch, next.Revision)
		}
		g.plan = next
		if next.Revision == before.Revision {
			return
		}
	}
}

// until drives the world a second at a time until run is in state.
func (d *drill) until(e *injector.Engine, run string, state injector.State, gs ...*gateway) injector.Run {
	d.t.Helper()
	for range 600 {
		if r := d.run(run); r.State == state {
			return r
		}
		d.pass(time.Second)
		for _, g := range gs {
			g.serve()
			d.poll(e, g)
		}
		d.tick(e)
		for _, g := range gs {
			d.poll(e, g)
		}
	}
	r := d.run(run)
	d.t.Fatalf("run %s never came to %s: is %s, %s %s", run, state, r.State, r.Reason, r.Why)
	return r
}

const slowPoints = `apiVersion: breakwater/v1
kind: Scenario
id: slow-points
target: {service: points}
sample: {percent: "30%"}
phases: {baseline: 5s, inject: 15s, recover: 5s}
faults: [{id: lat, latency: {dist: fixed, value: 5s}}]
hypothesis:
  steady: [{id: s1, sli: order.success, op: ">=", value: "99%"}]
  during:
    - {id: d1, sli: order.error_rate, op: "<=", value: "3%"}
    - {id: d2, amplification: points, op: "<=", value: 1.2}
  after: [{id: a1, sli: order.success, op: ">=", value: "99%", window: 5s, within: 20s}]
stop: [{sli: order.error_rate, op: ">", value: "20%", for: 5s}]
`

func (d *drill) start(e *injector.Engine, document string) injector.Run {
	d.t.Helper()
	r, _, err := e.Desk().Start(d.t.Context(), "", document, "anna")
	d.must(err)
	return r
}

func states(events []injector.Event) []string {
	var out []string
	for _, e := range events {
		if e.Kind == "state" {
			word, _, _ := strings.Cut(e.Text, ":")
			out = append(out, word)
		}
	}
	return out
}

func TestRunPasses(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	r := d.start(e, slowPoints)
	done := d.until(e, r.ID, injector.Completed, g)
	if done.Verdict != injector.Passed {
		t.Fatalf("verdict %s: %s, %+v", done.Verdict, done.Why, done.Assertions)
	}
	events, err := d.Events(t.Context(), r.ID)
	d.must(err)
	want := []string{"scheduled", "arming", "baseline", "injecting", "recovering", "completed"}
	if got := states(events); !slices.Equal(got, want) {
		t.Errorf("went %v, want %v", got, want)
	}
	if len(done.Receipts) != 1 || done.Receipts[0].RemovedAt.IsZero() || done.Receipts[0].ByLease || done.Receipts[0].PPM != 300_000 {
		t.Errorf("receipts %+v, want one, armed at 30 %% and given back by word", done.Receipts)
	}
	// 50 tries a second over 15 s, less the second in which the polls cross.
	if done.Attempts < 650 || done.Attempts > 800 || done.Injected*10 != done.Attempts*3 {
		t.Errorf("hit %d of %d tries, want 30 %% of about 750", done.Injected, done.Attempts)
	}
	points, err := e.Desk().Course(t.Context(), done)
	d.must(err)
	var injected int64
	for _, s := range points {
		for _, p := range s.Points {
			injected += p.Injected
		}
	}
	if injected < done.Injected {
		t.Errorf("the course shows %d hits, the run %d", injected, done.Injected)
	}
}

func TestChaos_C44_refusedRule(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.refuse = "percent above the cap"
	d.poll(e, g)
	r := d.until(e, d.start(e, slowPoints).ID, injector.EngineError, g)
	if r.Verdict != injector.Inconclusive || r.Reason != "refused" {
		t.Errorf("%s %s: %s, want inconclusive, refused", r.Verdict, r.Reason, r.Why)
	}
}

func TestChaos_C29_noEffect(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	// Nobody calls coupon, so the fault meets nothing.
	document := strings.Replace(slowPoints, "target: {service: points}", "target: {service: coupon}", 1)
	r := d.until(e, d.start(e, document).ID, injector.Completed, g)
	if r.Verdict != injector.Inconclusive || r.Injected != 0 || !strings.HasPrefix(r.Why, "no_effect") {
		t.Errorf("%s: %s with %d hits, want inconclusive for no effect", r.Verdict, r.Why, r.Injected)
	}
}

func pathOf(p plan.Plan) string {
	return fmt.Sprintf("/api/v1/plan?epoch=%d&revision=%d", p.Epoch, p.Revision)
}

func decode(t *testing.T, rec *httptest.ResponseRecorder, into any) {
	t.Helper()
	if rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
		return
	}
	if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
		t.Error(err)
	}
}
