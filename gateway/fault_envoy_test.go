package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/fault"
)

// Envoy's fields ask for faults where the route allows it, for trusted peers, within
// the caps, and while the kill switch is off; no upstream sees them there.
func TestFaultWire_EnvoyHeaders(t *testing.T) {
	seen := make(chan http.Header, 10)
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	})
	cfg := trusting(shop(up))
	cfg.Routes[0].EnvoyFaultHeaders = true
	h := haunt(t, cfg)
	n := 0
	ask := func(fields ...string) (got wired, took time.Duration, synthetic string) {
		t.Helper()
		begin := time.Now()
		got = h.ask(t, "GET", "/orders/1", fields...)
		took = time.Since(begin)
		n++
		ev := h.last(t, n)
		if ev.Experiment != "" {
			t.Errorf("no run has asked: %+v", ev)
		}
		select {
		case head := <-seen:
			for name := range head {
				if strings.HasPrefix(name, "X-Envoy-Fault") {
					t.Errorf("the upstream saw %s", name)
				}
			}
		default:
		}
		return got, took, ev.Synthetic
	}
	if got, _, s := ask("x-envoy-fault-abort-request", "503"); got.status != 503 || string(got.body) != "fault filter abort" || s != "opt_in" {
		t.Errorf("%d %q, %q", got.status, got.body, s)
	}
	if got, took, s := ask("X-Envoy-Fault-Delay-Request", "120"); got.status != 200 || took < 120*time.Millisecond || s != "opt_in" {
		t.Errorf("%d after %v, %q", got.status, took, s)
	}
	if got, took, _ := ask("x-envoy-fault-throughput-response", "2"); len(got.body) != 1000 || took < 450*time.Millisecond {
		t.Errorf("%d bytes after %v, want 1000 at 2 KiB/s", len(got.body), took)
	}
	if got, _, _ := ask("x-envoy-fault-abort-grpc-request", "14"); got.head.Get("Grpc-Status") != "14" {
		t.Errorf("%v", got.head)
	}
	for _, fields := range [][]string{
		{"x-envoy-fault-abort-request", "503", "x-envoy-fault-abort-request-percentage", "0"},
		{"x-envoy-fault-abort-request", "503", "x-envoy-fault-abort-request-percentage", "many"},
		{"x-envoy-fault-abort-request", "9999"}, {"x-envoy-fault-delay-request", "-5"}, {"x-envoy-fault-abort-grpc-request", "0"},
	} {
		if got, took, _ := ask(fields...); got.status != 200 || took > 100*time.Millisecond {
			t.Errorf("%q: %d after %v", fields, got.status, took)
		}
	}
	h.table.SetCaps(fault.Caps{MaxLatency: 50 * time.Millisecond})
	if _, took, _ := ask("x-envoy-fault-delay-request", "4000"); took > time.Second {
		t.Errorf("%v, over the cap of 50 ms", took)
	}
	h.table.SetCaps(fault.Caps{})
	time.AfterFunc(50*time.Millisecond, h.table.Halt)
	if got, took, _ := ask("x-envoy-fault-delay-request", "4000"); got.status != 200 || took > time.Second {
		t.Errorf("%d after %v: it was halted", got.status, took)
	}
	if got, _, _ := ask("x-envoy-fault-abort-request", "503"); got.status != 200 {
		t.Errorf("%d under halt", got.status)
	}
}

// Of strangers, and where the route does not allow it, nothing is injected.
func TestFaultWire_EnvoyHeadersOfStrangers(t *testing.T) {
	seen := make(chan http.Header, 10)
	up := server(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
	strange, closed, exempt := shop(up), trusting(shop(up)), trusting(shop(up))
	strange.Routes[0].EnvoyFaultHeaders = true
	exempt.Routes[0].EnvoyFaultHeaders, exempt.Routes[0].NoFaults = true, true
	if got := haunt(t, strange).ask(t, "GET", "/orders/1", "x-envoy-fault-abort-request", "503"); got.status != 200 || (<-seen).Get("X-Envoy-Fault-Abort-Request") != "" {
		t.Errorf("a stranger's: %d", got.status)
	}
	// What is nothing to us is passed on, as every field is.
	if got := haunt(t, closed).ask(t, "GET", "/orders/1", "x-envoy-fault-abort-request", "503"); got.status != 200 || (<-seen).Get("X-Envoy-Fault-Abort-Request") != "503" {
		t.Errorf("on a route that says nothing: %d", got.status)
	}
	if got := haunt(t, exempt).ask(t, "GET", "/orders/1", "x-envoy-fault-abort-request", "503"); got.status != 200 {
		t.Errorf("on an exempt route: %d", got.status)
	}
}
