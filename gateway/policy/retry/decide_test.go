package retry

import (
	"testing"
	"time"

	"breakwater/gateway/exchange"
)

const ms = time.Millisecond

// bench is the configuration the vectors speak of.
func bench() Config {
	return Config{Enabled: true, MaxRetries: 2, PerTry: 800 * ms, OnStatus: []int{502, 503, 504}, BackoffBase: 250 * ms, Fallback: PassThrough}
}

// answered is a GET that got status; change alters it.
func answered(status int, change ...func(*Facts)) Facts {
	f := Facts{Status: status, Method: "GET", Replayable: true, OtherHost: true,
		Now: time.Date(2024, 6, 15, 2, 14, 22, 0, time.UTC)}
	for _, c := range change {
		c(&f)
	}
	return f
}

// with adds a field to the answer's head.
func with(name, value string) func(*Facts) {
	return func(f *Facts) {
		if f.Head == nil {
			f.Head = new(exchange.Head)
		}
		f.Head.Add(name, value)
	}
}

func overloaded(f *Facts) { with("X-Backend-Status", "overloaded")(f) }
func post(f *Facts)       { f.Method = "POST" }
func alone(f *Facts)      { f.OtherHost = false }

func after(v string) func(*Facts) {
	return with("Retry-After", v)
}

func within(d time.Duration) func(*Facts) {
	return func(f *Facts) { f.HasDeadline, f.Remaining = true, d }
}

func failedBy(k exchange.Kind) func(*Facts) { return func(f *Facts) { f.Kind, f.Status = k, 0 } }

