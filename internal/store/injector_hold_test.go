package store_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gw "breakwater/gateway/exchange"
	"breakwater/gateway/lease"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/fault"
	"breakwater/injector"
	"breakwater/internal/noisy"
	"breakwater/internal/retrylog"
)

// house is a control and a gateway's fault layer as they are, on real clocks.
type house struct {
	*drill
	e     *injector.Engine
	table *fault.Table
	api   http.Handler
}

func newHouse(t testing.TB) *house {
	t.Helper()
	d := newDrill(t)
	h := &house{drill: d, e: injector.New(injector.Config{Ledger: d.Store, Log: quiet()}), table: fault.NewTable(fault.Caps{})}
	h.api = mux(h.e)
	server := httptest.NewServer(h.e.PlanHandler())
	p := lease.New(lease.Config{URL: server.URL, Table: h.table, Log: quiet(), Receipt: func() plan.Receipt {
		return plan.Receipt{Gateway: "gw", Boot: "b1", NowMS: time.Now().UnixMilli()}
	}})
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = h.e.Run(ctx) })
	work.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() {
		stop()
		server.CloseClientConnections()
		work.Wait()
		server.Close()
	})
	h.await("the gateway is known", 20*time.Second, func() bool {
		all, err := h.Gateways(t.Context())
		return err == nil && len(all) == 1
	})
	return h
}

