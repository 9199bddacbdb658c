package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
)

func number(t *testing.T, db *pgxpool.Pool, sql string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func keep(t *testing.T, s *store.Store, now time.Time) store.Kept {
	t.Helper()
	k, err := s.Keep(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestPartitionsAreMadeAheadAndDroppedBehind(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	h := handler(s, noon)
	// Before anybody looked after the ledger, rows lie in the default partition.
	if code, _ := post(h, key("gw", "b", 1), []retrylog.Record{exchange(503, noon), exchange(200, noon.Add(-30*time.Hour))}); code != 200 {
		t.Fatalf("got %d", code)
	}
	if k := keep(t, s, noon); k.Made != 5*6+2 || k.Dropped != 0 {
		t.Errorf("made %d partitions, dropped %d", k.Made, k.Dropped)
	}
	if n := number(t, db, `select count(*) from rollup_minute_default`) + number(t, db, `select count(*) from event_default`); n != 0 {
		t.Errorf("%d rows were left in default partitions", n)
	}
	if good, bad, n, _ := total(t, db); good != 1 || bad != 1 || n != 2 {
		t.Errorf("after moving: good %d bad %d of %d", good, bad, n)
	}
	if k := keep(t, s, noon.Add(time.Minute)); k.Made != 0 {
		t.Errorf("a minute later %d were made again", k.Made)
	}
	// For forty days the ledger is looked after now and then.
	for d := 5; d <= 40; d += 5 {
		keep(t, s, noon.AddDate(0, 0, d))
	}
	days := number(t, db, `select count(*) from pg_inherits where inhparent = 'rollup_minute'::regclass`)
	if days != 34+1+4+1 { // whole days kept, the one on the edge, today and ahead, default
		t.Errorf("%d partitions of minutes", days)
	}
	if n := number(t, db, `select count(*) from rollup_minute`) + number(t, db, `select count(*) from event`) + number(t, db, `select count(*) from batch`); n != 0 {
		t.Errorf("%d rows outlived their time", n)
	}
	if n := number(t, db, `select sum(good + bad)::bigint from rollup_hour`); n != 2 {
		t.Errorf("hours hold %d exchanges, want 2: they stay for 13 months", n)
	}
	for _, months := range []int{13, 14, 15} {
		keep(t, s, noon.AddDate(0, months, 0))
	}
	if n := number(t, db, `select count(*) from rollup_hour`); n != 0 {
		t.Errorf("%d hours after 15 months", n)
	}
	if n := number(t, db, `select sum(good + bad)::bigint from rollup_day`); n != 2 {
		t.Errorf("days hold %d exchanges, want 2: they stay for five years", n)
	}
	keep(t, s, noon.AddDate(5, 0, 2))
	if n := number(t, db, `select count(*) from rollup_day`); n != 0 {
		t.Errorf("%d days after five years", n)
	}
}

func TestKeysOutliveTheirEvents(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	if code, _ := post(handler(s, noon), key("gw", "b", 1), []retrylog.Record{exchange(503, noon)}); code != 200 {
		t.Fatalf("got %d", code)
	}
	for _, tt := range []struct {
		after                 time.Duration
		keys, events, minutes int64
	}{{time.Hour, 1, 1, 1}, {49 * time.Hour, 1, 1, 1}, {5 * 24 * time.Hour, 0, 1, 1}, {9 * 24 * time.Hour, 0, 0, 1}, {37 * 24 * time.Hour, 0, 0, 0}} {
		keep(t, s, noon.Add(tt.after))
		keys, events := number(t, db, `select count(*) from batch`), number(t, db, `select count(*) from event`)
		if minutes := number(t, db, `select count(*) from rollup_minute`); keys != tt.keys || events != tt.events || minutes != tt.minutes {
			t.Errorf("after %s: %d keys, %d events, %d minutes, want %+v", tt.after, keys, events, minutes, tt)
		}
	}
}

// sums compares a table with what the minutes come to, bit for bit.
func sums(t *testing.T, db *pgxpool.Pool, table, span string, until time.Time) {
	t.Helper()
	sql := fmt.Sprintf(`
with want as (
    select service, env, route, upstream, experiment, date_trunc('%[2]s', at, 'UTC') as at, sum(good)::bigint as good, sum(bad)::bigint as bad,
        sum(exchanges)::bigint as exchanges, sum(latency_us)::bigint as latency_us, max(latency_max_us) as most, histogram_merge(hist) as hist
    from rollup_minute where at < $1 group by 1, 2, 3, 4, 5, 6
), have as (
    select service, env, route, upstream, experiment, at, good, bad, exchanges, latency_us, latency_max_us as most, hist from %[1]s
)
select (select count(*) from (select * from want except select * from have) x) + (select count(*) from (select * from have except select * from want) x)`, table, span)
	if n := number(t, db, sql, until); n != 0 {
		t.Errorf("%s differs from the minutes in %d rows", table, n)
	}
}

func TestHoursAndDaysAreRecomputedFromMinutesAndNeverAddedTo(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	rnd := rand.New(rand.NewPCG(8, 9))
	now := noon
	seq := int64(0)
	// Two days of batches, late ones among them; the ledger is looked after now and then.
	for now.Before(noon.AddDate(0, 0, 2)) {
		now = now.Add(time.Duration(1+rnd.IntN(120)) * time.Minute)
		var records []retrylog.Record
		for range 20 {
			r := random(rnd)
			r.Exchange.End = now.Add(-time.Duration(rnd.ExpFloat64() * float64(4*time.Hour)))
			records = append(records, r)
		}
		seq++
		for range 1 + rnd.IntN(2) {
			if code, _ := post(handler(s, now), key("gw", "b", seq), records); code != 200 {
				t.Fatalf("got %d", code)
			}
		}
		if rnd.IntN(5) == 0 {
			keep(t, s, now)
		}
	}
	end := now.Truncate(time.Hour)
	keep(t, s, end.Add(time.Minute))
	sums(t, db, "rollup_hour", "hour", end)
	sums(t, db, "rollup_day", "day", end.Truncate(24*time.Hour))
	if n := number(t, db, `select count(*) from rollup_dirty where span = 'hour' and at < $1`, end); n != 0 {
		t.Errorf("%d marks are left of hours that are over", n)
	}
	if n := number(t, db, `select count(*) from (
		(select service, env, at, sum(good), sum(bad), sum(exchanges), sum(first_try_bad), sum(latency_us) from rollup_minute group by 1, 2, 3
		 except select service, env, at, good, bad, exchanges, first_try_bad, latency_us from service_minute)
		union all
		(select service, env, at, good, bad, exchanges, first_try_bad, latency_us from service_minute
		 except select service, env, at, sum(good), sum(bad), sum(exchanges), sum(first_try_bad), sum(latency_us) from rollup_minute group by 1, 2, 3)) x`); n != 0 {
		t.Errorf("sums by service differ from the minutes in %d rows", n)
	}
	if k := keep(t, s, end.Add(2*time.Minute)); k.Hours != 0 || k.Days != 0 {
		t.Errorf("nothing changed, and %d hours and %d days were summed", k.Hours, k.Days)
	}
}

// A mark that commits while the hour is being summed is not lost.
func TestAHourThatChangesWhileItIsSummedIsSummedAgain(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	at := noon.Add(-3 * time.Hour)
	if code, _ := post(handler(s, noon), key("gw", "b", 1), []retrylog.Record{exchange(200, at)}); code != 200 {
		t.Fatal(code)
	}
	keep(t, s, at) // the partitions; the hour is not over yet
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `update rollup_minute set good = good + 5, exchanges = exchanges + 5`); err != nil {
		t.Fatal(err)
	}
	keep(t, s, noon) // does not see it
	if n := number(t, db, `select sum(good)::bigint from rollup_hour`); n != 1 {
		t.Errorf("the hour says %d before the commit, want 1", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	keep(t, s, noon.Add(time.Minute))
	if n := number(t, db, `select sum(good)::bigint from rollup_hour`); n != 6 {
		t.Errorf("the hour says %d after the commit, want 6", n)
	}
}

func TestKeepAndTrafficDoNotHoldEachOtherUp(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	done := make(chan error, 1)
	go func() {
		for d := range 6 {
			if _, err := s.Keep(t.Context(), noon.AddDate(0, 0, 2*d)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	seq := int64(0)
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			running = false
		default:
		}
		seq++
		if code, _ := deliver(handler(s, noon), key("gw", "b", seq), []retrylog.Record{exchange(200, noon), exchange(503, noon)}); code != 200 {
			t.Fatalf("batch %d: got %d", seq, code)
		}
	}
	if good, bad, _, _ := total(t, db); good != seq || bad != seq {
		t.Errorf("good %d bad %d after %d batches", good, bad, seq)
	}
}

// A day is found by one partition, whatever the number of days kept.
func TestAReadOfAnHourLooksIntoOneDay(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	keep(t, s, noon)
	rows, err := db.Query(t.Context(), `explain select sum(good) from rollup_minute where service = 'order' and env = 'prod' and at >= $1 and at < $2`,
		noon, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	scans := 0
	for _, line := range plan {
		if len(line) > 0 && containsScan(line) {
			scans++
		}
	}
	if scans != 1 {
		t.Errorf("%d tables are looked into:\n%v", scans, plan)
	}
}

func containsScan(line string) bool { return strings.Contains(line, " on rollup_minute_") }
