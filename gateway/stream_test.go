package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/internal/retrylog"
)

// line is a listener in memory, so that a bubble of fake time can hold it.
type line struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newLine() *line { return &line{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *line) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *line) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *line) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *line) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, errors.New("refused")
	}
}

// bubble is a gateway, its upstream and a client in fake time.
type bubble struct {
	records *memory
	front   *line
	calls   atomic.Int64 // of the upstream
}

// inBubble runs body with a gateway over cfg, in front of an upstream that answers
// by h.
func inBubble(t *testing.T, cfg config.Config, h http.HandlerFunc, body func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{records: newMemory(), front: newLine()}
		back := newLine()
		up := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.calls.Add(1); h(w, r) }), Protocols: new(http.Protocols)}
		up.Protocols.SetHTTP1(true)
		up.Protocols.SetUnencryptedHTTP2(true)
		g := gateway.New(gateway.Config{Name: "gw", Env: "test", Recorder: b.records, Dial: back.dial, Log: slog.New(slog.DiscardHandler)})
		if err := g.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = up.Serve(back) })
		all.Go(func() {
			if err := g.Serve(ctx, b.front); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { _ = g.Run(ctx) })
		body(t, b)
		cancel()
		_ = up.Close()
		all.Wait()
		time.Sleep(time.Hour) // handlers that the server's Close left to themselves end too
	})
}

// get asks over a connection of its own, which the test may close.
func (b *bubble) get(t *testing.T, path string, more ...string) (res *http.Response, c net.Conn) {
	t.Helper()
	c, err := b.front.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: app.example\r\n%s\r\n", path, strings.Join(more, "")); err != nil {
		t.Fatal(err)
	}
	res, err = http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	return res, c
}

// events writes n events, one every pause.
func events(w http.ResponseWriter, n int, pause time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	_ = http.NewResponseController(w).Flush()
	for i := range n {
		time.Sleep(pause)
		_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
		_ = http.NewResponseController(w).Flush()
	}
}

// arrivals reads events and says when each came.
func arrivals(r io.Reader, start time.Time) (at []time.Duration, err error) {
	for s := bufio.NewReader(r); ; {
		line, err := s.ReadString('\n')
		if err != nil {
			return at, err
		}
		if strings.HasPrefix(line, "data:") {
			at = append(at, time.Since(start))
		}
	}
}

func TestPolicies_R20(t *testing.T) {
	cfg := retries(shop("up:1"), 2)
	cfg.Routes[0].Timeout = time.Second // and the stream lasts longer
	inBubble(t, cfg, func(w http.ResponseWriter, _ *http.Request) { events(w, 30, 100*time.Millisecond) },
		func(t *testing.T, b *bubble) {
			start := time.Now()
			res, c := b.get(t, "/orders/1")
			defer c.Close()
			if head := time.Since(start); head != 0 {
				t.Errorf("the head came after %v: it waited for an event", head)
			}
			at, err := arrivals(res.Body, start)
			if res.Header.Get("Content-Type") != "text/event-stream" || err != io.EOF || len(at) != 30 {
				t.Fatalf("%d events of type %q, %v", len(at), res.Header.Get("Content-Type"), err)
			}
			for i, a := range at {
				if a != time.Duration(i+1)*100*time.Millisecond {
					t.Errorf("event %d came after %v", i, a)
				}
			}
			ev := b.records.wait(t, 1)[0]
			if b.calls.Load() != 1 || ev.Outcome != retrylog.OK || !ev.BodyComplete || ev.Timeout != "" {
				t.Errorf("%d calls, ended as %s, complete %v, timeout %q", b.calls.Load(), ev.Outcome, ev.BodyComplete, ev.Timeout)
			}
		})
}

