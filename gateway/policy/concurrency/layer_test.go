package concurrency

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

func get() *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method = "GET"
	return x
}

func ok(x *exchange.Exchange) error { x.Response.Status = 200; return nil }

// R54: whatever the end is, the place is given back; and two limits over one
// another each give back their own.
func TestPolicies_R54(t *testing.T) {
	ends := map[string]struct {
		next exchange.Func
		end  func(x *exchange.Exchange, err error)
	}{
		"answer":        {ok, func(x *exchange.Exchange, _ error) { x.End(retrylog.OK) }},
		"later refusal": {func(*exchange.Exchange) error { return &exchange.Refusal{Policy: "balance", Status: 503} }, nil},
		"later stage answers 500": {func(x *exchange.Exchange) error { x.Response.Status, x.Response.Local = 500, true; return nil },
			func(x *exchange.Exchange, _ error) { x.End(retrylog.UpstreamFailure) }},
		"failure":   {func(*exchange.Exchange) error { return &exchange.UpstreamError{Kind: exchange.Dial} }, nil},
		"abort":     {ok, func(x *exchange.Exchange, _ error) { x.End(retrylog.ClientAbort) }},
		"hijack":    {func(x *exchange.Exchange) error { x.Response.Status = 101; return nil }, func(x *exchange.Exchange, _ error) { x.End(retrylog.OK) }},
		"panic":     {func(*exchange.Exchange) error { panic("no") }, nil},
		"cut":       {func(*exchange.Exchange) error { panic(http.ErrAbortHandler) }, nil},
		"dropped":   {ok, func(x *exchange.Exchange, _ error) { x.EndTo(0, retrylog.UpstreamFailure) }},
		"last held": {ok, func(x *exchange.Exchange, _ error) { x.Hold(0, retrylog.UpstreamFailure); x.End(retrylog.OK) }},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			outer, inner := New(Config{Kind: Fixed, Max: 50}, epoch, Deps{}), New(Config{Kind: Fixed, Max: 10}, epoch, Deps{})
			cfg := Config{Kind: Fixed, Max: 1}
			svc := exchange.Chain(tt.next, Layer(cfg, outer), Layer(cfg, inner))
			for range 1000 {
				x := get()
				func() {
					defer func() {
						if recover() != nil {
							x.EndTo(0, retrylog.Panicked) // as record does
						}
					}()
					err := svc.Serve(x)
					if err == nil {
						a, _, _ := outer.Load()
						b, _, _ := inner.Load()
						if a != 1 || b != 1 {
							t.Fatalf("while it lasts %d and %d are under way", a, b)
						}
					}
					if tt.end != nil {
						tt.end(x, err)
					}
				}()
			}
			a, _, _ := outer.Load()
			b, _, _ := inner.Load()
			if a != 0 || b != 0 {
				t.Errorf("%d and %d places are lost", a, b)
			}
		})
	}
}

func TestFullRefusesBeforeWork(t *testing.T) {
	l := New(Config{Kind: Fixed, Max: 1}, epoch, Deps{})
	calls := 0
	svc := Layer(Config{Kind: Fixed, Max: 1}, l)(exchange.Func(func(x *exchange.Exchange) error { calls++; return ok(x) }))
	first, second := get(), get()
	if err := svc.Serve(first); err != nil {
		t.Fatal(err)
	}
	err := svc.Serve(second)
	refusal, refused := errors.AsType[*exchange.Refusal](err)
	if !refused || *refusal != (exchange.Refusal{Policy: "concurrency", Reason: "full", Status: 503, RetryAfter: time.Second}) || calls != 1 {
		t.Errorf("got %+v after %d calls", err, calls)
	}
	second.End(retrylog.LocalRefusal)
	if n, _, _ := l.Load(); n != 1 {
		t.Errorf("%d are under way, want the first", n)
	}
	first.End(retrylog.OK)
	if err := svc.Serve(get()); err != nil {
		t.Errorf("the place is free: %v", err)
	}
}

