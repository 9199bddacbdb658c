package gateway

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/spool"
	"breakwater/internal/retrylog"
)

// passing is what record, metrics and tallies cost a request that passes.
func passing(t testing.TB, core, toSpool bool) func() {
	t.Helper()
	cfg := Config{Log: slog.New(slog.DiscardHandler)}
	if toSpool {
		s, err := spool.Open(spool.Config{Dir: t.TempDir(), Log: cfg.Log, MaxBytes: 1 << 40, Keep: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Ship(ctx) }()
		t.Cleanup(func() {
			cancel()
			<-done
			_ = s.Close(context.Background())
		})
		cfg.Recorder = s
	}
	g := New(cfg)
	good := exchange.Func(func(x *exchange.Exchange) error {
		x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: "127.0.0.1:8000", Status: 200})
		x.Response.Status = 200
		return nil
	})
	route := config.Route{Name: "order-get", Service: "order", Upstream: "order", Core: core}
	s := &snapshot{name: "gw", env: "bench"}
	s.cfg.Gateway.CallerHeader = "X-Caller"
	s.cfg.Upstreams = []config.Upstream{{Name: "order"}}
	svc := g.record(s, route)(good)
	x := new(exchange.Exchange)
	return func() {
		x.Reset()
		x.Event.Start, x.Event.RequestID, x.Event.BodyComplete = time.Now(), "01jdk0000000000000000000", true
		x.Request.Method = "GET"
		x.Request.Head.Add("X-Caller", "web")
		if err := svc.Serve(x); err != nil {
			t.Fatal(err)
		}
		x.End(retrylog.OK)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Log("a pool forgets at random under the race detector")
		return
	}
	for _, core := range []bool{false, true} {
		if n := testing.AllocsPerRun(2000, passing(t, core, true)); n > 0.1 {
			t.Errorf("core %v: %v allocations a request", core, n)
		}
	}
}

func BenchmarkRecorded(b *testing.B) {
	for _, bb := range []struct {
		name          string
		core, toSpool bool
	}{{"counted only", false, false}, {"folded", false, true}, {"a line each", true, true}} {
		b.Run(bb.name, func(b *testing.B) {
			one := passing(b, bb.core, bb.toSpool)
			b.ReportAllocs()
			for b.Loop() {
				one()
			}
		})
	}
	b.Run("without", func(b *testing.B) { // what the rest costs: to be taken off
		x := new(exchange.Exchange)
		b.ReportAllocs()
		for b.Loop() {
			x.Reset()
			x.Event.Start = time.Now()
			x.Request.Head.Add("X-Caller", "web")
		}
	})
}
