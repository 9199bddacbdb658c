package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/slo/gate"
)

// waiting is a control that counts how often it is asked.
func waiting(t *testing.T, answer func(n int64, w http.ResponseWriter, r *http.Request)) (set *settings, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(asked.Add(1), w, r) }))
	t.Cleanup(srv.Close)
	return &settings{control: srv.URL}, asked
}

func TestGateWaits(t *testing.T) {
	once := map[string]bool{}
	set, asked := waiting(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		once[r.URL.Query().Get("once")] = true
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			_, _ = w.Write([]byte(`{"decision":"allow","reason_code":"budget_ok"}`))
		}
	})
	var said bytes.Buffer
	d, err := new(gateMemory).askGate(t.Context(), streams{err: &said}, set, gate.Request{Service: "order"}, time.Minute, time.Millisecond)
	if err != nil || d.Decision != gate.Allow || asked.Load() != 2 || len(once) != 1 || once[""] || strings.Count(said.String(), "waits") != 1 {
		t.Errorf("%+v, %v, asked %d times as %v, said %q", d, err, asked.Load(), once, said.String())
	}
}

func TestGateDoesNotWait(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		wait   time.Duration
	}{
		"for nothing":               {200, `{"decision":"deny"}`, 0},
		"with a token that ended":   {401, `{}`, time.Hour},
		"with no question":          {400, `{}`, time.Hour},
		"where it is allowed":       {200, `{"decision":"allow"}`, time.Hour},
		"longer than it was told":   {200, `{"decision":"deny"}`, time.Millisecond},
		"for what is unknown again": {200, `{"decision":"unknown"}`, time.Nanosecond},
	} {
		set, asked := waiting(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		})
		_, _ = new(gateMemory).askGate(t.Context(), streams{err: new(bytes.Buffer)}, set, gate.Request{Service: "order"}, tt.wait, waitEvery)
		if n := asked.Load(); n > 2 || tt.wait != time.Millisecond && n != 1 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// The time itself, without a network: nobody is there, and it goes on for as long as it was told.
func TestGateWaitsAsLongAsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &settings{control: "http://127.0.0.1:1"}
		start := time.Now()
		_, err := new(gateMemory).askGate(t.Context(), streams{err: new(bytes.Buffer)}, set, gate.Request{Service: "order"}, 30*time.Minute, waitEvery)
		if took := time.Since(start); err == nil || took != 30*time.Minute {
			t.Errorf("%v after %s", err, took)
		}
	})
}
