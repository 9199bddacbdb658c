package balance

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/breaker"
	"breakwater/internal/retrylog"
)

var long = flag.Bool("long", false, "whether simulations go through all cases")

// guard is a breaker before an endpoint, as a gateway puts it there.
type guard struct{ breaker.Gate }

func (g guard) Enter(x *exchange.Exchange, now time.Time) (Pass, *exchange.Refusal) {
	c, refusal := g.Gate.Enter(x, now)
	if c == nil {
		return nil, refusal
	}
	return pass{c}, nil
}

type pass struct{ *breaker.Call }

func (p pass) Answered(x *exchange.Exchange, now time.Time, r Result) {
	p.Call.Answered(x, now, r.Outcome, r.Status)
}

// places is a limit before an endpoint.
type places struct{ free atomic.Int64 }

func (p *places) Shut(time.Time) bool  { return p.free.Load() <= 0 }
func (p *places) Wants(time.Time) bool { return false }
func (p *places) Enter(*exchange.Exchange, time.Time) (Pass, *exchange.Refusal) {
	if p.free.Add(-1) < 0 {
		p.free.Add(1)
		return nil, &exchange.Refusal{Policy: "concurrency", Reason: "full", Status: 503}
	}
	return place{p}, nil
}

type place struct{ *places }

func (place) Answered(*exchange.Exchange, time.Time, Result) {}
func (p place) End(*exchange.Exchange, retrylog.Outcome)     { p.free.Add(1) }
func (g guard) count() (s breaker.Stats)                     { return g.Stats(time.Now()) }
func (g guard) is(state breaker.State) bool                  { return g.State(time.Now()) == state }
func status(n int) exchange.Func                             { return answer(func(string) int { return n }) }
func answer(of func(endpoint string) int) exchange.Func {
	return func(x *exchange.Exchange) error { x.Response.Status = of(x.Endpoint); return nil }
}

// drawn draws for many at once.
func drawn() func() float64 {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 2))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
}

// guarded is a pool of n endpoints, each behind a breaker of its own.
func guarded(n int, cfg breaker.Config, mostPPM int64, more ...func(string) Gate) (*Pool, Config, map[string]guard) {
	p := NewPool()
	guards := map[string]guard{}
	c := Config{Ejection: Ejection{MaxPPM: mostPPM}, Rand: drawn()}
	for i := range n {
		address := fmt.Sprint("e", i)
		c.Endpoints = append(c.Endpoints, address)
		guards[address] = guard{breaker.Gate{Breaker: breaker.New(cfg, breaker.Deps{
			Endpoint: address,
			Hold:     func() bool { return p.Hold(address, time.Now()) },
			Free:     func() { p.Free(address) },
		}, time.Now())}}
	}
	c.Gates = func(address string) []Gate {
		gates := []Gate{guards[address]}
		for _, m := range more {
			gates = append(gates, m(address))
		}
		return gates
	}
	return p, c, guards
}

// ask makes one request of its own.
func ask(svc exchange.Service) (*exchange.Exchange, error) {
	x := new(exchange.Exchange)
	x.Reset()
	err := svc.Serve(x)
	if err != nil {
		x.EndTo(0, exchange.Classify(err, 0))
		return x, err
	}
	x.Event.BodyComplete = true
	x.End(exchange.Classify(nil, x.Response.Status))
	return x, nil
}

func TestPolicies_R40_Breakers(t *testing.T) {
	for _, tt := range []struct {
		share int64
		open  int
	}{{670_000, 2}, {500_000, 1}, {0, 1}, {300_000, 0}, {million, 3}} {
		t.Run(fmt.Sprint(tt.share), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, cfg, guards := guarded(3, breaker.DefaultEndpoint(), tt.share)
				svc := Layer(cfg, p)(status(503))
				for range 300 {
					_, _ = ask(svc)
					time.Sleep(5 * time.Millisecond)
				}
				open, broken := 0, 0
				for _, g := range guards {
					if g.is(breaker.Open) {
						open++
					}
				}
				for _, s := range p.Stats(time.Now()) {
					if s.State == Broken {
						broken++
					}
				}
				if open != tt.open || broken != tt.open {
					t.Errorf("%d are open, %d broken, want %d", open, broken, tt.open)
				}
				x, err := ask(svc)
				if served := err == nil && x.Response.Status == 503; served != (tt.open < 3) {
					t.Errorf("served %v, %v", served, err)
				}
				if refusal, ok := errors.AsType[*exchange.Refusal](err); tt.open == 3 && (!ok || refusal.Policy != "breaker" || refusal.RetryAfter < time.Second) {
					t.Errorf("with all open it says %v", err)
				}
			})
		})
	}
}

