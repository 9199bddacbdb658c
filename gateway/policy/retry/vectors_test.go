package retry

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// confirmed is the bench with a list of statuses that a header has to confirm.
func confirmed(mode SecondaryMode, header, value string, statuses ...int) Config {
	cfg := bench()
	cfg.Rules = []Rule{{
		Primary:   Condition{Trigger: StatusCodeMatch, Statuses: statuses},
		Secondary: []Condition{{Trigger: HeaderValueMatch, Header: header, Value: value}}, Mode: mode,
	}}
	return cfg
}

// asks holds a decision against what is wanted of it.
func asks(t *testing.T, what string, cfg Config, f Facts, retries bool, reason, skip string) {
	t.Helper()
	d := Decide(cfg, f, 0)
	if d.Retry != retries || d.Reason != reason || d.Skip != skip {
		t.Errorf("%s: retry %v, reason %q, skip %q; want %v, %q, %q", what, d.Retry, d.Reason, d.Skip, retries, reason, skip)
	}
	explained, steps := Explain(cfg, f, 0)
	if explained != d || len(steps) == 0 {
		t.Errorf("%s: explained as %+v in %d steps", what, explained, len(steps))
	}
}

func TestPolicies_V1(t *testing.T) {
	asks(t, "confirm", confirmed(Confirm, "X-Backend-Status", "overloaded", 503), answered(503), false, "", SkipSecondary)
	asks(t, "annotate", confirmed(Annotate, "X-Backend-Status", "overloaded", 503), answered(503), true, "status_code_match=503", "")
}

func TestPolicies_V2(t *testing.T) {
	for _, mode := range []SecondaryMode{Confirm, Annotate} {
		asks(t, string(mode), confirmed(mode, "X-Backend-Status", "overloaded", 503), answered(503, overloaded), true, "header X-Backend-Status=overloaded", "")
	}
}

func TestPolicies_V3(t *testing.T) {
	for _, mode := range []SecondaryMode{Confirm, Annotate} {
		asks(t, string(mode), confirmed(mode, "X-Backend-Status", "overloaded", 503), answered(401, overloaded), false, "", "")
	}
}

// served runs one request and checks what the client got, and how many calls came.
func served(t *testing.T, cfg Config, d Deps, u *upstream, prepare func(*exchange.Exchange), status, calls int, skip string) {
	t.Helper()
	run(t, cfg, d, u, prepare, func(x *exchange.Exchange, err error, _ string) {
		got := x.Response.Status
		if err != nil {
			got = failureOf(err).Status()
		}
		if got != status || len(u.calls) != calls || x.Event.Skip != skip {
			t.Errorf("%d after %d calls, skip %q; want %d after %d, %q", got, len(u.calls), x.Event.Skip, status, calls, skip)
		}
	})
}

func TestPolicies_V4(t *testing.T) {
	served(t, bench(), Deps{}, &upstream{answers: []answer{{status: 503, body: "as it is"}}}, nil, 503, 1, SkipSecondary)
}

func TestPolicies_V5(t *testing.T) {
	served(t, bench(), Deps{}, &upstream{answers: []answer{{status: 502}}}, nil, 502, 3, SkipAttempts)
}

func TestPolicies_V7(t *testing.T) {
	cfg := confirmed(Confirm, "X-RateLimit-Remaining", "0", 429)
	cfg.Rules[0].Action, cfg.Rules[0].Fallback = ToFallback, Return503
	none := answer{status: 429, head: []string{"X-RateLimit-Remaining", "0"}}
	served(t, cfg, Deps{}, &upstream{answers: []answer{none}}, nil, 503, 1, SkipFallback)
	some := answer{status: 429, head: []string{"X-RateLimit-Remaining", "7"}}
	served(t, cfg, Deps{}, &upstream{answers: []answer{some}}, nil, 429, 1, SkipSecondary)
}

func TestPolicies_V8(t *testing.T) {
	u := &upstream{answers: []answer{{status: 429, head: []string{"Retry-After", "7"}}}}
	run(t, bench(), Deps{}, u, nil, func(x *exchange.Exchange, err error, _ string) {
		if err != nil || x.Response.Status != 429 || x.Response.Head.Get("Retry-After") != "7" || len(u.calls) != 1 {
			t.Errorf("got %d, %v after %d calls", x.Response.Status, err, len(u.calls))
		}
	})
}

func TestPolicies_V9(t *testing.T) {
	u := &upstream{answers: []answer{{status: 503, head: []string{"Retry-After", "30"}}}}
	served(t, bench(), Deps{}, u, deadlineIn(10*time.Second), 503, 1, SkipRADeadline)
}

