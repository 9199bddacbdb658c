package fallback

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

func get(path string) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method, x.Request.Scheme, x.Request.Host, x.Request.Path = "GET", "http", "shop.example", path
	return x
}

// answers is an upstream whose next answer a test sets.
type answers struct {
	err    error
	status int
	head   []string
	body   string
	length bool // announce it
	ended  []retrylog.Outcome
}

func (a *answers) Serve(x *exchange.Exchange) error {
	x.OnEnd(exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { a.ended = append(a.ended, o) }))
	if a.err != nil {
		return a.err
	}
	res := &x.Response
	res.Status = a.status
	h := head(a.head...)
	for _, f := range h.Fields() {
		res.Head.Add(f.Name, f.Value)
	}
	if x.Request.Method != "HEAD" {
		res.Body = io.NopCloser(strings.NewReader(a.body))
	}
	if res.Length = -1; a.length {
		res.Length = int64(len(a.body))
	}
	return nil
}

// serve sends x, reads the answer as front does, and ends x.
func serve(t *testing.T, svc exchange.Service, x *exchange.Exchange) (string, error) {
	t.Helper()
	err := svc.Serve(x)
	text := []byte{}
	if err == nil && x.Response.Body != nil {
		var rerr error
		if text, rerr = io.ReadAll(x.Response.Body); rerr != nil {
			t.Error(rerr)
		}
	}
	x.End(exchange.Classify(err, x.Response.Status))
	return string(text), err
}

var (
	breakerOpen = &exchange.Refusal{Policy: "breaker", Reason: "open", Status: 503, RetryAfter: 1500 * time.Millisecond}
	noEndpoint  = &exchange.Refusal{Policy: "balance", Reason: "no_endpoint", Status: 503}
	full        = &exchange.Refusal{Policy: "concurrency", Reason: "full", Status: 503, RetryAfter: time.Second}
	bodySize    = &exchange.Refusal{Policy: "route", Reason: "body_size", Status: 413}
	rate        = &exchange.Refusal{Policy: "limiter", Reason: "rate", Status: 429, RetryAfter: time.Second}
	reset       = &exchange.UpstreamError{Kind: exchange.ResetBeforeFirst}
)

func TestCauses(t *testing.T) {
	fallbackTo := Answer{Status: 200, Head: []exchange.Field{{Name: "Content-Type", Value: "application/json"}}, Body: "[]"}
	onOpen := Config{Action: ReturnDefault, OnOpen: true, Default: fallbackTo}
	onFailure := Config{Action: ReturnDefault, OnFailure: true, Default: fallbackTo}
	tests := []struct {
		name     string
		cfg      Config
		err      error
		status   int
		skip     string
		degraded bool
	}{
		{"a good answer", onOpen, nil, 200, "", false},
		{"a breaker that is open", onOpen, breakerOpen, 0, "refused", true},
		{"no endpoint", onOpen, noEndpoint, 0, "", true},
		{"too many under way", onOpen, full, 0, "", true},
		{"a body that is too large", onOpen, bodySize, 0, "", false},
		{"the limiter of a hop below", onOpen, rate, 0, "", false},
		{"a failure is not asked for", onOpen, nil, 503, "", false},
		{"nor a reset", onOpen, reset, 0, "", false},
		{"a refusal is not asked for", onFailure, breakerOpen, 0, "", false},
		{"an upstream's 503", onFailure, nil, 503, "", true},
		{"500, 502, 504", onFailure, nil, 504, "", true},
		{"an unlisted 5xx", onFailure, nil, 501, "", false},
		{"404", onFailure, nil, 404, "", false},
		{"429 is the client's own", onFailure, nil, 429, "", false},
		{"a reset", onFailure, reset, 0, "", true},
		{"the total deadline", onFailure, exchange.ErrTotalTimeout, 0, "", true},
		{"a client that left", onFailure, exchange.ErrClientGone, 0, "", false},
		{"a mistake of ours", onFailure, errors.New("oops"), 0, "", false},
		{"retries stopped by the error rate", onOpen, nil, 503, "error_rate_gate", true},
		{"with a good answer all the same", onOpen, nil, 200, "error_rate_gate", false},
		{"and without a block of degrade", Config{}, nil, 503, "error_rate_gate", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := &answers{err: tt.err, status: tt.status, body: "theirs"}
			x := get("/a")
			svc := Layer(tt.cfg, nil)(exchange.Func(func(x *exchange.Exchange) error { x.Event.Skip = tt.skip; return up.Serve(x) }))
			text, err := serve(t, svc, x)
			if !tt.degraded {
				if err != tt.err || x.Event.Degraded != "" || err == nil && (text != "theirs" || x.Response.Status != tt.status) {
					t.Errorf("got %v, %d %q, degraded %q", err, x.Response.Status, text, x.Event.Degraded)
				}
				return
			}
			if err != nil || x.Event.Degraded != "return_default" || x.Response.Status != 200 || text != "[]" || !x.Response.Local ||
				x.Response.Head.Get("Content-Type") != "application/json" || x.Response.Head.Get("Cache-Control") != "no-store" {
				t.Errorf("got %v, %+v %q, degraded %q", err, x.Response, text, x.Event.Degraded)
			}
			// What stood below has seen the end of its own, and not ours.
			if want := []retrylog.Outcome{exchange.Classify(tt.err, tt.status)}; !slices.Equal(up.ended, want) {
				t.Errorf("below it ended as %q, want %q", up.ended, want)
			}
			refusal, refused := errors.AsType[*exchange.Refusal](tt.err)
			if refused != (x.Event.Refusal != "") || refused && x.Event.Refusal != refusal.Policy+":"+refusal.Reason {
				t.Errorf("refusal %q", x.Event.Refusal)
			}
		})
	}
}

