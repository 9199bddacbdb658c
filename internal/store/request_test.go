package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/slo/request"
)

// logRow writes a row as ingest keeps it.
func logRow(t *testing.T, db *pgxpool.Pool, at time.Time, x retrylog.Exchange) {
	t.Helper()
	body, err := json.Marshal(retrylog.Record{Exchange: &x})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `insert into event (service, env, at, kind, gateway, experiment, request_id, body) values ($1, 'prod', $2, 'exchange', $3, '', $4, $5)`,
		x.Service, at, x.Gateway, x.RequestID, body); err != nil {
		t.Fatal(err)
	}
}

func ids(p request.Page) string {
	var out []string
	for _, r := range p.Rows {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

func TestSearchOfRequests(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	at := func(seconds int) time.Time { return sloNoon.Add(time.Duration(seconds) * time.Second) }
	two := []retrylog.Try{{Status: 502, Reason: "status_code_match=502"}, {Status: 200}}
	logRow(t, db, at(-10), retrylog.Exchange{RequestID: "a", Gateway: "gw-1", Service: "order", Route: "order-get", Status: 200, Outcome: retrylog.OK, Reason: "status_code_match=502", Tries: two})
	logRow(t, db, at(-20), retrylog.Exchange{RequestID: "b", Gateway: "gw-1", Service: "order", Route: "order-create", Status: 502, Outcome: retrylog.UpstreamFailure, Skip: "non_idempotent", Tries: two[:1]})
	logRow(t, db, at(-30), retrylog.Exchange{RequestID: "c", Gateway: "gw-1", Service: "points", Route: "points-get", Status: 504, Outcome: retrylog.Timeout, Skip: "deadline", Tries: two[:1]})
	logRow(t, db, at(-30), retrylog.Exchange{RequestID: "c", Gateway: "gw-2", Service: "order", Route: "order-get", Status: 504, Outcome: retrylog.Timeout, Tries: two[:1]})
	logRow(t, db, at(-4000), retrylog.Exchange{RequestID: "old", Gateway: "gw-1", Service: "order", Route: "order-get", Status: 503, Outcome: retrylog.LocalRefusal, Refusal: "breaker:open"})
	hour := request.Query{From: at(-3600), To: at(0), Limit: 50}
	with := func(change func(*request.Query)) request.Query {
		q := hour
		change(&q)
		return q
	}
	for _, tt := range []struct {
		name, want string
		looked     int64
		q          request.Query
	}{
		{"all, newest first", "a b c c", 4, hour},
		{"a service", "a b c", 3, with(func(q *request.Query) { q.Service = "order" })},
		{"a route", "a c", 4, with(func(q *request.Query) { q.Route = "order-get" })},
		{"a status", "b", 4, with(func(q *request.Query) { q.StatusFrom, q.StatusTo = 502, 502 })},
		{"a class of statuses", "b c c", 4, with(func(q *request.Query) { q.StatusFrom, q.StatusTo = 500, 599 })},
		{"why it was retried", "a", 4, with(func(q *request.Query) { q.Reason = "status_code_match=502" })},
		{"why it was not", "c", 4, with(func(q *request.Query) { q.Reason = "deadline" })},
		{"an outcome", "c c", 4, with(func(q *request.Query) { q.Outcome = "timeout" })},
		{"saved by a retry", "a", 4, with(func(q *request.Query) { q.Outcome = request.Recovered })},
		{"a longer range", "old", 5, with(func(q *request.Query) { q.From, q.StatusFrom, q.StatusTo = at(-7200), 503, 503 })},
		{"an id, whenever it was", "old", 1, with(func(q *request.Query) { q.ID = "old" })},
		{"an id at two gateways", "c c", 2, with(func(q *request.Query) { q.ID = "c" })},
		{"nobody", "", 0, with(func(q *request.Query) { q.Service = "nobody" })},
	} {
		p, err := s.Requests(t.Context(), tt.q)
		if err != nil || ids(p) != tt.want || p.Looked != tt.looked || !p.Next.At.IsZero() {
			t.Errorf("%s: %q of %d, next %v, %v; want %q of %d", tt.name, ids(p), p.Looked, p.Next, err, tt.want, tt.looked)
		}
	}
	// Page by page everything comes once, two rows of one instant and id too.
	var walked []string
	for q := with(func(q *request.Query) { q.Limit = 1 }); ; {
		p, err := s.Requests(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Rows {
			walked = append(walked, r.ID+"@"+r.Gateway)
		}
		if q.Before = p.Next; p.Next.At.IsZero() {
			break
		}
		if !p.Full || len(walked) > 9 {
			t.Fatalf("walked %v, full %t", walked, p.Full)
		}
	}
	if got := strings.Join(walked, " "); got != "a@gw-1 b@gw-1 c@gw-2 c@gw-1" {
		t.Errorf("page by page: %s", got)
	}
	rows, err := s.Request(t.Context(), "c")
	if err != nil || len(rows) != 2 || rows[0].Exchange.Service+rows[1].Exchange.Service != "pointsorder" {
		t.Errorf("%+v, %v", rows, err)
	}
}

// A rare value in a long log costs a bounded look, and the search can be gone on with.
func TestSearchStopsAtItsReach(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	const filler = `insert into event (service, env, at, kind, gateway, experiment, request_id, body)
		select 'order', 'prod', $1::timestamptz - n * interval '10 ms', 'exchange', 'gw-1', '', 'r' || n, '{"exchange":{"request_id":"r","service":"order","route":"order-get","status":502,"outcome":"upstream_failure"}}'
		from generate_series(1, $2::int) n`
	if _, err := db.Exec(t.Context(), filler, sloNoon, request.Reach+500); err != nil {
		t.Fatal(err)
	}
	logRow(t, db, sloNoon.Add(-10*time.Minute), retrylog.Exchange{RequestID: "rare", Gateway: "gw-1", Service: "order", Route: "order-get", Status: 418})
	for _, service := range []string{"order", ""} {
		q := request.Query{Service: service, StatusFrom: 418, StatusTo: 418, From: sloNoon.Add(-time.Hour), To: sloNoon, Limit: 50}
		p, err := s.Requests(t.Context(), q)
		if err != nil || len(p.Rows) != 0 || p.Looked != request.Reach || p.Full || p.Next.ID != fmt.Sprintf("r%d", request.Reach) {
			t.Fatalf("first: %d of %d, %+v, %v", len(p.Rows), p.Looked, p.Next, err)
		}
		q.Before = p.Next
		if p, err = s.Requests(t.Context(), q); err != nil || ids(p) != "rare" || p.Looked != 501 || !p.Next.At.IsZero() {
			t.Errorf("going on: %q of %d, %+v, %v", ids(p), p.Looked, p.Next, err)
		}
	}
}

// The searches go by an index: none of them reads a partition from end to end.
func TestSearchesGoByAnIndex(t *testing.T) {
	db := pgtest.Pool(t)
	fill(t, db)
	for name, sql := range map[string]string{"a service": requestsSQL, "all services": anyRequestsSQL, "an id": requestSQL} {
		args := map[string]any{"service": "order-1", "route": "", "status_from": 0, "status_to": 0, "reason": "", "outcome": "", "recovered": false, "from": sloNoon.Add(-24 * time.Hour), "to": sloNoon,
			"before_at": sloNoon, "before_id": "", "before_gateway": "", "reach": 100, "limit": 50}
		if name == "all services" {
			args["service"] = ""
		}
		if name == "an id" {
			args = map[string]any{"id": "r77"}
		}
		if plan := explainPlan(t, db, sql, args); !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan on event") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

func TestWhatWasCountedBesideTheLog(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`insert into rollup_minute (service, env, route, upstream, experiment, at, good, exchanges) values ('order', 'prod', 'order-get', 'o', '', $1, 90, 100), ('order', 'prod', 'order-create', 'o', '', $1, 9, 10), ('points', 'prod', 'points-get', 'p', '', $1, 5, 5)`, sloNoon.Add(-5*time.Minute))
	exec(`insert into batch (gateway, boot, seq, env, from_at, until_at, exchanges, lost, bad_lines, future, too_late, unkept, received_at) values ('gw', 'b', 1, 'prod', $1, $1, 1, 0, 0, 0, 0, 41, $1)`, sloNoon.Add(-4*time.Minute))
	for _, tt := range []struct {
		q    request.Query
		want request.Counted
	}{
		{request.Query{}, request.Counted{Exchanges: 115, Unkept: 41, Known: true}},
		{request.Query{Service: "order"}, request.Counted{Exchanges: 110, Unkept: 41, Known: true}},
		{request.Query{Service: "order", Route: "order-get"}, request.Counted{Exchanges: 100, Unkept: 41, Known: true}},
		{request.Query{Route: "points-get"}, request.Counted{Exchanges: 5, Unkept: 41, Known: true}},
	} {
		tt.q.From, tt.q.To = sloNoon.Add(-time.Hour), sloNoon
		if got, err := s.Counted(t.Context(), tt.q); err != nil || got != tt.want {
			t.Errorf("%+v: %+v, %v", tt.q, got, err)
		}
	}
	if got, err := s.Counted(t.Context(), request.Query{From: sloNoon.Add(-7 * time.Hour), To: sloNoon}); err != nil || got.Known {
		t.Errorf("a long range: %+v, %v", got, err)
	}
}

func TestConfigurationsOfGateways(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	report := func(hours int, gateway, revision, effective, trouble string) {
		at := sloNoon.Add(time.Duration(hours) * time.Hour)
		body, err := json.Marshal(retrylog.Record{Config: &retrylog.Config{At: at, Gateway: gateway, Env: "prod", Revision: revision, Hash: revision + "-hash", Effective: effective, Error: trouble}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), `insert into event (service, env, at, kind, gateway, experiment, request_id, body) values ('', 'prod', $1, 'config', $2, '', '', $3)`, at, gateway, body); err != nil {
			t.Fatal(err)
		}
	}
	report(-30, "gw-1", "r1", `{"revision":"r1"}`, "")
	report(-20, "gw-2", "r1", `{"revision":"r1"}`, "")
	report(-3, "gw-1", "r2", `{"revision":"r2"}`, "")
	report(-2, "gw-1", "r2", "", "gw.yaml:1:1: must be something")
	all, err := s.Configs(t.Context(), sloNoon.Add(-48*time.Hour), 100)
	if err != nil || len(all) != 4 || all[0].Error == "" || all[0].Whole || !all[1].Whole {
		t.Fatalf("%+v, %v", all, err)
	}
	revisions, refused := request.Revisions(all)
	if len(refused) != 1 || len(revisions) != 2 || revisions[0].Name != "r2" || strings.Join(revisions[0].Serving, ",") != "gw-1" || strings.Join(revisions[1].Serving, ",") != "gw-2" ||
		strings.Join(revisions[1].Gateways, ",") != "gw-1,gw-2" || !revisions[1].First.Equal(sloNoon.Add(-30*time.Hour)) {
		t.Errorf("%+v", revisions)
	}
	text, err := s.Config(t.Context(), "r1", sloNoon.Add(-48*time.Hour))
	if err != nil || string(text) != `{"revision":"r1"}` {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := s.Config(t.Context(), "r9", sloNoon.Add(-48*time.Hour)); err != nil || text != nil {
		t.Errorf("%s, %v", text, err)
	}
}

// fill makes a day of rows that a planner takes for many.
func fill(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	for _, sql := range []string{
		`insert into event (service, env, at, kind, gateway, experiment, request_id, body)
		select 'order-' || (n % 5), 'prod', $1::timestamptz - n * interval '4 s', 'exchange', 'gw-1', '', 'r' || n, '{"exchange":{"request_id":"r","status":502}}' from generate_series(1, 20000) n`,
	} {
		if _, err := db.Exec(t.Context(), sql, sloNoon); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(t.Context(), `analyze event`); err != nil {
		t.Fatal(err)
	}
}

func explainPlan(t *testing.T, db *pgxpool.Pool, sql string, args map[string]any) string {
	t.Helper()
	rows, err := db.Query(t.Context(), "explain "+sql, pgx.StrictNamedArgs(args))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}
