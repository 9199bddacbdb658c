package shed_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/shed"
	"breakwater/internal/retrylog"
)

// backend has 20 slots of 50 ms. What comes beyond them waits for one, or is
// refused with 503 at once.
type backend struct {
	slots   chan struct{}
	refuses bool
	served  atomic.Int64
}

func (b *backend) Serve(x *exchange.Exchange) error {
	if b.refuses {
		select {
		case b.slots <- struct{}{}:
		default:
			x.Response.Status = 503
			return nil
		}
	} else {
		b.slots <- struct{}{}
	}
	time.Sleep(50 * time.Millisecond)
	<-b.slots
	b.served.Add(1)
	x.Response.Status = 200
	return nil
}

// mix is the load of one tier, in requests a second, from so many callers.
type mix struct {
	tier    shed.Tier
	rate    float64
	callers int
}

type tally struct{ sent, good atomic.Int64 }

type load struct {
	service  map[shed.Tier]exchange.Service
	arrivals *rand.Rand
	group    sync.WaitGroup
	tallies  map[shed.Tier]*tally
	number   int
}

// run sends the mixes at random moments for span.
func (l *load) run(span time.Duration, mixes ...mix) {
	total := 0.0
	for _, m := range mixes {
		total += m.rate
	}
	for end := time.Now().Add(span); time.Now().Before(end); {
		time.Sleep(time.Duration(l.arrivals.ExpFloat64() / total * float64(time.Second)))
		at := l.arrivals.Float64() * total
		m := mixes[0]
		for _, m = range mixes {
			if at -= m.rate; at < 0 {
				break
			}
		}
		l.number++
		caller, id := fmt.Sprintf("%s-%d", m.tier, l.arrivals.IntN(m.callers)), fmt.Sprintf("id-%d", l.number)
		count := l.tallies[m.tier]
		count.sent.Add(1)
		l.group.Go(func() {
			x := new(exchange.Exchange)
			x.Reset()
			x.Request.Method, x.Event.Caller, x.Event.RequestID = "GET", caller, id
			err := l.service[m.tier].Serve(x)
			if err == nil && x.Response.Status == 200 {
				count.good.Add(1)
			}
			x.End(exchange.Classify(err, x.Response.Status))
		})
	}
}

func (l *load) reset() {
	for _, c := range l.tallies {
		c.sent.Store(0)
		c.good.Store(0)
	}
}

func (l *load) share(t shed.Tier) float64 {
	c := l.tallies[t]
	return float64(c.good.Load()) / float64(max(c.sent.Load(), 1))
}

func newLoad(cfg concurrency.Config, b *backend, changed func(retrylog.Transition)) (*load, *shed.Shedder, *concurrency.Limit) {
	now := time.Now()
	limit := concurrency.New(cfg, now, concurrency.Deps{})
	own := shed.Config{}
	if cfg.Queue > 0 {
		own = shed.Config{DefaultPPM: 1_000_000, SheddablePPM: 800_000}
	}
	s := shed.New(own, now, shed.Deps{Pressure: limit.Load, Changed: changed})
	l := &load{service: map[shed.Tier]exchange.Service{}, tallies: map[shed.Tier]*tally{}, arrivals: rand.New(rand.NewPCG(5, 6))}
	for _, t := range []shed.Tier{shed.Critical, shed.Default, shed.Sheddable} {
		l.tallies[t] = &tally{}
		l.service[t] = exchange.Chain(b, shed.Layer(t, s), concurrency.Layer(cfg, limit))
	}
	return l, s, limit
}

