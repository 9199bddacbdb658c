package gateway

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/internal/retrylog"
)

// last keeps the last exchange.
type last struct{ ev retrylog.Exchange }

func (*last) Begin() {}

func (l *last) Record(r *retrylog.Record) {
	if r.Exchange != nil {
		l.ev = *r.Exchange
	}
}

func TestErrorsBecomeAnswers(t *testing.T) {
	tests := []struct {
		name    string
		inner   exchange.Func
		status  int
		outcome retrylog.Outcome
		head    [2]string // a field that must be there
		reason  string
	}{
		{"a refusal", func(*exchange.Exchange) error {
			return &exchange.Refusal{Policy: "limiter", Reason: "rate", Status: 429, RetryAfter: 1200 * time.Millisecond}
		}, 429, retrylog.LocalRefusal, [2]string{"X-Breakwater-Refused", "limiter;reason=rate"}, "limiter:rate"},
		{"and when to come back, rounded up", func(*exchange.Exchange) error {
			return &exchange.Refusal{Policy: "limiter", Reason: "rate", Status: 429, RetryAfter: 1200 * time.Millisecond}
		}, 429, retrylog.LocalRefusal, [2]string{"Retry-After", "2"}, "limiter:rate"},
		{"a dead upstream", func(*exchange.Exchange) error {
			return &exchange.UpstreamError{Kind: exchange.Dial, Endpoint: "10.0.0.1:80", Err: errors.New("refused")}
		}, 502, retrylog.UpstreamFailure, [2]string{"Content-Type", "application/problem+json"}, "dial"},
		{"a try timeout", func(*exchange.Exchange) error {
			return &exchange.UpstreamError{Kind: exchange.TryTimeout}
		}, 504, retrylog.Timeout, [2]string{}, "try_timeout"},
		{"a total timeout", func(*exchange.Exchange) error { return exchange.ErrTotalTimeout }, 504, retrylog.Timeout, [2]string{}, "total_timeout"},
		{"a panic", func(*exchange.Exchange) error { panic("boom") }, 502, retrylog.Panicked, [2]string{}, "internal"},
		{"an error of no kind", func(*exchange.Exchange) error { return errors.New("odd") }, 502, retrylog.UpstreamFailure, [2]string{}, "internal"},
		{"a local answer without a body", func(x *exchange.Exchange) error {
			x.Response.Status, x.Response.Local = 503, true
			return nil
		}, 503, retrylog.UpstreamFailure, [2]string{"Content-Type", "application/problem+json"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rec := &last{}
			g := New(Config{Recorder: rec, Log: slog.New(slog.DiscardHandler)})
			ended := retrylog.Outcome("")
			inner := exchange.Func(func(x *exchange.Exchange) error {
				x.OnEnd(exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { ended = o }))
				return tt.inner(x)
			})
			svc := g.record(&snapshot{name: "gw"}, config.Route{Name: "r", Service: "s"})(inner)
			x := new(exchange.Exchange)
			x.Reset()
			x.Event.Start = time.Now()
			if err := svc.Serve(x); err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(x.Response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if x.Response.Status != tt.status || !strings.Contains(string(body), tt.reason) || strings.Contains(string(body), "10.0.0.1") {
				t.Errorf("status %d and body %s, want %d with %q", x.Response.Status, body, tt.status, tt.reason)
			}
			if tt.head[0] != "" && x.Response.Head.Get(tt.head[0]) != tt.head[1] {
				t.Errorf("%s is %q, want %q", tt.head[0], x.Response.Head.Get(tt.head[0]), tt.head[1])
			}
			outcome := x.Event.Outcome
			if outcome == "" { // what front would say
				outcome = exchange.Classify(nil, x.Response.Status)
			}
			x.End(outcome)
			if ended != tt.outcome || rec.ev.Outcome != tt.outcome || rec.ev.Status != tt.status || rec.ev.Origin != "gateway" {
				t.Errorf("the policy's ender saw %q, the event says %+v, want %s", ended, rec.ev, tt.outcome)
			}
		})
	}
}

func TestPanicCostsOneRequest(t *testing.T) {
	rec := &last{}
	g := New(Config{Recorder: rec, Log: slog.New(slog.DiscardHandler)})
	what := any("boom")
	svc := g.record(&snapshot{}, config.Route{Name: "r", Service: "s"})(exchange.Func(func(*exchange.Exchange) error { panic(what) }))
	h := front.New(front.Config{Service: svc, Log: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/a", nil))
	if w.Code != 502 || rec.ev.Outcome != retrylog.Panicked {
		t.Errorf("answered %d, recorded %q", w.Code, rec.ev.Outcome)
	}
	what = http.ErrAbortHandler // R22: cut the connection, make nothing up
	rec.ev = retrylog.Exchange{}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("the handler ended with %v, want an aborted connection", v)
		}
		if rec.ev.Outcome != retrylog.Panicked || rec.ev.Status != 0 {
			t.Errorf("recorded %+v", rec.ev)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/a", nil))
}
