package gateway_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"breakwater/gateway/config"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/route"
	"breakwater/internal/retrylog"
)

// A connection lost at the edge is lost: closed without a byte, or reset. Retry has
// no say in it, and whether the upstream ran is as the fault says.
func TestFaultWire_EdgeLosesConnections(t *testing.T) {
	var calls atomic.Int64
	up := server(t, func(w http.ResponseWriter, _ *http.Request) { calls.Add(1); _, _ = io.WriteString(w, "fine") })
	n := 0
	h := haunt(t, retries(shop(up), 2))
	for _, kind := range []fault.Kind{fault.Drop, fault.Reset} {
		for phase, want := range map[fault.Phase]int64{fault.BeforeUpstream: 0, fault.AfterUpstream: 1} {
			h.arm(t, whole(kind, atEdge, func(f *fault.Fault) { f.Phase = phase }))
			if armed := h.table.Armed(time.Now()); len(armed) != 1 || !strings.Contains(armed[0].Note, "HTTP/2") {
				t.Errorf("the receipt says %+v", armed)
			}
			calls.Store(0)
			got := h.ask(t, "GET", "/orders/1")
			if len(got.raw) != 0 || (kind == fault.Reset) != isReset(got.err) || (kind == fault.Drop) != errors.Is(got.err, io.EOF) || calls.Load() != want {
				t.Errorf("%s %s: %q, %v, upstream %d calls", kind, phase, got.raw, got.err, calls.Load())
			}
			n++
			if ev := h.last(t, n); ev.Outcome != retrylog.UpstreamFailure || ev.Status != 0 || ev.Experiment != "run-1" || ev.Origin != "gateway" || ev.BodyComplete {
				t.Errorf("%s %s: event %+v", kind, phase, ev)
			}

			// HTTP/2: the stream is reset, and the connection serves the next one.
			d := h.dialH2(t)
			if two := d.get(t, "/orders/1"); two.reset == nil || *two.reset != http2.ErrCodeInternal || len(two.head) != 0 {
				t.Errorf("%s %s, HTTP/2: %+v", kind, phase, two)
			}
			n++
			h.last(t, n)
			h.arm(t)
			if two := d.get(t, "/orders/1"); string(two.body) != "fine" || !two.ended {
				t.Errorf("%s %s: the connection is of no more use: %+v", kind, phase, two)
			}
			n++
			h.last(t, n)
		}
	}
}

func TestFaultWire_EdgeErrorsAndLatencies(t *testing.T) {
	var calls atomic.Int64
	up := server(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	h := haunt(t, retries(shop(up), 2))
	h.arm(t, whole(fault.Error, atEdge, func(f *fault.Fault) {
		f.Status, f.Body, f.Headers = 503, "closed", map[string]string{"Retry-After": "3"}
	}), whole(fault.Latency, atEdge, func(f *fault.Fault) { f.LatencyMS = 100 }))
	begin := time.Now()
	got := h.ask(t, "GET", "/orders/1")
	if got.status != 503 || string(got.body) != "closed" || got.head.Get("Retry-After") != "3" || calls.Load() != 0 || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("%d %q %v after %v, %d calls", got.status, got.body, got.head, time.Since(begin), calls.Load())
	}
	if ev := h.last(t, 1); ev.Outcome != retrylog.UpstreamFailure || ev.Origin != "gateway" || len(ev.Tries) != 0 || ev.Experiment != "run-1" {
		t.Errorf("event %+v", ev)
	}
}

