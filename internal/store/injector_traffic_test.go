package store_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

// minute puts counts of one minute into the ledger.
func (d *drill) minute(service, route, run string, at time.Time, good, bad, degraded int64) {
	d.t.Helper()
	_, err := d.db.Exec(d.t.Context(), `
insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad, degraded, exchanges, attempts)
values (@service, 'test', @route, @service, @run, @at, @good, @bad, @degraded, @good::bigint + @bad::bigint, @good::bigint + @bad::bigint)`, pgx.StrictNamedArgs{
		"service": service, "route": route, "run": run, "at": at, "good": good, "bad": bad, "degraded": degraded})
	d.must(err)
}

func TestCohortsAreWholeMinutesThatNoFaultTouched(t *testing.T) {
	d := newDrill(t)
	for i := range 4 {
		at := d.at.Add(time.Duration(i) * time.Minute)
		d.minute("points", "deduct", "", at, 100, 1, 10)
		d.minute("points", "deduct", "r-1", at, 0, 50, 0)
		d.minute("points", "read", "", at, 1000, 2, 0)
		d.minute("order", "create", "", at, 7, 7, 7)
	}
	tests := []struct {
		name             string
		routes           []string
		since, until     time.Duration
		control, without injector.Part
	}{
		{"one route", []string{"deduct"}, 0, 4 * time.Minute, injector.Part{Good: 400, Bad: 4, Degraded: 40}, injector.Part{Good: 4000, Bad: 8}},
		{"all of the service", nil, 0, 4 * time.Minute, injector.Part{Good: 4400, Bad: 12, Degraded: 40}, injector.Part{}},
		{"minutes over an edge belong to neither phase", []string{"deduct"}, 30 * time.Second, 3*time.Minute + 30*time.Second, injector.Part{Good: 200, Bad: 2, Degraded: 20}, injector.Part{Good: 2000, Bad: 4}},
		{"no whole minute", []string{"deduct"}, 10 * time.Second, 50 * time.Second, injector.Part{}, injector.Part{}},
	}
	for _, tt := range tests {
		control, without, err := d.Parts(t.Context(), "points", tt.routes, d.at.Add(tt.since), d.at.Add(tt.until))
		if d.must(err); control != tt.control || without != tt.without {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", tt.name, control, without, tt.control, tt.without)
		}
	}
}

func TestTrafficIsWhatCameIn(t *testing.T) {
	d := newDrill(t)
	at := d.at.Add(-5 * time.Minute)
	d.minute("points", "deduct", "", at, 90, 10, 0)
	d.minute("points", "read", "", at, 900, 0, 0)
	user := func(dimension, value string, n int64) {
		_, err := d.db.Exec(t.Context(), `
insert into facet_minute (service, env, dimension, value, at, good, total) values ('points', 'test', @dimension, @value, @at, @n, @n)`,
			pgx.StrictNamedArgs{"dimension": dimension, "value": value, "at": at, "n": n})
		d.must(err)
	}
	user("caller", "web", 600)
	user("caller", "app", 400)
	got, err := d.Traffic(t.Context(), "points", []string{"deduct"}, d.at.Add(-10*time.Minute), d.at)
	d.must(err)
	if got.Requests != 1000 || got.Matched != 100 || got.Span != 10*time.Minute || !slices.Equal(got.Users, []int64{400, 600}) {
		t.Errorf("%+v", got)
	}
	user("tenant", "a", 700)
	user("tenant", "b", 200)
	user("tenant", "other", 100) // many, and nobody knows how many
	if got, err = d.Traffic(t.Context(), "points", nil, d.at.Add(-10*time.Minute), d.at); err != nil || !slices.Equal(got.Users, []int64{700, 200}) || got.Matched != 1000 {
		t.Errorf("%+v, %v: want tenants rather than callers", got, err)
	}
	for routes, want := range map[string]int64{"deduct": 100, "read": 900, "write": 0} {
		if n, err := d.Matched(t.Context(), "points", []string{routes}, d.at.Add(-7*24*time.Hour)); err != nil || n != want {
			t.Errorf("%s matched %d in a week, %v, want %d", routes, n, err, want)
		}
	}
	// What is older is in hours, and what is older than that is not asked for.
	for days, n := range map[int]int64{3: 50, 9: 70} {
		_, err := d.db.Exec(t.Context(), `
insert into rollup_hour (service, env, route, upstream, experiment, at, good) values ('points', 'test', 'write', 'points', '', @at, @n)`,
			pgx.StrictNamedArgs{"at": d.at.Add(-time.Duration(days) * 24 * time.Hour), "n": n})
		d.must(err)
	}
	if n, err := d.Matched(t.Context(), "points", []string{"write"}, d.at.Add(-7*24*time.Hour)); err != nil || n != 50 {
		t.Errorf("write matched %d in a week, %v, want 50", n, err)
	}
}