func TestObserveOnly(t *testing.T) {
	cfg := Config{Kind: Fixed, Max: 1, Observe: true}
	l := New(cfg, epoch, Deps{})
	svc := Layer(cfg, l)(exchange.Func(ok))
	a, b := get(), get()
	if svc.Serve(a) != nil || svc.Serve(b) != nil || a.Event.Observed != "" || b.Event.Observed != "concurrency:full" {
		t.Errorf("observed %q and %q", a.Event.Observed, b.Event.Observed)
	}
	if s := l.Stats(epoch); s.InFlight != 2 || s.Refused != 1 {
		t.Errorf("%+v", s)
	}
	a.End(retrylog.OK)
	b.End(retrylog.OK)
	if n, _, _ := l.Load(); n != 0 {
		t.Errorf("%d left", n)
	}
}

// The last try's latency is the sample, not the back-off between tries, and an
// answer of ours does not hide that the upstream refused.
func TestWhatALimitLearns(t *testing.T) {
	x := get()
	x.Event.Tries = []retrylog.Try{{Status: 503, LatencyUS: 1000}, {Status: 200, LatencyUS: 7000}}
	x.Response.Status = 200
	if r := result(x, nil, time.Second); r != (Result{retrylog.OK, 200, 7 * ms}) {
		t.Errorf("two tries: %+v", r)
	}
	x.Response.Local, x.Response.Status, x.Event.Tries[1].Status = true, 503, 429
	if r := result(x, nil, time.Second); r.Status != 429 {
		t.Errorf("a 429 behind an answer of ours: %+v", r)
	}
	x.Event.Tries[1] = retrylog.Try{Kind: string(exchange.TryTimeout)}
	if r := result(x, nil, time.Second); r.Outcome != retrylog.Timeout {
		t.Errorf("a timeout behind an answer of ours: %+v", r)
	}
	x.Event.Tries = nil
	if r := result(x, nil, time.Second); r.Outcome != retrylog.LocalRefusal || r.Status != 0 {
		t.Errorf("nothing but an answer of ours: %+v", r)
	}
	if r := result(x, exchange.ErrTotalTimeout, time.Second); r.Outcome != retrylog.Timeout {
		t.Errorf("the total: %+v", r)
	}
}

// A critical request waits for a place, in its turn and no longer than it may;
// others do not, and more than fit in the queue are refused.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Kind: Fixed, Max: 1, Queue: 2, QueueWait: 20 * ms}
		l := New(cfg, time.Now(), Deps{})
		svc := Layer(cfg, l)(exchange.Func(ok))
		holder := get()
		_ = svc.Serve(holder)
		start := time.Now()
		type result struct {
			err   error
			after time.Duration
		}
		ask := func(tier string) (*exchange.Exchange, chan result) {
			x, out := get(), make(chan result, 1)
			x.Event.Tier = tier
			go func() { err := svc.Serve(x); out <- result{err, time.Since(start)} }()
			synctest.Wait()
			return x, out
		}
		_, d := ask("")
		first, a := ask("critical")
		_, b := ask("critical")
		_, c := ask("critical")
		if r := <-c; r.err == nil || r.after != 0 {
			t.Errorf("a third in a queue of two: %+v", r)
		}
		if r := <-d; r.err == nil || r.after != 0 {
			t.Errorf("one that is not critical: %+v", r)
		}
		if s := l.Stats(time.Now()); s.Waiting != 2 || s.InFlight != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(5 * ms)
		holder.End(retrylog.OK)
		if r := <-a; r.err != nil || r.after != 5*ms {
			t.Errorf("the first in line: %+v", r)
		}
		if r := <-b; r.err == nil || r.after != 20*ms {
			t.Errorf("the second waited for nothing: %+v, want a refusal at 20 ms", r)
		}
		if s := l.Stats(time.Now()); s.Waiting != 0 || s.InFlight != 1 {
			t.Errorf("%+v", s)
		}
		first.End(retrylog.OK)
		if n, _, _ := l.Load(); n != 0 {
			t.Errorf("%d left", n)
		}
	})
}

