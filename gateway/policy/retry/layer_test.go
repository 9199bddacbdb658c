package retry

import (
	"bytes"
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

// answer is what the upstream of a test does once.
type answer struct {
	status int
	err    error
	head   []string
	body   string
	takes  time.Duration
}

// upstream answers in turn (the last one for ever) and notes what it saw.
type upstream struct {
	answers   []answer
	endpoints []string // picked in turn; empty: always "a"
	calls     []time.Duration
	counts    []string
	bodies    []string
	ended     []retrylog.Outcome
	closed    int
	start     time.Time
}

func (u *upstream) Serve(x *exchange.Exchange) error {
	i := len(u.calls)
	a := u.answers[min(i, len(u.answers)-1)]
	ep := "a"
	if len(u.endpoints) > 0 {
		ep = u.endpoints[min(i, len(u.endpoints)-1)]
	}
	u.calls = append(u.calls, time.Since(u.start))
	u.counts = append(u.counts, x.Request.Head.Get("Retry-Count"))
	x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: ep})
	x.OnEnd(exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { u.ended = append(u.ended, o) }))
	if ue, ok := a.err.(*exchange.UpstreamError); !ok || ue.Kind != exchange.Dial {
		b, err := io.ReadAll(&x.Request.Body)
		if err != nil {
			return err
		}
		u.bodies = append(u.bodies, string(b))
	}
	if a.takes > 0 {
		if err := x.Wait(a.takes, nil); err != nil {
			return err
		}
	}
	if a.err != nil {
		return a.err
	}
	x.Response.Status = a.status
	for j := 0; j+1 < len(a.head); j += 2 {
		x.Response.Head.Add(a.head[j], a.head[j+1])
	}
	x.Response.Body = closer{strings.NewReader(a.body), &u.closed}
	x.Response.Length = int64(len(a.body))
	return nil
}

type closer struct {
	io.Reader
	n *int
}

func (c closer) Close() error { *c.n++; return nil }

func kind(k exchange.Kind) error { return &exchange.UpstreamError{Kind: k, Endpoint: "a"} }

// run serves one request in a bubble. d.Log is set to lines.
func run(t *testing.T, cfg Config, d Deps, u *upstream, prepare func(*exchange.Exchange), check func(x *exchange.Exchange, err error, lines string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d.Log, d.Upstream = NewLines(&out), "auth-service"
		if d.Endpoints == 0 {
			d.Endpoints = 1
		}
		u.start = time.Now()
		x := new(exchange.Exchange)
		x.Reset()
		x.Request.Method, x.Event.RequestID = "GET", "a1b2c3d4"
		x.Request.Body.Set(nil, 0)
		if prepare != nil {
			prepare(x)
		}
		err := exchange.Chain(u, Layer(cfg, d)).Serve(x)
		check(x, err, out.String())
		x.End(exchange.Classify(err, x.Response.Status))
		if len(u.ended) != len(u.calls) {
			t.Errorf("%d enders ran for %d tries", len(u.ended), len(u.calls))
		}
	})
}

func body(x *exchange.Exchange) string {
	if x.Response.Body == nil {
		return ""
	}
	b, _ := io.ReadAll(x.Response.Body)
	return string(b)
}

func deadlineIn(d time.Duration) func(*exchange.Exchange) {
	return func(x *exchange.Exchange) { x.SetDeadline(time.Now().Add(d)) }
}

var busy = answer{status: 503, head: []string{"X-Backend-Status", "overloaded"}, body: "busy"}

