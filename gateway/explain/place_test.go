package explain

import (
	"reflect"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

const placing = `apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints:
  - {address: "127.0.0.1:9001", labels: {version: v1}}
  - {address: "127.0.0.1:9002", labels: {version: v1}}
  - {address: "127.0.0.1:9003", labels: {version: v2}}
---
apiVersion: breakwater/v1
kind: Upstream
name: night
endpoints: [{address: "127.0.0.1:9010"}]
---
apiVersion: breakwater/v1
kind: Route
name: day
service: order
match: {path: /orders}
split:
  - {upstream: order, subset: {version: v1}, weight: 3}
  - {upstream: order, subset: {version: v2}}
sticky: caller
retry_escape_split: true
mirror: {upstream: night, percent: "10%"}
max_body: 1MiB
retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502], backoff_base: 250ms, fallback_strategy: pass_through}
---
apiVersion: breakwater/v1
kind: Route
name: night
service: order
match: {path: /orders, windows: ["22:00-06:00 Asia/Shanghai"]}
upstream: night
---
apiVersion: breakwater/v1
kind: Route
name: partners
service: order
match: {path: /orders, callers: [partner], headers: {x-tenant: {present: true}}}
upstream: night
`

func TestExplainPlaces(t *testing.T) {
	var log conf.Log
	c := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(placing)}}, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	noon, late := time.Date(2026, 3, 5, 4, 0, 0, 0, time.UTC), time.Date(2026, 3, 5, 14, 0, 0, 0, time.UTC)
	split := []Share{{"order/version=v1", 750_000}, {"order/version=v2", 250_000}}
	copies := &Mirror{Upstream: "night", PPM: 100_000}
	get := func(at time.Time, headers ...string) Sample {
		s := Sample{Path: "/orders", Status: 200, At: at, Headers: Headers{}}
		for i := 0; i+1 < len(headers); i += 2 {
			s.Headers[headers[i]] = Values{headers[i+1]}
		}
		return s
	}
	long, huge, up := get(noon), get(noon), get(noon, "Upgrade", "websocket")
	long.BodyBytes, huge.BodyBytes = 100<<10, 2<<20
	tests := []struct {
		name            string
		s               Sample
		route, upstream string
		split           []Share
		mirror          *Mirror
		status          int
	}{
		{"by day, without a caller", get(noon), "day", "order/version=v1", split, copies, 200},
		{"a caller of the small branch", get(noon, "x-caller", "batch-3"), "day", "order/version=v2", split, copies, 200},
		{"and one of the large", get(noon, "x-caller", "web"), "day", "order/version=v1", split, copies, 200},
		{"by night", get(late), "night", "night", nil, nil, 200},
		{"a caller goes before a window", get(late, "X-Caller", "partner", "X-Tenant", "a"), "partners", "night", nil, nil, 200},
		{"a body too long to copy", long, "day", "order/version=v1", split, &Mirror{"night", 0, "skipped_body"}, 200},
		{"a body too long to take", huge, "day", "order/version=v1", split, &Mirror{"night", 0, "skipped_body"}, 413},
		{"an upgrade is not copied", up, "day", "order/version=v1", split, &Mirror{"night", 0, "skipped_upgrade"}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := Explain(c, tt.s)
			if err != nil {
				t.Fatal(err)
			}
			if a.Route != tt.route || a.Upstream != tt.upstream || !reflect.DeepEqual(a.Split, tt.split) || !reflect.DeepEqual(a.Mirror, tt.mirror) ||
				a.Status != tt.status || (len(a.Tries) == 0) != (tt.status == 413) {
				t.Errorf("got %+v, mirror %+v", a, a.Mirror)
			}
		})
	}
	// A connection that cannot be had is tried at another host: the one endpoint of
	// the small branch has the large branch's to go to.
	s := get(noon, "X-Caller", "batch-3")
	s.Status, s.Failure = 0, "dial"
	if a, err := Explain(c, s); err != nil || a.Retries != 2 {
		t.Errorf("a canary that may be left is retried %d times, %v, want 2", a.Retries, err)
	}
}
