package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

// guardedDocument is a service behind a breaker: 80 % of failures open it for a
// minute; a route with an answer to give in its place.
const guardedDocument = `
apiVersion: breakwater/v1
kind: Service
name: points
breaker: {windows: 1, window: 2s, bucket: 200ms, error_rate: 80%%, min_requests: 20, open: 60s, half_open: {window: 1s, probes: 5, windows: 2}}
---
apiVersion: breakwater/v1
kind: Upstream
name: points
endpoints: [{address: %q}]
breaker: {enabled: false}
---
apiVersion: breakwater/v1
kind: Route
name: points-balance
service: points
core: true
match: {methods: [GET], path: "/points/*"}
upstream: points
timeout: 2s
degrade: {action: return_default, default: {status: 200, body: '{"points":0}'}}
`

// ticker asks one request after another and keeps the last answers.
type ticker struct {
	mu   sync.Mutex
	last []string // of 30: status, degraded or not, body
}

func (k *ticker) run(ctx context.Context, url string) error {
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			return err
		}
		res, err := tr.RoundTrip(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return err
		}
		k.mu.Lock()
		k.last = append(k.last, fmt.Sprintf("%d %s %s", res.StatusCode, res.Header.Get("X-Breakwater-Degraded"), body))
		k.last = k.last[max(0, len(k.last)-30):]
		k.mu.Unlock()
	}
}

// all reports whether the last 30 answers are what.
func (k *ticker) all(what string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.last) == 30 && !slices.ContainsFunc(k.last, func(s string) bool { return s != what })
}

type breakerView struct {
	State   string    `json:"state"`
	Since   time.Time `json:"since"`
	OpenMS  int64     `json:"open_for_ms"`
	Level   int64     `json:"level"`
	Refused int64     `json:"refused"`
	Probes  int64     `json:"probes"`
}

func (w *world) breaker(service string) breakerView {
	w.t.Helper()
	var stats struct {
		Services []struct {
			Service string      `json:"service"`
			Breaker breakerView `json:"breaker"`
		} `json:"services"`
	}
	w.request("GET", "admin", "/stats", "", &stats)
	for _, s := range stats.Services {
		if s.Service == service {
			return s.Breaker
		}
	}
	w.t.Fatalf("/stats has no service %s", service)
	return breakerView{}
}

// TestBreakerDrill is the drill by which a breaker is believed: healthy, all
// failing, open, its thresholds changed while it is open, recovered.
func TestBreakerDrill(t *testing.T) {
	if slow(t) {
		return
	}
	var failing atomic.Bool
	var calls atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		if failing.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(rw, `{"points":7}`)
	}))
	defer up.Close()
	text := fmt.Sprintf(guardedDocument, up.Listener.Addr().String())
	w, file := loneGateway(t, text)
	traffic := &ticker{}
	stop := w.background(func(ctx context.Context) error { return traffic.run(ctx, w.url["data"]+"/points/1") })

	const good, degraded = `200  {"points":7}`, `200 return_default;reason=breaker:open {"points":0}`
	w.await("healthy", 10*time.Second, func() bool { return traffic.all(good) })
	if b := w.breaker("points"); b.State != "closed" || b.Refused != 0 {
		t.Fatalf("healthy, and the breaker is %+v", b)
	}
	w.metric(`breakwater_breaker_state{endpoint="",service="points",state="open",upstream=""} 0`)

	failing.Store(true)
	w.await("the breaker opens", 10*time.Second, func() bool { return w.breaker("points").State == "open" })
	w.await("degraded answers alone", 10*time.Second, func() bool { return traffic.all(degraded) })
	before := calls.Load()
	open := w.breaker("points")
	if open.Level != 1 || open.OpenMS < 50_000 || open.Refused == 0 {
		t.Errorf("open, and the breaker is %+v", open)
	}
	w.metric(`breakwater_breaker_state{endpoint="",service="points",state="open",upstream=""} 1`)

	// Other thresholds: it stays open, and the time it has left follows.
	write(t, file, strings.NewReplacer("error_rate: 80%", "error_rate: 50%", "open: 60s", "open: 5s").Replace(text))
	w.await("the new document serves", 10*time.Second, func() bool { return w.breaker("points").OpenMS <= 5000 })
	if b := w.breaker("points"); b.State == "open" && b.Since.Sub(open.Since).Abs() > time.Millisecond {
		t.Errorf("a new document moved the opening from %s to %s", open.Since, b.Since)
	}
	if n := calls.Load() - before; n > 0 && w.breaker("points").State == "open" && w.breaker("points").Probes == 0 {
		t.Errorf("%d calls passed the open breaker", n)
	}
	w.await("probes find it failing", 20*time.Second, func() bool { b := w.breaker("points"); return b.State == "open" && b.Level == 2 })
	if n := calls.Load() - before; n > w.breaker("points").Probes {
		t.Errorf("%d calls passed, with %d probes", n, w.breaker("points").Probes)
	}

	failing.Store(false)
	w.await("closed again", 30*time.Second, func() bool { return w.breaker("points").State == "closed" })
	w.await("real answers alone", 10*time.Second, func() bool { return traffic.all(good) })
	stop()
	w.gateway.stop()
	w.checkTurns()
}

// metric asserts a line of /metrics.
func (w *world) metric(line string) {
	w.t.Helper()
	_, text := w.request("GET", "admin", "/metrics", "", nil)
	if !slices.Contains(strings.Split(text, "\n"), line) {
		w.t.Errorf("/metrics has no line %s", line)
	}
}

// checkTurns reads the changes of state out of the log and out of the events.
func (w *world) checkTurns() {
	w.t.Helper()
	want := []string{"closed open", "open half_open", "half_open open", "open half_open", "half_open closed"}
	var logged, events []string
	text, err := os.ReadFile(w.gateway.logs.Name())
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"breaker changed"`) {
			_, rest, _ := strings.Cut(line, `"from":"`)
			from, rest, _ := strings.Cut(rest, `","to":"`)
			to, _, _ := strings.Cut(rest, `"`)
			logged = append(logged, from+" "+to)
		}
	}
	segments, err := filepath.Glob(filepath.Join(w.dir, "gateway-state", "spool", "*", "*.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	degraded := 0
	for _, path := range segments {
		f, err := os.Open(path)
		if err != nil {
			w.t.Fatal(err)
		}
		_, _, err = retrylog.Scan(f, func(r retrylog.Record) error {
			if tr := r.Transition; tr != nil && tr.Policy == "breaker" && tr.Service == "points" {
				events = append(events, tr.From+" "+tr.To)
			}
			if x := r.Exchange; x != nil && x.Degraded == "return_default" && x.Refusal == "breaker:open" {
				degraded++
			}
			return nil
		})
		_ = f.Close()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if !slices.Equal(logged, want) || !slices.Equal(events, want) || degraded < 100 {
		w.t.Errorf("the log says %q, the events %q with %d degraded answers; want %q", logged, events, degraded, want)
	}
}
