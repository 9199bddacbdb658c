package breaker

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// reply is a service that answers as it is told.
type reply struct {
	status  int
	head    [2]string
	err     error
	local   bool
	events  bool
	trailer string // grpc-status behind the body
	panics  bool
	untried bool
	kind    exchange.Kind // of the try
	served  int
}

func (r *reply) Serve(x *exchange.Exchange) error {
	r.served++
	if !r.untried {
		x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: "a", Status: r.status, Kind: string(r.kind)})
	}
	if r.panics {
		panic("in a layer below")
	}
	if r.err != nil {
		return r.err
	}
	x.Response.Status, x.Response.Local = r.status, r.local
	if r.head[0] != "" {
		x.Response.Head.Add(r.head[0], r.head[1])
	}
	if r.events {
		x.Response.Head.Add("Content-Type", "text/event-stream")
	}
	if r.trailer != "" {
		x.Response.Head.Add("Content-Type", "application/grpc")
		x.Response.Body = io.NopCloser(strings.NewReader("message"))
	}
	return nil
}

// serve runs one request to its end, as record and front would.
func serve(svc exchange.Service, x *exchange.Exchange, end retrylog.Outcome, trailer string) error {
	x.Reset()
	mark := x.Mark()
	err := svc.Serve(x)
	if err != nil {
		x.EndTo(mark, exchange.Classify(err, 0))
		return err
	}
	if trailer != "" {
		x.Response.Trailer.Add("Grpc-Status", trailer)
	}
	if end == "" {
		x.Event.BodyComplete = true
		end = exchange.Classify(nil, x.Response.Judged())
	}
	x.End(end)
	return nil
}

func TestWhatCounts(t *testing.T) {
	refusal := &exchange.Refusal{Policy: "balance", Reason: "no_endpoint", Status: 503}
	up := func(kind exchange.Kind, err error) error { return &exchange.UpstreamError{Kind: kind, Err: err} }
	tests := []struct {
		name   string
		reply  reply
		end    retrylog.Outcome // "": the whole body was sent
		total  int64
		failed int64
	}{
		{"200", reply{status: 200}, "", 1, 0},
		{"404", reply{status: 404}, "", 1, 0},
		{"500", reply{status: 500}, "", 1, 1},
		{"502", reply{status: 502}, "", 1, 1},
		{"503", reply{status: 503}, "", 1, 1},
		{"504", reply{status: 504}, "", 1, 1},
		{"501 is in no list", reply{status: 501}, "", 1, 0},
		{"505 is in no list", reply{status: 505}, "", 1, 0},
		{"429 says nothing", reply{status: 429}, "", 0, 0},
		{"408 says nothing", reply{status: 408}, "", 0, 0},
		{"a reset", reply{err: up(exchange.ResetBeforeFirst, nil)}, "", 1, 1},
		{"a timeout of the try", reply{err: up(exchange.TryTimeout, nil)}, "", 1, 1},
		{"a total timeout", reply{err: exchange.ErrTotalTimeout}, "", 1, 1},
		{"a deadline that was over before", reply{err: context.DeadlineExceeded, untried: true}, "", 0, 0},
		{"the client went", reply{err: up(exchange.Canceled, exchange.ErrClientGone)}, "", 0, 0},
		{"a refusal from below", reply{err: refusal}, "", 0, 0},
		{"a strange error", reply{err: errors.New("odd")}, "", 1, 1},
		{"the body was cut", reply{status: 200}, retrylog.UpstreamFailure, 1, 1},
		{"the body stood still", reply{status: 200}, retrylog.Timeout, 1, 1},
		{"the client left the body", reply{status: 200}, retrylog.ClientAbort, 0, 0},
		{"the client left a 503", reply{status: 503}, retrylog.ClientAbort, 1, 1},
		{"an unlisted 5xx whose body is dropped", reply{status: 501}, retrylog.UpstreamFailure, 1, 0},
		{"a panic behind the head", reply{status: 200}, retrylog.Panicked, 0, 0},
		{"a stream is good as it begins", reply{status: 200, events: true}, retrylog.UpstreamFailure, 1, 0},
		{"good gRPC", reply{status: 200, trailer: "0"}, "", 1, 0},
		{"gRPC unavailable", reply{status: 200, trailer: "14"}, "", 1, 1},
		{"gRPC resource exhausted is 429", reply{status: 200, trailer: "8"}, "", 0, 0},
		{"gRPC unimplemented is 501", reply{status: 200, trailer: "12"}, "", 1, 0},
		{"it says failure itself", reply{status: 200, head: [2]string{"x-breakwater-outcome", "failure"}}, "", 1, 1},
		{"it says success itself", reply{status: 503, head: [2]string{"X-Breakwater-Outcome", "success"}}, "", 1, 0},
		{"it says ignore itself", reply{status: 500, head: [2]string{"X-Breakwater-Outcome", "ignore"}}, "", 0, 0},
		{"it says nonsense", reply{status: 500, head: [2]string{"X-Breakwater-Outcome", "fine"}}, "", 1, 1},
		{"our 503 in place of its 502", reply{status: 502, local: true}, "", 1, 1},
		{"our 503 where nothing was asked", reply{status: 503, local: true, untried: true}, "", 0, 0},
		{"our answer to a dial error", reply{local: true, kind: exchange.Dial}, "", 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(single(), Deps{}, time.Now())
			svc := Layer(b)(&tt.reply)
			_ = serve(svc, new(exchange.Exchange), tt.end, tt.reply.trailer)
			if s := b.Stats(time.Now()); s.Total != tt.total || s.Failed != tt.failed {
				t.Errorf("counted %d failures of %d, want %d of %d", s.Failed, s.Total, tt.failed, tt.total)
			}
		})
	}
}

