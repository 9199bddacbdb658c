package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/histogram"
	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
	"breakwater/slo/ingest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// post sends a batch the way a gateway does.
func post(h http.Handler, k retrylog.Batch, records []retrylog.Record) (int, ingest.Answer) {
	var body []byte
	for i := range records {
		body = retrylog.AppendRecord(body, &records[i])
	}
	header, _ := json.Marshal(k)
	r := httptest.NewRequest("POST", "/api/v1/events", bytes.NewReader(body))
	r.Header.Set(retrylog.BatchHeader, string(header))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var a ingest.Answer
	_ = json.Unmarshal(w.Body.Bytes(), &a)
	return w.Code, a
}

// deliver posts until the batch is acknowledged, as a gateway does: on a busy
// machine a batch may wait too long for its locks.
func deliver(h http.Handler, k retrylog.Batch, records []retrylog.Record) (code int, a ingest.Answer) {
	for range 20 {
		if code, a = post(h, k, records); code != 503 {
			break
		}
	}
	return code, a
}

func handler(s ingest.Store, now time.Time) http.Handler {
	return ingest.New(ingest.Config{Store: s, Now: func() time.Time { return now }})
}

func key(gateway, boot string, seq int64) retrylog.Batch {
	from := noon.Add(time.Duration(seq-1) * time.Second)
	return retrylog.Batch{Gateway: gateway, Env: "prod", Boot: boot, Seq: seq, From: from, Until: from.Add(time.Second)}
}

func exchange(status int, at time.Time) retrylog.Record {
	x := &retrylog.Exchange{
		Count: 1, RequestID: "r", Start: at.Add(-10 * time.Millisecond), End: at, Gateway: "gw", Env: "prod",
		Service: "order", Route: "order-create", Upstream: "order", Method: "POST", Status: status, FirstStatus: status,
		Outcome: retrylog.OK, LatencyUS: 10_000, BodyComplete: true, Origin: "upstream",
		Tries: []retrylog.Try{{Endpoint: "a", Status: status, LatencyUS: 9_000}},
	}
	if status >= 500 {
		x.Outcome = retrylog.UpstreamFailure
	}
	return retrylog.Record{Exchange: x}
}

// total reads what all minute rows of the service come to.
func total(t *testing.T, db *pgxpool.Pool) (good, bad, exchanges, hist int64) {
	t.Helper()
	err := db.QueryRow(t.Context(), `
		select coalesce(sum(good), 0)::bigint, coalesce(sum(bad), 0)::bigint, coalesce(sum(exchanges), 0)::bigint,
		       (select coalesce(sum(n), 0)::bigint from unnest((select histogram_sum(hist) from rollup_minute)) as n)
		from rollup_minute`).Scan(&good, &bad, &exchanges, &hist)
	if err != nil {
		t.Fatal(err)
	}
	return good, bad, exchanges, hist
}

func TestSLO_T30_ABatchSentThreeTimesAtOnceCountsOnce(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon)
	records := []retrylog.Record{exchange(200, noon), exchange(503, noon), exchange(200, noon)}

	for seq := int64(1); seq <= 20; seq++ {
		var wg sync.WaitGroup
		already := make(chan bool, 3)
		for range 3 {
			wg.Go(func() {
				code, a := deliver(h, key("gw", "b", seq), records)
				if code != 200 || a.Acked != seq {
					t.Errorf("batch %d: got %d, %+v", seq, code, a)
				}
				already <- a.Already
			})
		}
		wg.Wait()
		close(already)
		again := 0
		for a := range already {
			if a {
				again++
			}
		}
		if again != 2 {
			t.Errorf("batch %d: %d of 3 answers say it was there, want 2", seq, again)
		}
	}
	if good, bad, n, hist := total(t, db); good != 40 || bad != 20 || n != 60 || hist != 60 {
		t.Errorf("got good %d bad %d exchanges %d histogram %d, want 40 20 60 60", good, bad, n, hist)
	}
}

func TestSLO_S40_ARepeatedBatchAmongOthersSpoilsNothing(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon)
	for _, seq := range []int64{1, 2, 1, 3, 3, 2} {
		if code, a := post(h, key("gw", "b", seq), []retrylog.Record{exchange(200, noon)}); code != 200 || a.Acked != seq {
			t.Fatalf("batch %d: got %d, %+v", seq, code, a)
		}
	}
	if good, _, n, _ := total(t, db); good != 3 || n != 3 {
		t.Errorf("got good %d of %d, want 3 of 3", good, n)
	}
}

// lossy commits and then says that it could not.
type lossy struct {
	ingest.Store
	lose bool
}

func (l *lossy) Ingest(ctx context.Context, batches ...*ingest.Batch) ([]bool, error) {
	already, err := l.Store.Ingest(ctx, batches...)
	if err == nil && l.lose {
		return nil, errors.New("connection reset after commit")
	}
	return already, err
}

