package fallback

import (
	"testing"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

func TestPassingAllocatesNothing(t *testing.T) {
	cfg, store := lastGood()
	keeping := Layer(cfg, store)(exchange.Func(func(x *exchange.Exchange) error {
		x.Response.Status = 200
		x.Response.Head.Add("Cache-Control", "public, max-age=60")
		x.Response.Head.Add("Vary", "Accept-Encoding")
		return nil
	}))
	plain := Layer(Config{Action: ReturnDefault, OnOpen: true, OnFailure: true}, nil)(exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil }))
	x := get("/a")
	x.Request.Head.Add("Cookie", "session=1")
	x.Request.Head.Add("Accept-Encoding", "gzip")
	_ = keeping.Serve(x)
	x.End(retrylog.OK)
	bare := Layer(cfg, store)(exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil }))
	y := get("/b")
	_ = bare.Serve(y)
	y.End(retrylog.OK)
	if n := testing.AllocsPerRun(1000, func() { _ = bare.Serve(y); y.EndTo(0, retrylog.OK) }); n != 0 {
		t.Errorf("an answer without a field: %.2f allocations", n)
	}
	for name, svc := range map[string]exchange.Service{"plain": plain, "kept already": keeping} {
		if n := testing.AllocsPerRun(1000, func() {
			x.Response = exchange.Response{Head: x.Response.Head, Length: -1}
			x.Response.Head.Reset()
			_ = svc.Serve(x)
			x.EndTo(0, retrylog.OK)
		}); n != 0 {
			t.Errorf("%s: %.2f allocations", name, n)
		}
	}
}

func BenchmarkPassing(b *testing.B) {
	cfg, store := lastGood()
	for name, layer := range map[string]exchange.Layer{
		"default": Layer(Config{Action: ReturnDefault, OnOpen: true}, nil), "last good": Layer(cfg, store),
	} {
		b.Run(name, func(b *testing.B) {
			svc := layer(exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil }))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				x := get("/a")
				for pb.Next() {
					_ = svc.Serve(x)
					x.EndTo(0, retrylog.OK)
				}
			})
		})
	}
}