// R23: an answer that breaks off is a failure, told by its end and not its head.
func TestPolicies_R23_Breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(single(), Deps{}, time.Now())
		svc := Layer(b)(&reply{status: 200})
		for range 20 {
			_ = serve(svc, new(exchange.Exchange), retrylog.UpstreamFailure, "")
		}
		if s := b.State(time.Now()); s != Open {
			t.Errorf("after 20 cut bodies it is %s", s)
		}
	})
}

// X134: an upstream answers nothing but 503 for a minute, and then is well.
func TestReliability_X134(t *testing.T) {
	quick := Default()
	quick.MaxOpen, quick.HalfOpen.Simple = 10*time.Second, true
	for _, tt := range []struct {
		name  string
		cfg   Config
		back  time.Duration
		calls int
	}{
		{"as shipped: the rest of 40 s, and three windows", Default(), 70 * time.Second, 206},
		{"quick to come back", quick, 15 * time.Second, 206},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(tt.cfg, Deps{}, time.Now())
				r := &reply{status: 503}
				svc := Layer(b)(r)
				x := new(exchange.Exchange)
				var opened time.Duration
				start := time.Now()
				for time.Since(start) < 60*time.Second {
					_ = serve(svc, x, "", "")
					if opened == 0 && b.State(time.Now()) == Open {
						opened = time.Since(start)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if opened == 0 || opened > 20*time.Second {
					t.Errorf("opened after %s, want two windows at most", opened)
				}
				if r.served > tt.calls {
					t.Errorf("the upstream saw %d calls, want those of two windows and some probes", r.served)
				}
				r.status = 200
				well := time.Now()
				for b.State(time.Now()) != Closed && time.Since(well) < 10*time.Minute {
					_ = serve(svc, x, "", "")
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(well); took > tt.back {
					t.Errorf("closed after %s, want %s at most", took, tt.back)
				}
				if n := b.Stats(time.Now()).Turns[0][1]; n != 1 {
					t.Errorf("it opened %d times, want once and no second collapse", n)
				}
			})
		})
	}
}

func TestLayerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := single()
		b := New(cfg, Deps{}, time.Now())
		r := &reply{status: 503}
		svc := Layer(b)(r)
		x := new(exchange.Exchange)
		for range 20 {
			_ = serve(svc, x, "", "")
		}
		time.Sleep(2500 * time.Millisecond)
		refusal, ok := errors.AsType[*exchange.Refusal](serve(svc, x, "", ""))
		if !ok || refusal.Policy != "breaker" || refusal.Reason != "open" || refusal.Status != 503 || refusal.RetryAfter != 7500*time.Millisecond {
			t.Errorf("got %+v", refusal)
		}
		time.Sleep(7 * time.Second)
		if refusal, _ = errors.AsType[*exchange.Refusal](serve(svc, x, "", "")); refusal == nil || refusal.RetryAfter != time.Second {
			t.Errorf("half a second before, got %+v, want to be told a second", refusal)
		}
		if r.served != 20 {
			t.Errorf("%d calls, want 20", r.served)
		}
		time.Sleep(500 * time.Millisecond)
		r.status = 200
		if err := serve(svc, x, "", ""); err != nil || x.Probe != 1 {
			t.Errorf("probe %d, %v", x.Probe, err)
		}
		refusal, _ = errors.AsType[*exchange.Refusal](serve(svc, x, "", ""))
		if refusal == nil || refusal.Reason != "half_open" || refusal.RetryAfter != 2*time.Second {
			t.Errorf("got %+v, want half_open and the time of the next probe", refusal)
		}
	})
}

func TestObserveOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := single()
		cfg.Observe = true
		b := New(cfg, Deps{}, time.Now())
		r := &reply{status: 503}
		svc := Layer(b)(r)
		x := new(exchange.Exchange)
		for range 30 {
			if err := serve(svc, x, "", ""); err != nil {
				t.Fatal(err)
			}
		}
		if r.served != 30 || x.Event.Observed != "breaker:open" {
			t.Errorf("%d calls passed, observed %q", r.served, x.Event.Observed)
		}
		if s := b.Stats(time.Now()); s.State != Open || s.Refused != 10 {
			t.Errorf("%s, %d refused, want open and 10", s.State, s.Refused)
		}
		if (Gate{b}).Shut(time.Now()) {
			t.Error("one that only observes shuts a gate")
		}
	})
}