// fail_fast is an honest 503 with a Retry-After of a second at least, the rest of
// the open time rounded up by whoever writes it.
func TestFailFast(t *testing.T) {
	for _, cfg := range []Config{{}, {Action: FailFast, OnOpen: true}} {
		for _, tt := range []struct {
			err  *exchange.Refusal
			want time.Duration
		}{{breakerOpen, 1500 * time.Millisecond}, {noEndpoint, time.Second}, {full, time.Second}} {
			x := get("/a")
			err := Layer(cfg, nil)(&answers{err: tt.err}).Serve(x)
			got, refused := errors.AsType[*exchange.Refusal](err)
			if !refused || got.Status != 503 || got.RetryAfter != tt.want || got.Policy != tt.err.Policy || got.Reason != tt.err.Reason || x.Event.Degraded != "fail_fast" {
				t.Errorf("%v: %+v, degraded %q", tt.err, err, x.Event.Degraded)
			}
		}
	}
	x := get("/a")
	up := &answers{status: 502, body: "a long page", head: []string{"Retry-After: 7", "X-Theirs: 1", "Retry-Count: 2"}}
	text, err := serve(t, Layer(Config{Action: FailFast, OnFailure: true}, nil)(up), x)
	if err != nil || x.Response.Status != 503 || text != "" || x.Response.Head.Get("Retry-After") != "7" || x.Response.Head.Has("X-Theirs") ||
		x.Response.Head.Get("Retry-Count") != "2" || x.Event.Outcome != retrylog.UpstreamFailure {
		t.Errorf("a failure: %v, %+v, outcome %q", err, x.Response, x.Event.Outcome)
	}
}

func TestPassThrough(t *testing.T) {
	x := get("/a")
	up := &answers{err: breakerOpen}
	if err := Layer(Config{Action: PassThrough, OnOpen: true, OnFailure: true}, nil)(up).Serve(x); err != breakerOpen || x.Event.Degraded != "" {
		t.Errorf("got %v, degraded %q", err, x.Event.Degraded)
	}
}

func TestObserveOnly(t *testing.T) {
	x := get("/a")
	svc := Layer(Config{Action: ReturnDefault, OnOpen: true, Observe: true, Default: Answer{Status: 200}}, nil)(&answers{err: breakerOpen})
	if err := svc.Serve(x); err != breakerOpen || x.Event.Degraded != "" || x.Event.Observed != "fallback:return_default" {
		t.Errorf("got %v, %q, %q", err, x.Event.Degraded, x.Event.Observed)
	}
}

