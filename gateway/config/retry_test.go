package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

const six = "retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502], backoff_base: 250ms, fallback_strategy: pass_through}\n"

func TestRetryDocuments(t *testing.T) {
	var log conf.Log
	c := Parse(load(t, "testdata/good/retry.yaml"), &log)
	if all := log.All(); len(all) > 0 {
		t.Fatalf("got\n%v", all)
	}
	on := func(statuses ...int) retry.Condition {
		return retry.Condition{Trigger: retry.StatusCodeMatch, Statuses: statuses}
	}
	ms := time.Millisecond
	pony := retry.Ponytail()
	confirmed := pony
	confirmed.Rules = []retry.Rule{{Primary: on(502, 503, 504), Secondary: []retry.Condition{{Trigger: retry.HeaderExists, Header: "X-Retry"}}}}
	fast, deep := confirmed, confirmed
	fast.PerTry, deep.PerTry = 300*ms, 1500*ms
	inline := retry.Polo()
	inline.Gate, inline.MaxRetries = retry.ErrorGate{}, 2
	inline.Rules = []retry.Rule{{Primary: on(504)}}
	want := map[string]retry.Config{
		"quota": {
			Enabled: true, MaxRetries: 2, PerTry: 800 * ms, OnStatus: []int{503, 429}, BackoffBase: 250 * ms, Fallback: retry.PassThrough,
			Jitter: retry.Full, MaxBackoff: 2 * time.Second, MaxRetryAfter: 10 * time.Second, After: retry.SignalOnly, OnConnect: retry.Never,
			StatusHeader: "X-Original-Backend-Status", Gate: retry.ErrorGate{MaxPPM: 100_000, MinCount: 50, Inclusive: true}, ReplayCap: 128 << 10,
			Tenants: map[string]retry.Tenant{"gold": {BackoffBase: 100 * ms}},
			Rules: []retry.Rule{
				{Primary: on(429), Secondary: []retry.Condition{{Trigger: retry.HeaderValueMatch, Header: "x-ratelimit-remaining", Value: "0"}}, Action: retry.ToFallback, Fallback: retry.Return503},
				{Primary: retry.Condition{Trigger: retry.LatencyExceeds, Longer: 300 * ms}, MaxRetries: 1},
				{Primary: retry.Condition{Trigger: retry.BodyContains, Value: "try again"}},
				{Primary: retry.Condition{Trigger: retry.HeaderExists, Header: "X-Wait"}, Action: retry.DontRetry},
				{Primary: retry.Condition{Trigger: retry.RetryAfterHeader}},
				{Primary: retry.Condition{Trigger: retry.XBackendStatus, Value: "draining"}},
				{Primary: on(503, 429), Secondary: []retry.Condition{{Trigger: retry.HeaderValueMatch, Header: "X-Backend-Status", Value: "overloaded"}}},
			},
		},
		"fast": fast, "deep": deep, "careful": retry.Polo(), "inline": inline,
	}
	for _, r := range c.Routes {
		if !reflect.DeepEqual(r.Retry, want[r.Name]) {
			t.Errorf("%s is\n%+v, want\n%+v", r.Name, r.Retry, want[r.Name])
		}
	}
	budgets := map[string]retry.BudgetConfig{
		"a": {RatioMilli: 100, MinPerSec: 5, TTL: 20 * time.Second, Sum: true, OnSuccess: true},
		"b": {RatioMilli: 300, MinPerSec: 3, TTL: 10 * time.Second},
		"c": {Kind: retry.Concurrency, RatioMilli: 250, MinActive: 5},
		"d": {RatioMilli: 200, MinPerSec: 10, TTL: 10 * time.Second, Off: true},
		"e": retry.DefaultBudget(),
	}
	for _, u := range c.Upstreams {
		if u.Budget() != budgets[u.Name] {
			t.Errorf("budget of %s is %+v, want %+v", u.Name, u.Budget(), budgets[u.Name])
		}
	}
}

// A retryBudget alone in a file is that of upstreams without one of their own.
func TestBareRetryBudget(t *testing.T) {
	c, log := parse(head + "---\nretryBudget: {retryRatio: 0.5, minRetriesPerSecond: 1, ttl: 5s}\n")
	if want := (retry.BudgetConfig{RatioMilli: 500, MinPerSec: 1, TTL: 5 * time.Second}); !Loadable(log) || c.Upstreams[0].Budget() != want {
		t.Errorf("%+v, %v", c.Upstreams[0].Budget(), log.All())
	}
}