func TestDisabledLayer(t *testing.T) {
	b := New(Config{Disabled: true}, Deps{}, time.Now())
	svc := Layer(b)(&reply{status: 500})
	for range 100 {
		if err := serve(svc, new(exchange.Exchange), "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if s := b.Stats(time.Now()); s.Total != 0 {
		t.Errorf("counted %d", s.Total)
	}
}

// Every way out gives the permit back: a half-open breaker is not worn out.
func TestPermitsComeBack(t *testing.T) {
	ways := map[string]reply{
		"ignored": {status: 429}, "refused below": {err: &exchange.Refusal{Policy: "concurrency", Status: 503}},
		"client gone": {err: exchange.ErrClientGone}, "panic": {panics: true},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := single()
				cfg.HalfOpen.Simple = true
				b := New(cfg, Deps{}, time.Now())
				bad, x := Layer(b)(&reply{status: 500}), new(exchange.Exchange)
				for range 20 {
					_ = serve(bad, x, "", "")
				}
				time.Sleep(10 * time.Second)
				svc := Layer(b)(&way)
				for range 50 {
					func() {
						defer func() {
							if recover() != nil {
								x.EndTo(0, retrylog.Panicked)
							}
						}()
						_ = serve(svc, x, "", "")
					}()
				}
				if s := b.Stats(time.Now()); s.State != HalfOpen || s.Flying != 0 || way.served != 50 {
					t.Errorf("%s, %d out, %d served", s.State, s.Flying, way.served)
				}
				good := Layer(b)(&reply{status: 200})
				for range 5 {
					_ = serve(good, x, "", "")
				}
				if s := b.State(time.Now()); s != Closed {
					t.Errorf("after 5 good probes it is %s", s)
				}
			})
		})
	}
}

func TestSlowIsToTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := slowConfig()
		b := New(cfg, Deps{}, time.Now())
		svc := Layer(b)(&reply{status: 200})
		x := new(exchange.Exchange)
		x.Reset()
		if err := svc.Serve(x); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the client reads slowly
		x.Event.BodyComplete = true
		x.End(retrylog.OK)
		if s := b.Stats(time.Now()); s.Slow != 0 || s.Total != 1 {
			t.Errorf("%d slow of %d, want none of 1", s.Slow, s.Total)
		}
		hang := Layer(b)(exchange.Func(func(*exchange.Exchange) error { time.Sleep(5 * time.Second); return exchange.ErrTotalTimeout }))
		start := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _ = serve(hang, new(exchange.Exchange), "", "") })
		}
		time.Sleep(2040 * time.Millisecond) // of those that hang none has come back
		if s := b.State(time.Now()); s != Open {
			t.Errorf("%s after all calls hung it is %s", time.Since(start), s)
		}
		all.Wait()
	})
}

func TestLayerAllocatesNothing(t *testing.T) {
	for name, cfg := range map[string]Config{"one window": single(), "two": Default(), "dual": dual(And, 10, 300_000), "slow": slowConfig()} {
		b := New(cfg, Deps{}, time.Now())
		svc := Layer(b)(exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil }))
		x := new(exchange.Exchange)
		if n := testing.AllocsPerRun(1000, func() {
			x.Reset()
			x.Event.Start = time.Now()
			_ = svc.Serve(x)
			x.End(retrylog.OK)
		}); n >= 0.5 { // under the race detector pools lose things
			t.Errorf("%s: a request allocates %.1f times", name, n)
		}
	}
}

func BenchmarkLayer(b *testing.B) {
	for name, cfg := range map[string]Config{"service": Default(), "endpoint": DefaultEndpoint(), "slow": slowConfig()} {
		b.Run(name, func(b *testing.B) {
			start := time.Now()
			svc := Layer(New(cfg, Deps{}, start))(exchange.Func(func(x *exchange.Exchange) error {
				x.Response.Status, x.HeadAt = 200, start // as a balancer leaves it
				return nil
			}))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				x := new(exchange.Exchange)
				x.Reset()
				for pb.Next() {
					x.Event.Start = start
					_ = svc.Serve(x)
					x.Event.BodyComplete = true
					x.End(retrylog.OK)
				}
			})
		})
	}
}

func BenchmarkCore(b *testing.B) {
	k := New(DefaultEndpoint(), Deps{}, epoch)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		shard := uint(k.made.Add(1))
		now := at(1)
		for pb.Next() {
			p, _ := k.Allow(now, shard)
			k.Done(now, shard, p, Success)
		}
	})
}
