package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
)

func TestHeadersOfAPage(t *testing.T) {
	_, h, _ := get(t, shop(noon).server(t).Handler(), "/")
	csp := h.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'self'", "script-src 'self'", "style-src 'self'", "object-src 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("policy %q lacks %q", csp, want)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
		t.Errorf("policy %q allows too much", csp)
	}
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("headers are %v", h)
	}
}

func TestAssetsAreKeptForEverUnderTheirHash(t *testing.T) {
	h := shop(noon).server(t).Handler()
	_, _, body := get(t, h, "/services/order")
	found := regexp.MustCompile(`/static/[^"]+`).FindAllString(body, -1)
	if len(found) < 8 {
		t.Fatalf("only %d assets on the page", len(found))
	}
	for _, path := range found {
		status, head, text := get(t, h, path)
		if status != 200 || !strings.Contains(head.Get("Cache-Control"), "immutable") || head.Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", path, status, head)
		}
		// What a module imports must be there too, under its hash.
		for _, m := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(text, -1) {
			if status, _, _ := get(t, h, "/static/"+m[1]); status != 200 {
				t.Errorf("%s imports %s, which is %d", path, m[1], status)
			}
		}
	}
	if status, _, _ := get(t, h, "/static/base.css"); status != 404 {
		t.Errorf("an asset without hash is %d, want 404: it could be cached for ever", status)
	}
}

func TestPagesAreCompressed(t *testing.T) {
	h := shop(noon).server(t).Handler()
	for _, path := range []string{"/", "/nope"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		r.Header.Set("Accept-Encoding", "br;q=1, gzip;q=0.8")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		z, err := gzip.NewReader(w.Body)
		if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s is not gzip: %v", path, err)
		}
		plain, err := io.ReadAll(z)
		if err != nil || !strings.Contains(string(plain), "</html>") {
			t.Errorf("%s: %v after %d bytes", path, err, len(plain))
		}
	}
}

