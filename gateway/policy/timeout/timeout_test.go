package timeout_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/timeout"
)

// hang never answers: it waits until its deadline, as a wire does.
func hang(told *[]time.Duration) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		left, _ := x.Remaining(time.Now())
		*told = append(*told, left)
		return x.Wait(time.Hour, nil)
	})
}

// thrice makes up to three tries without back-off while a try runs out.
func thrice(next exchange.Service) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		var err error
		for range 3 {
			if err = next.Serve(x); err == nil || x.Err() != nil {
				return err
			}
		}
		return err
	})
}

func TestPolicies_V80(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Duration
		svc := exchange.Chain(hang(&told), timeout.Total(250*time.Millisecond), thrice, timeout.PerTry(100*time.Millisecond))
		x := new(exchange.Exchange)
		start := time.Now()
		err := svc.Serve(x)
		want := []time.Duration{100 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond}
		if !slices.Equal(told, want) {
			t.Errorf("tries were told %v, want %v", told, want)
		}
		if took := time.Since(start); !errors.Is(err, exchange.ErrTotalTimeout) || took != 250*time.Millisecond {
			t.Errorf("got %v after %v, want %v after 250ms", err, took, exchange.ErrTotalTimeout)
		}
		if x.Event.Timeout != "total" {
			t.Errorf("event says timeout %q, want total", x.Event.Timeout)
		}
	})
}

func TestPolicies_V81(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Duration
		svc := exchange.Chain(hang(&told), timeout.Total(time.Second))
		x := new(exchange.Exchange)
		x.SetDeadline(time.Now())
		if err := svc.Serve(x); !errors.Is(err, exchange.ErrTotalTimeout) || len(told) != 0 {
			t.Errorf("got %v and %d upstream calls, want %v and none", err, len(told), exchange.ErrTotalTimeout)
		}
	})
}

func TestPerTry(t *testing.T) {
	answer := exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil })
	fails := func(err error) exchange.Service {
		return exchange.Func(func(*exchange.Exchange) error { return err })
	}
	var told []time.Duration
	refused := &exchange.UpstreamError{Kind: exchange.Dial}
	tests := []struct {
		name  string
		inner exchange.Service
		kind  exchange.Kind // "" where no error is expected
	}{
		{"an answer in time stays an answer", answer, ""},
		{"a hung upstream is a try timeout", hang(&told), exchange.TryTimeout},
		{"another failure keeps its name", fails(refused), exchange.Dial},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := new(exchange.Exchange)
				total := time.Now().Add(time.Minute)
				x.SetDeadline(total)
				err := timeout.PerTry(time.Second)(tt.inner).Serve(x)
				ue, _ := errors.AsType[*exchange.UpstreamError](err)
				if (err != nil) != (tt.kind != "") || ue != nil && ue.Kind != tt.kind {
					t.Errorf("got %v, want kind %q", err, tt.kind)
				}
				if after, _ := x.Deadline(); !after.Equal(total) {
					t.Errorf("deadline after the try is %v, want %v", after, total)
				}
			})
		})
	}
}

func TestTotalLeavesStreams(t *testing.T) {
	tests := []struct {
		name, kind string
		wantLeft   bool
	}{
		{"a page keeps its deadline", "text/html", true},
		{"an event stream drops it at the head", "text/event-stream; charset=utf-8", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc := timeout.Total(time.Second)(exchange.Func(func(x *exchange.Exchange) error {
				x.Response.Head.Add("Content-Type", tt.kind)
				return nil
			}))
			x := new(exchange.Exchange)
			if err := svc.Serve(x); err != nil {
				t.Fatal(err)
			}
			if _, left := x.Deadline(); left != tt.wantLeft {
				t.Errorf("deadline left: %v, want %v", left, tt.wantLeft)
			}
		})
	}
}