// A place that is free before its waiter stands in line is found all the same.
func TestQueueFindsAFreePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Kind: Fixed, Max: 1, Queue: 1}, time.Now(), Deps{})
		start := time.Now()
		if got, err := l.waiting.acquire(get(), time.Second); !got || err != nil || time.Since(start) != 0 {
			t.Errorf("%v, %v after %v", got, err, time.Since(start))
		}
	})
}

// A client that leaves at the moment in which it is given a place gives it back.
func TestQueueAndCancelAtOnce(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{Kind: Fixed, Max: 1, Queue: 1, QueueWait: time.Second}
			l := New(cfg, time.Now(), Deps{})
			svc := Layer(cfg, l)(exchange.Func(ok))
			holder, x := get(), get()
			_ = svc.Serve(holder)
			x.Event.Tier = "critical"
			token := x.Token()
			go func() { _ = svc.Serve(x); x.End(retrylog.ClientAbort) }()
			synctest.Wait()
			holder.End(retrylog.OK)
			token.Cancel(exchange.ErrClientGone)
			synctest.Wait()
			if n, _, _ := l.Load(); n != 0 {
				t.Fatalf("%d places are lost", n)
			}
		})
	}
}

// Clients that leave the queue, and places that are given at the same moment, lose
// nothing.
func TestQueueLosesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Kind: Fixed, Max: 3, Queue: 4, QueueWait: 2 * ms}
		l := New(cfg, time.Now(), Deps{})
		svc := Layer(cfg, l)(exchange.Func(func(x *exchange.Exchange) error { time.Sleep(ms); return ok(x) }))
		var group sync.WaitGroup
		var served, most atomic.Int64
		for i := range 2000 {
			group.Go(func() {
				time.Sleep(time.Duration(i%97) * 700 * time.Microsecond)
				x := get()
				x.Event.Tier = "critical"
				if i%5 == 0 {
					token := x.Token()
					time.AfterFunc(time.Duration(i%7)*500*time.Microsecond, func() { token.Cancel(exchange.ErrClientGone) })
				}
				if svc.Serve(x) == nil {
					served.Add(1)
					n, _, _ := l.Load()
					most.Store(max(most.Load(), n))
				}
				x.End(retrylog.OK)
			})
		}
		group.Wait()
		if s := l.Stats(time.Now()); s.InFlight != 0 || s.Waiting != 0 || most.Load() > 3 || served.Load() == 0 {
			t.Errorf("%+v, %d at most, %d served", s, most.Load(), served.Load())
		}
	})
}

func TestLayerAllocatesNothing(t *testing.T) {
	cfg := Config{Kind: Gradient2, Max: 10}
	l := New(cfg, time.Now(), Deps{})
	svc := Layer(cfg, l)(exchange.Func(ok))
	x := get()
	if n := testing.AllocsPerRun(2000, func() {
		x.Reset()
		_ = svc.Serve(x)
		x.End(retrylog.OK)
	}); n != 0 {
		t.Errorf("a passing request allocates %.2f times", n)
	}
	full := New(Config{Kind: Fixed, Max: 1}, time.Now(), Deps{})
	full.Take()
	svc = Layer(cfg, full)(exchange.Func(ok))
	if n := testing.AllocsPerRun(2000, func() { x.Reset(); _ = svc.Serve(x) }); n != 0 {
		t.Errorf("a refused request allocates %.2f times", n)
	}
}

func BenchmarkLayer(b *testing.B) {
	cfg := Config{Kind: Gradient, Max: 1000}
	l := New(cfg, time.Now(), Deps{})
	svc := Layer(cfg, l)(exchange.Func(ok))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		x := get()
		for pb.Next() {
			x.Reset()
			_ = svc.Serve(x)
			x.End(retrylog.OK)
		}
	})
}
