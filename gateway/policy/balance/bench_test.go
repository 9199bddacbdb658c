package balance

import (
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

func TestPickAllocatesNothing(t *testing.T) {
	p, cfg, all := fleet(3, Config{Ejection: Ejection{After: 3}, SlowStart: time.Second, PanicPPM: 100_000})
	tries := []retrylog.Try{{Endpoint: "e0"}}
	if n := testing.AllocsPerRun(1000, func() {
		e := Pick(&cfg, all, tries, epoch)
		e.Observe(&cfg, epoch, success)
		p.judge(&cfg, e, all, epoch, success)
	}); n != 0 {
		t.Errorf("a pick and its result allocate %.1f times", n)
	}
	x := new(exchange.Exchange)
	svc := Layer(cfg, p)(exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil }))
	if n := testing.AllocsPerRun(1000, func() {
		x.Reset()
		_ = svc.Serve(x)
		x.End(retrylog.OK)
	}); n != 0 {
		t.Errorf("the layer allocates %.1f times a try", n)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{3, 100} {
		b.Run(map[int]string{3: "of 3", 100: "of 100"}[n], func(b *testing.B) {
			_, cfg, all := fleet(n, Config{Ejection: Ejection{After: 3}})
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				Pick(&cfg, all, nil, now)
			}
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	p, cfg, all := fleet(3, Config{Ejection: Ejection{After: 3}})
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		all[0].Observe(&cfg, now, success)
		p.judge(&cfg, all[0], all, now, success)
	}
}
