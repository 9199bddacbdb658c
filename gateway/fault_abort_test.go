package gateway_test

import (
	"bufio"
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/lease"
	"breakwater/gateway/policy/fault"
)

var abortTrials = flag.Int("abort-trials", 0, "how often faults are aborted over held requests; 0: as often as fits into a normal run")

// held is a set of connections, each with a request that a fault holds.
type heldRequests struct {
	h     *haunted
	conns []net.Conn
	reads []*bufio.Reader
}

func (h *haunted) hold(t testing.TB, n int) *heldRequests {
	t.Helper()
	held := &heldRequests{h: h}
	for range n {
		c, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		held.conns, held.reads = append(held.conns, c), append(held.reads, bufio.NewReader(c))
	}
	return held
}

// send sends a request on each and waits until the faults hold as many.
func (r *heldRequests) send(t testing.TB) {
	t.Helper()
	// A try that waits to be put to sleep is no injection yet, and ends as none.
	injected := func() (n int64) {
		for _, of := range r.h.table.Tallies() {
			n += of.Injected
		}
		return n
	}
	before := injected() // asked again each millisecond: real connections tell nobody
	for _, c := range r.conns {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(c, "GET /orders/1 HTTP/1.1\r\nHost: app.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Second); injected()-before < int64(len(r.conns)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d requests are held", injected()-before, len(r.conns))
		}
	}
}

// answers reads the answer of each, and returns when the last was there.
func (r *heldRequests) answers(t testing.TB) time.Time {
	t.Helper()
	var reading sync.WaitGroup
	for i, in := range r.reads {
		reading.Go(func() {
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			if b, err := io.ReadAll(res.Body); err != nil || string(b) != "fine" || res.StatusCode != 200 {
				t.Errorf("connection %d: %d %q, %v", i, res.StatusCode, b, err)
			}
		})
	}
	reading.Wait()
	return time.Now()
}

// From the command to the last request that a fault held it is a second at most, at
// P99, by each way there is to stop: the plan, the admin port, the file, the caps.
// The requests go on to the upstream: an abort is no failure.
func TestChaos_AbortCutsSleepsShort(t *testing.T) {
	up := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	cfg := shop(up)
	cfg.Routes[0].Timeout = time.Minute
	h := haunt(t, cfg)
	file := filepath.Join(t.TempDir(), "halt")
	poller := lease.New(lease.Config{Table: h.table, HaltFile: file})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = poller.Run(ctx) })
	defer watching.Wait()
	defer cancel()
	ways := []struct {
		name       string
		stop, undo func()
	}{
		{"plan", func() { h.arm(t) }, func() {}},
		{"admin", func() { admin(h.Gateway, "POST", "/faults/halt") }, func() { admin(h.Gateway, "POST", "/faults/resume") }},
		{"switch", func() { poller.Halt("SIGUSR1") }, func() { _ = poller.Resume() }},
		{"file", func() { _ = os.WriteFile(file, nil, 0o600) }, func() {
			_ = os.Remove(file)
			// Asked of the poller, which arms its own plan before it says so.
			for end := time.Now().Add(10 * time.Second); poller.Stats().Halted && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
		}},
		{"caps", func() { h.table.SetCaps(fault.Caps{MaxPPM: 1}) }, func() { h.table.SetCaps(fault.Caps{}) }},
	}
	n, trials := 200, 20
	if gateway.RaceEnabled || testing.Short() {
		n, trials = 50, 10
	}
	if *abortTrials > 0 {
		trials = *abortTrials
	}
	held := h.hold(t, n)
	kinds := []fault.Fault{
		whole(fault.Latency, func(f *fault.Fault) { f.LatencyMS = 25_000 }),
		whole(fault.Latency, func(f *fault.Fault) { f.LatencyMS, f.Side = 25_000, fault.ResponseSide }),
		whole(fault.Blackhole),
		whole(fault.Latency, atEdge, func(f *fault.Fault) { f.LatencyMS = 25_000 }),
	}
	var took []time.Duration
	for trial := range trials {
		h.arm(t, kinds[trial%len(kinds)])
		held.send(t)
		way := ways[trial%len(ways)]
		begin := time.Now()
		way.stop()
		took = append(took, held.answers(t).Sub(begin))
		if armed := h.table.Armed(time.Now()); len(armed) != 0 || h.table.Asleep() != 0 {
			t.Fatalf("%s: %+v armed, %d asleep", way.name, armed, h.table.Asleep())
		}
		way.undo()
	}
	slices.Sort(took)
	t.Logf("%d trials of %d held requests: median %v, P99 %v, longest %v", trials, n, took[trials/2], took[trials*99/100], took[trials-1])
	if p99 := took[trials*99/100]; p99 > time.Second {
		t.Errorf("P99 from the command to the last request is %v, want 1 s at most", p99)
	}
	for _, ev := range h.records.wait(t, n*trials) {
		if ev.Outcome != "ok" || ev.Experiment != "run-1" || len(ev.Tries) == 1 && ev.Tries[0].PlannedUS > 0 && !ev.Tries[0].CutShort {
			t.Fatalf("event %+v", ev)
		}
	}
}

