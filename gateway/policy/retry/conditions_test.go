package retry

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// only is the bench with one rule.
func only(r Rule) Config {
	cfg := bench()
	cfg.Rules = []Rule{r}
	return cfg
}

func primary(c Condition) Config { return only(Rule{Primary: c}) }

func saying(text string) func(*Facts) { return func(f *Facts) { f.Body = []byte(text) } }

// Each of the seven triggers: what it matches and what it does not.
func TestTriggers(t *testing.T) {
	status := Condition{Trigger: StatusCodeMatch, Statuses: []int{500, 502}}
	slow := Condition{Trigger: LatencyExceeds, Longer: 300 * ms}
	text := Condition{Trigger: BodyContains, Value: "try again"}
	exists := Condition{Trigger: HeaderExists, Header: "X-Wait"}
	value := Condition{Trigger: HeaderValueMatch, Header: "X-Wait", Value: "yes"}
	after := Condition{Trigger: RetryAfterHeader}
	load := Condition{Trigger: XBackendStatus}
	drained := Condition{Trigger: XBackendStatus, Value: "draining"}
	took := func(d time.Duration) func(*Facts) { return func(f *Facts) { f.Took = d } }
	hidden := func(f *Facts) { f.BodyHidden = "body_is_stream" }
	tests := []struct {
		name   string
		c      Condition
		f      Facts
		retry  bool
		reason string
		skip   string
	}{
		{"status", status, answered(502), true, "status_code_match=502", ""},
		{"another status", status, answered(504), false, "", SkipStatus},
		{"a timeout counts as 504", Condition{Trigger: StatusCodeMatch, Statuses: []int{504}}, answered(0, failedBy(exchange.TryTimeout)), true, "status_code_match=504", ""},
		{"slow", slow, answered(0, failedBy(exchange.TryTimeout), took(300*ms)), true, "latency_exceeds=300ms", ""},
		{"not slow enough", slow, answered(0, failedBy(exchange.TryTimeout), took(299*ms)), false, "", SkipStatus},
		{"slow, but it answered", slow, answered(200, took(time.Second)), false, "", SkipLate},
		{"slow, and it answered ill", slow, answered(500, took(time.Second)), false, "", SkipLate},
		{"text", text, answered(500, saying("please try again later")), true, "body_contains=try again", ""},
		{"text in a good answer", text, answered(200, saying("try again")), false, "", ""},
		{"text in another case", text, answered(500, saying("Try again")), false, "", SkipStatus},
		{"text that cannot be seen", text, answered(500, saying("try again"), hidden), false, "", SkipStatus},
		{"field", exists, answered(409, with("x-wait", "")), true, "header X-Wait", ""},
		{"no field", exists, answered(409), false, "", ""},
		{"field of a good answer", exists, answered(204, with("X-Wait", "1")), false, "", ""},
		{"value", value, answered(500, with("x-wait", "yes")), true, "header X-Wait=yes", ""},
		{"another value", value, answered(500, with("x-wait", "yes, please")), false, "", SkipStatus},
		{"pause", after, answered(425, with("Retry-After", "1")), true, "retry_after_header", ""},
		{"pause that nobody can read", after, answered(425, with("Retry-After", "1e3")), false, "", ""},
		{"load", load, answered(500, overloaded), true, "header X-Backend-Status=overloaded", ""},
		{"another load", drained, answered(500, overloaded), false, "", SkipStatus},
		{"no answer has no head", load, answered(0, failedBy(exchange.ResetBeforeFirst)), false, "", SkipStatus},
		{"no answer, but nothing was done", load, answered(0, failedBy(exchange.Dial)), true, "connect_failure", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { asks(t, "it", primary(tt.c), tt.f, tt.retry, tt.reason, tt.skip) })
	}
}