func TestTenantsHitAreCountedOnce(t *testing.T) {
	d := newDrill(t)
	for i, tenant := range []string{"a", "b", "a", "c"} {
		run := "r-1"
		if tenant == "c" {
			run = "r-2"
		}
		_, err := d.db.Exec(t.Context(), `
insert into event (service, env, at, kind, gateway, experiment, request_id, body)
values ('points', 'test', @at, 'exchange', 'gw', @run, @id, jsonb_build_object('exchange', jsonb_build_object('tenant', @tenant::text)))`,
			pgx.StrictNamedArgs{"at": d.at, "run": run, "id": fmt.Sprint(i), "tenant": tenant})
		d.must(err)
	}
	if n, err := d.HitTenants(t.Context(), "r-1"); err != nil || n != 2 {
		t.Errorf("%d tenants, %v, want 2", n, err)
	}
}

func TestPreviewStartsNothing(t *testing.T) {
	d := newDrill(t)
	d.minute("points", "deduct", "", d.at.Add(-5*time.Minute), 12_000, 0, 0)
	e := injector.New(injector.Config{Ledger: d, Env: "prod", Log: quiet(), Budgets: fixed{injector.Budget{Known: true, TargetPPB: 999_000_000, Allowed: 1000, RemainingPPM: 900_000}}})
	document := strings.Replace(slowPoints, "latency: {dist: fixed, value: 5s}", "error: {status: 503}", 1)
	var out struct {
		Refused  bool `json:"refused"`
		Warnings []struct {
			Code   string `json:"code"`
			Refuse bool   `json:"refuse"`
		} `json:"warnings"`
		Requests int64  `json:"requests"`
		Failures *int64 `json:"failures"`
		Budget   *int64 `json:"budget_ppm"`
		Users    *int64 `json:"users"`
	}
	decode(t, ask(mux(e), "POST", "/api/v1/experiments/preview", "application/yaml", document), &out)
	// 20 requests a second for 15 s, of which 30 % fail: 90, of 1000 that are allowed.
	if out.Requests != 300 || out.Failures == nil || *out.Failures != 90 || *out.Budget != 90_000 || out.Users != nil || !out.Refused {
		t.Errorf("%+v", out)
	}
	if !slices.ContainsFunc(out.Warnings, func(w struct {
		Code   string `json:"code"`
		Refuse bool   `json:"refuse"`
	}) bool {
		return w.Code == scenario.Cost && w.Refuse
	}) {
		t.Errorf("%+v, want the cost refused", out.Warnings)
	}
	if _, _, err := e.Desk().Start(t.Context(), "", document, "anna"); err == nil || !strings.Contains(err.Error(), "cost:") {
		t.Errorf("started: %v", err)
	}
	if runs, err := d.Runs(t.Context(), 10); err != nil || len(runs) != 0 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	for body, status := range map[string]int{"": http.StatusBadRequest, "kind: Scenario": http.StatusBadRequest} {
		if rec := ask(mux(e), "POST", "/api/v1/experiments/preview", "application/yaml", body); rec.Code != status {
			t.Errorf("%q: %d %s", body, rec.Code, rec.Body)
		}
	}
	if rec := ask(mux(e), "POST", "/api/v1/experiments/preview", "application/json", `{"scenario":"nobody"}`); rec.Code != http.StatusNotFound {
		t.Errorf("an unknown one: %d", rec.Code)
	}
}

