package web

import (
	"context"
	"time"

	"breakwater/internal/histogram"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/traffic"
)

func (h *house) PolicyTurns(context.Context, time.Time, time.Time) ([]retrylog.Transition, error) {
	if len(h.statuses) == 0 || h.broken != nil {
		return nil, h.broken
	}
	var out []retrylog.Transition
	turn := func(seconds int, policy, service, upstream, endpoint, from, to, reason string) {
		out = append(out, retrylog.Transition{At: h.now.Add(time.Duration(seconds) * time.Second), Gateway: "gw-1", Env: "production", Policy: policy, Service: service, Upstream: upstream, Endpoint: endpoint, From: from, To: to, Reason: reason})
	}
	turn(-2400, "breaker", "coupon", "", "", "closed", "open", "11 of 20 calls failed in 10s (limit 20%)")
	turn(-2390, "breaker", "coupon", "", "", "open", "half_open", "it was open for 10s")
	turn(-2370, "breaker", "coupon", "", "", "half_open", "closed", "9 probes succeeded")
	turn(-1200, "concurrency", "search", "", "", "accepting", "full", "41 refused; limit 12")
	turn(-1100, "concurrency", "search", "", "", "full", "accepting", "nothing refused for 10s; limit 16")
	for i := range 4 {
		at := -400 + i*100
		from := map[bool]string{true: "closed", false: "half_open"}[i == 0]
		turn(at, "breaker", "points", "", "", from, "open", "2 of 3 probes failed")
		if i < 3 {
			turn(at+80, "breaker", "points", "", "", "open", "half_open", "it was open for 1m20s")
		}
	}
	turn(-50, "breaker", "", "vault", "10.0.0.3:8080", "closed", "open", "5 failures in a row")
	return out, nil
}

func (h *house) Lives(_ context.Context, from, _ time.Time) ([]traffic.Life, error) {
	return []traffic.Life{{Env: "production", Gateway: "gw-1", From: from.Add(-time.Hour), To: h.now}, {Env: "production", Gateway: "gw-2", From: from.Add(-time.Hour), To: h.now.Add(-20 * time.Minute)}}, h.broken
}

func (h *house) Served(context.Context, time.Time) ([]traffic.Served, error) {
	if len(h.statuses) == 0 || h.broken != nil {
		return nil, h.broken
	}
	doc := `{"upstreams":[{"name":"vault","endpoints":[{"address":"10.0.0.2:8080"},{"address":"10.0.0.3:8080"}],"retry_budget":{"ratio_milli":100,"min_per_second":5}},{"name":"coupon"},{"name":"search","retry_budget":{"ratio_milli":10}}],
"services":[{"name":"points","breaker":{"error_ppm":300000,"min_requests":20,"window":10000000000,"open_for":5000000000}},{"name":"search","concurrency":{"kind":"gradient2","max":64}}],
"routes":[{"name":"coupon-redeem","service":"coupon","limit":{"rate":{"tokens":200,"per":1000000000,"burst":100},"key":{"by":"caller"}}}]}`
	return []traffic.Served{{Env: "production", Gateway: "gw-1", Document: doc}, {Env: "production", Gateway: "gw-2", Document: doc}}, nil
}

func (h *house) Refusals(context.Context, time.Time, time.Time) ([]traffic.Refusal, error) {
	if len(h.statuses) == 0 {
		return nil, h.broken
	}
	return []traffic.Refusal{{Service: "points", Env: "production", Policy: "breaker", Reason: "open", Count: 1_240}, {Service: "coupon", Env: "production", Policy: "limiter", Reason: "rate_limited", Count: 310}}, h.broken
}

