package web

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
	"breakwater/slo/request"
)

// logbook is the log of the world's requests and the configurations of its gateways.
type logbook struct{ *house }

func (h *house) logbook() Logbook { return Logbook{Requests: logbook{h}, Configs: logbook{h}} }

// loggedDocs are what the gateways of the world serve; retries is what its two
// revisions differ in.
func loggedDocs(retries int) string {
	return fmt.Sprintf(`apiVersion: breakwater/v1
kind: Upstream
name: points
endpoints: [{address: "10.0.3.11:9001"}, {address: "10.0.3.12:9001"}]
---
apiVersion: breakwater/v1
kind: Route
name: points-balance
service: points
match: {path: "/points/*"}
upstream: points
timeout: 5s
retry:
  enabled: true
  max_retries: %d
  per_try_timeout: 800ms
  retry_on_status: [502, 503, 504]
  backoff_base: 250ms
  fallback_strategy: pass_through
`, retries)
}

// served are the effective values of the world's revisions, the newer one first.
func served() [2]*config.Config {
	var out [2]*config.Config
	for i := range out {
		var log conf.Log
		out[i] = config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(loggedDocs(2 - i))}}, &log)
		if err := log.Err(); err != nil {
			panic(err)
		}
	}
	return out
}

func (l logbook) rows() (out []request.Row) {
	if len(l.statuses) == 0 {
		return nil
	}
	add := func(ago time.Duration, x retrylog.Exchange) {
		x.Count, x.End, x.Env, x.Upstream, x.Revision = max(x.Count, 1), l.now.Add(-ago), "production", "points", served()[0].Revision
		x.Start = x.End.Add(-time.Duration(x.LatencyUS) * time.Microsecond)
		out = append(out, request.Row{Mark: request.Mark{At: x.End, ID: x.RequestID, Gateway: x.Gateway}, Exchange: x})
	}
	failed := retrylog.Try{Endpoint: "10.0.3.11:9001", Status: 502, LatencyUS: 41_000, Reason: "status_code_match=502"}
	again := retrylog.Try{Endpoint: "10.0.3.12:9001", Status: 200, LatencyUS: 12_300, WaitMS: 281}
	add(8*time.Second, retrylog.Exchange{RequestID: "01jdk7f3c9a", Gateway: "gw-1", Service: "points", Route: "points-balance", Method: "GET", Caller: "web", Status: 200, Outcome: retrylog.OK, Origin: "upstream", FirstStatus: 502,
		Reason: "status_code_match=502", RetryWaitMS: 281, LatencyUS: 336_000, BodyComplete: true, Tries: []retrylog.Try{failed, again}})
	faulty := retrylog.Try{Endpoint: "10.0.3.11:9001", Kind: "try_timeout", LatencyUS: 800_000, Reason: "status_code_match=504", Skip: "non_idempotent", Fault: "r-1287/latency"}
	add(40*time.Second, retrylog.Exchange{RequestID: "01jdk7f2a11", Gateway: "gw-2", Service: "points", Route: "points-balance", Method: "POST", Caller: "app-ios", Status: 504, Outcome: retrylog.Timeout, Timeout: "try", Origin: "gateway",
		Skip: "non_idempotent", Experiment: "r-1287", LatencyUS: 801_400, Tries: []retrylog.Try{faulty}})
	last := retrylog.Try{Endpoint: "10.0.3.12:9001", Status: 503, LatencyUS: 9_000, WaitMS: 512, Reason: "header X-Backend-Status=overloaded", Skip: "attempts_exhausted"}
	add(95*time.Second, retrylog.Exchange{RequestID: "01jdk7ev0zz", Gateway: "gw-1", Service: "points", Route: "points-balance", Method: "GET", Caller: "web", Status: 503, Outcome: retrylog.UpstreamFailure, Origin: "upstream",
		Reason: "status_code_match=502", Skip: "attempts_exhausted", RetryWaitMS: 793, LatencyUS: 884_000, Tries: []retrylog.Try{failed, {Endpoint: "10.0.3.12:9001", Status: 502, LatencyUS: 22_000, WaitMS: 281, Reason: "status_code_match=502"}, last}})
	add(3*time.Minute, retrylog.Exchange{Count: 12, RequestID: "01jdk7d0000", Gateway: "gw-1", Service: "coupon", Route: "coupon-redeem", Method: "POST", Status: 429, Outcome: retrylog.LocalRefusal, Refusal: "limiter:rate_limited", Origin: "gateway", LatencyUS: 180})
	if l.statuses[0].Objective.Service != "order" { // the hostile world: what clients choose is markup
		evil := l.statuses[0].Objective.Service
		x := &out[0].Exchange
		x.RequestID, x.Caller, x.Method, x.Route, x.Gateway, x.Tenant, x.Experiment, x.Reason, x.BusinessCode = evil, evil, evil, evil, evil, evil, evil, "header X="+evil, evil
		x.Tries[0].Reason, x.Tries[0].Endpoint, x.Tries[0].Fault, x.Tries[1].Skip, x.Skip = "header X="+evil, evil, evil, evil, evil
	}
	return out
}