// A client that reads errors only gets one: gRPC, and an upgrade.
func TestNoDefaultForOtherProtocols(t *testing.T) {
	svc := Layer(Config{Action: ReturnDefault, OnOpen: true, Default: Answer{Status: 200}}, nil)(&answers{err: breakerOpen})
	grpc, socket := get("/a"), get("/a")
	grpc.Request.Head.Add("Content-Type", "application/grpc+proto")
	socket.Request.Upgrade = "websocket"
	for _, x := range []*exchange.Exchange{grpc, socket} {
		if err := svc.Serve(x); err == nil || x.Event.Degraded != "fail_fast" {
			t.Errorf("got %v, degraded %q", err, x.Event.Degraded)
		}
	}
}

func lastGood() (Config, *Store) {
	cfg := Config{Action: LastGood, OnOpen: true, OnFailure: true}
	return cfg, NewStore(cfg.Keep, time.Now())
}

func TestLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, store := lastGood()
		up := &answers{status: 200, body: "hello", head: []string{"Content-Type: text/plain", "ETag: \"1\"", "Age: 5", "X-Request-Id: theirs", "Vary: Accept"}}
		svc := Layer(cfg, store)(up)
		ask := func(x *exchange.Exchange) (string, error) { t.Helper(); return serve(t, svc, x) }
		accepting := func(path, accept string) *exchange.Exchange {
			x := get(path)
			x.Request.Head.Add("Accept", accept)
			return x
		}
		for _, length := range []bool{true, false} {
			up.length = length
			if text, err := ask(accepting("/a", "text/plain")); err != nil || text != "hello" {
				t.Fatalf("%q, %v", text, err)
			}
			time.Sleep(2 * time.Second)
		}
		up.err = breakerOpen
		time.Sleep(1500 * time.Millisecond)
		x := accepting("/a", "text/plain")
		text, err := ask(x)
		h := &x.Response.Head
		if err != nil || text != "hello" || x.Response.Status != 200 || !x.Response.Local || x.Event.Degraded != "last_good" || x.Event.Refusal != "breaker:open" ||
			h.Get("Age") != "8" || h.Get("ETag") != "\"1\"" || h.Has("X-Request-Id") || h.Get("Cache-Control") != "no-store" || x.Response.Length != 5 {
			t.Errorf("%q, %v, %+v", text, err, x.Response)
		}
		// Nobody else's, nothing else, nothing of another kind.
		others := map[string]*exchange.Exchange{
			"another path": accepting("/b", "text/plain"), "another Accept": accepting("/a", "text/html"), "no Accept": get("/a"),
			"HEAD": accepting("/a", "text/plain"), "POST": accepting("/a", "text/plain"), "a caller": accepting("/a", "text/plain"),
			"a tenant": accepting("/a", "text/plain"), "a cookie": accepting("/a", "text/plain"), "a query": accepting("/a", "text/plain"),
		}
		others["HEAD"].Request.Method, others["POST"].Request.Method = "HEAD", "POST"
		others["a caller"].Event.Caller, others["a tenant"].Event.Tenant = "web", "acme"
		others["a cookie"].Request.Head.Add("Cookie", "session=1")
		others["a query"].Request.Query = "page=2"
		for name, x := range others {
			if _, err := ask(x); err == nil || x.Event.Degraded != "fail_fast" {
				t.Errorf("%s is answered: %v, %q", name, err, x.Event.Degraded)
			}
		}
		time.Sleep(5 * time.Minute)
		if _, err := ask(accepting("/a", "text/plain")); err == nil {
			t.Error("an answer beyond max_age was given")
		}
		// A degraded answer is not kept as a good one.
		if s := store.Stats(); s.Entries != 1 || s.Hits != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestLastGoodShared(t *testing.T) {
	cfg, _ := lastGood()
	cfg.Keep.Shared = true
	store := NewStore(cfg.Keep, time.Now())
	up := &answers{status: 200, body: "hello"}
	svc := Layer(cfg, store)(up)
	one, two := get("/a"), get("/a")
	one.Event.Caller, two.Event.Caller = "web", "app"
	two.Request.Head.Add("Cookie", "a=b")
	_, _ = serve(t, svc, one)
	up.err = breakerOpen
	if text, err := serve(t, svc, two); err != nil || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
}