func (h *house) RetryRoutes(context.Context, time.Time, time.Time) ([]traffic.Route, error) {
	if len(h.statuses) == 0 {
		var out []traffic.Route
		for i, service := range h.counted {
			out = append(out, traffic.Route{Service: service, Env: "production", Route: "all", Tally: slo.Tally{Good: 48_198 - int64(i)*40_000, Bad: 12}})
		}
		return out, h.broken
	}
	row := func(service, route, upstream string, asked, first, bad, retries int64) traffic.Route {
		return traffic.Route{Service: service, Env: "production", Route: route, Upstream: upstream, Tally: slo.Tally{Good: asked - bad, Bad: bad, FirstTryBad: first, Exchanges: asked, Attempts: asked + retries, Retried: retries, Recovered: first - bad}}
	}
	return []traffic.Route{row("catalog", "search-query", "search", 327_300, 1_800, 590, 1_610), row("cart", "coupon-redeem", "coupon", 48_200, 641, 164, 520), row("order", "points-deduct", "points", 55_440, 144, 128, 15),
		row("order", "charge-with-a-route-name-that-says-everything-there-is-to-say", "payment", 33_060, 7, 7, 0)}, h.broken
}

func (h *house) RetrySteps(_ context.Context, _ string, from, to time.Time, step time.Duration) ([]traffic.Minute, error) {
	var out []traffic.Minute
	for i, at := 0, from.Truncate(step); at.Before(to) && len(h.statuses) > 0; i, at = i+1, at.Add(step) {
		if i > 20 && i < 26 {
			continue
		}
		t := slo.Tally{Good: 3_940, Bad: 20, FirstTryBad: 60, Exchanges: 3_960, Attempts: 3_966, Retried: 6, Recovered: 5}
		if i > 50 {
			t.Attempts, t.FirstTryBad = t.Attempts+180, 240
		}
		out = append(out, traffic.Minute{At: at, Tally: t})
	}
	return out, h.broken
}

func (h *house) Fates(context.Context, string, time.Time, time.Time) ([]traffic.Fate, error) {
	if len(h.statuses) == 0 {
		return nil, h.broken
	}
	return traffic.Fates([]traffic.Fate{
		{Reason: "status_code_match=503", Retried: true, Count: 2_010, Retries: 2_200, Recovered: 1_860, Failed: 120}, {Reason: "connect_failure", Retried: true, Count: 1_100, Retries: 1_100, Recovered: 1_092, Failed: 8},
		{Reason: "retry_after_header", Retried: true, Count: 376, Retries: 380, Recovered: 150, Failed: 226},
		{Reason: "error_rate_gate", Count: 598}, {Reason: "non_idempotent", Count: 389}, {Reason: "attempts_exhausted", Count: 255}, {Reason: "retry_budget", Count: 158}, {Reason: "deadline", Count: 105}, {Reason: "body_not_replayable", Count: 51}, {Reason: "rule_never", Count: 30},
	}), h.broken
}

func (h *house) Heat(_ context.Context, service, _ string, from, to time.Time, step time.Duration) ([]traffic.HeatStep, error) {
	var out []traffic.HeatStep
	for i, at := 0, from; at.Before(h.now) && service != "invoice-export"; i, at = i+1, at.Add(step) {
		if i == 9 || i == 10 {
			continue
		}
		var b histogram.Bins
		for k := range int64(40) {
			b.Add(4_000+k*k*120, 90-2*k)
		}
		if i > 20 && i < 25 {
			b.Add(2_700_000, 60)
		}
		out = append(out, traffic.HeatStep{At: at, Hist: b, MaxUS: 2_800_000})
	}
	return out, h.broken
}

func (h *house) Around(_ context.Context, service, _ string, _, _ time.Time) ([]traffic.Beside, error) {
	if service == "invoice-export" {
		return nil, h.broken
	}
	return []traffic.Beside{{Side: "caller", Name: "web", Bad: 20, Total: 84_200}, {Side: "caller", Name: "app-ios", Bad: 31, Total: 52_000}, {Side: "caller", Name: "", Bad: 0, Total: 300},
		{Side: "calls", Name: "points", Bad: 1_240, Total: 9_800}, {Side: "calls", Name: "payment", Bad: 2, Total: 31_000},
		{Side: "code", Name: "50003", Bad: 41, Total: 41}, {Side: "kind", Name: "status_503", Bad: 12, Total: 12}}, h.broken
}