func TestPolicies_R41_Breakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]*places{}
		p, cfg, guards := guarded(2, breaker.DefaultEndpoint(), million, func(address string) Gate {
			limits[address] = &places{}
			limits[address].free.Store(1)
			return limits[address]
		})
		cfg.Rand = func() float64 { return 0 }
		cfg.Ejection.After = 3
		svc := Layer(cfg, p)(exchange.Func(func(x *exchange.Exchange) error {
			time.Sleep(time.Second)
			x.Response.Status = 200
			return nil
		}))
		var good, full atomic.Int64
		var clients sync.WaitGroup
		for range 100 {
			clients.Go(func() {
				_, err := ask(svc)
				if refusal, ok := errors.AsType[*exchange.Refusal](err); ok && refusal.Policy == "concurrency" {
					full.Add(1)
				} else if err == nil {
					good.Add(1)
				}
			})
		}
		clients.Wait()
		if good.Load() != 2 || full.Load() != 98 {
			t.Errorf("%d served, %d found it full, want 2 and 98", good.Load(), full.Load())
		}
		for address, g := range guards {
			if s := g.count(); s.Failed != 0 || s.Total != 1 || limits[address].free.Load() != 1 {
				t.Errorf("%s: %d of %d failed, %d places free", address, s.Failed, s.Total, limits[address].free.Load())
			}
		}
		for _, s := range p.Stats(time.Now()) {
			if s.Ejections != 0 || s.InFlight != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// R44: a status in neither list has a class, so what it answers brings it back.
func TestPolicies_R44_Breakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, cfg, guards := guarded(2, breaker.DefaultEndpoint(), 0)
		e0 := 503
		svc := Layer(cfg, p)(answer(func(endpoint string) int {
			if endpoint == "e0" {
				return e0
			}
			return 200
		}))
		run := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				_, _ = ask(svc)
			}
		}
		// Its failures make it look dear: only the breaker's own windows see enough.
		for !guards["e0"].is(breaker.Open) {
			for range 20 {
				x := new(exchange.Exchange)
				x.Reset()
				x.Probe = 1 // sends it to e0
				if svc.Serve(x) == nil {
					x.End(retrylog.UpstreamFailure)
				}
			}
		}
		e0 = 404
		run(15 * time.Second)
		if !guards["e0"].is(breaker.HalfOpen) {
			t.Fatalf("it is %s", guards["e0"].State(time.Now()))
		}
		run(10 * time.Second)
		e0 = 200
		run(20 * time.Second)
		if !guards["e0"].is(breaker.Closed) {
			t.Errorf("it is %s", guards["e0"].State(time.Now()))
		}
		if p.held.Load() != 0 {
			t.Error("it is still held")
		}
	})
}

// A probe is due, so the next first try goes there, however dear it looks; a retry
// never does.
func TestProbesAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, cfg, guards := guarded(4, breaker.DefaultEndpoint(), 0)
		svc := Layer(cfg, p)(status(200))
		for range 20 { // e2 fails
			c, _ := guards["e2"].Enter(new(exchange.Exchange), time.Now())
			c.Answered(new(exchange.Exchange), time.Now(), Result{Outcome: retrylog.Timeout})
			c.End(new(exchange.Exchange), retrylog.Timeout)
		}
		if !guards["e2"].is(breaker.Open) || p.held.Load() != 1 {
			t.Fatal("it did not open")
		}
		for range 100 {
			if x, _ := ask(svc); x.Event.Tries[0].Endpoint == "e2" {
				t.Fatal("a try went to an open one")
			}
		}
		time.Sleep(10 * time.Second)
		x := new(exchange.Exchange)
		x.Event.Tries = []retrylog.Try{{Endpoint: "e0"}}
		for range 20 {
			if x.Event.Tries = x.Event.Tries[:1]; svc.Serve(x) != nil || x.Event.Tries[1].Endpoint == "e2" && guards["e2"].count().Probes > 1 {
				t.Fatal("a retry was made a probe on purpose")
			}
			x.EndTo(0, retrylog.OK)
		}
		before := guards["e2"].count().Probes
		time.Sleep(2 * time.Second)
		if x, _ := ask(svc); x.Event.Tries[0].Endpoint != "e2" {
			t.Errorf("the try went to %s, want the one that is due for a probe", x.Event.Tries[0].Endpoint)
		}
		if x, _ := ask(svc); x.Event.Tries[0].Endpoint == "e2" {
			t.Error("a second probe at once")
		}
		if got := guards["e2"].count().Probes - before; got != 1 {
			t.Errorf("%d probes, want 1", got)
		}
	})
}