func TestRules(t *testing.T) {
	quota := Condition{Trigger: HeaderValueMatch, Header: "X-RateLimit-Remaining", Value: "0"}
	cfg := bench()
	cfg.Rules = []Rule{
		{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{500}}, Action: DontRetry},
		{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{429}}, Secondary: []Condition{quota}, Action: ToFallback, Fallback: Return503},
		{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{429, 502}}, Secondary: []Condition{{Trigger: RetryAfterHeader}, {Trigger: XBackendStatus}}},
		{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{500, 503, 504}}, MaxRetries: 1},
	}
	asks(t, "the first rule decides", cfg, answered(500), false, "status_code_match=500", SkipRule)
	asks(t, "no later rule is asked", cfg, answered(429, after("0"), overloaded), false, "", SkipSecondary)
	asks(t, "all secondary conditions have to match", cfg, answered(502, after("0")), false, "", SkipSecondary)
	asks(t, "and are named", cfg, answered(502, after("0"), overloaded), true, "retry_after_header and header X-Backend-Status=overloaded", "")
	asks(t, "a 503 without conditions needs its signal", cfg, answered(503), false, "", SkipSecondary)
	asks(t, "a timeout needs none", cfg, answered(0, failedBy(exchange.TryTimeout)), true, "status_code_match=504", "")
	asks(t, "a rule's own limit", cfg, answered(0, failedBy(exchange.TryTimeout), func(f *Facts) { f.Retries = 1 }), false, "status_code_match=504", SkipAttempts)
	asks(t, "never goes before what is safe", only(Rule{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{502}}, Action: DontRetry}),
		answered(0, failedBy(exchange.Dial)), false, "status_code_match=502", SkipRule)
	if d := Decide(cfg, answered(429, with("X-RateLimit-Remaining", "0")), 0); d.Fallback != Return503 || d.Rule != 1 || d.Skip != SkipFallback {
		t.Errorf("got %+v", d)
	}
	if d := Decide(cfg, answered(503, overloaded), 0); d.Rule != 3 || d.Index != 1 {
		t.Errorf("rule %d, index %d; want 3, 1", d.Rule, d.Index)
	}
	cfg = bench()
	cfg.StatusHeader = "X-Original-Backend-Status"
	asks(t, "a header by another name", cfg, answered(503, with("x-original-backend-status", "overloaded")), true, "header X-Original-Backend-Status=overloaded", "")
	asks(t, "its first name says nothing then", cfg, answered(503, overloaded), false, "", SkipSecondary)
}

// An explanation goes on behind the first shut gate, and names it.
func TestExplainNamesEveryGate(t *testing.T) {
	f := answered(503, overloaded, post, func(f *Facts) { f.InboundRetries = 1; f.BudgetEmpty = true })
	d, steps := Explain(bench(), f, 0)
	if d.Skip != SkipMethod {
		t.Errorf("skip %q", d.Skip)
	}
	var got []string
	for _, s := range steps {
		if s.Role == "gate" {
			got = append(got, fmt.Sprintf("%s %v %s", s.Name, s.OK, s.Detail))
		}
	}
	want := []string{"attempts true ", "method false non_idempotent", "body true ", "retry_count false retry_count", "client true ",
		"deadline true ", "error_rate true ", "other_host true ", "retry_budget false retry_budget"}
	if !slices.Equal(got, want) {
		t.Errorf("gates\n%q, want\n%q", got, want)
	}
	if s := steps[0]; s.Name != "status_code_match" || !s.OK || s.Index != 1 || s.Role != "primary" {
		t.Errorf("first step %+v", s)
	}
	if s := steps[1]; s.Name != "backpressure_signal" || !s.OK || s.Detail != "header X-Backend-Status=overloaded" {
		t.Errorf("second step %+v", s)
	}
}

