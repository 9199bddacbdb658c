package lease

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/plan"
	"breakwater/gateway/policy/fault"
	"breakwater/internal/retrylog"
)

// F10, X157, X158: in fifty rounds control dies, or the network to it, at some instant
// of a fault's life; traffic each 100 ms finds no effect of it 15 s later, and none
// comes back with a control that has forgotten the run.
func TestReliability_F10_X157_X158(t *testing.T) {
	f := fault.Fault{ID: "f", Run: "r", Seed: "s", PPM: 1_000_000, Target: fault.Target{Service: "points"}, Kind: fault.Error, Status: 503}
	leased := plan.Leased{Fault: f, Hash: plan.HashOf(f), TTLMS: plan.FaultTTLMS}
	chance := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		alive := time.Duration(chance.Int64N(int64(20 * time.Second)))
		synctest.Test(t, func(t *testing.T) {
			var dead, forgot atomic.Bool
			table := fault.NewTable(fault.Caps{})
			p := New(Config{URL: "http://control", Table: table, Log: slog.New(slog.DiscardHandler),
				Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if dead.Load() {
						if round%2 == 0 {
							return nil, errors.New("connection refused") // killed
						}
						<-r.Context().Done() // cut off: nothing comes back
						return nil, r.Context().Err()
					}
					if forgot.Load() {
						return answer(200, plan.Plan{Epoch: 2, Revision: 1})
					}
					if r.URL.Query().Get("revision") == "1" {
						select { // a long poll
						case <-time.After(5 * time.Second):
						case <-r.Context().Done():
							return nil, r.Context().Err()
						}
					}
					return answer(200, plan.Plan{Epoch: 1, Revision: 1, Faults: []plan.Leased{leased}})
				})}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = p.Run(ctx) }()
			svc := exchange.Chain(exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil }),
				fault.Layer(table, fault.Site{Service: "points", Route: "r"}))
			hit := func() bool {
				x := new(exchange.Exchange)
				x.Reset()
				x.Event.Tries = append(x.Event.Tries, retrylog.Try{})
				if err := svc.Serve(x); err != nil {
					t.Fatal(err)
				}
				return x.Response.Status == 503
			}
			synctest.Wait()
			if !hit() {
				t.Fatal("the fault is not alive to begin with")
			}
			time.Sleep(alive)
			if !hit() {
				t.Fatalf("gone after %v, though renewed", alive)
			}
			dead.Store(true)
			died := time.Now()
			last := time.Duration(0)
			for time.Since(died) < 40*time.Second {
				if hit() {
					last = time.Since(died)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if last >= plan.FaultTTLMS*time.Millisecond {
				t.Errorf("round %d: still alive %v after control was lost at %v", round, last, alive)
			}
			dead.Store(false)
			forgot.Store(true)
			for range 100 {
				if hit() {
					t.Fatal("alive again")
				}
				time.Sleep(100 * time.Millisecond)
			}
			cancel()
			synctest.Wait()
		})
	}
}