// C4: connections that were opened before a fault is armed are not spared by it.
func TestChaos_C4(t *testing.T) {
	up := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	h := haunt(t, shop(up))
	held := h.hold(t, 50)
	for _, c := range held.conns { // in use, and so are the upstream's
		_, _ = io.WriteString(c, "GET /orders/1 HTTP/1.1\r\nHost: app.example\r\n\r\n")
	}
	held.answers(t)
	h.records.wait(t, 50)
	h.arm(t, whole(fault.Latency, func(f *fault.Fault) { f.LatencyMS = 100 }))
	for range 3 {
		begin := time.Now()
		for _, c := range held.conns {
			_, _ = io.WriteString(c, "GET /orders/1 HTTP/1.1\r\nHost: app.example\r\n\r\n")
		}
		if took := held.answers(t).Sub(begin); took < 100*time.Millisecond {
			t.Errorf("all had answered after %v", took)
		}
	}
	for _, ev := range h.records.wait(t, 200)[50:] {
		if ev.LatencyUS < 100_000 || ev.Tries[0].Fault != "latency" {
			t.Fatalf("not delayed after the fault was armed: %+v", ev)
		}
	}
}

// C10: of a request whose answer comes in five pieces the delay is due once or not at
// all, and for the share that was asked for.
func TestChaos_C10(t *testing.T) {
	up := server(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 5 {
			_, _ = io.WriteString(w, "piece")
			_ = http.NewResponseController(w).Flush()
		}
	})
	h := haunt(t, shop(up))
	const n, callers, share = 1000, 50, 300_000
	h.arm(t, whole(fault.Latency, func(f *fault.Fault) { f.PPM, f.LatencyMS = share, 60 }))
	var asking sync.WaitGroup
	for range callers {
		asking.Go(func() {
			for range n / callers {
				if got := h.ask(t, "GET", "/orders/1"); string(got.body) != strings.Repeat("piece", 5) {
					t.Errorf("%q, %v", got.body, got.err)
				}
			}
		})
	}
	asking.Wait()
	delayed := 0
	for _, ev := range h.records.wait(t, n) {
		try := ev.Tries[0]
		if hit := fault.Hit("s", ev.RequestID+"#1", share); hit != (try.PlannedUS == 60_000) || !hit && try.ActualUS != 0 {
			t.Fatalf("hit %v, planned %d us, slept %d us", hit, try.PlannedUS, try.ActualUS)
		} else if hit {
			delayed++
		}
	}
	if delayed < 231 || delayed > 369 { // five standard deviations of ids that are random
		t.Errorf("%d of %d delayed, want 30 %%", delayed, n)
	}
}

// C9: one way is one way, and both are both.
func TestChaos_C9_wire(t *testing.T) {
	up := server(t, func(http.ResponseWriter, *http.Request) {})
	h := haunt(t, shop(up))
	for i, tt := range []struct {
		side fault.Side
		want int64
	}{{fault.RequestSide, 25_000}, {fault.ResponseSide, 25_000}, {fault.BothSides, 50_000}} {
		h.arm(t, whole(fault.Latency, func(f *fault.Fault) { f.LatencyMS, f.Side = 25, tt.side }))
		begin := time.Now()
		h.ask(t, "GET", "/orders/1")
		try := h.last(t, i+1).Tries[0]
		if took := time.Since(begin).Microseconds(); took < tt.want || try.PlannedUS != tt.want || try.ActualUS < tt.want || try.ActualUS > tt.want+20_000 {
			t.Errorf("%s: took %d us, planned %d, slept %d", tt.side, took, try.PlannedUS, try.ActualUS)
		}
	}
}
