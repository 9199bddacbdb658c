package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
	"breakwater/slo/ingest"
)

// ponytailLog are the lines of n retried requests, the last of each three failed.
func ponytailLog(n int, at time.Time) string {
	var b strings.Builder
	for i := range n {
		end, status := "succeeded", 200
		if i%3 == 2 {
			end, status = "failed", 503
		}
		ts := at.Add(time.Duration(i) * time.Second).UTC().Format("2006-01-02T15:04:05.000Z")
		fmt.Fprintf(&b, `{"level":"info","ts":%q,"caller":"ponytail/retry.go:127","msg":"retry triggered","request_id":"r%d","upstream":"auth-service","status_code":503,"retry_count":1,"backoff_ms":250,"decision_reason":"header X-Backend-Status=overloaded"}`+"\n", ts, i)
		fmt.Fprintf(&b, `{"level":"info","ts":%q,"caller":"ponytail/retry.go:142","msg":"retry %s","request_id":"r%d","upstream":"auth-service","final_status_code":%d,"total_retries":1,"total_latency_ms":382}`+"\n", ts, end, i, status)
	}
	return b.String()
}

// ledgerAt is a control that has nothing but a ledger.
func ledgerAt(t *testing.T, now time.Time) (url string, s *store.Store, db *pgxpool.Pool) {
	t.Helper()
	db = pgtest.Pool(t)
	s = store.New(db)
	mux := http.NewServeMux()
	mux.Handle("POST /api/v1/events/files", ingest.New(ingest.Config{Store: s, Now: func() time.Time { return now }}).Files())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, s, db
}

type retryRow struct{ Retried, Retries, Succeeded, Failed int64 }

