package injector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/policy/timeout"
	"breakwater/injector/scenario"
	"breakwater/internal/retrylog"
)

// replay is a shop of two services under the real policies, and the ledger that
// its gateway would have filled.
type replay struct {
	Ledger
	mu     sync.Mutex
	counts map[string]map[time.Time]*Point // by service or run, by the end of a poll
	turns  []Transition
	now    time.Time
}

func (r *replay) count(name string, at time.Time, p Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := at.Truncate(5 * time.Second).Add(5 * time.Second)
	if r.counts[name] == nil {
		r.counts[name] = map[time.Time]*Point{}
	}
	sum := r.counts[name][end]
	if sum == nil {
		sum = &Point{At: end}
		r.counts[name][end] = sum
	}
	sum.Good, sum.Bad, sum.Attempts = sum.Good+p.Good, sum.Bad+p.Bad, sum.Attempts+p.Attempts
	sum.Injected, sum.Degraded = sum.Injected+p.Injected, sum.Degraded+p.Degraded
}

func (r *replay) Tallies(_ context.Context, service, run string, since, until time.Time) ([]Point, error) {
	if run != "" {
		service = run
	}
	var out []Point
	for at := since.Truncate(5 * time.Second); !at.After(until); at = at.Add(5 * time.Second) {
		if p := r.counts[service][at]; p != nil && at.After(since) {
			out = append(out, *p)
		}
	}
	return out, nil
}

func (r *replay) BreakerTurns(context.Context, string, time.Time, time.Time) ([]Transition, error) {
	return r.turns, nil
}

func (r *replay) Gateways(context.Context) ([]Gateway, error) { return nil, nil }
func (r *replay) Heard(context.Context) (map[string]time.Time, error) {
	return map[string]time.Time{"gw": r.now}, nil
}
func (r *replay) Parts(context.Context, string, []string, time.Time, time.Time) (a, b Part, err error) {
	return a, b, nil
}

// settings are those of the route and service points.
type settings struct {
	breaker  breaker.Config
	gate     retry.ErrorGate
	fallback fallback.Config
}