// C1: who is not sampled gets every byte as without a fault, and so does the
// upstream; no connection is reset by a fault of nobody.
func TestChaos_C1_wire(t *testing.T) {
	seen := make(chan []byte, 16)
	up := raw(t, func(c *net.TCPConn, r *bufio.Reader) {
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			seen <- head
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nX-Odd:  two  spaces\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello")
		}
	})
	h := haunt(t, trusting(shop(up)))
	fields := []string{"X-Request-Id", "fixed-1", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Accept", "*/*"}
	plain := h.ask(t, "GET", "/orders/1?a=%20b", fields...)
	up0 := <-seen
	var all []fault.Fault
	for i, f := range everyKind() {
		f.ID, f.PPM = fmt.Sprint(i), 0
		all = append(all, f)
		edge := f
		edge.ID, edge.Position, edge.Key = "edge-"+edge.ID, fault.AtEdge, fault.KeyRequest
		if fault.Check(edge) == nil {
			all = append(all, edge)
		}
	}
	h.arm(t, all...)
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	left := regexp.MustCompile(`X-Breakwater-Deadline-Ms: \d+`)
	// net/http gives a request's fields in no order.
	lines := func(head []byte) string {
		all := strings.Split(left.ReplaceAllString(string(head), ""), "\r\n")
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	text := []byte("GET /orders/1?a=%20b HTTP/1.1\r\nHost: app.example\r\n")
	for i := 0; i < len(fields); i += 2 {
		text = fmt.Appendf(text, "%s: %s\r\n", fields[i], fields[i+1])
	}
	text = append(text, "\r\n"...)
	want, got, alike := lines(up0), make([]byte, len(plain.raw)), map[string]bool{}
	for i := range n { // one connection for all of them
		if _, err := c.Write(text); err != nil {
			t.Fatal(err)
		}
		if m, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, plain.raw) {
			t.Fatalf("answer %d is %q, without faults %q (%v)", i, got[:m], plain.raw, err)
		}
		// Most heads came before as they are: only a new one is taken apart.
		if up1 := <-seen; !alike[string(up1)] {
			if lines(up1) != want {
				t.Fatalf("the upstream saw %q, without faults %q", up1, up0)
			}
			alike[string(up1)] = true
		}
	}
	// No byte came after the last answer either.
	if rest := askOn(t, c, "GET", "/orders/1?a=%20b", fields...); !bytes.Equal(rest.raw, plain.raw) {
		t.Fatalf("after the last answer came %q", rest.raw)
	}
	if h.injected() != 0 {
		t.Errorf("%d injected", h.injected())
	}
}

// everyKind is one fault of each.
func everyKind() []fault.Fault {
	return []fault.Fault{
		whole(fault.Latency, func(f *fault.Fault) { f.LatencyMS = 1000 }),
		whole(fault.Error, func(f *fault.Fault) { f.Status = 500 }),
		whole(fault.GRPC, func(f *fault.Fault) { f.Status = 14 }),
		whole(fault.Drop, func(f *fault.Fault) { f.Phase = fault.BeforeUpstream }),
		whole(fault.Refuse),
		whole(fault.Reset, func(f *fault.Fault) { f.Phase = fault.BeforeUpstream }),
		whole(fault.Blackhole),
		whole(fault.Header, func(f *fault.Fault) { f.Headers = map[string]string{"X-Odd": "1"} }),
		whole(fault.Truncate),
		whole(fault.Corrupt, func(f *fault.Fault) { f.PPMOfBody = 1_000_000 }),
		whole(fault.Body),
		whole(fault.Drip, func(f *fault.Fault) { f.BytesPerSecond = 1 }),
		whole(fault.Duplicate),
	}
}

// Who asks for faults by header is believed of trusted peers alone, is no user, and
// the upstream never learns of it.
func TestFaultWire_OptIn(t *testing.T) {
	seen := make(chan http.Header, 1)
	up := func(w http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() }
	optIn := func(f *fault.Fault) { f.Target.OptIn, f.Headers = true, map[string]string{"X-Hit": "yes"} }
	for _, tt := range []struct {
		name, asked string
		cfg         config.Config
		hit         bool
		synthetic   string
	}{
		{"a trusted peer asks", "run-1", trusting(shop(server(t, up))), true, "opt_in"},
		{"a trusted peer asks for another run", "run-2", trusting(shop(server(t, up))), false, ""},
		{"a trusted peer does not ask", "", trusting(shop(server(t, up))), false, ""},
		{"a stranger asks", "run-1", shop(server(t, up)), false, ""},
		{"a trusted peer asks, over HTTP/2 upstream", "run-1", overH2(trusting(shop(h2server(t, up)))), true, "opt_in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := haunt(t, tt.cfg)
			h.arm(t, whole(fault.Header, optIn))
			var fields []string
			if tt.asked != "" {
				fields = []string{"X-Breakwater-Chaos", tt.asked, "X_Breakwater_Chaos", tt.asked}
			}
			got := h.ask(t, "GET", "/orders/1", fields...)
			head := <-seen
			for name := range head {
				if strings.Contains(strings.ToLower(name), "chaos") {
					t.Errorf("the upstream saw %s", name)
				}
			}
			ev := h.last(t, 1)
			if hit := got.head.Get("X-Hit") == "yes"; hit != tt.hit || ev.Synthetic != tt.synthetic || (ev.Experiment != "") != tt.hit {
				t.Errorf("hit %v, event %+v", hit, ev)
			}
			for _, tally := range h.Tallies() {
				if tt.synthetic != "" && tally.Good+tally.Bad != 0 {
					t.Errorf("counted as a user's: %+v", tally)
				}
			}
		})
	}
}

func overH2(cfg config.Config) config.Config {
	cfg.Upstreams[0].Protocol = config.H2C
	return cfg
}

// Health, login and control routes are never hit, nor are probes, nor the admin port.
func TestFaultWire_NeverOnExemptRoutes(t *testing.T) {
	probed := make(chan struct{}, 100)
	up := server(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("User-Agent") == "breakwater-health" {
			probed <- struct{}{}
		}
	})
	cfg := shop(up)
	exempt := cfg.Routes[0]
	exempt.Name, exempt.Match, exempt.NoFaults = "login", route.Match{Path: "/login"}, true
	cfg.Routes = append(cfg.Routes, exempt)
	cfg.Upstreams[0].Health = &config.Health{Path: "/healthz", Interval: 20 * time.Millisecond, Timeout: time.Second, HealthyAfter: 1, UnhealthyAfter: 1}
	h := haunt(t, cfg)
	h.arm(t, whole(fault.Error, func(f *fault.Fault) { f.Status = 503 }),
		whole(fault.Drop, atEdge, func(f *fault.Fault) { f.Phase, f.PPM = fault.BeforeUpstream, 0 }),
		whole(fault.Error, atEdge, func(f *fault.Fault) { f.ID, f.Status, f.Target.Methods = "edge", 500, []string{"HEAD"} }))
	if got := h.ask(t, "GET", "/orders/1"); got.status != 503 {
		t.Fatalf("got %d where faults are allowed", got.status)
	}
	for _, method := range []string{"GET", "HEAD"} {
		if got := h.ask(t, method, "/login", "Connection", "close"); got.status != 200 {
			t.Errorf("%s: %d on an exempt route", method, got.status)
		}
	}
	for range 3 {
		<-probed
	}
	if state := stateOf(t, h.Gateway, up); state != "ready" {
		t.Errorf("the endpoint is %s by its probes", state)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/stats"} {
		if w := admin(h.Gateway, "GET", path); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := admin(h.Gateway, "POST", "/faults/halt"); w.Code != 200 || len(h.table.Armed(time.Now())) != 0 {
		t.Errorf("halt: %d, armed %v", w.Code, h.table.Armed(time.Now()))
	}
	if got := h.ask(t, "GET", "/orders/1"); got.status != 200 {
		t.Errorf("got %d after the halt", got.status)
	}
}
