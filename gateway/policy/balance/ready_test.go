package balance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// fleet is a pool of n endpoints e0, e1, ... under cfg.
func fleet(n int, cfg Config) (*Pool, Config, []*Endpoint) {
	for i := range n {
		cfg.Endpoints = append(cfg.Endpoints, fmt.Sprint("e", i))
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(1, 2)).Float64
	}
	p := NewPool()
	return p, cfg.filled(), p.Endpoints(cfg, epoch)
}

var (
	failure = Result{Outcome: retrylog.UpstreamFailure, Status: 504, Took: time.Millisecond}
	success = Result{Outcome: retrylog.OK, Status: 200, Took: time.Millisecond}
)

func ready(from []*Endpoint, now time.Time) (n int) { return int(readyOf(from, now)) }

func TestPolicies_R39(t *testing.T) {
	p, cfg, all := fleet(1, Config{Ejection: Ejection{After: 3, For: 5 * time.Second, MaxPPM: million}})
	e, now := all[0], epoch
	for round := range 5 {
		for i := range 3 {
			if ready(all, now) != 1 {
				t.Fatalf("round %d: out before failure %d", round+1, i+1)
			}
			p.judge(&cfg, e, all, now, failure)
		}
		if ready(all, now) != 0 {
			t.Fatalf("round %d: in after three failures", round+1)
		}
		// Tries from before the ejection come to their end while it is out.
		p.judge(&cfg, e, all, now.Add(time.Second), failure)
		term := time.Duration(round+1) * 5 * time.Second
		if left := e.outFor(now); left != term {
			t.Errorf("round %d: out for %v, want %v", round+1, left, term)
		}
		if ready(all, now.Add(term-1)) != 0 {
			t.Errorf("round %d: in again too early", round+1)
		}
		now = now.Add(term)
	}
	p.judge(&cfg, e, all, now, success)
	for range 3 {
		p.judge(&cfg, e, all, now, failure)
	}
	if left := e.outFor(now); left != 5*time.Second {
		t.Errorf("after a success it is out for %v, want 5s again", left)
	}
}

func TestPolicies_R40(t *testing.T) {
	tests := []struct {
		hosts, share int64
		want         int
	}{{3, 670_000, 2}, {3, 500_000, 1}, {3, 0, 1}, {2, 500_000, 1}, {2, 490_000, 0}, {1, 990_000, 0}, {3, million, 3}, {10, 100_000, 1}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.hosts, " hosts ", tt.share), func(t *testing.T) {
			p, cfg, all := fleet(int(tt.hosts), Config{Ejection: Ejection{After: 1, MaxPPM: tt.share}})
			var each sync.WaitGroup // at once: two may not both find the last room
			for _, e := range all {
				each.Go(func() {
					for range 100 {
						p.judge(&cfg, e, all, epoch, failure)
					}
				})
			}
			each.Wait()
			if out := len(all) - ready(all, epoch); out != tt.want {
				t.Errorf("%d are out, want %d", out, tt.want)
			}
		})
	}
}

func TestPolicies_R41(t *testing.T) {
	// What a limit of ours refuses below the pick is no failure of the endpoint.
	synctest.Test(t, func(t *testing.T) {
		var changes []Change
		p, cfg, all := fleet(2, Config{
			Ejection: Ejection{After: 3, MaxPPM: million},
			Changed:  func(c Change) { changes = append(changes, c) },
			Rand:     func() float64 { return 0 },
		})
		busy := make(chan struct{}, 1)
		limited := exchange.Func(func(x *exchange.Exchange) error {
			select {
			case busy <- struct{}{}:
			default:
				return &exchange.Refusal{Policy: "limiter", Reason: "concurrency", Status: 503}
			}
			time.Sleep(time.Second)
			<-busy
			x.Response.Status = 200
			return nil
		})
		svc := Layer(cfg, p)(limited)
		var answered, refused int
		var mu sync.Mutex
		var clients sync.WaitGroup
		for range 100 {
			clients.Go(func() {
				x := new(exchange.Exchange)
				err := svc.Serve(x)
				x.End(exchange.Classify(err, x.Response.Status))
				mu.Lock()
				defer mu.Unlock()
				if _, local := errors.AsType[*exchange.Refusal](err); local {
					refused++
				} else if err == nil {
					answered++
				}
			})
		}
		clients.Wait()
		if answered != 1 || refused != 99 {
			t.Errorf("%d answered, %d refused, want 1 and 99", answered, refused)
		}
		for _, e := range all {
			if n := e.failures.Load(); n != 0 || e.InFlight() != 0 {
				t.Errorf("%s: %d failures, %d in flight", e.Address, n, e.InFlight())
			}
		}
		if len(changes) != 0 {
			t.Errorf("changes %v", changes)
		}
	})
}