func TestRetryWarnings(t *testing.T) {
	annotate := "conditions: {secondary_mode: annotate, secondary: [{retry_after_header: true}]}\n"
	on503 := strings.Replace(six, "[502]", "[502, 503]", 1)
	behind := strings.Replace(head, "endpoints:", "retries_behind: 2\nendpoints:", 1)
	self := strings.Replace(head, "127.0.0.1:9001", "localhost:8080", 1)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"annotate over a 503", head + on503 + annotate, []string{"W-ANNOTATE"}},
		{"annotate over a 502", head + six + annotate, nil},
		{"annotate shared by two routes", head + on503 + "conditions: c\n---\napiVersion: breakwater/v1\nkind: Route\nname: r2\nservice: order\nmatch: {path: /2}\nupstream: order\n" + on503 +
			"conditions: c\n---\napiVersion: breakwater/v1\nkind: RetryConditions\nname: c\nsecondary_mode: annotate\nsecondary: [{retry_after_header: true}]\n", []string{"W-ANNOTATE"}},
		{"a blank that HTTP takes off", head + six + "conditions: {secondary: [{x_backend_status: \" overloaded\"}]}\n", []string{"W-BLANK"}},
		{"retries behind ours", behind + six, []string{"W-AMPLIFICATION"}},
		{"retries behind, none here", behind, nil},
		{"ourselves behind", self + six, []string{"W-AMPLIFICATION"}},
		{"a preset has all it needs", head + "retry: ponytail\n", nil},
		{"what a preset is changed by", head + "retry: {preset: polo, max_retries: 2}\n", nil},
		{"a tenant's waits count", head + "timeout: 3300ms\n" + strings.Replace(six, "}\n", ", tenants: {slow: {backoff_base: 700ms}}}\n", 1), []string{"W-DEADLINE"}},
		{"and jitter's", head + "timeout: 3300ms\n" + strings.Replace(six, "}\n", ", jitter: proportional}\n", 1), []string{"W-DEADLINE"}},
		{"a class of its own", head + "per_try_timeout: 5s\n" + six, []string{"W-DEADLINE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := warnings(t, tt.text); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	_, log := parse(behind + six)
	if text := log.All().Error(); !strings.Contains(text, "can make 9 calls of one request: 3 tries here, times 3 behind order") {
		t.Errorf("got %s", text)
	}
}

// V-12: the room that the route's timeout has to leave, to the millisecond.
func TestPolicies_V12(t *testing.T) {
	if got := warnings(t, head+"timeout: 3300ms\n"+six); got != nil {
		t.Errorf("3300ms: %v", got)
	}
	if got := warnings(t, head+"timeout: 3299ms\n"+six); !slices.Equal(got, []string{"W-DEADLINE"}) {
		t.Errorf("3299ms: %v", got)
	}
}

// A class of requests without retries has its time all the same.
func TestPerTryTimeoutWithoutRetries(t *testing.T) {
	c, log := parse(head + "per_try_timeout: 300ms\n")
	if r := c.Routes[0].Retry; !Loadable(log) || r.Active() || r.PerTry != 300*time.Millisecond {
		t.Errorf("%+v, %v", r, log.All())
	}
}

// R12: a bare file and the route's own policy are one policy, and not two.
func TestPolicies_R12(t *testing.T) {
	c, log := parse(head + strings.Replace(six, "max_retries: 2", "max_retries: 1", 1) + "---\nenabled: true\nmax_retries: 2\nper_try_timeout: 800ms\nretry_on_status: [502]\nbackoff_base: 250ms\nfallback_strategy: pass_through\n")
	if r := c.Routes[0].Retry; !Loadable(log) || r.MaxRetries != 1 {
		t.Errorf("%+v, %v", r, log.All())
	}
}

// Durations have one spelling each.
func TestDurationsOfThePolicy(t *testing.T) {
	for text, good := range map[string]bool{
		"800ms": true, "2s": true, "1m": true,
		"800": false, `"0.8s"`: false, "1h": false, "1m30s": false, `"-1s"`: false, `""`: false, "0s": false, "08s": false, "1 s": false,
	} {
		_, log := parse(head + "timeout: 30m\n" + strings.Replace(six, "800ms", text, 1))
		if Loadable(log) != good {
			t.Errorf("%s: %v", text, log.All())
		}
	}
}