func TestReliability_X146_ALostCommitAnswerIsSentAgainAndCountsOnce(t *testing.T) {
	db := pgtest.Pool(t)
	l := &lossy{store.New(db), true}
	h := handler(l, noon)
	records := []retrylog.Record{exchange(503, noon)}
	if code, _ := post(h, key("gw", "b", 1), records); code != 503 {
		t.Fatalf("got %d, want 503", code)
	}
	l.lose = false
	if code, a := post(h, key("gw", "b", 1), records); code != 200 || !a.Already {
		t.Fatalf("got %d, %+v, want 200 already", code, a)
	}
	if _, bad, n, _ := total(t, db); bad != 1 || n != 1 {
		t.Errorf("got bad %d of %d, want 1 of 1", bad, n)
	}
}

func TestSLO_S19_ARestartedGatewayAddsAndNeverSubtracts(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon)
	send := func(gateway, boot string, seq int64, n int64) {
		t.Helper()
		r := exchange(200, noon)
		r.Exchange.Count = n
		if code, _ := post(h, key(gateway, boot, seq), []retrylog.Record{r}); code != 200 {
			t.Fatalf("got %d", code)
		}
	}
	send("a", "a1", 1, 500)
	send("b", "b1", 1, 300)
	before, _, _, _ := total(t, db)
	send("a", "a2", 1, 20) // the new boot counts from 1 again
	after, _, _, _ := total(t, db)
	if before != 800 || after != 820 {
		t.Errorf("got %d then %d, want 800 then 820", before, after)
	}
}

func TestSLO_S37_DeltasOfTwoProcessesAddUp(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon)
	for boot, deltas := range map[string][]int64{"A": {3, 5, 7, 6, 0}, "B": {8, 1, 4, 6, 0}} {
		for i, n := range deltas {
			var records []retrylog.Record
			if n > 0 {
				r := exchange(200, noon)
				r.Exchange.Count = n
				records = append(records, r)
			}
			if code, _ := post(h, key("gw", boot, int64(i+1)), records); code != 200 {
				t.Fatalf("got %d", code)
			}
		}
	}
	if good, _, _, _ := total(t, db); good != 40 {
		t.Errorf("got %d, want 40", good)
	}
}

func TestReliability_X153_LateAndWrongClocksLandWhereTheyBelong(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon)
	records := []retrylog.Record{
		exchange(503, noon.Add(-2*time.Hour)),
		exchange(200, noon.Add(time.Hour)),     // a clock an hour ahead
		exchange(200, noon.Add(-49*time.Hour)), // too late
		exchange(200, noon.Add(time.Minute)),   // clocks disagree a little
	}
	for range 2 { // nothing changes the second time
		if code, a := post(h, key("gw", "b", 1), records); code != 200 || !a.Already && (a.Future != 1 || a.TooLate != 1) {
			t.Fatalf("got %d, %+v", code, a)
		}
	}
	rows, err := db.Query(t.Context(), `select at, good, bad from rollup_minute order by at`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		At        time.Time
		Good, Bad int64
	}])
	if err != nil || len(got) != 2 || !got[0].At.Equal(noon.Add(-2*time.Hour)) || got[0].Bad != 1 ||
		!got[1].At.Equal(noon.Add(time.Minute)) || got[1].Good != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	var lost int64
	if err := db.QueryRow(t.Context(), `select sum(lost)::bigint from gateway_minute`).Scan(&lost); err != nil || lost != 2 {
		t.Errorf("lost %d, %v, want 2", lost, err)
	}
}

func TestHostileNamesDoNotHoldUpTheStream(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon)
	r := exchange(503, noon)
	r.Exchange.RequestID = "a\x00b\xff\\u0000"
	r.Exchange.Route = strings.Repeat("long€", 2000)
	r.Exchange.Tries[0].Endpoint = "\x00\xed\xa0\x80"
	if code, _ := post(h, key("gw", "b", 1), []retrylog.Record{r}); code != 200 {
		t.Fatalf("got %d, want 200", code)
	}
	var n int
	if err := db.QueryRow(t.Context(), `select count(*) from event where kind = 'exchange'`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d events kept, %v, want 1", n, err)
	}
}