func TestPolicies_R43(t *testing.T) {
	// A answers in 5 ms at 100 a second; B, just as fast, joins.
	for _, warm := range []time.Duration{0, 10 * time.Second} {
		t.Run(fmt.Sprint("slow start ", warm), func(t *testing.T) {
			p, cfg, _ := fleet(1, Config{SlowStart: warm})
			now, answer := epoch, Result{Outcome: retrylog.OK, Status: 200, Took: 5 * time.Millisecond}
			cfg.Endpoints = append(cfg.Endpoints, "b")
			run := func(all []*Endpoint, span time.Duration) (b float64) {
				total := 0
				for end := now.Add(span); now.Before(end); now = now.Add(10 * time.Millisecond) {
					e := Pick(&cfg, all, nil, now)
					e.Observe(&cfg, now.Add(answer.Took), answer)
					if total++; e.Address == "b" {
						b++
					}
				}
				return b / float64(total)
			}
			run(p.Endpoints(Config{Endpoints: []string{"e0"}}, now), 30*time.Second)
			p.Keep([]string{"e0"})
			all := p.Endpoints(cfg, now)
			run(all, 50*time.Second)
			if share := run(all, 10*time.Second); share < 0.4 || share > 0.6 {
				t.Errorf("the new endpoint has %.2f of the traffic by 60 s, want 0.4 to 0.6", share)
			}
		})
	}
}

func TestPolicies_R44(t *testing.T) {
	probes := Health{HealthyAfter: 2, UnhealthyAfter: 3}
	p, cfg, all := fleet(2, Config{Ejection: Ejection{After: 3, For: 5 * time.Second}})
	for range 3 {
		p.judge(&cfg, all[0], all, epoch, Result{Outcome: retrylog.UpstreamFailure, Status: 503})
	}
	if s := all[0].State(epoch); s != Ejected {
		t.Fatalf("after three 503s it is %s", s)
	}
	// 404 is neither success nor "no news": it is a failed probe.
	var states []State
	for _, status := range []int{404, 404, 404, 404, 200, 404, 200, 200} {
		p.Probed("e0", probes, Healthy(status))
		states = append(states, all[0].State(at(6))) // the ejection is over
	}
	want := []State{Ready, Ready, Unhealthy, Unhealthy, Unhealthy, Unhealthy, Unhealthy, Ready}
	if !slices.Equal(states, want) {
		t.Errorf("after each probe it was %v, want %v", states, want)
	}
	if s := all[0].State(epoch); s != Ejected {
		t.Errorf("good probes made it %s before its time was over", s)
	}
}

func TestProbesOfTheGoneAndTheUnprobed(t *testing.T) {
	p, _, all := fleet(1, Config{})
	if c, changed := p.Probed("elsewhere", Health{}, false); changed {
		t.Errorf("an endpoint nobody knows changed: %v", c)
	}
	if c, changed := p.Probed("e0", Health{1, 1}, false); !changed || c.To != Unhealthy || all[0].ready(epoch) {
		t.Errorf("got %v, %v", c, changed)
	}
	p.Unprobed()
	if !all[0].ready(epoch) {
		t.Error("it stays ill with nobody to find it well")
	}
}

func TestNoneReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Endpoints: []string{"a", "b"}, Ejection: Ejection{After: 1, For: 20 * time.Second, MaxPPM: million}, Rand: draws(0, 0)}
		p := NewPool()
		calls := 0
		svc := Layer(cfg, p)(exchange.Func(func(*exchange.Exchange) error {
			calls++
			return &exchange.UpstreamError{Kind: exchange.Dial}
		}))
		for range 2 {
			_ = svc.Serve(new(exchange.Exchange))
			time.Sleep(time.Second)
		}
		start := time.Now()
		err := svc.Serve(new(exchange.Exchange))
		r, _ := errors.AsType[*exchange.Refusal](err)
		if r == nil || r.Status != 503 || r.RetryAfter != 18*time.Second || calls != 2 || time.Since(start) != 0 {
			t.Errorf("got %v %+v after %v and %d calls, want a refusal at once", err, r, time.Since(start), calls)
		}
		time.Sleep(18 * time.Second)
		if _, refused := errors.AsType[*exchange.Refusal](svc.Serve(new(exchange.Exchange))); refused {
			t.Error("refused when the first was back")
		}
	})
}

func TestPanicThreshold(t *testing.T) {
	tests := []struct {
		panic int64
		ill   int
		want  int // endpoints that get tries
	}{{0, 3, 1}, {0, 4, 0}, {500_000, 2, 2}, {500_000, 3, 4}, {500_000, 4, 4}}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d of 4 ill, threshold %d", tt.ill, tt.panic), func(t *testing.T) {
			p, cfg, all := fleet(4, Config{PanicPPM: tt.panic})
			for i := range tt.ill {
				p.Probed(all[i].Address, Health{1, 1}, false)
			}
			seen := map[*Endpoint]bool{}
			for range 200 {
				if e := Pick(&cfg, all, nil, epoch); e != nil {
					seen[e] = true
				}
			}
			if len(seen) != tt.want {
				t.Errorf("%d endpoints get tries, want %d", len(seen), tt.want)
			}
		})
	}
}

func TestPickAmongManyIsEven(t *testing.T) {
	// 200 endpoints of which half are out, more than a scan collects.
	p, cfg, all := fleet(200, Config{})
	for i := range 100 {
		p.Probed(all[2*i].Address, Health{1, 1}, false)
	}
	counts := map[*Endpoint]int{}
	for range 100_000 {
		counts[Pick(&cfg, all, nil, epoch)]++
	}
	for i, e := range all {
		if n := counts[e]; i%2 == 0 && n != 0 || i%2 == 1 && (n < 700 || n > 1300) {
			t.Errorf("%s was picked %d times of 100000, ready is %v", e.Address, n, e.ready(epoch))
		}
	}
}
