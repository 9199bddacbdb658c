package limiter

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/exchange"
)

// benched are exchanges of as many tenants, through a limit that none trips.
func benched(by By, shared bool) (exchange.Service, func(i int) *exchange.Exchange) {
	cfg := Config{Rate: perSecond(MaxTokens, MaxBurst), Key: Key{By: by}}
	d := Deps{Route: "r", Trusted: trustsLocal}
	if shared {
		d.Shared = NewShared(QuotaConfig{Name: "q", Rate: perSecond(MaxTokens, MaxBurst), Key: Key{By: by}}, generous{}, nil, time.Now())
	}
	svc := Layer(cfg, New(cfg, time.Now()), d)(exchange.Func(func(*exchange.Exchange) error { return nil }))
	return svc, func(i int) *exchange.Exchange {
		x := request("192.0.2." + strconv.Itoa(i%250))
		x.Event.Tenant = "tenant-" + strconv.Itoa(i)
		x.Event.Caller = x.Event.Tenant
		x.Event.Start = time.Now()
		return x
	}
}

// generous gives whatever is wanted.
type generous struct{}

func (generous) Take(a Ask) (Grant, error) { return Grant{Got: a.Want}, nil }

func TestPassingAllocatesNothing(t *testing.T) {
	for _, by := range []By{ByRoute, ByTenant, ByAddress} {
		svc, of := benched(by, false)
		x := of(1)
		_ = svc.Serve(x)
		if n := testing.AllocsPerRun(1000, func() { _ = svc.Serve(x) }); n != 0 {
			t.Errorf("by %s: %.1f allocations", by, n)
		}
	}
}

func BenchmarkLayer(b *testing.B) {
	for _, by := range []By{ByRoute, ByTenant, ByAddress} {
		b.Run(string(by), func(b *testing.B) {
			svc, of := benched(by, false)
			x := of(1)
			b.ReportAllocs()
			for b.Loop() {
				x.Event.Start = x.Event.Start.Add(time.Microsecond)
				_ = svc.Serve(x)
			}
		})
	}
	b.Run("tenant and quota", func(b *testing.B) {
		svc, of := benched(ByTenant, true)
		x := of(1)
		b.ReportAllocs()
		for b.Loop() {
			x.Event.Start = x.Event.Start.Add(time.Microsecond)
			_ = svc.Serve(x)
		}
	})
	b.Run("refused", func(b *testing.B) {
		cfg := Config{Rate: Rate{1, time.Hour, 1}}
		svc := Layer(cfg, New(cfg, time.Now()), Deps{})(fine)
		x := request("a")
		b.ReportAllocs()
		for b.Loop() {
			_ = svc.Serve(x)
		}
	})
}

// Run with -cpu 1,2: more processors decide more.
func BenchmarkParallel(b *testing.B) {
	for _, by := range []By{ByRoute, ByTenant} {
		b.Run(string(by), func(b *testing.B) {
			svc, of := benched(by, false)
			var n atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				first := int(n.Add(1)) * 1000
				xs := make([]*exchange.Exchange, 100)
				for i := range xs {
					xs[i] = of(first + i)
				}
				for i := 0; p.Next(); i++ {
					x := xs[i%len(xs)]
					x.Event.Start = x.Event.Start.Add(100 * time.Microsecond)
					_ = svc.Serve(x)
				}
			})
		})
	}
}