// replayed drives the golden drill against points at 20 requests a second, one of
// three orders among them each, and returns what it proved.
func replayed(t *testing.T, sc scenario.Scenario, with settings) (verdict Verdict, why string, all []Assertion, o Observations) {
	t.Helper()
	const rate = 20
	r := &replay{counts: map[string]map[time.Time]*Point{}}
	run := Run{ID: "r-golden", Service: "points", State: Injecting, ExpectedPPM: sc.Sample.PPM}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		run.StartedAt, run.BaselineAt = start, start
		run.InjectAt = start.Add(sc.Phases.Baseline)
		run.RecoverAt = run.InjectAt.Add(sc.Phases.Inject)
		table := fault.NewTable(fault.Caps{})
		b := breaker.New(with.breaker, breaker.Deps{Changed: func(x retrylog.Transition) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.turns = append(r.turns, Transition{At: x.At, Gateway: "gw", From: x.From, To: x.To, Reason: x.Reason})
		}}, start)
		upstream := exchange.Func(func(x *exchange.Exchange) error {
			if err := x.Wait(20*time.Millisecond, nil); err != nil {
				return err
			}
			x.Response.Status = 200
			return nil
		})
		pick := func(next exchange.Service) exchange.Service {
			return exchange.Func(func(x *exchange.Exchange) error {
				x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: "a:1"})
				return next.Serve(x)
			})
		}
		policy := retry.Config{Enabled: true, MaxRetries: 1, PerTry: 2 * time.Second, OnStatus: []int{502, 503, 504}, BackoffBase: time.Millisecond,
			Fallback: retry.PassThrough, Gate: with.gate}
		svc := exchange.Chain(upstream, fallback.Layer(with.fallback, nil), breaker.Layer(b),
			retry.Layer(policy, retry.Deps{Endpoints: 1, Rates: retry.NewRates()}), pick, timeout.PerTry(policy.PerTry),
			fault.Layer(table, fault.Site{Service: "points", Route: "points-deduct"}))
		var under sync.WaitGroup
		serve := func(n int) {
			x := new(exchange.Exchange)
			x.Reset()
			x.Request.Method, x.Request.Path, x.Event.RequestID = "GET", "/", fmt.Sprintf("req-%d", n)
			x.Request.Body.Set(nil, 0)
			err := svc.Serve(x)
			status := x.Response.Status
			if err != nil {
				status = 502
				if refusal, ok := errors.AsType[*exchange.Refusal](err); ok {
					status = refusal.Status
				}
			}
			x.End(exchange.Classify(err, status))
			p := Point{Good: 1, Attempts: int64(len(x.Event.Tries))}
			if status >= 500 {
				p.Good, p.Bad = 0, 1
			}
			if x.Event.Degraded != "" {
				p.Degraded = 1
			}
			r.count("points", time.Now(), p)
			// One order in three asks points, and is lost where points gives nothing.
			r.count("order", time.Now(), Point{Good: 2 + p.Good, Bad: p.Bad, Attempts: 3})
			if x.Event.Experiment != "" {
				r.count(run.ID, time.Now(), Point{Good: p.Good, Bad: p.Bad})
			}
		}
		var leases []plan.Leased
		end := run.RecoverAt.Add(6 * time.Minute)
		var last fault.Tally
		for n := 0; time.Now().Before(end); n++ {
			now := time.Now()
			switch at := now.Sub(start); {
			case leases == nil && at >= sc.Phases.Baseline && now.Before(run.RecoverAt):
				leases = Faults(run, sc)
				for _, l := range leases {
					if _, refused := table.Replace(now, []fault.Lease{{Fault: l.Fault, Hash: l.Hash, Until: run.RecoverAt}}); len(refused) > 0 {
						t.Fatal(refused)
					}
					run.Receipts = append(run.Receipts, Receipt{Gateway: "gw", Fault: l.Fault.ID, Hash: l.Hash, ArmedAt: now, RemovedAt: run.RecoverAt, PPM: l.Fault.PPM})
				}
			}
			under.Go(func() { serve(n) })
			time.Sleep(time.Second / rate)
			if tallies := table.Tallies(); len(tallies) > 0 {
				r.count(run.ID, now, Point{Attempts: tallies[0].Attempts - last.Attempts, Injected: tallies[0].Injected - last.Injected})
				last = tallies[0]
			}
		}
		under.Wait()
		r.now = time.Now()
	})
	run.State = Recovering
	d := drive{Engine: New(Config{Ledger: r}), run: run, sc: sc, now: r.now}
	o, err := d.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	verdict, why, all = Judge(run, sc, o)
	return verdict, why, all, o
}

