package gateway_test

import (
	"bytes"
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
	"breakwater/gateway/policy/retry"
	"breakwater/internal/retrylog"
)

// town is a gateway in fake time, before upstreams that are known by address. Who
// is not known refuses connections, and what is called silent never accepts one.
type town struct {
	*gateway.Gateway
	records *memory
	front   *line
	lines   lockedBuffer
	calls   map[string]*atomic.Int64
	start   time.Time
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func inTown(t *testing.T, cfg config.Config, ups map[string]http.HandlerFunc, body func(t *testing.T, w *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &town{records: newMemory(), front: newLine(), calls: map[string]*atomic.Int64{}, start: time.Now()}
		backs := map[string]*line{}
		var all sync.WaitGroup
		var servers []*http.Server
		for address, h := range ups {
			n, back := new(atomic.Int64), newLine()
			w.calls[address], backs[address] = n, back
			s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { n.Add(1); h(rw, r) })}
			servers = append(servers, s)
			all.Go(func() { _ = s.Serve(back) })
		}
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if back := backs[address]; back != nil {
				return back.dial(ctx, network, address)
			}
			if strings.HasPrefix(address, "silent") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, errors.New("connection refused")
		}
		w.Gateway = gateway.New(gateway.Config{
			Name: "gw", Env: "test", Recorder: w.records, Dial: dial, Lines: retry.NewLines(&w.lines),
			Rand: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
		})
		if err := w.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			if err := w.Serve(ctx, w.front); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { _ = w.Run(ctx) })
		w.start = time.Now()
		body(t, w)
		cancel()
		for _, s := range servers {
			_ = s.Close()
		}
		all.Wait()
		time.Sleep(time.Hour) // what a server's Close leaves to itself ends too
	})
}

// do asks once, over a connection of its own, and waits for the event.
func (w *town) do(t *testing.T, method, body string, fields ...string) (status int, text string, head http.Header, took time.Duration, ev retrylog.Exchange) {
	t.Helper()
	begin := time.Now()
	transport := &http.Transport{DialContext: w.front.dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://app.example/orders/1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	w.records.mu.Lock()
	before := len(w.records.exchanges)
	w.records.mu.Unlock()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	took = time.Since(begin)
	events := w.records.wait(t, before+1)
	return res.StatusCode, string(all), res.Header, took, events[len(events)-1]
}

// saying is an upstream that answers status, with fields, every time.
func saying(status int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "%d", status)
	}
}

// ponytail is shop with the policy of the vectors.
func ponytail(endpoints ...string) config.Config {
	cfg := shop(endpoints...)
	cfg.Routes[0].Retry = retry.Ponytail()
	cfg.Upstreams[0].ConnectTimeout = 300 * time.Millisecond
	return cfg
}
