package toxic_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"breakwater/gateway/policy/fault"
	"breakwater/gateway/toxic"
)

// world is a server of the API, the real client before it, and an upstream that
// sends back what it gets.
type world struct {
	*toxiproxy.Client
	api      string
	table    *fault.Table
	upstream string
}

func newWorld(t *testing.T, caps fault.Caps) *world {
	t.Helper()
	alarm, err := fault.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{table: fault.NewTable(caps)}
	l, echo := listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); _ = echo.Close(); running.Wait(); _ = alarm.Close() })
	s := toxic.New(toxic.Config{Switch: w.table, Alarm: alarm})
	running.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	w.api, w.upstream = "http://"+l.Addr().String(), echo.Addr().String()
	w.Client = toxiproxy.NewClient(w.api)
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) proxy(t *testing.T, name string) *toxiproxy.Proxy {
	t.Helper()
	p, err := w.CreateProxy(name, "127.0.0.1:0", w.upstream)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *world) poison(t *testing.T, p *toxiproxy.Proxy, kind, stream string, toxicity float32, attributes toxiproxy.Attributes) *toxiproxy.Toxic {
	t.Helper()
	got, err := p.AddToxic("", kind, stream, toxicity, attributes)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// echo sends text on c and returns what came back of it, and how long that took.
func echo(c net.Conn, text string) (got string, took time.Duration, err error) {
	begin := time.Now()
	if _, err := io.WriteString(c, text); err != nil {
		return "", time.Since(begin), err
	}
	buf := make([]byte, len(text))
	n, err := io.ReadFull(c, buf)
	return string(buf[:n]), time.Since(begin), err
}

// What each toxic does to what goes by.
func TestToxics(t *testing.T) {
	w := newWorld(t, fault.Caps{})
	for _, tt := range []struct {
		name, kind, stream string
		attributes         toxiproxy.Attributes
		check              func(t *testing.T, c *net.TCPConn)
	}{
		{"latency", "latency", "downstream", toxiproxy.Attributes{"latency": 150}, func(t *testing.T, c *net.TCPConn) {
			for range 2 {
				if got, took, err := echo(c, "hello"); got != "hello" || took < 150*time.Millisecond || took > time.Second {
					t.Errorf("%q after %v, %v", got, took, err)
				}
			}
		}},
		{"jitter", "latency", "upstream", toxiproxy.Attributes{"latency": 50, "jitter": 50}, func(t *testing.T, c *net.TCPConn) {
			short, long := time.Hour, time.Duration(0)
			for range 20 {
				got, took, err := echo(c, "hello")
				if got != "hello" || err != nil {
					t.Fatalf("%q, %v", got, err)
				}
				short, long = min(short, took), max(long, took)
			}
			if long-short < 30*time.Millisecond || short > 70*time.Millisecond {
				t.Errorf("from %v to %v", short, long)
			}
		}},
		// A chunk waits once, and those behind it at the same time (chaos C6).
		{"latency of many chunks", "latency", "downstream", toxiproxy.Attributes{"latency": 200}, func(t *testing.T, c *net.TCPConn) {
			text := strings.Repeat("x", 1<<20)
			go func() { _, _ = io.WriteString(c, text) }()
			begin := time.Now()
			n, err := io.CopyN(io.Discard, c, 1<<20)
			if took := time.Since(begin); n != 1<<20 || err != nil || took < 200*time.Millisecond || took > 1500*time.Millisecond {
				t.Errorf("%d bytes after %v, %v", n, took, err)
			}
		}},
		{"bandwidth", "bandwidth", "upstream", toxiproxy.Attributes{"rate": 100}, func(t *testing.T, c *net.TCPConn) {
			if got, took, err := echo(c, strings.Repeat("x", 50_000)); len(got) != 50_000 || took < 390*time.Millisecond || took > 2*time.Second {
				t.Errorf("%d bytes after %v, %v; want about 0.5 s less the first piece", len(got), took, err)
			}
		}},
		{"bandwidth in pieces", "bandwidth", "downstream", toxiproxy.Attributes{"rate": 10}, func(t *testing.T, c *net.TCPConn) {
			begin := time.Now()
			_, _ = c.Write(bytes.Repeat([]byte("x"), 4000))
			for n := 0; n < 4000; {
				k, err := c.Read(make([]byte, 4000))
				if n += k; err != nil || time.Since(begin) < time.Duration(n-1000)*100*time.Microsecond-10*time.Millisecond {
					t.Fatalf("%d bytes after %v, %v: too many at once", n, time.Since(begin), err)
				}
			}
		}},
		{"slicer", "slicer", "downstream", toxiproxy.Attributes{"average_size": 100, "size_variation": 50, "delay": 1000}, func(t *testing.T, c *net.TCPConn) {
			_, _ = c.Write(bytes.Repeat([]byte("x"), 10_000))
			reads, n := 0, 0
			for buf := make([]byte, 4096); n < 10_000; reads++ {
				k, err := c.Read(buf)
				if n += k; err != nil {
					t.Fatal(err)
				}
			}
			if reads < 30 {
				t.Errorf("%d pieces, want about 100", reads)
			}
		}},
		{"limit_data", "limit_data", "downstream", toxiproxy.Attributes{"bytes": 777}, func(t *testing.T, c *net.TCPConn) {
			_, _ = c.Write(bytes.Repeat([]byte("x"), 10_000))
			if b, err := io.ReadAll(c); len(b) != 777 {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		}},
		{"timeout", "timeout", "upstream", toxiproxy.Attributes{"timeout": 150}, func(t *testing.T, c *net.TCPConn) {
			begin := time.Now()
			if got, _, err := echo(c, "hello"); got != "" || err == nil || time.Since(begin) < 100*time.Millisecond || time.Since(begin) > 2*time.Second {
				t.Errorf("%q after %v, %v", got, time.Since(begin), err)
			}
		}},
		{"timeout of a silent connection", "timeout", "downstream", toxiproxy.Attributes{"timeout": 100}, func(t *testing.T, c *net.TCPConn) {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%v", err)
			}
		}},
		{"reset_peer", "reset_peer", "downstream", toxiproxy.Attributes{"timeout": 50}, func(t *testing.T, c *net.TCPConn) {
			if _, _, err := echo(c, "hello"); err == nil || !strings.Contains(err.Error(), "reset") {
				t.Errorf("%v, want a reset", err)
			}
		}},
		{"slow_close", "slow_close", "downstream", toxiproxy.Attributes{"delay": 200}, func(t *testing.T, c *net.TCPConn) {
			if got, took, _ := echo(c, "hello"); got != "hello" || took > 150*time.Millisecond {
				t.Errorf("%q after %v: only the end is slow", got, took)
			}
			_ = c.CloseWrite()
			begin := time.Now()
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(begin) < 200*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := w.proxy(t, strings.ReplaceAll(tt.name, " ", "-"))
			w.poison(t, p, tt.kind, tt.stream, 1, tt.attributes)
			tt.check(t, dial(t, p.Listen))
		})
		t.Run(tt.name+", of nobody", func(t *testing.T) { // chaos C1
			p := w.proxy(t, strings.ReplaceAll(tt.name, " ", "-")+"-0")
			w.poison(t, p, tt.kind, tt.stream, 0, tt.attributes)
			c := dial(t, p.Listen)
			text := strings.Repeat("hello", 1000)
			got, _, err := echo(c, text)
			_ = c.CloseWrite()
			rest, end := io.ReadAll(c)
			if got != text || err != nil || end != nil || len(rest) != 0 {
				t.Errorf("%d bytes and %d more, %v, %v", len(got), len(rest), err, end)
			}
		})
	}
}

// C3, C4: toxics come and go under load on connections that are open already; each
// answer to the API comes, and what is left is what works.
func TestChaos_C3_C4(t *testing.T) {
	w := newWorld(t, fault.Caps{})
	p := w.proxy(t, "busy")
	open := dial(t, p.Listen)
	if _, took, err := echo(open, "hello"); err != nil || took > 100*time.Millisecond {
		t.Fatalf("%v after %v", err, took)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 8 {
		c := dial(t, p.Listen)
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got, _, err := echo(c, "hello"); got != "hello" || err != nil {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	for range 10 {
		w.poison(t, p, "latency", "downstream", 1, toxiproxy.Attributes{"latency": 20_000})
		w.poison(t, p, "bandwidth", "downstream", 1, toxiproxy.Attributes{"rate": 0})
		for _, name := range []string{"latency_downstream", "bandwidth_downstream"} {
			if err := p.RemoveToxic(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	load.Wait() // whoever was held goes on
	w.poison(t, p, "latency", "downstream", 1, toxiproxy.Attributes{"latency": 150})
	if got, took, err := echo(open, "hello"); got != "hello" || took < 150*time.Millisecond {
		t.Errorf("%q after %v, %v: it was open before", got, took, err)
	}
}

// Who lost bytes to a timeout that is gone is cut: what comes next would follow on a
// hole.
func TestRemovedTimeoutCutsWhoLostBytes(t *testing.T) {
	w := newWorld(t, fault.Caps{})
	p := w.proxy(t, "hole")
	lost, silent := dial(t, p.Listen), dial(t, p.Listen)
	if _, _, err := echo(silent, "hello"); err != nil {
		t.Fatal(err)
	}
	w.poison(t, p, "timeout", "upstream", 1, toxiproxy.Attributes{"timeout": 0})
	_, _ = io.WriteString(lost, "gone")
	_ = lost.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := lost.Read(make([]byte, 1)); err == nil {
		t.Fatal("it went by")
	}
	if err := p.RemoveToxic("timeout_upstream"); err != nil {
		t.Fatal(err)
	}
	_ = lost.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := lost.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want an end", err)
	}
	if got, _, err := echo(silent, "hello"); got != "hello" || err != nil {
		t.Errorf("%q, %v: it lost nothing", got, err)
	}
}

// Toxicity is a share of connections, decided once for each.
func TestToxicityIsAShareOfConnections(t *testing.T) {
	w := newWorld(t, fault.Caps{})
	p := w.proxy(t, "some")
	w.poison(t, p, "limit_data", "downstream", 0.5, toxiproxy.Attributes{"bytes": 0})
	const n = 200
	cut := 0
	for range n {
		c := dial(t, p.Listen)
		_, _, err := echo(c, "hello")
		if _, _, again := echo(c, "hello"); (err == nil) != (again == nil) {
			t.Fatalf("%v, then %v on one connection", err, again)
		}
		if err != nil {
			cut++
		}
		_ = c.Close()
	}
	if cut < 65 || cut > 135 { // five standard deviations
		t.Errorf("%d of %d cut, want half", cut, n)
	}
}

// The kill switch takes every toxic away, at once, and lets none come until it is off.
func TestHalt(t *testing.T) {
	w := newWorld(t, fault.Caps{})
	p := w.proxy(t, "held")
	w.poison(t, p, "latency", "upstream", 1, toxiproxy.Attributes{"latency": 20_000})
	for round := range 3 {
		c := dial(t, p.Listen)
		begin := time.Now()
		time.AfterFunc(50*time.Millisecond, w.table.Halt)
		if got, _, err := echo(c, "hello"); got != "hello" || time.Since(begin) > time.Second {
			t.Errorf("round %d: %q after %v, %v", round, got, time.Since(begin), err)
		}
		if _, err := p.AddToxic("late", "latency", "", 1, nil); err == nil || !strings.Contains(err.Error(), "halted") {
			t.Errorf("round %d: added under halt: %v", round, err)
		}
		if toxics, err := p.Toxics(); err != nil || len(toxics) != 0 {
			t.Errorf("round %d: %+v, %v", round, toxics, err)
		}
		w.table.Resume()
		w.poison(t, p, "latency", "upstream", 1, toxiproxy.Attributes{"latency": 20_000})
	}
}

// No toxic lives longer, or is wider, than the gateway allows.
func TestCaps(t *testing.T) {
	w := newWorld(t, fault.Caps{MaxPPM: 100_000, MaxDuration: 300 * time.Millisecond})
	p := w.proxy(t, "capped")
	if _, err := p.AddToxic("", "latency", "", 0.2, nil); err == nil || !strings.Contains(err.Error(), "cap") {
		t.Errorf("a share over the cap: %v", err)
	}
	w.poison(t, p, "latency", "", 0.1, nil)
	for end := time.Now().Add(10 * time.Second); ; {
		toxics, err := p.Toxics()
		if err != nil || time.Now().After(end) {
			t.Fatalf("%+v, %v: it outlives its time", toxics, err)
		}
		if len(toxics) == 0 {
			return
		}
	}
}