func TestPolicies_V10(t *testing.T) {
	u := &upstream{answers: []answer{{status: 503, head: []string{"Retry-After", "1"}}, {status: 200}}}
	served(t, bench(), Deps{}, u, deadlineIn(10*time.Second), 200, 2, "")
	if want := []time.Duration{0, time.Second}; !slices.Equal(u.calls, want) {
		t.Errorf("calls at %v, want %v", u.calls, want)
	}
	// The other reading: the header is leave to retry, and the wait our own.
	cfg := bench()
	cfg.After = SignalOnly
	u = &upstream{answers: []answer{{status: 503, head: []string{"Retry-After", "30"}}, {status: 200}}}
	served(t, cfg, Deps{}, u, deadlineIn(10*time.Second), 200, 2, "")
	if want := []time.Duration{0, 250 * ms}; !slices.Equal(u.calls, want) {
		t.Errorf("calls at %v, want %v", u.calls, want)
	}
}

func TestPolicies_V14(t *testing.T) {
	served(t, bench(), Deps{}, &upstream{answers: []answer{{err: kind(exchange.ConnectTimeout)}}}, nil, 504, 1, SkipNoOtherHost)
}

func TestPolicies_V15(t *testing.T) {
	fails := func() *upstream {
		return &upstream{answers: []answer{{err: kind(exchange.ConnectTimeout)}, {status: 200}}, endpoints: []string{"a", "b"}}
	}
	u := fails()
	served(t, bench(), Deps{Endpoints: 2}, u, nil, 200, 2, "")
	if u.calls[1] != 0 {
		t.Errorf("waited %v for another host", u.calls[1])
	}
	polo := Polo()
	served(t, polo, Deps{Endpoints: 2}, fails(), nil, 504, 1, SkipConnect)
	refused := &upstream{answers: []answer{{err: kind(exchange.Dial)}}}
	served(t, polo, Deps{Endpoints: 2}, refused, nil, 502, 1, SkipConnect)
}

func TestPolicies_V16(t *testing.T) {
	slow := func() *upstream { return &upstream{answers: []answer{{err: kind(exchange.TryTimeout)}}} }
	served(t, Polo(), Deps{}, slow(), nil, 504, 2, SkipAttempts)
	post := func(x *exchange.Exchange) { x.Request.Method = "POST" }
	served(t, Polo(), Deps{}, slow(), post, 504, 1, SkipMethod)
}

func TestPolicies_V17(t *testing.T) {
	cfg := confirmed(Confirm, "X-Backend-Status", "overloaded", 502)
	asks(t, "a blank before it", cfg, answered(502, with("X-Backend-Status", " overloaded ")), false, "", SkipSecondary)
}

func TestPolicies_V18(t *testing.T) {
	cfg := confirmed(Confirm, "X-Backend-Status", "overloaded", 502)
	asks(t, "in lower case", cfg, answered(502, with("x-backend-status", "overloaded")), true, "header X-Backend-Status=overloaded", "")
	asks(t, "the second of two", cfg, answered(502, with("x-backend-status", "fine"), with("X-Backend-Status", "overloaded")), true, "header X-Backend-Status=overloaded", "")
}

func TestPolicies_V19(t *testing.T) {
	cfg := confirmed(Confirm, "X-Backend-Status", "overloaded", 502)
	asks(t, "a value in another case", cfg, answered(502, with("X-Backend-Status", "Overloaded")), false, "", SkipSecondary)
}

func TestPolicies_V20(t *testing.T) {
	cfg := bench()
	cfg.Gate = ErrorGate{MaxPPM: 50_000, MinCount: 20}
	tests := []struct {
		failed, total int
		inclusive     bool
		calls         int
		skip          string
	}{
		{50, 1000, false, 3, SkipAttempts},
		{51, 1000, false, 1, SkipErrorRate},
		{19, 19, false, 3, SkipAttempts},
		{20, 20, false, 1, SkipErrorRate},
		{50, 1000, true, 1, SkipErrorRate},
		{49, 1000, true, 3, SkipAttempts},
	}
	for _, tt := range tests {
		cfg.Gate.Inclusive = tt.inclusive
		rates := NewRates()
		u := &upstream{answers: []answer{busy}}
		before := func(*exchange.Exchange) { // the bubble's clock; the one to come is counted too
			for i := range tt.total - 1 {
				rates.Observe(time.Now(), i < tt.failed-1)
			}
		}
		served(t, cfg, Deps{Rates: rates}, u, before, 503, tt.calls, tt.skip)
	}
}