func TestJitter(t *testing.T) {
	tests := []struct {
		jitter      Jitter
		n           int
		last        time.Duration
		least, most time.Duration
	}{
		{AdditiveBase, 2, 0, 500 * ms, 575 * ms},
		{Proportional, 1, 0, 250 * ms, 325 * ms}, {Proportional, 2, 0, 500 * ms, 650 * ms}, {Proportional, 3, 0, 1000 * ms, 1300 * ms}, {Proportional, 60, 0, 2500 * ms, 2500 * ms},
		{Full, 1, 0, 0, 250 * ms}, {Full, 3, 0, 0, 1000 * ms}, {Full, 60, 0, 0, 2500 * ms},
		{Decorrelated, 1, 0, 250 * ms, 750 * ms}, {Decorrelated, 2, 750 * ms, 250 * ms, 2250 * ms}, {Decorrelated, 3, 2250 * ms, 250 * ms, 2500 * ms},
	}
	for _, tt := range tests {
		cfg := bench()
		cfg.Jitter = tt.jitter
		least, most := Backoff(cfg, tt.n, tt.last, 0), Backoff(cfg, tt.n, tt.last, 1)
		if least != tt.least || most != tt.most {
			t.Errorf("%s, retry %d: %v to %v, want %v to %v", tt.jitter, tt.n, least, most, tt.least, tt.most)
		}
	}
	cfg := bench()
	for jitter, want := range map[Jitter]time.Duration{AdditiveBase: 3300 * ms, Proportional: 3375 * ms, Full: 3150 * ms, Decorrelated: 5400 * ms} {
		cfg.Jitter = jitter
		if got := WorstCase(cfg); got != want {
			t.Errorf("%s takes %v at worst, want %v", jitter, got, want)
		}
	}
}

// Whatever the numbers, a wait is neither negative nor beyond its cap.
func FuzzBackoff(f *testing.F) {
	f.Add(int64(250*ms), int64(0), int64(0), 3, 0.5, byte(0))
	f.Add(int64(1)<<62, int64(1)<<62, int64(1)<<62, 60, 0.99, byte(3))
	kinds := []Jitter{"", Proportional, Full, Decorrelated}
	f.Fuzz(func(t *testing.T, base, most, last int64, n int, dice float64, kind byte) {
		if !(dice >= 0 && dice < 1) {
			return
		}
		cfg := Config{BackoffBase: time.Duration(base), MaxBackoff: time.Duration(most), Jitter: kinds[int(kind)%len(kinds)]}
		if got := Backoff(cfg, n, time.Duration(last), dice); got < 0 || got > 0 && got > cfg.Longest() {
			t.Fatalf("waits %v, longest %v", got, cfg.Longest())
		}
	})
}

func TestTenantsHaveTheirOwnBase(t *testing.T) {
	cfg := bench()
	cfg.Tenants = map[string]Tenant{"gold": {BackoffBase: 100 * ms}}
	for tenant, want := range map[string]time.Duration{"gold": 100 * ms, "silver": 250 * ms, "": 250 * ms} {
		u := &upstream{answers: []answer{{status: 502}, {status: 200}}}
		served(t, cfg, Deps{}, u, func(x *exchange.Exchange) { x.Event.Tenant = tenant }, 200, 2, "")
		if u.calls[1] != want {
			t.Errorf("tenant %q waits %v, want %v", tenant, u.calls[1], want)
		}
	}
	cfg.Tenants["slow"] = Tenant{BackoffBase: 700 * ms}
	if got, want := WorstCase(cfg), 3*800*ms+910*ms+1610*ms; got != want {
		t.Errorf("worst case %v, want that of the slowest tenant, %v", got, want)
	}
}

func TestPresets(t *testing.T) {
	for _, name := range Presets() {
		if cfg, ok := Preset(name); !ok || !cfg.Active() || cfg.BackoffBase >= cfg.PerTry {
			t.Errorf("%s: %+v", name, cfg)
		}
	}
	if p := Polo(); p.MaxRetries != 1 || Backoff(p, 1, 0, 0) != time.Second || Backoff(p, 1, 0, 1) != 1300*ms {
		t.Errorf("polo waits %v to %v", Backoff(p, 1, 0, 0), Backoff(p, 1, 0, 1))
	}
}

// A policy that only looks on notes what it would have done, and does nothing.
func TestObserveOnly(t *testing.T) {
	cfg := bench()
	cfg.Observe, cfg.Fallback = true, Return503
	u := &upstream{answers: []answer{{status: 502, body: "bad"}}}
	run(t, cfg, Deps{Budget: NewBudget(DefaultBudget())}, u, nil, func(x *exchange.Exchange, err error, lines string) {
		if err != nil || x.Response.Status != 502 || len(u.calls) != 1 || x.Event.Observed != "retry:status_code_match=502" || x.Event.Skip != SkipObserved {
			t.Errorf("%d, %v after %d calls, observed %q, skip %q", x.Response.Status, err, len(u.calls), x.Event.Observed, x.Event.Skip)
		}
		if strings.Contains(lines, "triggered") {
			t.Errorf("lines tell of a retry that was none:\n%s", lines)
		}
	})
}