func TestLayer(t *testing.T) {
	tests := []struct {
		name    string
		cfg     func(*Config)
		deps    Deps
		up      upstream
		prepare func(*exchange.Exchange)

		status int // 0: an error
		body   string
		calls  []time.Duration
		skip   string
		reason string
		count  string // Retry-Count of the answer
	}{
		{name: "a good answer is passed on", up: upstream{answers: []answer{{status: 200, body: "ok"}}}, status: 200, body: "ok", calls: []time.Duration{0}},
		{name: "V-4 bare 503 passes through", up: upstream{answers: []answer{{status: 503, body: "no"}}}, status: 503, body: "no", calls: []time.Duration{0}, skip: SkipSecondary},
		{name: "V-5 bare 502 is tried three times", up: upstream{answers: []answer{{status: 502, body: "bad"}}}, status: 502, body: "bad",
			calls: []time.Duration{0, 250 * ms, 750 * ms}, skip: SkipAttempts, reason: "status_code_match=502", count: "2"},
		{name: "V-9 told to wait too long", up: upstream{answers: []answer{{status: 503, head: []string{"Retry-After", "30"}}}}, prepare: deadlineIn(10 * time.Second),
			status: 503, calls: []time.Duration{0}, skip: SkipRADeadline},
		{name: "V-10 waits as told", up: upstream{answers: []answer{{status: 503, head: []string{"Retry-After", "1"}}, {status: 200, body: "ok"}}}, prepare: deadlineIn(10 * time.Second),
			status: 200, body: "ok", calls: []time.Duration{0, time.Second}, reason: "retry_after_header", count: "1"},
		{name: "R13 the count goes both ways", up: upstream{answers: []answer{{status: 502}, {status: 502}, {status: 200}}}, status: 200,
			calls: []time.Duration{0, 250 * ms, 750 * ms}, reason: "status_code_match=502", count: "2"},
		{name: "R15 the total deadline ends it", cfg: func(c *Config) { c.MaxRetries, c.BackoffBase, c.PerTry = 5, time.Second, 2*time.Second }, up: upstream{answers: []answer{busy}},
			prepare: deadlineIn(5 * time.Second), status: 503, body: "busy", calls: []time.Duration{0, time.Second, 3 * time.Second}, skip: SkipDeadline, reason: "header X-Backend-Status=overloaded", count: "2"},
		{name: "R27 another host is asked at once", deps: Deps{Endpoints: 2}, up: upstream{answers: []answer{{err: kind(exchange.Dial)}, {status: 200}}, endpoints: []string{"a", "b"}},
			status: 200, calls: []time.Duration{0, 0}, reason: "connect_failure", count: "1"},
		{name: "V-14 the only host does not accept", up: upstream{answers: []answer{{err: kind(exchange.ConnectTimeout)}}}, calls: []time.Duration{0}, skip: SkipNoOtherHost},
		{name: "503, then a timeout, answers 503", cfg: func(c *Config) { c.MaxRetries = 1 }, up: upstream{answers: []answer{busy, {err: kind(exchange.TryTimeout)}}},
			status: 503, body: "busy", calls: []time.Duration{0, 250 * ms}, skip: SkipAttempts, reason: "header X-Backend-Status=overloaded", count: "1"},
		{name: "503, then no endpoint, answers 503", up: upstream{answers: []answer{busy, {err: &exchange.Refusal{Policy: "balance", Reason: "no_endpoint", Status: 503}}}},
			status: 503, body: "busy", calls: []time.Duration{0, 250 * ms}, skip: SkipRefused, reason: "header X-Backend-Status=overloaded", count: "1"},
		{name: "a refusal at first stays one", up: upstream{answers: []answer{{err: &exchange.Refusal{Policy: "balance", Reason: "no_endpoint", Status: 503}}}}, calls: []time.Duration{0}, skip: SkipRefused},
		{name: "timeouts only", up: upstream{answers: []answer{{err: kind(exchange.TryTimeout)}}}, calls: []time.Duration{0, 250 * ms, 750 * ms}, skip: SkipAttempts, reason: "status_code_match=504"},
		{name: "the deadline runs out in the second try", up: upstream{answers: []answer{busy, {takes: time.Minute}}}, prepare: deadlineIn(time.Second),
			status: 503, body: "busy", calls: []time.Duration{0, 250 * ms}, skip: SkipDeadline, reason: "header X-Backend-Status=overloaded", count: "1"},
		{name: "R7 a POST's own error page", cfg: func(c *Config) { c.OnStatus = []int{500} }, up: upstream{answers: []answer{{status: 500, body: `{"e":1}`}}},
			prepare: func(x *exchange.Exchange) { x.Request.Method = "POST" }, status: 500, body: `{"e":1}`, calls: []time.Duration{0}, skip: SkipMethod},
		{name: "return_503 keeps Retry-After and nothing else", cfg: func(c *Config) { c.Fallback, c.MaxRetries = Return503, 1 }, up: upstream{answers: []answer{{status: 502, body: "stack trace", head: []string{"Retry-After", "1", "X-Secret", "s"}}}},
			status: 503, calls: []time.Duration{0, time.Second}, skip: SkipAttempts, reason: "status_code_match=502", count: "1"},
		{name: "return_503 for a timeout", cfg: func(c *Config) { c.Fallback, c.MaxRetries = Return503, 1 }, up: upstream{answers: []answer{{err: kind(exchange.TryTimeout)}}},
			status: 503, calls: []time.Duration{0, 250 * ms}, skip: SkipAttempts, reason: "status_code_match=504", count: "1"},
		{name: "the count is of the whole path", up: upstream{answers: []answer{{status: 502}, {status: 200, head: []string{"Retry-Count", "1"}}}},
			status: 200, calls: []time.Duration{0, 250 * ms}, reason: "status_code_match=502", count: "2"},
		{name: "never passes the answer on, whatever the fallback", cfg: func(c *Config) {
			c.Fallback = Return503
			c.Rules = []Rule{{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{500}}, Action: DontRetry}}
		}, up: upstream{answers: []answer{{status: 500, body: "mine"}}}, status: 500, body: "mine", calls: []time.Duration{0}, skip: SkipRule},
		{name: "V-21 below another retrying hop", up: upstream{answers: []answer{{status: 504}}}, prepare: func(x *exchange.Exchange) { x.InboundRetries = 1 },
			status: 504, calls: []time.Duration{0}, skip: SkipRetryCount},
		{name: "V-30 the budget is empty", deps: Deps{Budget: NewBudget(BudgetConfig{TTL: 10 * time.Second})}, up: upstream{answers: []answer{busy}},
			status: 503, body: "busy", calls: []time.Duration{0}, skip: SkipBudget},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := bench()
			if tt.cfg != nil {
				tt.cfg(&cfg)
			}
			run(t, cfg, tt.deps, &tt.up, tt.prepare, func(x *exchange.Exchange, err error, _ string) {
				if (err != nil) != (tt.status == 0) || err == nil && x.Response.Status != tt.status {
					t.Errorf("got %d, %v, want status %d", x.Response.Status, err, tt.status)
				}
				if got := body(x); got != tt.body {
					t.Errorf("body %q, want %q", got, tt.body)
				}
				if !slices.Equal(tt.up.calls, tt.calls) {
					t.Errorf("calls at %v, want %v", tt.up.calls, tt.calls)
				}
				if x.Event.Skip != tt.skip || x.Event.Reason != tt.reason {
					t.Errorf("event says skip %q, reason %q, want %q, %q", x.Event.Skip, x.Event.Reason, tt.skip, tt.reason)
				}
				if got := x.Response.Head.Get("Retry-Count"); got != tt.count {
					t.Errorf("answer's Retry-Count is %q, want %q", got, tt.count)
				}
				if x.Response.Head.Has("X-Secret") {
					t.Error("return_503 let a header of the upstream through")
				}
			})
		})
	}
}