// What no upstream failed at is no failure of it, and what is old is forgotten.
func TestRates(t *testing.T) {
	r := NewRates()
	for range 30 {
		r.Observe(at(0), true)
	}
	if total, failed := r.Counts(at(9500 * ms)); total != 30 || failed != 30 {
		t.Errorf("at 9.5 s %d of %d", failed, total)
	}
	if total, _ := r.Counts(at(10 * time.Second)); total != 0 {
		t.Errorf("at 10 s %d, want 0", total)
	}
	cfg, rates := bench(), NewRates()
	refusal := &upstream{answers: []answer{{err: &exchange.Refusal{Policy: "balance", Reason: "no_endpoint", Status: 503}}}}
	run(t, cfg, Deps{Rates: rates}, refusal, nil, func(*exchange.Exchange, error, string) {
		if total, _ := rates.Counts(time.Now()); total != 0 {
			t.Error("a refusal of ours was counted")
		}
	})
}

func TestPolicies_R1(t *testing.T) {
	u := &upstream{answers: []answer{{status: 503, head: []string{"Retry-After", "300"}}}}
	run(t, bench(), Deps{}, u, deadlineIn(10*time.Second), func(x *exchange.Exchange, err error, _ string) {
		if took := time.Since(u.start); err != nil || x.Response.Status != 503 || len(u.calls) != 1 || took != 0 {
			t.Errorf("got %d, %v after %d calls and %v", x.Response.Status, err, len(u.calls), took)
		}
	})
}

func TestPolicies_R2(t *testing.T) {
	for _, v := range []string{"9223372037", "9223372036854775807", "18446744073709551616", strings.Repeat("9", 400)} {
		cfg := bench()
		cfg.MaxRetries = 3
		u := &upstream{answers: []answer{{status: 503, head: []string{"Retry-After", v}}}}
		served(t, cfg, Deps{}, u, nil, 503, 1, SkipRACap)
	}
}

func TestPolicies_R3(t *testing.T) {
	cfg := bench()
	cfg.Rules = []Rule{{Primary: Condition{Trigger: StatusCodeMatch, Statuses: []int{429}}, Secondary: []Condition{{Trigger: RetryAfterHeader}}}}
	u := &upstream{answers: []answer{{status: 429, head: []string{"Retry-After", "3600"}}}}
	run(t, cfg, Deps{}, u, deadlineIn(time.Minute), func(x *exchange.Exchange, err error, _ string) {
		if err != nil || x.Response.Status != 429 || x.Response.Head.Get("Retry-After") != "3600" || len(u.calls) != 1 {
			t.Errorf("got %d, %v after %d calls", x.Response.Status, err, len(u.calls))
		}
	})
	u = &upstream{answers: []answer{{status: 429, head: []string{"Retry-After", "3600"}}}}
	served(t, cfg, Deps{}, u, deadlineIn(2*time.Hour), 429, 1, SkipRACap)
}

func TestPolicies_R5(t *testing.T) {
	u := &upstream{answers: []answer{busy}}
	post := func(x *exchange.Exchange) { x.Request.Method = "POST" }
	run(t, bench(), Deps{}, u, post, func(x *exchange.Exchange, err error, lines string) {
		if x.Response.Status != 503 || len(u.calls) != 1 || !strings.Contains(lines, `"msg":"retry skipped"`) || !strings.Contains(lines, `"skip_reason":"non_idempotent"`) {
			t.Errorf("got %d, %v after %d calls:\n%s", x.Response.Status, err, len(u.calls), lines)
		}
	})
}

func TestPolicies_R6(t *testing.T) {
	post := func(x *exchange.Exchange) { x.Request.Method = "POST" }
	served(t, bench(), Deps{}, &upstream{answers: []answer{{err: kind(exchange.HeaderTimeout)}}}, post, 504, 1, SkipMethod)
	dial := &upstream{answers: []answer{{err: kind(exchange.Dial)}, {status: 200}}, endpoints: []string{"a", "b"}}
	served(t, bench(), Deps{Endpoints: 2}, dial, post, 200, 2, "")
}