// What is not whole, not good, not plain, or not to be kept is not kept.
func TestNotKept(t *testing.T) {
	tests := map[string]func(up *answers, x *exchange.Exchange){
		"no-store":        func(up *answers, _ *exchange.Exchange) { up.head = []string{"Cache-Control: no-store"} },
		"404":             func(up *answers, _ *exchange.Exchange) { up.status = 404 },
		"206":             func(up *answers, _ *exchange.Exchange) { up.status = 206 },
		"an experiment":   func(_ *answers, x *exchange.Exchange) { x.Event.Experiment = "run-1" },
		"too long":        func(up *answers, _ *exchange.Exchange) { up.body = strings.Repeat("b", 64<<10+1) },
		"too long, told":  func(up *answers, _ *exchange.Exchange) { up.body, up.length = strings.Repeat("b", 64<<10+1), true },
		"a stream":        func(up *answers, _ *exchange.Exchange) { up.head = []string{"Content-Type: text/event-stream"} },
		"POST":            func(_ *answers, x *exchange.Exchange) { x.Request.Method = "POST" },
		"a client's wish": func(_ *answers, x *exchange.Exchange) { x.Request.Head.Add("Cache-Control", "no-store") },
	}
	for name, shape := range tests {
		cfg, store := lastGood()
		up := &answers{status: 200, body: "hello"}
		x := get("/a")
		shape(up, x)
		if text, err := serve(t, Layer(cfg, store)(up), x); err != nil || text != up.body {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		if s := store.Stats(); s.Entries != 0 || s.Bytes != 0 || store.capturing.Load() != 0 {
			t.Errorf("%s is kept: %+v", name, s)
		}
	}
}

// A body that a client gives up half-way, or whose upstream dies, is not kept.
func TestHalfABodyIsNotKept(t *testing.T) {
	for name, length := range map[string]bool{"of unknown length": false, "of known length": true} {
		cfg, store := lastGood()
		up := &answers{status: 200, body: "hello", length: length}
		x := get("/a")
		if err := Layer(cfg, store)(up).Serve(x); err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, x.Response.Body, 3)
		x.End(retrylog.OK) // even so
		if s := store.Stats(); s.Entries != 0 || store.capturing.Load() != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// RFC 9111 section 4.4: what a request has changed is not given as it was before;
// one that was asked for earlier and comes late neither.
func TestChangedResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, store := lastGood()
		up := &answers{status: 200, body: "old"}
		svc := Layer(cfg, store)(up)
		late := get("/a")
		if err := svc.Serve(late); err != nil {
			t.Fatal(err)
		}
		_, _ = serve(t, svc, get("/other"))
		time.Sleep(time.Second)
		put := get("/a")
		put.Request.Method = "PUT"
		_, _ = serve(t, svc, put)
		time.Sleep(time.Second)
		_, _ = io.ReadAll(late.Response.Body)
		late.End(retrylog.OK)
		up.err = breakerOpen
		if text, err := serve(t, svc, get("/a")); err == nil {
			t.Errorf("given %q", text)
		}
		if text, err := serve(t, svc, get("/other")); err != nil || text != "old" {
			t.Errorf("another resource: %q, %v", text, err)
		}
		up.err, up.body = nil, "new"
		_, _ = serve(t, svc, get("/a")) // at once, although one was looked at just now
		up.err = breakerOpen
		if text, err := serve(t, svc, get("/a")); err != nil || text != "new" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// HEAD is a request of its own, with the length of what it does not send.
func TestLastGoodHead(t *testing.T) {
	cfg, store := lastGood()
	up := &answers{status: 200, body: strings.Repeat("b", 1<<20), length: true}
	svc := Layer(cfg, store)(up)
	first, second := get("/a"), get("/a")
	first.Request.Method, second.Request.Method = "HEAD", "HEAD"
	_, _ = serve(t, svc, first)
	up.err = breakerOpen
	if _, err := serve(t, svc, second); err != nil || second.Response.Length != 1<<20 || second.Response.Body != nil {
		t.Errorf("%v, %+v", err, second.Response)
	}
}