func TestPolicies_R13(t *testing.T) {
	u := &upstream{answers: []answer{{status: 502}, {status: 502}, {status: 200}}}
	run(t, bench(), Deps{}, u, nil, func(x *exchange.Exchange, err error, _ string) {
		if want := []string{"", "1", "2"}; !slices.Equal(u.counts, want) {
			t.Errorf("upstream saw Retry-Count %q, want %q", u.counts, want)
		}
		if x.Event.FirstStatus != 502 || x.Event.RetryWaitMS != 750 || x.Event.Tries[2].WaitMS != 500 {
			t.Errorf("event has first status %d, waits %d, %d", x.Event.FirstStatus, x.Event.RetryWaitMS, x.Event.Tries[2].WaitMS)
		}
	})
}

// R4: each try gets the whole body.
func TestPolicies_R4(t *testing.T) {
	text := strings.Repeat("x", 100)
	u := &upstream{answers: []answer{{err: kind(exchange.Dial)}, busy, {status: 200}}, endpoints: []string{"a", "b", "c"}}
	put := func(x *exchange.Exchange) {
		x.Request.Method = "PUT"
		x.Request.Body.Set(strings.NewReader(text), 100)
	}
	run(t, bench(), Deps{Endpoints: 3}, u, put, func(x *exchange.Exchange, err error, _ string) {
		if err != nil || x.Response.Status != 200 || !slices.Equal(u.bodies, []string{text, text}) {
			t.Errorf("got %d, %v, bodies of %d tries, want 200 and 2", x.Response.Status, err, len(u.bodies))
		}
	})
}

// R8: the cap counts each byte once.
func TestPolicies_R8(t *testing.T) {
	for _, tt := range []struct{ size, calls int }{{16150, 2}, {16384, 2}, {16385, 1}} {
		cfg := bench()
		cfg.ReplayCap = 16384
		u := &upstream{answers: []answer{{status: 502}, {status: 200}}}
		put := func(x *exchange.Exchange) {
			x.Request.Method = "PUT"
			x.Request.Body.Set(strings.NewReader(strings.Repeat("x", tt.size)), int64(tt.size))
		}
		run(t, cfg, Deps{}, u, put, func(x *exchange.Exchange, err error, _ string) {
			if len(u.calls) != tt.calls || len(u.bodies[0]) != tt.size {
				t.Errorf("%d bytes: %d calls, first got %d bytes; want %d calls", tt.size, len(u.calls), len(u.bodies[0]), tt.calls)
			}
		})
	}
}