func TestCountsEqualASlowOracleOverManyBatches(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon.Add(time.Hour))
	rnd := rand.New(rand.NewPCG(1, 2))
	const batches, size = 100, 200 // 20 000 events

	want := map[ingest.Key]*ingest.Row{}
	type sent struct {
		key     retrylog.Batch
		records []retrylog.Record
	}
	var all []sent
	for i := range batches {
		var records []retrylog.Record
		for range size {
			r := random(rnd)
			records = append(records, r)
			oracle(want, r.Exchange)
		}
		all = append(all, sent{key(fmt.Sprintf("gw%d", i%4), "b", int64(i/4+1)), records})
	}
	// Everything twice, in any order, by four senders at once.
	work := append(slices.Clone(all), all...)
	rnd.Shuffle(len(work), func(i, j int) { work[i], work[j] = work[j], work[i] })
	jobs := make(chan sent)
	var wg sync.WaitGroup
	start := time.Now()
	for range 4 {
		wg.Go(func() {
			for s := range jobs {
				if code, _ := deliver(h, s.key, s.records); code != 200 {
					t.Errorf("%s/%d: got %d", s.key.Gateway, s.key.Seq, code)
				}
			}
		})
	}
	for _, s := range work {
		jobs <- s
	}
	close(jobs)
	wg.Wait()
	t.Logf("%d events, each sent twice, in %v", batches*size, time.Since(start))
	compareRows(t, db, want)
}

func random(rnd *rand.Rand) retrylog.Record {
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	r := exchange([]int{200, 201, 302, 404, 429, 500, 503}[rnd.IntN(7)], noon.Add(time.Duration(rnd.Int64N(int64(4*time.Minute)))))
	x := r.Exchange
	x.Service, x.Route = pick("order", "points", ""), pick("r1", "r2")
	x.Experiment = pick("", "", "", "run-1")
	x.LatencyUS = rnd.Int64N(1 << rnd.IntN(30))
	x.Count = 1 + rnd.Int64N(3)
	if rnd.IntN(5) == 0 {
		x.Tries = append([]retrylog.Try{{Endpoint: "b", Status: 503}}, x.Tries...)
	}
	if rnd.IntN(20) == 0 {
		x.Outcome, x.Status = retrylog.ClientAbort, 0
	}
	return r
}

// oracle counts one exchange in the plainest way there is.
func oracle(want map[ingest.Key]*ingest.Row, x *retrylog.Exchange) {
	k := ingest.Key{Service: x.Service, Env: x.Env, Route: x.Route, Upstream: x.Upstream, Experiment: x.Experiment,
		At: time.Unix(x.End.Unix()/60*60, 0).UTC()}
	row := want[k]
	if row == nil {
		row = &ingest.Row{Key: k}
		want[k] = row
	}
	for range x.Count {
		row.Exchanges++
		row.Attempts += int64(len(x.Tries))
		valid := x.Service != "" && x.Outcome != retrylog.ClientAbort && x.Status != 429 && x.Status != 404
		if valid && x.Tries[0].Status >= 500 {
			row.FirstTryBad++
		}
		if len(x.Tries) > 1 {
			row.Retried++
		}
		switch {
		case x.Service == "":
			row.Neutral++
		case x.Outcome == retrylog.ClientAbort:
			row.Neutral++
			row.Aborted++
		case x.Status == 429:
			row.Neutral++
			row.Throttled++
		case x.Status == 404:
			row.Neutral++
		case x.Status >= 500:
			row.Bad++
			if x.Experiment != "" {
				row.ChaosBad++
			}
			row.Hist.Add(x.LatencyUS, 1)
		default:
			row.Good++
			if len(x.Tries) > 1 {
				row.Recovered++
			}
			row.Hist.Add(x.LatencyUS, 1)
		}
	}
}

func compareRows(t *testing.T, db *pgxpool.Pool, want map[ingest.Key]*ingest.Row) {
	t.Helper()
	rows, err := db.Query(t.Context(), `
		select service, env, route, upstream, experiment, at, good, bad, neutral, throttled, aborted,
		       chaos_bad, first_try_bad, exchanges, attempts, retried, recovered, hist
		from rollup_minute`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var r ingest.Row
		var hist []int64
		if err := rows.Scan(&r.Service, &r.Env, &r.Route, &r.Upstream, &r.Experiment, &r.At, &r.Good, &r.Bad, &r.Neutral,
			&r.Throttled, &r.Aborted, &r.ChaosBad, &r.FirstTryBad, &r.Exchanges, &r.Attempts, &r.Retried, &r.Recovered, &hist); err != nil {
			t.Fatal(err)
		}
		r.At = r.At.UTC()
		w := want[r.Key]
		if w == nil {
			t.Fatalf("a row nobody sent: %+v", r.Key)
		}
		seen++
		if r.Tally != w.Tally || !slices.Equal(histogram.List(hist).Bins(), w.Hist.Bins()) {
			t.Errorf("%+v:\ngot  %+v\nwant %+v", r.Key, r.Tally, w.Tally)
		}
	}
	if err := rows.Err(); err != nil || seen != len(want) {
		t.Errorf("got %d rows, %v, want %d", seen, err, len(want))
	}
}
