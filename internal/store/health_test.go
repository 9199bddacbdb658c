package store

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

const addRetrySQL = `
insert into retry_minute (service, env, upstream, status, reason, experiment, at, retried, retries, succeeded, failed)
values (@service, 'prod', 'points', @status, @reason, @experiment, @at, @n, @retries, @good, @bad)`

const addUpstreamMinuteSQL = `
insert into rollup_minute (service, env, route, upstream, experiment, at, good, exchanges, synthetic, hist, latency_max_us)
values (@service, 'prod', 'r', 'points', @experiment, @at, @n, @n, @probes, @hist, 400000)`

const addEventSQL = `
insert into event (service, env, at, kind, gateway, experiment, request_id, body) values (@service, 'prod', @at, @kind, 'gw', '', 'r', @body::jsonb)`

// Counts come from the ledger by window, status and reason; probes count for
// nobody; the upstream is one however many services ask it.
func TestHealthRows(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	for _, service := range []string{"order", "cart"} {
		exec(t, db, addUpstreamMinuteSQL, pgx.StrictNamedArgs{"service": service, "experiment": "", "at": sloNoon.Add(-3 * time.Minute), "n": 5100, "probes": 100, "hist": []int64{100<<10 | 300}})
		exec(t, db, addRetrySQL, pgx.StrictNamedArgs{"service": service, "status": 503, "reason": "throttled", "experiment": "", "at": sloNoon.Add(-3 * time.Minute), "n": 100, "retries": 200, "good": 12, "bad": 88})
	}
	// A fault's share is part of it, and what lies outside is not.
	exec(t, db, addRetrySQL, pgx.StrictNamedArgs{"service": "order", "status": 503, "reason": "throttled", "experiment": "e1", "at": sloNoon.Add(-4 * time.Minute), "n": 10, "retries": 10, "good": 10, "bad": 0})
	exec(t, db, addRetrySQL, pgx.StrictNamedArgs{"service": "order", "status": 503, "reason": "throttled", "experiment": "", "at": sloNoon, "n": 999, "retries": 999, "good": 0, "bad": 999})

	from := sloNoon.Add(-time.Hour)
	rows, err := s.HealthRows(t.Context(), "", "", from, sloNoon)
	if err != nil {
		t.Fatal(err)
	}
	hs := slo.Healths(rows, from, sloNoon)
	if len(hs) != 1 || hs[0].Upstream != "points" || hs[0].Counts != (slo.HealthCounts{Requests: 10_000, Retried: 210, Retries: 410, Recovered: 34, Failed: 176}) {
		t.Fatalf("%+v", hs)
	}
	if !hs[0].Score.Below() || len(hs[0].Reasons) != 1 || hs[0].Alarm {
		t.Errorf("%+v", hs[0])
	}
	if rows, err := s.HealthRows(t.Context(), "prod", "others", from, sloNoon); err != nil || len(rows) != 0 {
		t.Errorf("of another upstream %v, %v", rows, err)
	}
}

func TestHealthFacts(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	exec(t, db, addUpstreamMinuteSQL, pgx.StrictNamedArgs{"service": "order", "experiment": "", "at": sloNoon.Add(-3 * time.Minute), "n": 200, "probes": 0, "hist": []int64{190<<10 | 515, 10<<10 | 560}})
	exec(t, db, addUpstreamMinuteSQL, pgx.StrictNamedArgs{"service": "order", "experiment": "e1", "at": sloNoon.Add(-3 * time.Minute), "n": 200, "probes": 0, "hist": []int64{200<<10 | 600}})
	event := func(service, kind, body string) {
		exec(t, db, addEventSQL, pgx.StrictNamedArgs{"service": service, "kind": kind, "at": sloNoon.Add(-2 * time.Minute), "body": body})
	}
	event("order", "exchange", `{"exchange":{"upstream":"points","tries":[{"status":503},{"status":503,"wait_ms":250,"latency_us":10000,"decision_reason":"status 503"},{"status":200,"wait_ms":500}]}}`)
	event("order", "exchange", `{"exchange":{"upstream":"points","tries":[{"status":200}]}}`)
	event("order", "exchange", `{"exchange":{"upstream":"other","tries":[{"status":503},{"status":200}]}}`)
	event("cart", "exchange", `{"exchange":{"upstream":"points","tries":[{"kind":"dial"},{"kind":"try_timeout","wait_ms":100}]}}`)
	event("", "notice", `{"notice":{"kind":"header_never_seen","detail":"points: X-Backend-Status was never seen"}}`)
	event("", "notice", `{"notice":{"kind":"header_never_seen","detail":"points-2: X-Backend-Status was never seen"}}`)
	event("", "notice", `{"notice":{"kind":"torn_tail","detail":"points: x"}}`)

	f, err := s.HealthFacts(t.Context(), "prod", "points", nil, sloNoon.Add(-time.Hour), sloNoon)
	if err != nil {
		t.Fatal(err)
	}
	want := []slo.HealthTry{{N: 1, Wait: 250 * time.Millisecond}, {N: 2, Wait: 760 * time.Millisecond, Good: true}, {N: 1, Wait: 100 * time.Millisecond}}
	good, waited := 0, time.Duration(0)
	for _, try := range f.Tries {
		waited += try.Wait
		if try.Good {
			good++
		}
	}
	if len(f.Tries) != len(want) || good != 1 || waited != 1110*time.Millisecond {
		t.Errorf("retries %+v, want %+v", f.Tries, want)
	}
	// The fault's latency is not the upstream's.
	if f.P95Of != 200 || f.P95 < 60*time.Millisecond || f.P95 > 80*time.Millisecond {
		t.Errorf("P95 %s of %d", f.P95, f.P95Of)
	}
	if len(f.Headers) != 1 || !strings.HasPrefix(f.Headers[0], "points: X-Backend") {
		t.Errorf("headers %q", f.Headers)
	}
	if f, err := s.HealthFacts(t.Context(), "prod", "points", []string{"cart"}, sloNoon.Add(-time.Hour), sloNoon); err != nil || len(f.Tries) != 1 || f.P95Of != 0 {
		t.Errorf("of cart alone %+v, %v", f, err)
	}
}