func TestDecide(t *testing.T) {
	polo := func(c *Config) { c.OnConnect = Never }
	tests := []struct {
		name string
		cfg  func(*Config)
		f    Facts
		want Decision
	}{
		{"a good answer", nil, answered(200), Decision{}},
		{"a client's mistake", nil, answered(404), Decision{}},
		{"a failure that is not listed", nil, answered(500), Decision{Skip: SkipStatus}},
		{"V-4 bare 503", nil, answered(503), Decision{Skip: SkipSecondary}},
		{"V-5 bare 502", nil, answered(502), Decision{Retry: true, Wait: 250 * ms, Reason: "status_code_match=502"}},
		{"503 with the signal", nil, answered(503, overloaded), Decision{Retry: true, Wait: 250 * ms, Reason: "header X-Backend-Status=overloaded"}},
		{"503 with Retry-After", nil, answered(503, after("0")), Decision{Retry: true, Wait: 250 * ms, Reason: "retry_after_header"}},
		{"bare 503, signal not required", func(c *Config) { c.BareOn503 = true }, answered(503), Decision{Retry: true, Wait: 250 * ms, Reason: "status_code_match=503"}},
		{"V-3 401 with the header", nil, answered(401, overloaded), Decision{}},
		{"V-8 429 is passed on", nil, answered(429, after("1")), Decision{}},
		{"V-9", nil, answered(503, after("30"), within(10*time.Second)), Decision{Reason: "retry_after_header", Skip: SkipRADeadline}},
		{"V-10", nil, answered(503, after("1"), within(10*time.Second)), Decision{Retry: true, Wait: time.Second, Reason: "retry_after_header"}},
		{"R1", nil, answered(503, after("300"), within(10*time.Second)), Decision{Reason: "retry_after_header", Skip: SkipRADeadline}},
		{"as long as the deadline is too long", nil, answered(503, after("10"), within(10*time.Second)), Decision{Reason: "retry_after_header", Skip: SkipRADeadline}},
		{"as long as the cap is not", nil, answered(503, after("5")), Decision{Retry: true, Wait: 5 * time.Second, Reason: "retry_after_header"}},
		{"a second more is", nil, answered(503, after("6")), Decision{Reason: "retry_after_header", Skip: SkipRACap}},
		{"R2 overflow", nil, answered(503, after("9223372037")), Decision{Reason: "retry_after_header", Skip: SkipRACap}},
		{"R2 beyond int64", nil, answered(503, after("99999999999999999999")), Decision{Reason: "retry_after_header", Skip: SkipRACap}},
		{"R3", func(c *Config) { c.OnStatus = append(c.OnStatus, 429) }, answered(429, after("3600"), within(time.Hour*2)), Decision{Reason: "retry_after_header", Skip: SkipRACap}},
		{"the computed wait does not fit", nil, answered(502, within(250*ms)), Decision{Reason: "status_code_match=502", Skip: SkipDeadline}},
		{"R5 POST", nil, answered(503, overloaded, post), Decision{Reason: "header X-Backend-Status=overloaded", Skip: SkipMethod}},
		{"POST on an idempotent route", func(c *Config) { c.Idempotent = true }, answered(502, post), Decision{Retry: true, Wait: 250 * ms, Reason: "status_code_match=502"}},
		{"POST with a key the route trusts", func(c *Config) { c.TrustKey = true }, answered(502, post, func(f *Facts) { f.HasKey = true }), Decision{Retry: true, Wait: 250 * ms, Reason: "status_code_match=502"}},
		{"POST with a key it does not", nil, answered(502, post, func(f *Facts) { f.HasKey = true }), Decision{Reason: "status_code_match=502", Skip: SkipMethod}},
		{"R6 POST, no head in time", nil, answered(0, post, failedBy(exchange.HeaderTimeout)), Decision{Reason: "status_code_match=504", Skip: SkipMethod}},
		{"R6 POST, dial error", nil, answered(0, post, failedBy(exchange.Dial)), Decision{Retry: true, Reason: "connect_failure"}},
		{"V-16 read timeout of a GET", nil, answered(0, failedBy(exchange.TryTimeout)), Decision{Retry: true, Wait: 250 * ms, Reason: "status_code_match=504"}},
		{"V-16 read timeout of a POST", nil, answered(0, post, failedBy(exchange.TryTimeout)), Decision{Reason: "status_code_match=504", Skip: SkipMethod}},
		{"V-14 connect timeout, one endpoint", nil, answered(0, failedBy(exchange.ConnectTimeout), alone), Decision{Reason: "connect_failure", Skip: SkipNoOtherHost}},
		{"V-15 connect timeout, two endpoints", nil, answered(0, failedBy(exchange.ConnectTimeout)), Decision{Retry: true, Reason: "connect_failure"}},
		{"V-15 polo", polo, answered(0, failedBy(exchange.ConnectTimeout)), Decision{Reason: "connect_failure", Skip: SkipConnect}},
		{"polo, refused", polo, answered(0, failedBy(exchange.Dial)), Decision{Reason: "connect_failure", Skip: SkipConnect}},
		{"refused by the only endpoint", nil, answered(0, failedBy(exchange.Dial), alone), Decision{Retry: true, Wait: 250 * ms, Reason: "connect_failure"}},
		{"dial failure is retried though 502 is not listed", func(c *Config) { c.OnStatus = []int{504} }, answered(0, failedBy(exchange.Dial)), Decision{Retry: true, Reason: "connect_failure"}},
		{"a reset is not", func(c *Config) { c.OnStatus = []int{504} }, answered(0, failedBy(exchange.ResetBeforeFirst)), Decision{Skip: SkipStatus}},
		{"unprocessed POST", nil, answered(0, post, failedBy(exchange.ResetBeforeFirst), func(f *Facts) { f.Unprocessed = true }), Decision{Retry: true, Wait: 250 * ms, Reason: "unprocessed"}},
		{"its body is gone", nil, answered(0, post, failedBy(exchange.Dial), func(f *Facts) { f.Replayable = false }), Decision{Reason: "connect_failure", Skip: SkipBody}},
		{"attempts come first", nil, answered(503, overloaded, post, func(f *Facts) { f.Retries = 2; f.InboundRetries = 1 }), Decision{Reason: "header X-Backend-Status=overloaded", Skip: SkipAttempts}},
		{"method before Retry-Count", nil, answered(502, post, func(f *Facts) { f.InboundRetries = 1 }), Decision{Reason: "status_code_match=502", Skip: SkipMethod}},
		{"V-21 the path above retried", nil, answered(504, func(f *Facts) { f.InboundRetries = 1; f.ClientGone = true }), Decision{Reason: "status_code_match=504", Skip: SkipRetryCount}},
		{"V-21 the path below retried", nil, answered(504, with("Retry-Count", "1")), Decision{Reason: "status_code_match=504", Skip: SkipRetryCount}},
		{"client gone before the deadline", nil, answered(502, within(1), func(f *Facts) { f.ClientGone = true }), Decision{Reason: "status_code_match=502", Skip: SkipClientGone}},
		{"a policy's own no", nil, answered(503, overloaded, func(f *Facts) { f.Refused = true }), Decision{Skip: SkipRefused}},
		{"no retries allowed", func(c *Config) { c.MaxRetries = 0 }, answered(502), Decision{}},
		{"switched off", func(c *Config) { c.Enabled = false }, answered(502), Decision{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := bench()
			if tt.cfg != nil {
				tt.cfg(&cfg)
			}
			got := Decide(cfg, tt.f, 0)
			got.Index, got.Fallback = 0, "" // tested elsewhere
			explained, _ := Explain(cfg, tt.f, 0)
			if explained.Index, explained.Fallback = 0, ""; explained != got {
				t.Errorf("explained as %+v", explained)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// V-6: the order of the list changes nothing.
func TestPolicies_V6(t *testing.T) {
	a, b := bench(), bench()
	a.OnStatus, b.OnStatus = []int{503, 504}, []int{504, 503}
	f := answered(503, overloaded)
	x, y := Decide(a, f, 0), Decide(b, f, 0)
	if x.Index != 0 || y.Index != 1 {
		t.Errorf("matched at %d and %d, want 0 and 1", x.Index, y.Index)
	}
	if y.Index = 0; x != y || !x.Retry {
		t.Errorf("got %+v and %+v, want the same retry", x, y)
	}
}

func TestPolicies_V11(t *testing.T) {
	cfg := bench()
	tests := []struct {
		n          int
		least, top time.Duration // for 0, and the limit for 1
	}{
		{1, 250 * ms, 325 * ms}, {2, 500 * ms, 575 * ms}, {3, 1000 * ms, 1075 * ms}, {4, 2000 * ms, 2075 * ms},
		{5, 2500 * ms, 2500 * ms}, {6, 2500 * ms, 2500 * ms}, {60, 2500 * ms, 2500 * ms}, {1 << 30, 2500 * ms, 2500 * ms},
	}
	for _, tt := range tests {
		if got := Backoff(cfg, tt.n, 0, 0); got != tt.least {
			t.Errorf("retry %d without jitter waits %v, want %v", tt.n, got, tt.least)
		}
		if got := Backoff(cfg, tt.n, 0, 0.999999); got > tt.top || got < tt.top-ms {
			t.Errorf("retry %d with all jitter waits %v, want just under %v", tt.n, got, tt.top)
		}
	}
}

func TestPolicies_V12(t *testing.T) {
	if got := WorstCase(bench()); got != 3300*ms {
		t.Errorf("got %v, want 3.3s", got)
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2024, 6, 15, 2, 14, 22, 0, time.UTC)
	tests := []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"30", 30 * time.Second, true},
		{" 0 ", 0, true},
		{"Sat, 15 Jun 2024 02:14:32 GMT", 10 * time.Second, true},
		{"Saturday, 15-Jun-24 02:14:32 GMT", 10 * time.Second, true},
		{"Sat Jun 15 02:14:32 2024", 10 * time.Second, true},
		{"Sat, 15 Jun 2024 02:14:12 GMT", 0, true}, // gone by
		{"-1", 0, false}, {"+1", 0, false}, {"1.5", 0, false}, {"soon", 0, false}, {"", 0, false}, {"0x10", 0, false},
		{"18446744073709551616", 1<<63 - 1, true},
	}
	for _, tt := range tests {
		if got, ok := ParseRetryAfter(tt.in, now); got != tt.want || ok != tt.ok {
			t.Errorf("%q is %v, %v, want %v, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"30", "Sat, 15 Jun 2024 02:14:32 GMT", "-1", "99999999999999999999", ""} {
		f.Add(s)
	}
	now := time.Date(2024, 6, 15, 2, 14, 22, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		// A wait is never negative: that would be a burst of retries.
		if d, ok := ParseRetryAfter(s, now); d < 0 || !ok && d != 0 {
			t.Fatalf("%q is %v, %v", s, d, ok)
		}
	})
}