// A service's probes go round its endpoints: with three of them, 2, 2 and 1.
func TestServiceProbesGoRound(t *testing.T) {
	p, cfg, _ := fleet(3, Config{})
	svc := Layer(cfg, p)(status(200))
	seen := map[string]int{}
	for n := range 5 {
		x := new(exchange.Exchange)
		x.Reset()
		x.Probe = int64(n + 1)
		_ = svc.Serve(x)
		seen[x.Endpoint]++
		x.End(retrylog.OK)
	}
	if seen["e0"] != 2 || seen["e1"] != 2 || seen["e2"] != 1 {
		t.Errorf("probes %v", seen)
	}
}

// Half-open under 200 clients and four instances of which one stays bad.
func TestHalfOpenUnderLoad(t *testing.T) {
	for _, endpoints := range []bool{true, false} { // with breakers of their own, and without
		for bad := range 4 {
			if !*long && bad != 2 {
				continue
			}
			t.Run(fmt.Sprint("endpoint breakers ", endpoints, " bad ", bad), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					own := breaker.DefaultEndpoint()
					own.Disabled = !endpoints
					p, cfg, guards := guarded(4, own, 0)
					var turns []string
					var mu sync.Mutex
					service := breaker.New(breaker.Default(), breaker.Deps{Changed: func(c retrylog.Transition) {
						mu.Lock()
						turns = append(turns, c.To)
						mu.Unlock()
					}}, time.Now())
					var allBad atomic.Bool
					var calls, served atomic.Int64
					worst := fmt.Sprint("e", bad)
					svc := exchange.Chain(answer(func(endpoint string) int {
						calls.Add(1)
						time.Sleep(5 * time.Millisecond)
						if allBad.Load() || endpoint == worst {
							return 503
						}
						return 200
					}), breaker.Layer(service), Layer(cfg, p))
					stop := make(chan struct{})
					var clients sync.WaitGroup
					for range 200 {
						clients.Go(func() {
							for {
								select {
								case <-stop:
									return
								case <-time.After(2 * time.Second):
								}
								if x, err := ask(svc); err == nil && x.Event.Tries[0].Status == 200 {
									served.Add(1)
								}
							}
						})
					}
					time.Sleep(5 * time.Second)
					allBad.Store(true)
					time.Sleep(30 * time.Second)
					if s := service.State(time.Now()); s == breaker.Closed {
						t.Fatal("it never opened")
					}
					allBad.Store(false)
					mu.Lock()
					before := len(turns)
					mu.Unlock()
					probes, seen := service.Stats(time.Now()).Probes, calls.Load()
					healed := time.Now()
					for service.State(time.Now()) != breaker.Closed && time.Since(healed) < 10*time.Minute {
						time.Sleep(time.Second)
					}
					took := time.Since(healed)
					if got, most := calls.Load()-seen, service.Stats(time.Now()).Probes-probes+400; got > most {
						t.Errorf("%d calls while it was tried out, want at most %d", got, most)
					}
					if storm := service.Stats(time.Now()).Probes - probes; storm > int64(took/(2*time.Second))+1 {
						t.Errorf("%d probes in %s", storm, took)
					}
					time.Sleep(40 * time.Second)
					served.Store(0)
					time.Sleep(10 * time.Second)
					close(stop)
					clients.Wait()
					flaps := 0
					for _, to := range turns[before:] {
						if to == string(breaker.Open) {
							flaps++
						}
					}
					if flaps > 3 || service.State(time.Now()) != breaker.Closed {
						t.Errorf("%d flaps, and it is %s: %v", flaps, service.State(time.Now()), turns)
					}
					for address, g := range guards {
						if endpoints && address != worst && !g.is(breaker.Closed) {
							t.Errorf("%s is well, and %s", address, g.State(time.Now()))
						}
					}
					// 100 a second: without retries the bad one is seen now and then.
					if n := served.Load(); n < 950 {
						t.Errorf("%d of 1000 requests served in the end", n)
					}
					t.Logf("closed %s after three were well, %d flaps, %d served in 10 s", took, flaps, served.Load())
				})
			})
		}
	}
}
