package retry

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// storm sends 500 requests a second for 40 s to an upstream of which every nth
// answer is good (0: none), with three retries allowed and no signal asked for. It
// returns first tries and retries by the wall's ten seconds, and how many clients
// were served.
func storm(t *testing.T, cfg Config, d Deps, nth int64) (first, again [4]int64, served int64) {
	t.Helper()
	cfg.MaxRetries, cfg.BareOn503, cfg.BackoffBase = 3, true, 25*time.Millisecond
	bubble(t, func() {
		start := time.Now().Truncate(10 * time.Second).Add(10 * time.Second)
		var calls, good atomic.Int64
		var firsts, agains [5]atomic.Int64
		svc := exchange.Chain(exchange.Func(func(x *exchange.Exchange) error {
			window := &firsts
			if x.Request.Head.Has(countHeader) {
				window = &agains
			}
			window[min(time.Since(start)/(10*time.Second), 4)].Add(1)
			x.Response.Status = 503
			if n := calls.Add(1); nth > 0 && n%nth == 0 {
				x.Response.Status = 200
			}
			return nil
		}), Layer(cfg, d))
		time.Sleep(time.Until(start))
		var all sync.WaitGroup
		for range 40 * 500 {
			all.Go(func() {
				x := new(exchange.Exchange)
				x.Reset()
				x.Request.Method = "GET"
				x.Request.Body.Set(nil, 0)
				err := svc.Serve(x)
				if err == nil && x.Response.Status == 200 {
					good.Add(1)
				}
				x.End(retrylog.OK)
			})
			time.Sleep(2 * time.Millisecond)
		}
		all.Wait()
		for i := range first {
			first[i], again[i] = firsts[i].Load(), agains[i].Load()
		}
		served = good.Load()
	})
	return first, again, served
}

// F18, the retry half: whatever fails, the upstream has at most a fifth more to
// do, in every ten seconds of the wall clock.
func TestReliability_F18(t *testing.T) {
	for _, nth := range []int64{0, 2} {
		first, again, served := storm(t, bench(), Deps{Endpoints: 1, Budget: NewBudget(DefaultBudget())}, nth)
		t.Logf("one good in %d: first %v, again %v, served %d of 20000", nth, first, again, served)
		for i := range first {
			if extra := float64(again[i]) / float64(first[i]); extra > 0.20 || extra < 0.15 {
				t.Errorf("one good in %d, window %d: %.3f extra, want 0.15 to 0.20", nth, i, extra)
			}
		}
		if nth == 2 && served < 20000*57/100 {
			t.Errorf("%d of 20000 were served, want 57 %%", served)
		}
	}
}

// Without a budget the same storm is what the budget is for.
func TestStormWithoutBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	first, again, _ := storm(t, bench(), Deps{Endpoints: 1}, 0)
	for i := range first {
		if extra := float64(again[i]) / float64(first[i]); extra < 2.9 {
			t.Errorf("window %d: %.3f extra, want about 3", i, extra)
		}
	}
}

// The concurrency kind lets a lone request retry though all fail, and a crowd only
// by its share.
func TestConcurrencyBudget(t *testing.T) {
	u := &upstream{answers: []answer{{status: 502}}}
	served(t, bench(), Deps{Budget: NewBudget(DefaultConcurrency()), Kind: Concurrency}, u, nil, 502, 3, SkipAttempts)

	b := NewBudget(DefaultConcurrency())
	cfg := bench()
	cfg.MaxRetries = 1
	bubble(t, func() {
		var under, most, refused atomic.Int64
		svc := exchange.Chain(exchange.Func(func(x *exchange.Exchange) error {
			if x.Request.Head.Has(countHeader) {
				for n := under.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				defer under.Add(-1)
			}
			if err := x.Wait(time.Second, nil); err != nil {
				return err
			}
			x.Response.Status = 502
			return nil
		}), Layer(cfg, Deps{Endpoints: 1, Budget: b, Kind: Concurrency}))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				x := new(exchange.Exchange)
				x.Reset()
				x.Request.Method = "GET"
				x.Request.Body.Set(nil, 0)
				_ = svc.Serve(x)
				if x.Event.Skip == SkipBudget {
					refused.Add(1)
				}
				x.End(retrylog.OK)
			})
		}
		all.Wait()
		if most.Load() != 20 || refused.Load() != 80 {
			t.Errorf("%d retries at once and %d refused, want 20 and 80", most.Load(), refused.Load())
		}
	})
	if st := b.Stats(time.Now()); st.Active != 0 || st.Spent != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

// A changed budget keeps what was earned and spent, but where its slots change.
func TestBudgetOverReloads(t *testing.T) {
	b := budget(200, 0, false)
	deposit(b, at(0), 1000)
	if got := spend(b, at(0), 150); got != 150 {
		t.Fatalf("spent %d", got)
	}
	cfg := b.Config()
	for range 100 {
		b.Reconfigure(cfg)
	}
	if got := b.Left(at(0)); got != 50 {
		t.Errorf("after 100 reloads %d left, want 50", got)
	}
	cfg.RatioMilli = 100
	if b.Reconfigure(cfg); b.Left(at(0)) != 0 {
		t.Errorf("half the ratio leaves %d, want 0", b.Left(at(0)))
	}
	cfg.TTL, cfg.MinPerSec = 20*time.Second, 1
	if b.Reconfigure(cfg); b.Left(at(0)) != 20 {
		t.Errorf("other slots: %d left, want the floor of 20", b.Left(at(0)))
	}
}

// Deposits on success, as Finagle has them: at total failure only the floor is left.
func TestDepositOnSuccess(t *testing.T) {
	cfg := DefaultBudget()
	cfg.OnSuccess, cfg.MinPerSec = true, 0
	b := NewBudget(cfg)
	served(t, bench(), Deps{Budget: b}, &upstream{answers: []answer{{status: 502}}}, nil, 502, 1, SkipBudget)
	for range 10 {
		served(t, bench(), Deps{Budget: b}, &upstream{answers: []answer{{status: 200}}}, nil, 200, 1, "")
	}
	served(t, bench(), Deps{Budget: b}, &upstream{answers: []answer{{status: 502}, {status: 200}}}, nil, 200, 2, "")
}