func (l logbook) Requests(_ context.Context, q request.Query) (request.Page, error) {
	var p request.Page
	for _, row := range l.rows() {
		x := &row.Exchange
		p.Looked++
		if (q.Service == "" || q.Service == x.Service) && (q.Route == "" || q.Route == x.Route) && (q.ID == "" || q.ID == x.RequestID) &&
			(q.StatusTo == 0 || x.Status >= q.StatusFrom && x.Status <= q.StatusTo) && (q.Reason == "" || q.Reason == x.Reason || q.Reason == x.Skip) &&
			(q.Before.At.IsZero() || row.At.Before(q.Before.At)) && len(p.Rows) < q.Limit {
			p.Rows = append(p.Rows, row)
		}
	}
	if q.Reason == "retry_budget" { // a rare one: the search stops at its reach
		p.Looked, p.Next = request.Reach, request.Mark{At: l.now.Add(-20 * time.Minute), ID: "x", Gateway: "gw-1"}
	} else if len(p.Rows) == q.Limit && q.Limit < 5 {
		p.Next, p.Full = p.Rows[q.Limit-1].Mark, true
	}
	return p, l.broken
}

func (l logbook) Request(ctx context.Context, id string) ([]request.Row, error) {
	p, err := l.Requests(ctx, request.Query{ID: id, Limit: 20})
	return p.Rows, err
}

func (l logbook) Counted(context.Context, request.Query) (request.Counted, error) {
	if len(l.statuses) == 0 {
		return request.Counted{Known: true}, l.broken
	}
	return request.Counted{Exchanges: 18_300, Unkept: 41, Known: true}, l.broken
}

func (l logbook) Configs(_ context.Context, _ time.Time, limit int) ([]request.Config, error) {
	if len(l.statuses) == 0 {
		return nil, l.broken
	}
	s := served()
	return []request.Config{
		{At: l.now.Add(-20 * time.Minute), Env: "production", Gateway: "gw-2", Revision: s[0].Revision, Hash: s[0].Hash, Error: "gw.yaml:15:16: retry.max_retries: must be 0 to 5, got 9"},
		{At: l.now.Add(-2 * time.Hour), Env: "production", Gateway: "gw-2", Revision: s[0].Revision, Hash: s[0].Hash, Whole: true},
		{At: l.now.Add(-2*time.Hour - time.Second), Env: "production", Gateway: "gw-1", Revision: s[0].Revision, Hash: s[0].Hash, Whole: true},
		{At: l.now.Add(-50 * time.Hour), Env: "production", Gateway: "gw-1", Revision: s[1].Revision, Hash: s[1].Hash, Whole: true},
	}, l.broken
}

func (l logbook) Config(_ context.Context, revision string, _ time.Time) ([]byte, error) {
	for _, c := range served() {
		if c.Revision == revision && l.broken == nil {
			text, err := json.Marshal(*c)
			return text, err
		}
	}
	return nil, l.broken
}