func (h *house) await(what string, within time.Duration, done func() bool) {
	h.t.Helper()
	for end := time.Now().Add(within); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// holding is a drill that holds every request it hits.
const holding = `apiVersion: breakwater/v1
kind: Scenario
id: holding
target: {service: points}
sample: {percent: "100%"}
phases: {baseline: 1s, inject: 5m, recover: 1s}
faults: [{id: hold, FAULT}]
hypothesis:
  during: [{id: d1, sli: points.success, op: ">=", value: "1%"}]
stop: [{sli: points.error_rate, op: ">", value: "99%", for: 60s}]
`

// U7: an abort is answered at once, lets go of what is held, and may be said twice;
// nobody else waits for it.
func TestUX_U7_abortLetsGo(t *testing.T) {
	for _, kind := range []string{"latency: {dist: fixed, value: 5s}, toothless: allowed", "blackhole: {}"} {
		t.Run(strings.SplitN(kind, ":", 2)[0], func(t *testing.T) {
			noisy.Try(t, func(t testing.TB) { // half a second is nothing on a machine that compiles beside it
				h := newHouse(t)
				id := h.start(h.e, strings.Replace(holding, "FAULT", kind, 1)).ID
				h.await("tries are hit", 30*time.Second, func() bool {
					armed := h.table.Armed(time.Now())
					return len(armed) == 1 && armed[0].PPM == 1_000_000
				})
				svc := gw.Chain(gw.Func(func(x *gw.Exchange) error { x.Response.Status = 200; return nil }),
					fault.Layer(h.table, fault.Site{Service: "points", Route: "deduct"}))
				const held = 200
				var inside atomic.Int64
				var last atomic.Int64 // when the last one came out
				var out sync.WaitGroup
				for n := range held {
					out.Go(func() {
						x := new(gw.Exchange)
						x.Reset()
						x.Request.Method, x.Event.RequestID = "GET", fmt.Sprintf("req-%d", n)
						x.Event.Tries = []retrylog.Try{{Endpoint: "a:1"}}
						inside.Add(1)
						if err := svc.Serve(x); err != nil {
							t.Errorf("request %d: %v", n, err)
						}
						last.Store(max(last.Load(), time.Now().UnixNano()))
					})
				}
				h.await("all are held", 5*time.Second, func() bool { return inside.Load() == held })
				began := time.Now()
				// Whoever asks for the list meanwhile does not wait for the stop.
				asked := make(chan time.Duration, 1)
				go func() {
					ask(h.api, "GET", "/api/v1/experiments", "", "")
					asked <- time.Since(began)
				}()
				rec := ask(h.api, "POST", "/api/v1/experiments/"+id+"/abort", "", "")
				answered := time.Since(began)
				out.Wait()
				released := time.Unix(0, last.Load()).Sub(began)
				if rec.Code != http.StatusOK || answered > 500*time.Millisecond {
					t.Errorf("the abort gave %d after %v: %s", rec.Code, answered, rec.Body)
				}
				if released > time.Second {
					t.Errorf("the last held request came out after %v, want 1 s at most", released)
				}
				if took := <-asked; took > 500*time.Millisecond {
					t.Errorf("another call waited %v", took)
				}
				h.await("the run has ended", 20*time.Second, func() bool { return h.run(id).State == injector.Aborted })
				first := h.run(id)
				rec = ask(h.api, "POST", "/api/v1/experiments/"+id+"/abort", "", "")
				if again := h.run(id); rec.Code != http.StatusOK || again.State != first.State || !again.EndedAt.Equal(first.EndedAt) || first.Verdict != injector.Inconclusive {
					t.Errorf("said twice: %d, %s at %s, then %s at %s", rec.Code, first.State, first.EndedAt, again.State, again.EndedAt)
				}
				if !strings.Contains(rec.Body.String(), `"state":"aborted"`) {
					t.Errorf("the second answer is %s", rec.Body)
				}
			})
		})
	}
}

// U7: in every other state an abort ends the run as well.
func TestUX_U7_abortInEveryState(t *testing.T) {
	for _, tt := range []struct{ in, want injector.State }{
		{injector.Scheduled, injector.Cancelled}, {injector.PendingApproval, injector.Cancelled}, {injector.Arming, injector.Aborted},
		{injector.Baseline, injector.Aborted}, {injector.Injecting, injector.Aborted}, {injector.Recovering, injector.Aborted},
		{injector.Aborting, injector.Aborted}, {injector.Completed, injector.Completed},
	} {
		t.Run(string(tt.in), func(t *testing.T) {
			d := newDrill(t)
			e, g := d.engine(nil), newGateway("gw")
			d.poll(e, g)
			id := ""
			switch tt.in {
			case injector.PendingApproval:
				// What may do something twice waits for a person everywhere.
				id = d.start(e, strings.Replace(slowPoints, "latency: {dist: fixed, value: 5s}", "drop: {phase: after_upstream}", 1)).ID
			case injector.Aborting:
				id = d.start(e, slowPoints).ID
				d.until(e, id, injector.Injecting, g)
				d.must(e.Desk().Abort(t.Context(), id, "anna"))
			default:
				id = d.start(e, slowPoints).ID
				d.until(e, id, tt.in, g)
			}
			if got := d.run(id).State; got != tt.in {
				t.Fatalf("the run is %s, want %s", got, tt.in)
			}
			for range 2 {
				if rec := ask(mux(e), "POST", "/api/v1/experiments/"+id+"/abort", "", ""); rec.Code != http.StatusOK {
					t.Errorf("abort: %d %s", rec.Code, rec.Body)
				}
			}
			d.until(e, id, tt.want, g)
			if len(g.plan.Faults) > 0 {
				t.Error("its fault is still in the plan")
			}
		})
	}
}

// U8: a broken hypothesis takes the fault off at once; a control that dies leaves it
// for one lease at most, and nobody goes on with the run.
func TestUX_U8_deviationAndDeath(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	g.badPer = 20
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Aborting, g)
	d.poll(e, g)
	if len(g.plan.Faults) > 0 {
		t.Error("the fault is on after its stop condition")
	}
	r := d.until(e, id, injector.Aborted, g)
	if a := verdictOf(r, "a1"); r.Verdict != injector.Failed || a.Phase != "after" || a.Result == injector.Pending {
		t.Errorf("%s, recovery check %+v: want failed, and the check recorded", r.Verdict, a)
	}

	g.badPer = 0
	id = d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	d.poll(e, g)
	dead := d.at // e is never driven again, and no other control is there
	for len(g.plan.Faults) > 0 {
		d.pass(time.Second)
		g.serve()
		d.poll(d.engine(nil), g)
		if d.at.Sub(dead) > time.Minute {
			t.Fatal("the fault outlives its control")
		}
	}
	if took := d.at.Sub(dead); took > injector.LeaseFor {
		t.Errorf("the fault outlived its control by %v, want %v at most", took, injector.LeaseFor)
	}
	next := d.engine(nil)
	r = d.until(next, id, injector.Aborted, g)
	if r.Verdict != injector.Inconclusive || r.Reason != string(injector.ByEngine) || verdictOf(r, "a1").Result == injector.Pending {
		t.Errorf("%s (%s), recovery check %+v: want inconclusive, engine_lost, and the check recorded", r.Verdict, r.Reason, verdictOf(r, "a1"))
	}
	for range 20 {
		d.pass(time.Second)
		d.poll(next, g)
		d.tick(next)
		d.tick(e)
		if len(g.plan.Faults) > 0 || d.run(id).State != injector.Aborted {
			t.Fatal("the run was resumed")
		}
	}
}