func golden(t *testing.T) scenario.Scenario {
	t.Helper()
	text, err := os.ReadFile("../scenarios/seed-golden-points-3s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sc, err := ParseText(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func result(all []Assertion, id string) Assertion {
	for _, a := range all {
		if a.ID == id {
			return a
		}
	}
	return Assertion{}
}

// The settings of the outage: 80 failures in a row and more than a quarter of 30 s,
// one retry after a timeout, nothing that stops retries and nothing to fall back on.
func oldSettings() settings {
	b := breaker.Default()
	b.Rule, b.Mode, b.Consecutive, b.Window, b.ErrorPPM, b.Above = breaker.Dual, breaker.And, 80, 30*time.Second, 250_000, true
	return settings{breaker: b, fallback: fallback.Config{Action: fallback.PassThrough}}
}

func newSettings() settings {
	b := breaker.Default()
	b.Windows = 1
	return settings{breaker: b, gate: retry.ErrorGate{MaxPPM: 50_000, MinCount: 20},
		fallback: fallback.Config{Action: fallback.ReturnDefault, OnOpen: true, OnFailure: true, Default: fallback.Answer{Status: 200, Body: `{"points":0}`}}}
}

func TestChaos_B3_goldenReplayFails(t *testing.T) {
	verdict, why, all, o := replayed(t, golden(t), oldSettings())
	if verdict != Failed || !strings.HasPrefix(why, "d1: expected opened within 35 s, saw it did not") {
		t.Fatalf("%s: %s, want failed since the breaker never opened", verdict, why)
	}
	within := func(id string, low, high float64, got float64) {
		if got < low || got > high {
			t.Errorf("%s: %g, want %g to %g (%s)", id, got, low, high, result(all, id).Seen)
		}
	}
	orders, points := o.Seen["d2"], o.Seen["d3"]
	within("d2", 0.11, 0.13, float64(orders.Bad)/float64(orders.Good+orders.Bad))
	within("d2", 0.34, 0.38, float64(points.Bad)/float64(points.Good+points.Bad))
	within("d3", 1.57, 1.63, float64(points.Attempts)/float64(points.Good+points.Bad))
	for _, id := range []string{"d1", "d2", "d3"} {
		if result(all, id).Result != Fail {
			t.Errorf("%s is %+v, want it to fail", id, result(all, id))
		}
	}
	if a := result(all, "a1"); a.Result == Pass {
		t.Errorf("a breaker that never opened closed: %+v", a)
	}
}

func TestChaos_B3_goldenReplayPasses(t *testing.T) {
	verdict, why, all, o := replayed(t, golden(t), newSettings())
	if verdict != Passed {
		for _, a := range all {
			t.Logf("%+v", a)
		}
		t.Fatalf("%s: %s, want passed", verdict, why)
	}
	if a := result(all, "d4"); a.N < 1000 || o.Seen["d4"].Part == 0 {
		t.Errorf("degraded answers: %+v, want them over most of the injection", a)
	}
	if a := result(all, "d1"); len(a.Rows) == 0 || a.Rows[0].At.IsZero() {
		t.Errorf("no evidence of the opening: %+v", a)
	}
}

// Both come as preflight says.
func TestChaos_B3_goldenReplayIsPredicted(t *testing.T) {
	sc := golden(t)
	seen := func(requests, matched int64) scenario.Traffic {
		return scenario.Traffic{Span: 10 * time.Minute, Requests: requests, Matched: matched}
	}
	old := scenario.Facts{
		PerTry: 2 * time.Second, Retries: 1, TargetPPB: map[string]int64{"order": 999_500_000},
		Routes:  []scenario.Route{{Name: "points-deduct"}},
		Traffic: map[string]scenario.Traffic{"points": seen(12_000, 12_000), "order": seen(36_000, 36_000)},
		Breaker: &scenario.BreakerRule{Row: 80, And: true, ErrorPPM: 250_000, Above: true, Window: 30 * time.Second, MinRequests: 20, OpenFor: 10 * time.Second},
		Budgets: map[string]scenario.Budget{"points": {Allowed: 50_000, RemainingPPM: 900_000}},
	}
	f := sc.Forecast(old)
	if f.Requests != 12_000 || f.FinalPPM != 360_000 || f.AmplificationMilli != 1600 || f.Failures != 4320 || f.BudgetPPM != 86_400 {
		t.Errorf("forecast %+v", f)
	}
	if f.RowChance < 2e-32 || f.RowChance > 3e-32 {
		t.Errorf("80 in a row have a chance of %.3g, want about 2.4e-32", f.RowChance)
	}
	codes := func(all []scenario.Warning) map[string]string {
		out := map[string]string{}
		for _, w := range all {
			out[w.Code] += w.Text + "; "
		}
		return out
	}
	got := codes(sc.Preflight(old))
	for code, want := range map[string]string{
		scenario.CannotTrip: "80 failures in a row among 12000 requests, of which 36 % fail",
		scenario.WillFail:   "about 12 % of order fail",
		scenario.NoFallback: "points-deduct",
		scenario.Cost:       "about 4320 requests of points will fail, 8.64 % of its budget",
	} {
		if !strings.Contains(got[code], want) {
			t.Errorf("%s says %q, want %q", code, got[code], want)
		}
	}
	if !strings.Contains(got[scenario.WillFail], "about 1.6 tries") {
		t.Errorf("the storm is not told: %q", got[scenario.WillFail])
	}
	now := old
	now.GatePPM = 50_000
	now.Routes = []scenario.Route{{Name: "points-deduct", Fallback: true}}
	now.Breaker = &scenario.BreakerRule{ErrorPPM: 300_000, Window: 10 * time.Second, Windows: 1, MinRequests: 20, OpenFor: 10 * time.Second}
	for code, text := range codes(sc.Preflight(now)) {
		if code != "weak" { // 3 s of 2 s, as it was
			t.Errorf("with the new settings: %s: %s", code, text)
		}
	}
}