// V-21: A calls B, B calls C, C always answers 504.
func TestPolicies_V21(t *testing.T) {
	cfg := bench()
	cfg.MaxRetries = 1
	c := &upstream{answers: []answer{{status: 504}}}
	synctest.Test(t, func(t *testing.T) {
		hopB := exchange.Chain(c, Layer(cfg, Deps{Endpoints: 1}))
		calls := 0
		network := exchange.Func(func(x *exchange.Exchange) error {
			calls++
			inner := new(exchange.Exchange)
			inner.Reset()
			inner.Request.Method = "GET"
			inner.Request.Body.Set(nil, 0)
			inner.InboundRetries = exchange.RetryCount(x.Request.Head.Get("Retry-Count"))
			if err := hopB.Serve(inner); err != nil {
				return err
			}
			x.Response.Status = inner.Response.Status
			x.Response.Head.CopyFrom(&inner.Response.Head)
			return nil
		})
		x := new(exchange.Exchange)
		x.Reset()
		x.Request.Method = "GET"
		x.Request.Body.Set(nil, 0)
		err := exchange.Chain(network, Layer(cfg, Deps{Endpoints: 1})).Serve(x)
		if err != nil || x.Response.Status != 504 || x.Response.Head.Get("Retry-Count") != "1" || x.Event.Skip != SkipRetryCount {
			t.Errorf("got %d, %v, Retry-Count %q, skip %q", x.Response.Status, err, x.Response.Head.Get("Retry-Count"), x.Event.Skip)
		}
		if calls != 1 || !slices.Equal(c.counts, []string{"", "1"}) {
			t.Errorf("A called %d times, C saw %q; want 1 and absent, 1", calls, c.counts)
		}
	})
}

func TestClientGoneInTheBackOff(t *testing.T) {
	u := &upstream{answers: []answer{busy}}
	gone := func(x *exchange.Exchange) {
		token := x.Token()
		time.AfterFunc(100*ms, func() { token.Cancel(exchange.ErrClientGone) })
	}
	run(t, bench(), Deps{}, u, gone, func(x *exchange.Exchange, err error, _ string) {
		if !errors.Is(err, exchange.ErrClientGone) || len(u.calls) != 1 || x.Response.Body != nil {
			t.Errorf("got %v after %d calls, want client gone after 1", err, len(u.calls))
		}
		if _, held := x.Held(); held {
			t.Error("the answer is still held")
		}
	})
}

// plain serves one request that is not retried, over and over.
func plain(svc exchange.Service) func() {
	x, now := new(exchange.Exchange), time.Now()
	return func() {
		x.Reset()
		x.Event.Start = now // as the front sets it
		x.Request.Method = "GET"
		x.Request.Body.Set(nil, 0)
		for _, name := range []string{"Host", "User-Agent", "Accept", "X-Caller", "Traceparent"} {
			x.Request.Head.Add(name, "v")
		}
		for _, name := range []string{"Content-Type", "Content-Length", "Date", "Server"} {
			x.Response.Head.Add(name, "v")
		}
		if err := svc.Serve(x); err != nil {
			panic(err)
		}
		x.End(retrylog.OK)
	}
}

var good = exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil })

// layers are those whose cost on a plain request is bounded: 0 allocations.
func layers() map[string]exchange.Service {
	rule := bench()
	rule.Rules = []Rule{
		{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{429}}, Secondary: []Condition{{Trigger: HeaderExists, Header: "X-Wait"}}},
		{Primary: Condition{Trigger: BodyContains, Value: "busy"}},
	}
	gated := Polo()
	return map[string]exchange.Service{
		"without":     good, // what the rest costs: to be taken off
		"with":        exchange.Chain(good, Layer(bench(), Deps{Endpoints: 1, Budget: NewBudget(DefaultBudget())})),
		"rules":       exchange.Chain(good, Layer(rule, Deps{Endpoints: 1, Budget: NewBudget(DefaultBudget())})),
		"gate":        exchange.Chain(good, Layer(gated, Deps{Endpoints: 1, Budget: NewBudget(DefaultBudget()), Rates: NewRates()})),
		"concurrency": exchange.Chain(good, Layer(bench(), Deps{Endpoints: 1, Kind: Concurrency, Budget: NewBudget(DefaultConcurrency())})),
	}
}

func TestAPlainRequestAllocatesNothing(t *testing.T) {
	for name, svc := range layers() {
		serve := plain(svc)
		serve() // the first grows the lists
		if n := testing.AllocsPerRun(1000, serve); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkLayerGoodAnswer(b *testing.B) {
	for name, svc := range layers() {
		b.Run(name, func(b *testing.B) {
			serve := plain(svc)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// bubble runs f on a clock of its own.
func bubble(t *testing.T, f func()) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { f() })
}