func TestPolicies_R7(t *testing.T) {
	cfg := bench()
	cfg.OnStatus = []int{500}
	u := &upstream{answers: []answer{{status: 500, body: `{"e":1}`}}}
	post := func(x *exchange.Exchange) { x.Request.Method = "POST" }
	run(t, cfg, Deps{}, u, post, func(x *exchange.Exchange, err error, _ string) {
		if text := body(x); err != nil || x.Response.Status != 500 || text != `{"e":1}` || len(u.calls) != 1 {
			t.Errorf("got %d %q, %v after %d calls", x.Response.Status, text, err, len(u.calls))
		}
	})
}

func TestPolicies_R15(t *testing.T) {
	for dice, want := range map[float64][]time.Duration{
		0:   {0, time.Second, 3 * time.Second},
		0.5: {0, 1150 * ms, 3300 * ms},
	} {
		cfg := bench()
		cfg.MaxRetries, cfg.BackoffBase, cfg.PerTry = 5, time.Second, 2*time.Second
		u := &upstream{answers: []answer{busy}}
		served(t, cfg, Deps{Rand: func() float64 { return dice }}, u, deadlineIn(5*time.Second), 503, 3, SkipDeadline)
		if !slices.Equal(u.calls, want) {
			t.Errorf("calls at %v, want %v", u.calls, want)
		}
	}
}

// R22: a panic below is nobody's answer, and is not made twice.
func TestPolicies_R22(t *testing.T) {
	calls := 0
	svc := exchange.Chain(exchange.Func(func(*exchange.Exchange) error {
		calls++
		panic(http.ErrAbortHandler)
	}), Layer(bench(), Deps{Endpoints: 3}))
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || calls != 1 {
			t.Errorf("panic %v after %d calls", v, calls)
		}
	}()
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method = "GET"
	_ = svc.Serve(x)
}

func TestPolicies_R27(t *testing.T) {
	u := &upstream{answers: []answer{{err: kind(exchange.Dial)}, {status: 200}}, endpoints: []string{"a", "b"}}
	served(t, bench(), Deps{Endpoints: 2}, u, nil, 200, 2, "")
	if u.calls[1] != 0 {
		t.Errorf("the second host was asked after %v", u.calls[1])
	}
	// What says that there is no other host says that there is a reason to wait.
	u = &upstream{answers: []answer{{err: kind(exchange.Dial)}, {status: 200}}}
	none := func([]retrylog.Try, time.Time) bool { return false }
	served(t, bench(), Deps{Endpoints: 2, OtherHost: none}, u, nil, 200, 2, "")
	if u.calls[1] != 250*ms {
		t.Errorf("the same host was asked again after %v", u.calls[1])
	}
}

// R12: the policy of the route and that of the host are one policy.
func TestPolicies_R12(t *testing.T) {
	cfg := bench()
	cfg.MaxRetries = 1
	u := &upstream{answers: []answer{{status: 502}}}
	svc := exchange.Chain(u, Layer(cfg, Deps{Endpoints: 1}), Layer(cfg, Deps{Endpoints: 1}))
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method = "GET"
	x.Request.Body.Set(nil, 0)
	// Were it ever applied twice, the answer's count would keep the outer one still.
	if err := svc.Serve(x); err != nil || len(u.calls) != 2 || !slices.Equal(u.counts, []string{"", "1"}) {
		t.Errorf("%v, calls with Retry-Count %q, want absent and 1", err, u.counts)
	}
	x.End(retrylog.UpstreamFailure)
}

// R14: the layer leaves a try what the total leaves, and says so.
func TestPolicies_R14(t *testing.T) {
	cfg := bench()
	cfg.BackoffBase, cfg.PerTry = 0, 100*ms
	var left []time.Duration
	u := &upstream{answers: []answer{{err: kind(exchange.TryTimeout)}}}
	tries := exchange.Func(func(x *exchange.Exchange) error {
		d, _ := x.Remaining(time.Now())
		d = min(d, cfg.PerTry)
		left = append(left, d)
		if err := x.Wait(d, nil); err != nil {
			return err
		}
		return u.Serve(x)
	})
	bubble(t, func() {
		x := new(exchange.Exchange)
		x.Reset()
		x.Request.Method = "GET"
		x.Request.Body.Set(nil, 0)
		x.SetDeadline(time.Now().Add(250 * ms))
		err := exchange.Chain(tries, Layer(cfg, Deps{Endpoints: 1})).Serve(x)
		if want := []time.Duration{100 * ms, 100 * ms, 50 * ms}; err == nil || !slices.Equal(left, want) {
			t.Errorf("%v, tries had %v, want %v", err, left, want)
		}
		if errors.Is(err, exchange.ErrClientGone) {
			t.Errorf("nobody left: %v", err)
		}
		x.End(retrylog.Timeout)
	})
}