// Slowness is cut short where a retry can follow, and only there.
func TestLatencyExceeds(t *testing.T) {
	cfg := primary(Condition{Trigger: LatencyExceeds, Longer: 300 * ms})
	hangs := answer{status: 200, takes: 700 * ms}
	tests := []struct {
		name    string
		prepare func(*exchange.Exchange)
		deps    Deps
		answers []answer
		status  int
		calls   []time.Duration
		skip    string
	}{
		{"cut, and asked again", nil, Deps{}, []answer{hangs, {status: 200}}, 200, []time.Duration{0, 550 * ms}, ""},
		{"the last try is let be", nil, Deps{}, []answer{hangs}, 200, []time.Duration{0, 550 * ms, 1350 * ms}, SkipLate},
		{"a POST is let be", func(x *exchange.Exchange) { x.Request.Method = "POST" }, Deps{}, []answer{hangs}, 200, []time.Duration{0}, SkipLate},
		{"so is what another hop retries", func(x *exchange.Exchange) { x.InboundRetries = 1 }, Deps{}, []answer{hangs}, 200, []time.Duration{0}, SkipLate},
		{"and what no budget is left for", nil, Deps{Budget: NewBudget(BudgetConfig{TTL: time.Second})}, []answer{hangs}, 200, []time.Duration{0}, SkipLate},
		{"a deadline before it rules", deadlineIn(200 * ms), Deps{}, []answer{hangs}, 504, []time.Duration{0}, SkipStatus},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := &upstream{answers: tt.answers}
			served(t, cfg, tt.deps, u, tt.prepare, tt.status, len(tt.calls), tt.skip)
			if !slices.Equal(u.calls, tt.calls) {
				t.Errorf("calls at %v, want %v", u.calls, tt.calls)
			}
		})
	}
}

// Slow and good is told of, and is a success.
func TestLateAndGood(t *testing.T) {
	cfg := primary(Condition{Trigger: LatencyExceeds, Longer: 300 * ms})
	u := &upstream{answers: []answer{{status: 200, takes: 700 * ms}}}
	run(t, cfg, Deps{}, u, nil, func(x *exchange.Exchange, err error, lines string) {
		if err != nil || !strings.Contains(lines, `"skip_reason":"latency_after_head"`) || !strings.Contains(lines, "retry succeeded") || strings.Contains(lines, "retry failed") {
			t.Errorf("%v\n%s", err, lines)
		}
	})
}

// What body_contains has looked at, the client still gets whole.
func TestPeekLeavesTheBodyWhole(t *testing.T) {
	long := strings.Repeat("x", PeekBody) + "try again"
	tests := []struct {
		name, body string
		head       []string
		length     int64
		calls      int
	}{
		{"in reach", "please try again", nil, -2, 3},
		{"beyond 64 KiB", long, nil, -2, 1},
		{"of unknown length", "try again", nil, -1, 1},
		{"encoded", "try again", []string{"Content-Encoding", "gzip"}, -2, 1},
		{"in its own coding", "try again", []string{"Content-Encoding", "identity"}, -2, 3},
		{"of a stream", "data: try again", []string{"Content-Type", "text/event-stream"}, -2, 1},
		{"of gRPC", "try again", []string{"Content-Type", "application/grpc"}, -2, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := &upstream{answers: []answer{{status: 500, body: tt.body, head: tt.head}}}
			cfg := primary(Condition{Trigger: BodyContains, Value: "try again"})
			bubble(t, func() {
				u.start = time.Now()
				x := new(exchange.Exchange)
				x.Reset()
				x.Request.Method = "GET"
				x.Request.Body.Set(nil, 0)
				below := exchange.Func(func(x *exchange.Exchange) error {
					err := u.Serve(x)
					if tt.length != -2 {
						x.Response.Length = tt.length
					}
					return err
				})
				err := exchange.Chain(below, Layer(cfg, Deps{Endpoints: 1})).Serve(x)
				text, rerr := io.ReadAll(x.Response.Body)
				if err != nil || rerr != nil || string(text) != tt.body || len(u.calls) != tt.calls {
					t.Errorf("%v, %v, %d bytes of %d after %d calls, want %d", err, rerr, len(text), len(tt.body), len(u.calls), tt.calls)
				}
				x.End(retrylog.OK)
				if u.closed != len(u.calls) {
					t.Errorf("%d of %d bodies were closed", u.closed, len(u.calls))
				}
			})
		})
	}
}

