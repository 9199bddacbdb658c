package toxic

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/fault"
)

// Whoever made toxics may be gone: without a word of a client they end, and any word
// renews all of them.
func TestLease(t *testing.T) {
	s := New(Config{Switch: fault.NewTable(fault.Caps{}), Log: slog.New(slog.DiscardHandler)})
	api := s.Handler()
	ask := func(method, path, body string) int {
		t.Helper()
		rec := httptest.NewRecorder()
		api.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
		return rec.Code
	}
	poison := func() {
		t.Helper()
		if code := ask("POST", "/proxies/leased/toxics", `{"type":"latency","attributes":{"latency":1}}`); code != 200 {
			t.Fatalf("%d", code)
		}
	}
	if code := ask("POST", "/proxies", `{"name":"leased","listen":"127.0.0.1:0","upstream":"127.0.0.1:1","enabled":false}`); code != 201 {
		t.Fatalf("%d", code)
	}
	poison()
	left := func() int { return len(s.proxies["leased"].all) } // nothing else runs
	first := s.heard
	s.lapse(first.Add(DefaultLease - time.Nanosecond))
	if left() != 1 {
		t.Fatal("it went before its lease was over")
	}
	if code := ask("GET", "/version", ""); code != 200 || s.heard != first {
		t.Errorf("a question that names no proxy renews (%d)", code)
	}
	if code := ask("GET", "/proxies", ""); code != 200 || !s.heard.After(first) {
		t.Errorf("a word of a client does not renew (%d)", code)
	}
	s.lapse(first.Add(DefaultLease))
	if left() != 1 {
		t.Fatal("the word did not renew it")
	}
	s.lapse(s.heard.Add(DefaultLease))
	if left() != 0 {
		t.Fatal("it outlives its lease")
	}
	// What a client adds then has a lease of its own.
	poison()
	s.lapse(time.Now())
	if left() != 1 {
		t.Error("a new one ended with the old lease")
	}
}