func TestOnlyOwnNamesAreAnswered(t *testing.T) {
	house := shop(noon)
	s := house.server(t)
	s.cfg.Hosts = []string{"breakwater.example"}
	for host, want := range map[string]int{"localhost:8081": 200, "127.0.0.1:8081": 200, "[::1]:8081": 200, "breakwater.example": 200, "Breakwater.Example:80": 200,
		"evil.example": 421, "localhost.evil.example": 421, "": 421} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

func TestStopping(t *testing.T) {
	post := func(h http.Handler, path string, head map[string]string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, nil)
		for k, v := range head {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	own := map[string]string{"Sec-Fetch-Site": "same-origin"}
	house := shop(noon)
	h := house.server(t).Handler()
	if w := post(h, "/halt", own); w.Code != 303 || w.Header().Get("Location") != "/runs?said=halted" {
		t.Errorf("halt: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if w := post(h, "/runs/r-1287/abort", own); w.Code != 303 || w.Header().Get("Location") != "/runs/r-1287?said=aborted" {
		t.Errorf("abort: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if w := post(h, "/halt", map[string]string{"Sec-Fetch-Site": "cross-site"}); w.Code != 403 {
		t.Errorf("a post of another site: %d, want 403", w.Code)
	}
	if w := post(h, "/halt", map[string]string{"Origin": "https://evil.example"}); w.Code != 403 {
		t.Errorf("a post of another origin: %d, want 403", w.Code)
	}
	if want := []string{"all by web", "r-1287 by web"}; !slices.Equal(house.stopped, want) {
		t.Errorf("stopped %q, want %q", house.stopped, want)
	}
	w := post(lost(noon).server(t).Handler(), "/halt", own)
	if w.Code != 503 || !strings.Contains(w.Body.String(), "/faults/halt") {
		t.Errorf("a stop that failed: %d, and the page must say what else stops faults", w.Code)
	}
}

func TestAHaltStandsOnEveryPageUntilItIsLifted(t *testing.T) {
	house := halted(noon)
	h := house.server(t).Handler()
	const says, button = "Everything is halted since 14:15 by anna;</b> nothing starts until it is lifted.", `<form method="post" action="/halt/lift"><button`
	for name, path := range everyPage {
		if _, _, body := get(t, h, path); !strings.Contains(body, says) || !strings.Contains(body, button) {
			t.Errorf("%s does not say that all is halted, or cannot lift it", name)
		}
	}
	lift := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:8081/halt/lift", nil)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	house.mayLift = false // who may only read
	if _, _, body := get(t, h, "/"); !strings.Contains(body, says+" An operator can lift it.") || strings.Contains(body, button) {
		t.Error("a viewer is not told, or is offered what they may not do")
	}
	if w := lift(); w.Code != 403 || house.halt.At.IsZero() {
		t.Errorf("a viewer lifted the halt: %d", w.Code)
	}
	house.mayLift, house.broken = true, errAway
	if w := lift(); w.Code != 503 || house.halt.At.IsZero() {
		t.Errorf("without a database lifting is %d, want 503", w.Code)
	}
	house.broken = nil
	if w := lift(); w.Code != 303 || w.Header().Get("Location") != "/runs?said=lifted" {
		t.Errorf("lifting: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if want := []string{"lifted by web"}; !slices.Equal(house.stopped, want) {
		t.Errorf("did %q, want %q", house.stopped, want)
	}
	if _, _, body := get(t, h, "/runs?said=lifted"); strings.Contains(body, "halted since") || !strings.Contains(body, "The halt is lifted") {
		t.Error("the notice outlives the halt")
	}
}

func TestThemeNeedsNoScript(t *testing.T) {
	h := shop(noon).server(t).Handler()
	_, head, body := get(t, h, "/?theme=dark")
	if !strings.Contains(body, `data-theme="dark"`) || !strings.Contains(head.Get("Set-Cookie"), "theme=dark") {
		t.Errorf("cookie %q", head.Get("Set-Cookie"))
	}
	_, head, body = get(t, h, "/?theme=%22%3E")
	if strings.Contains(body, "data-theme") || head.Get("Set-Cookie") != "" {
		t.Error("a theme that does not exist was taken")
	}
}

// stream opens the stream of a server and returns its lines.
func stream(t *testing.T, ctx context.Context, url, lastID string) *bufio.Scanner {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if h := resp.Header; h.Get("X-Accel-Buffering") != "no" || !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || h.Get("Content-Encoding") != "" {
		t.Errorf("headers are %v", h)
	}
	return bufio.NewScanner(resp.Body)
}

// until reads lines up to the one that starts with prefix.
func until(t *testing.T, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			return lines.Text()
		}
	}
	t.Fatalf("the stream ended before %q: %v", prefix, lines.Err())
	return ""
}

func TestStreamOutlivesTheTimeouts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := shop(noon).server(t)
	srv := httptest.NewUnstartedServer(s.Handler())
	srv.Config.WriteTimeout, srv.Config.ReadTimeout = 150*time.Millisecond, 150*time.Millisecond
	srv.Start()
	defer srv.Close()
	lines := stream(t, ctx, srv.URL, "")
	until(t, lines, "event: hello")
	// The timeout has passed several times over after so many heartbeats.
	for began := time.Now(); time.Since(began) < 4*srv.Config.WriteTimeout; {
		until(t, lines, ": still here")
	}
	s.Changed(topicDrills)
	until(t, lines, "event: changed")
	if data := until(t, lines, "data: "); !strings.Contains(data, topicDrills) {
		t.Errorf("told %q", data)
	}
	cancel()
}

func TestStreamTellsWhatWasMissed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := shop(noon).server(t)
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	first, leave := context.WithCancel(ctx)
	lines := stream(t, first, srv.URL, "")
	id := strings.TrimPrefix(until(t, lines, "id: "), "id: ")
	leave()
	s.Changed(topicLedger)
	s.Changed(topicDrills)
	lines = stream(t, ctx, srv.URL, id)
	until(t, lines, "event: changed")
	if data := until(t, lines, "data: "); !strings.Contains(data, topicLedger) || !strings.Contains(data, topicDrills) {
		t.Errorf("missed both topics, told %q", data)
	}
	lines = stream(t, ctx, srv.URL, "anotherboot-7")
	until(t, lines, "event: reset")
	// So many that the id is no longer kept.
	for range keep + 1 {
		s.Changed(topicLedger)
	}
	lines = stream(t, ctx, srv.URL, id)
	until(t, lines, "event: reset")
	cancel()
}

func TestTickAnnouncesOnlyWhatChanged(t *testing.T) {
	ctx := t.Context()
	house := shop(noon)
	s := house.server(t)
	s.Tick(ctx)
	if _, last, _ := s.hub.since(0); last != 0 {
		t.Error("announced although nobody looks")
	}
	_, leave := s.hub.join()
	defer leave()
	s.Tick(ctx)
	_, before, _ := s.hub.since(0)
	s.Tick(ctx)
	if _, last, _ := s.hub.since(0); last != before {
		t.Error("announced although nothing changed")
	}
	house.list[0].Injected++
	s.Tick(ctx)
	if topics, _, _ := s.hub.since(before); !slices.Equal(topics, []string{topicDrills}) {
		t.Errorf("announced %v after a run changed", topics)
	}
	_, before, _ = s.hub.since(0)
	house.halt = injector.Halt{At: noon, Actor: "anna"}
	s.Tick(ctx)
	if topics, _, _ := s.hub.since(before); !slices.Equal(topics, []string{topicDrills}) {
		t.Errorf("announced %v after a halt", topics)
	}
}

func TestRunEndsTheStreams(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := shop(noon).server(t)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(running) }()
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	lines := stream(t, ctx, srv.URL, "")
	until(t, lines, "event: hello")
	stop()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream was cut, not ended: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The injector's desk is what a control puts behind the pages.
var _ Drills = (*injector.Desk)(nil)