// Five times what an upstream of 20 slots of 50 ms can do, half of its capacity
// in critical requests: these pass, the sheddable go first, the slots stay in use,
// and a few seconds after the load has gone everybody is served. The seconds are
// fake, so that a busy machine changes nothing.
func TestOverload(t *testing.T) {
	if testing.Short() {
		t.Skip("a load of its own: part of make test, not of make check")
	}
	queue := func(c concurrency.Config) concurrency.Config {
		c.Queue, c.QueueWait = 16, 50*time.Millisecond
		return c
	}
	tests := []struct {
		name     string
		cfg      concurrency.Config
		refuses  bool
		goodput  float64
		critical float64
	}{
		{"gradient", queue(concurrency.Config{Kind: concurrency.Gradient}), false, 0.95, 0.99},
		{"vegas", queue(concurrency.Config{Kind: concurrency.Vegas}), false, 0.95, 0.99},
		{"gradient2", queue(concurrency.Config{Kind: concurrency.Gradient2}), false, 0.95, 0.99},
		{"fixed", queue(concurrency.Config{Kind: concurrency.Fixed, Max: 20}), false, 0.88, 0.99},
		{"gradient under an upstream that refuses", queue(concurrency.Config{Kind: concurrency.Gradient}), true, 0.86, 0.985},
		{"aimd under an upstream that refuses", queue(concurrency.Config{Kind: concurrency.AIMD}), true, 0.86, 0.985},
		// Without a queue a burst of critical requests finds all places taken.
		{"gradient, nobody waits", concurrency.Config{Kind: concurrency.Gradient}, false, 0.95, 0.9},
		{"fixed, nobody waits", concurrency.Config{Kind: concurrency.Fixed, Max: 20}, false, 0.8, 0.85},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{slots: make(chan struct{}, 20), refuses: tt.refuses}
				var levels []string
				l, s, limit := newLoad(tt.cfg, b, func(c retrylog.Transition) { levels = append(levels, c.To) })
				mixes := []mix{{shed.Critical, 200, 20}, {shed.Default, 900, 100}, {shed.Sheddable, 900, 100}}
				l.run(4*time.Second, mixes...)
				l.group.Wait()
				l.reset()
				b.served.Store(0)
				l.run(5*time.Second, mixes...)
				goodput := float64(b.served.Load()) / (5 * 400)
				l.group.Wait()
				critical, standard, least := l.share(shed.Critical), l.share(shed.Default), l.share(shed.Sheddable)
				t.Logf("goodput %.3f; served critical %.4f, default %.3f, sheddable %.3f; limit %d", goodput, critical, standard, least, limit.Stats(time.Now()).Limit)
				if goodput < tt.goodput || critical < tt.critical || least > standard/4 {
					t.Errorf("want a goodput of %.2f, %.2f of critical, and few that are sheddable", tt.goodput, tt.critical)
				}
				if got := s.Stats(time.Now()); got.Level != "default" || got.SharePPM[0] < 900_000 || got.SharePPM[1] > 900_000 {
					t.Errorf("state %+v", got)
				}

				light := []mix{{shed.Critical, 80, 20}, {shed.Default, 60, 100}, {shed.Sheddable, 20, 100}}
				l.run(5*time.Second, light...)
				l.reset()
				l.run(3*time.Second, light...)
				l.group.Wait()
				for tier := range l.tallies {
					if got := l.share(tier); got < 0.97 {
						t.Errorf("5 s after the overload %.3f of %s are served", got, tier)
					}
				}
				if n, _, _ := limit.Load(); n != 0 || len(levels) < 2 || levels[len(levels)-1] == "default" {
					t.Errorf("%d still under way; told of %q", n, levels)
				}
			})
		})
	}
}

// A caller is shed or it is not: under a steady overload the callers below the
// edge are served nothing, those above as well as one another.
func TestSameCallersAreShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{slots: make(chan struct{}, 20)}
		cfg := concurrency.Config{Kind: concurrency.Fixed, Max: 24}
		l, _, _ := newLoad(cfg, b, nil)
		l.run(4*time.Second, mix{shed.Default, 1600, 200})
		l.group.Wait()
		var mu sync.Mutex
		sent, good := map[string]int{}, map[string]int{}
		service := l.service[shed.Default]
		l.service[shed.Default] = exchange.Func(func(x *exchange.Exchange) error {
			err := service.Serve(x)
			mu.Lock()
			defer mu.Unlock()
			sent[x.Event.Caller]++
			if err == nil {
				good[x.Event.Caller]++
			}
			return err
		})
		l.run(4*time.Second, mix{shed.Default, 1600, 200})
		l.group.Wait()
		never, often, between := 0, 0, 0
		for caller, n := range sent {
			switch share := float64(good[caller]) / float64(n); {
			case share < 0.05:
				never++
			case share > 0.2:
				often++
			default:
				between++
			}
		}
		t.Logf("%d callers are shed, %d served, %d between", never, often, between)
		if never < 20 || often < 20 || between > 30 {
			t.Errorf("%d callers are shed, %d served, %d between", never, often, between)
		}
	})
}