// Each try says why it was, or was not, made again; a refusal says nothing of the
// try before it.
func TestEveryTrySaysWhy(t *testing.T) {
	u := &upstream{answers: []answer{busy, {err: kind(exchange.TryTimeout)}, {status: 502}}}
	run(t, bench(), Deps{}, u, nil, func(x *exchange.Exchange, _ error, _ string) {
		want := [][2]string{{"header X-Backend-Status=overloaded", ""}, {"status_code_match=504", ""}, {"status_code_match=502", SkipAttempts}}
		for i, try := range x.Event.Tries {
			if got := [2]string{try.Reason, try.Skip}; got != want[i] {
				t.Errorf("try %d: %q, want %q", i, got, want[i])
			}
		}
	})
	refused := exchange.Func(func(x *exchange.Exchange) error {
		if len(x.Event.Tries) == 0 {
			return (&upstream{answers: []answer{busy}, start: time.Now()}).Serve(x)
		}
		return &exchange.Refusal{Policy: "balance", Reason: "no_endpoint", Status: 503}
	})
	bubble(t, func() {
		x := new(exchange.Exchange)
		x.Reset()
		x.Request.Method = "GET"
		x.Request.Body.Set(nil, 0)
		err := exchange.Chain(refused, Layer(bench(), Deps{Endpoints: 1})).Serve(x)
		if try := x.Event.Tries[0]; err != nil || len(x.Event.Tries) != 1 || try.Skip != "" || try.WaitMS != 0 || x.Event.Skip != SkipRefused {
			t.Errorf("%v, tries %+v, skip %q", err, x.Event.Tries, x.Event.Skip)
		}
		x.End(retrylog.OK)
	})
}

// What Decide says, Explain says, whatever the facts; and a retry is made only
// where every gate is open.
func FuzzExplain(f *testing.F) {
	f.Add(503, 0, "GET", "overloaded", "1", "0", int64(time.Second), byte(0))
	f.Add(0, 2, "POST", "", "Sat, 15 Jun 2024 02:14:32 GMT", "3", int64(0), byte(7))
	kinds := []exchange.Kind{"", "", "", exchange.Dial, exchange.ConnectTimeout, exchange.TryTimeout, exchange.ResetBeforeFirst, exchange.Canceled, exchange.TLS}
	f.Fuzz(func(t *testing.T, status, retries int, method, load, pause, count string, left int64, bits byte) {
		f := Facts{
			Status: status, Retries: retries, Method: method, Kind: kinds[int(bits)%len(kinds)], Replayable: bits&1 == 0, OtherHost: bits&2 == 0,
			HasDeadline: bits&4 == 0, Remaining: time.Duration(left), TooManyErrors: bits&8 != 0, BudgetEmpty: bits&16 != 0, ClientGone: bits&32 != 0,
			Now: time.Unix(1_700_000_000, 0),
		}
		for _, field := range [][2]string{{"X-Backend-Status", load}, {"Retry-After", pause}, {"Retry-Count", count}} {
			with(field[0], field[1])(&f)
		}
		cfgs := []Config{bench(), Polo(), confirmed(Annotate, "X-Backend-Status", "overloaded", 503, 429), primary(Condition{Trigger: HeaderExists, Header: "Retry-After"})}
		for _, cfg := range cfgs {
			d := Decide(cfg, f, 0.5)
			explained, steps := Explain(cfg, f, 0.5)
			if d != explained {
				t.Fatalf("%+v, explained as %+v", d, explained)
			}
			if d.Retry && (d.Skip != "" || d.Wait < 0 || d.Reason == "") || d.Retry && f.HasDeadline && d.Wait >= f.Remaining {
				t.Fatalf("%+v", d)
			}
			for _, s := range steps {
				if s.Role == "gate" && !s.OK && d.Retry {
					t.Fatalf("retried through the shut gate %+v", s)
				}
			}
		}
	})
}