func retriesOf(t *testing.T, db *pgxpool.Pool, table string) (r retryRow) {
	t.Helper()
	err := db.QueryRow(t.Context(), `select coalesce(sum(retried), 0)::bigint, coalesce(sum(retries), 0)::bigint, coalesce(sum(succeeded), 0)::bigint, coalesce(sum(failed), 0)::bigint
		from `+table+` where service = 'auth-service' and upstream = 'auth-service' and env = 'prod' and status = 503 and reason = 'header X-Backend-Status=overloaded'`).
		Scan(&r.Retried, &r.Retries, &r.Succeeded, &r.Failed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// T30 for files: read twice, grown, renamed, piped, from several parts at once, a
// line counts once.
func TestSLO_T30_AFileThatIsReadAgainCountsOnce(t *testing.T) {
	if plain(t) {
		return
	}
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	url, _, db := ledgerAt(t, now)
	const requests = 5000 // three parts
	text := ponytailLog(requests, now.Add(-2*time.Hour))
	lines := strings.SplitAfter(text, "\n")
	path := filepath.Join(t.TempDir(), "ponytail.log")
	check := func(after int) {
		t.Helper()
		n := int64(after)
		if got, want := retriesOf(t, db, "retry_minute"), (retryRow{n, n, n - n/3, n / 3}); got != want {
			t.Errorf("after %d requests: got %+v, want %+v", after, got, want)
		}
	}
	read := func(stdin string, code int, says string, args ...string) {
		t.Helper()
		r := verb(t, stdin, append([]string{"ingest", "--control", url}, args...)...)
		r.want(t, code)
		if !strings.Contains(r.out+r.err, says) {
			t.Errorf("does not say %q:\n%s%s", says, r.out, r.err)
		}
	}
	for _, upTo := range []int{1, 7, 3000, 3000, 5000} {
		if err := os.WriteFile(path, []byte(strings.Join(lines[:2*upTo], "")), 0o600); err != nil {
			t.Fatal(err)
		}
		read("", 0, fmt.Sprintf("%d lines: ", 2*upTo), path)
		check(upTo)
	}
	read(text, 0, "the first 10000 lines were read before", "-")
	check(requests)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	read("", 0, "0 exchanges counted", path+".1")
	read(strings.Join(lines[:100], ""), 1, "was longer when it was read before", "-")
	changed := lines[0] + strings.Replace(strings.Join(lines[1:], ""), "r42", "x42", 1)
	read(changed, 1, "is another one by line 10000", "-")
	check(requests)
	var rows, events int64
	if err := db.QueryRow(t.Context(), `select (select count(*) from rollup_minute), (select count(*) from event)`).Scan(&rows, &events); err != nil || rows != 0 || events == 0 {
		t.Errorf("%d rows in SLOs, want none; %d events; %v", rows, events, err)
	}
}

func TestTheTwoLinesOfAPonytailLogFromElsewhere(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	url, s, db := ledgerAt(t, now)
	// As they were written two years before: their day is kept, though its minutes would not be.
	old := ponytailLog(1, time.Date(2024, 6, 15, 2, 14, 22, 883e6, time.UTC))
	r := verb(t, old, "ingest", "--control", url, "-")
	r.want(t, 0)
	for _, says := range []string{"auth-service", "503", "header X-Backend-Status=overloaded", "not known: requests that were not retried", "1 exchanges counted"} {
		if !strings.Contains(r.out, says) {
			t.Errorf("does not say %q:\n%s", says, r.out)
		}
	}
	for range 2 {
		if _, err := s.Keep(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if got := retriesOf(t, db, "retry_day"); got != (retryRow{1, 1, 1, 0}) {
		t.Errorf("by day %+v", got)
	}
	// More of the same day, later, adds up.
	verb(t, ponytailLog(3, time.Date(2024, 6, 15, 3, 0, 0, 0, time.UTC)), "ingest", "--control", url, "-").want(t, 0)
	if _, err := s.Keep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := retriesOf(t, db, "retry_day"); got != (retryRow{4, 4, 3, 1}) {
		t.Errorf("by day, later, %+v", got)
	}
}

func TestReadingInSaysWhatIsWrongAtItsPlace(t *testing.T) {
	text := ponytailLog(1, time.Date(2026, 3, 10, 11, 0, 0, 0, time.UTC)) + "not JSON\n" +
		`{"msg":"retry failed","ts":"yesterday","request_id":"","upstream":"u"}` + "\n" + `{"level":"info","msg":"started"}` + "\n" + `{"msg":"ret`
	r := verb(t, text, "ingest", "--dry-run", "-")
	r.want(t, 1, "stdin:3:2: must be an object of JSON", `stdin:4:40: request_id: must be text, got ""`,
		`stdin:4:23: ts: must be an instant such as "2024-06-15T02:14:22.883Z", got "yesterday"`, "stdin:4: final_status_code: must be a whole number", "stdin:6: has no end yet")
	if !strings.Contains(r.out, "5 lines: 1 exchanges would be counted; 1 lines are other messages") {
		t.Errorf("got %s", r.out)
	}
	r = verb(t, text, "ingest", "--dry-run", "-o", "json", "-")
	var out struct {
		Files []readIn `json:"files"`
	}
	if err := json.Unmarshal([]byte(r.out), &out); err != nil || len(out.Files) != 1 || out.Files[0].Counted != 1 || len(out.Files[0].Problems) != 7 {
		t.Errorf("got %+v, %v", out, err)
	}
	verb(t, "", "ingest", "--dry-run", filepath.Join(t.TempDir(), "none")).want(t, 1, "none")
	verb(t, ponytailLog(1, time.Now()), "ingest", "--control", "http://127.0.0.1:1", "-").want(t, 4, "ask control")
	verb(t, ponytailLog(1, time.Now())[:300], "ingest", "--dry-run", "--strict", "-").want(t, 3)
}

// Our own segments, for a gateway that could not reach control.
func TestOurOwnLinesAreReadInUnlessTheirGatewayReportedThem(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	url, s, db := ledgerAt(t, now)
	var text []byte
	for i := range 10 {
		text = retrylog.AppendRecord(text, &retrylog.Record{Exchange: &retrylog.Exchange{
			Count: 1, RequestID: fmt.Sprint(i), End: now.Add(-time.Hour + time.Duration(i)*time.Second), Gateway: "gateway-9", Env: "prod", Service: "order", Route: "r",
			Status: 200, Outcome: retrylog.OK, BodyComplete: true, Origin: "upstream", Tries: []retrylog.Try{{Endpoint: "a", Status: 200}},
		}})
	}
	good := func() (n int64) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `select coalesce(sum(good), 0)::bigint from rollup_minute`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The gateway said of this time itself that nothing happened.
	if _, err := s.Ingest(t.Context(), &ingest.Batch{Received: now, Key: retrylog.Batch{
		Gateway: "gateway-9", Env: "prod", Boot: "b7", Seq: 1, From: now.Add(-2 * time.Hour), Until: now}}); err != nil {
		t.Fatal(err)
	}
	verb(t, string(text), "ingest", "--control", url, "-").want(t, 1, "gateway gateway-9 of prod has reported the time from 2026-03-10T11:00:00Z to 2026-03-10T11:00:09Z itself (boot b7)")
	if n := good(); n != 0 {
		t.Errorf("%d were counted", n)
	}
	if _, err := db.Exec(t.Context(), `delete from gateway_boot`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		verb(t, string(text), "ingest", "--control", url, "-").want(t, 0)
	}
	if n := good(); n != 10 {
		t.Errorf("%d were counted, want 10", n)
	}
	var boots int64
	if err := db.QueryRow(t.Context(), `select (select count(*) from gateway_boot) + (select count(*) from gateway_minute)`).Scan(&boots); err != nil || boots != 0 {
		t.Errorf("a file reports as a gateway: %d rows, %v", boots, err)
	}
}