// TestRetryOverStreams: up to the head a stream is tried again like anything else,
// and from there on never.
func TestRetryOverStreams(t *testing.T) {
	var n atomic.Int64
	inBubble(t, retries(shop("up:1"), 2), func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(502)
			return
		}
		events(w, 2, time.Second)
		panic(http.ErrAbortHandler) // the connection is cut
	}, func(t *testing.T, b *bubble) {
		res, c := b.get(t, "/orders/1")
		defer c.Close()
		at, err := arrivals(res.Body, time.Now())
		if len(at) != 2 || err != io.ErrUnexpectedEOF || res.Header.Get("Retry-Count") != "1" {
			t.Errorf("%d events, %v, retries %q; want 2, a cut, and 1", len(at), err, res.Header.Get("Retry-Count"))
		}
		ev := b.records.wait(t, 1)[0]
		if b.calls.Load() != 2 || ev.Outcome != retrylog.UpstreamFailure || ev.BodyComplete || len(ev.Tries) != 2 {
			t.Errorf("%d calls, ended as %s, %d tries", b.calls.Load(), ev.Outcome, len(ev.Tries))
		}
	})
}

// TestTimeoutOverStreams: the total ends with the head, and then silence and the
// longest life rule.
func TestTimeoutOverStreams(t *testing.T) {
	tests := []struct {
		name          string
		head          time.Duration // before it
		n             int
		pause         time.Duration
		idle, longest time.Duration
		status, got   int
		took          time.Duration
		timeout       string
		outcome       retrylog.Outcome
	}{
		{name: "no head in time", head: 2 * time.Second, status: 504, took: time.Second, timeout: "total", outcome: retrylog.Timeout},
		{name: "longer than the total", n: 4, pause: time.Second, status: 200, got: 4, took: 4 * time.Second, outcome: retrylog.OK},
		{name: "silent for too long", n: 4, pause: 3 * time.Second, idle: 2 * time.Second, status: 200, took: 2 * time.Second, timeout: "idle", outcome: retrylog.OK},
		{name: "the longest life", n: 9, pause: time.Second, longest: 3500 * time.Millisecond, status: 200, got: 3, took: 3500 * time.Millisecond, timeout: "total", outcome: retrylog.OK},
		{name: "silence longer than any write may take", n: 1, pause: 2 * time.Minute, status: 200, got: 1, took: 2 * time.Minute, outcome: retrylog.OK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := shop("up:1")
			cfg.Routes[0].Timeout, cfg.Routes[0].IdleTimeout, cfg.Routes[0].MaxStream = time.Second, tt.idle, tt.longest
			inBubble(t, cfg, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(tt.head)
				events(w, tt.n, tt.pause)
			}, func(t *testing.T, b *bubble) {
				start := time.Now()
				res, c := b.get(t, "/orders/1")
				defer c.Close()
				at, err := arrivals(res.Body, start)
				if took := time.Since(start); res.StatusCode != tt.status || len(at) != tt.got || err != io.EOF || took != tt.took {
					t.Errorf("got %d and %d events after %v, %v; want %d and %d after %v", res.StatusCode, len(at), took, err, tt.status, tt.got, tt.took)
				}
				if ev := b.records.wait(t, 1)[0]; ev.Timeout != tt.timeout || ev.Outcome != tt.outcome {
					t.Errorf("recorded as %s, timeout %q, want %s, %q", ev.Outcome, ev.Timeout, tt.outcome, tt.timeout)
				}
			})
		})
	}
}

// TestClientGoneIsNeutral: the upstream learns of it, and nobody has failed.
func TestClientGoneIsNeutral(t *testing.T) {
	left := make(chan struct{}, 2)
	for _, tt := range []struct {
		name string
		head bool // before the client goes
	}{{"before the head", false}, {"in the stream", true}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, retries(shop("up:1"), 2), func(w http.ResponseWriter, r *http.Request) {
				if tt.head {
					events(w, 1, 0)
				}
				<-r.Context().Done()
				left <- struct{}{}
			}, func(t *testing.T, b *bubble) {
				c, err := b.front.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(c, "GET /orders/1 HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if tt.head {
					res, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil || res.StatusCode != 200 {
						t.Fatal(res, err)
					}
				}
				synctest.Wait()
				_ = c.Close()
				synctest.Wait()
				ev := b.records.wait(t, 1)[0]
				if ev.Outcome != retrylog.ClientAbort || b.calls.Load() != 1 {
					t.Errorf("recorded as %s after %d calls", ev.Outcome, b.calls.Load())
				}
				select {
				case <-left:
				default:
					t.Error("the upstream was not told")
				}
			})
		})
	}
}
