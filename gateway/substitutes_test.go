package gateway

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/fallback"
	"breakwater/internal/retrylog"
)

const standIn = `{"points":"later"}`

func standInRoute(body string) config.Route {
	r := config.Route{Name: "points-get", Upstream: "points"}
	r.Degrade.Action, r.Degrade.Default = fallback.ReturnDefault, fallback.Answer{Status: 200, Body: body}
	return r
}

// shown is what an answer becomes when it was sent.
func shown(w *substitute, status int, body string, length int64) string {
	x := &exchange.Exchange{}
	x.Request.Method = "GET"
	x.Response.Status, x.Response.Body, x.Response.Length = status, io.NopCloser(strings.NewReader(body)), length
	w.watch(x)
	text, _ := io.ReadAll(x.Response.Body)
	_ = x.Response.Body.Close()
	return string(text)
}

func TestSubstitutesAreKnownByTheirBytes(t *testing.T) {
	other := `{"points":"sooon"}` // as long
	for name, tt := range map[string]struct {
		first, then string
		thenStatus  int
		share       int // of then, in tenths
		unknown     bool
		want        bool
	}{
		"nothing but the fallback, after answers of its own": {first: `{"points":12}`, then: standIn, share: 10, want: true},
		"as long, and of unknown length":                     {first: other, then: standIn, share: 10, unknown: true, want: true},
		"all but a few":                                      {first: other, then: standIn, share: 9, want: true},
		"often, as an empty list is":                         {first: other, then: standIn, share: 5},
		"from the beginning: it may be what it always says":  {first: standIn, then: standIn, share: 10},
		"another answer of the same length":                  {first: `{"points":12}`, then: other, share: 10},
		"another status":                                     {first: other, then: standIn, thenStatus: 404, share: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSubstitutes()
				w := s.route(standInRoute(standIn))
				send := func(body string, status int) {
					length := int64(len(body))
					if tt.unknown {
						length = -1
					}
					if got := shown(w, status, body, length); got != body {
						t.Fatalf("%q became %q", body, got)
					}
				}
				for range 300 {
					send(tt.first, 200)
					time.Sleep(100 * time.Millisecond)
				}
				for i := range 300 {
					if i%10 < tt.share {
						send(tt.then, max(tt.thenStatus, 200))
					} else {
						send(tt.first, 200)
					}
					time.Sleep(100 * time.Millisecond)
				}
				var told []retrylog.Notice
				for range 2 {
					s.tick(func(n retrylog.Notice) { told = append(told, n) })
				}
				if got := s.stats()["points-get"]; (got.Unmarked > 0) != tt.want || (len(told) == 1) != tt.want || tt.want && !strings.Contains(got.Text, "points: ") {
					t.Errorf("found %+v, told %+v, want %v", got, told, tt.want)
				}
			})
		})
	}
	s := newSubstitutes()
	if s.route(standInRoute("[]")) != nil || s.route(config.Route{Name: "none"}) != nil {
		t.Error("an empty list is anybody's answer")
	}
	s.route(standInRoute(standIn))
	if s.apply(&config.Config{}); len(s.all()) != 0 {
		t.Error("a route that is gone is watched")
	}
}

// What an upstream degraded and marked itself is counted as degraded, and its mark
// goes on to the client; without the mark it is told of, where nothing else would.
func TestAnUpstreamThatStandsInForItself(t *testing.T) {
	mark, body := "", `{"points":"u-1"}`
	rec := &last{}
	g := New(Config{Recorder: rec, Log: slog.New(slog.DiscardHandler)})
	svc := g.record(&snapshot{name: "gw"}, standInRoute(standIn))(exchange.Func(func(x *exchange.Exchange) error {
		x.Response.Status, x.Response.Length, x.Response.Body = 200, int64(len(body)), io.NopCloser(strings.NewReader(body))
		if mark != "" {
			x.Response.Head.Add(degradedField, mark)
		}
		return nil
	}))
	for _, tt := range []struct{ mark, body, degraded string }{{"", `{"points":"u-1"}`, ""}, {"last_good;reason=theirs", standIn, byUpstream}, {"", standIn, ""}} {
		mark, body = tt.mark, tt.body
		x := new(exchange.Exchange)
		x.Reset()
		x.Request.Method = "GET"
		if err := svc.Serve(x); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(x.Response.Body)
		if err != nil || string(text) != tt.body || x.Response.Head.Get(degradedField) != tt.mark {
			t.Errorf("%s became %s with %q, %v", tt.body, text, x.Response.Head.Get(degradedField), err)
		}
		x.End(exchange.Classify(nil, 200))
		if rec.ev.Degraded != tt.degraded {
			t.Errorf("%+v is counted as degraded by %q", tt, rec.ev.Degraded)
		}
	}
	w := g.substitutes.all()[0]
	if w.alike.Load() != 1 || w.other.Load() != 1 { // what has a mark is neither
		t.Errorf("%d alike, %d not", w.alike.Load(), w.other.Load())
	}
}