// fixed is one budget for every service.
type fixed struct{ b injector.Budget }

func (f fixed) Budget(string) injector.Budget { return f.b }

// A route may be named by what it takes, where somebody knows the documents.
func TestCallsAreMadeRoutes(t *testing.T) {
	d := newDrill(t)
	document := strings.Replace(slowPoints, "target: {service: points}", `target: {service: points, routes: ["POST /v1/points/deduct"]}`, 1)
	if _, _, err := d.engine(nil).Desk().Start(t.Context(), "", document, "anna"); err == nil || !strings.Contains(err.Error(), "is taken by no route of points") {
		t.Errorf("without documents it gave %v", err)
	}
	e := injector.New(injector.Config{Ledger: d, Log: quiet(), Route: routeOf})
	g := newGateway("gw")
	d.poll(e, g)
	id := d.start(e, document).ID
	d.until(e, id, injector.Injecting, g)
	d.poll(e, g)
	if target := g.plan.Faults[0].Fault.Target; !slices.Equal(target.Routes, []string{"points-deduct"}) || !slices.Equal(target.Methods, []string{"POST"}) {
		t.Errorf("the rule aims at %+v", target)
	}
}

func routeOf(_ context.Context, service string, c scenario.Call) (string, bool) {
	return "points-deduct", service == "points" && c == scenario.Call{Method: "POST", Path: "/v1/points/deduct"}
}

// Clocks that are apart would mix what was before with what came after.
func TestSkewedClocksKeepARunFromStarting(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	apart := func() {
		t.Helper()
		r := g.receipt()
		r.NowMS = d.at.Add(-2100 * time.Millisecond).UnixMilli()
		d.must(d.SaveReceipt(t.Context(), d.at, r))
	}
	apart()
	id := d.start(e, slowPoints).ID
	d.tick(e)
	// One word may have waited for a control to come up: the next one tells.
	if r := d.run(id); r.State != injector.Scheduled {
		t.Errorf("%s (%s) at the first word, want still scheduled", r.State, r.Reason)
	}
	d.poll(e, g)
	d.tick(e)
	if r := d.run(id); r.State != injector.Arming {
		t.Errorf("%s (%s) with clocks that agree, want arming", r.State, r.Reason)
	}
	if rec := ask(mux(e), "POST", "/api/v1/experiments/"+id+"/abort", "", ""); rec.Code != 200 {
		t.Fatalf("abort: %d %s", rec.Code, rec.Body)
	}
	d.until(e, id, injector.Aborted, g)

	apart()
	late := d.start(e, slowPoints).ID
	d.tick(e)
	d.pass(31 * time.Second)
	apart()
	// Controls that come and go see one late word each, and none may take it for a clock.
	for range 3 {
		d.tick(d.engine(nil))
		d.pass(16 * time.Second) // its claim runs out
		apart()
	}
	if r := d.run(late); r.State != injector.Scheduled {
		t.Errorf("%s (%s) after the word of controls that are gone, want still scheduled", r.State, r.Reason)
	}
	for range 40 {
		d.pass(time.Second)
		apart()
		d.tick(e)
	}
	if r := d.run(late); r.State != injector.Skipped || r.Reason != string(injector.BySkew) {
		t.Errorf("%s (%s), want skipped for the clock", r.State, r.Reason)
	}
}

func TestAnotherRunOnWhatIsWatchedIsTold(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID // watches order
	d.until(e, id, injector.Baseline, g)
	for target, shared := range map[string]string{"order": "order", "coupon": ""} {
		document := strings.Replace(slowPoints, "service: points}", "service: "+target+"}", 1)
		document = strings.ReplaceAll(strings.ReplaceAll(document, "order.", target+"."), "amplification: points", "amplification: "+target)
		p, err := e.Desk().Preview(t.Context(), "", document)
		d.must(err)
		if got := p.Facts.Overlaps; len(got) != 0 && shared == "" || shared != "" && (len(got) != 1 || got[0] != scenario.Overlap{Run: id, Service: shared}) {
			t.Errorf("a drill on %s overlaps %+v, want %q", target, got, shared)
		}
	}
}
