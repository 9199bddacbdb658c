package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
)

func TestAFormerBootsLeftoversDoNotTurnTheReportBack(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon.Add(time.Hour))
	send := func(k retrylog.Batch) {
		t.Helper()
		if code, _ := post(h, k, nil); code != 200 {
			t.Fatalf("got %d", code)
		}
	}
	send(key("gw", "old", 1))
	young := key("gw", "new", 1)
	young.From, young.Until = noon.Add(10*time.Second), noon.Add(11*time.Second)
	send(young)
	late := key("gw", "old", 2) // was in the spool when the old boot was killed
	late.Lost = 3
	send(late)

	var boot string
	var until time.Time
	var stopped bool
	if err := db.QueryRow(t.Context(), `select boot, until_at, stopped from gateway`).Scan(&boot, &until, &stopped); err != nil {
		t.Fatal(err)
	}
	if boot != "new" || !until.Equal(young.Until) || stopped {
		t.Errorf("the gateway reports as %s until %s, stopped %v", boot, until, stopped)
	}
	var covered, lost int64
	if err := db.QueryRow(t.Context(), `select covered_us, lost from gateway_minute`).Scan(&covered, &lost); err != nil || covered != 3e6 || lost != 3 {
		t.Errorf("covered %d us, lost %d, %v, want 3 s and 3", covered, lost, err)
	}
}

func TestAGapInTheSequenceLowersCoverage(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon.Add(time.Hour))
	for _, seq := range []int64{1, 2, 4} { // a second is missing
		if code, _ := post(h, key("gw", "b", seq), nil); code != 200 {
			t.Fatalf("got %d", code)
		}
	}
	var measured, expected, missing int64
	if err := db.QueryRow(t.Context(), `select measured_us, expected_us from gateway_coverage('prod', $1, $2)`,
		noon, noon.Add(4*time.Second)).Scan(&measured, &expected); err != nil || measured != 3e6 || expected != 4e6 {
		t.Errorf("got %d of %d us, %v, want 3 s of 4", measured, expected, err)
	}
	if err := db.QueryRow(t.Context(), `select seq - batches from gateway_boot`).Scan(&missing); err != nil || missing != 1 {
		t.Errorf("%d batches missing, %v, want 1", missing, err)
	}
}

func TestTheStoreAwayIsARefusalAndNotAWait(t *testing.T) {
	// Nothing listens there.
	db, err := pgxpool.New(t.Context(), "postgres:///breakwater?host="+t.TempDir()+"&user=breakwater")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	code, _ := post(handler(store.New(db), noon), key("gw", "b", 1), []retrylog.Record{exchange(200, noon)})
	if code != 503 {
		t.Errorf("got %d, want 503", code)
	}
}

func TestABatchThatWaitsForALockGivesUp(t *testing.T) {
	db := pgtest.Pool(t)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `lock table rollup_minute`); err != nil {
		t.Fatal(err)
	}
	h := handler(store.New(db), noon)
	records := []retrylog.Record{exchange(200, noon)}
	if code, _ := post(h, key("gw", "b", 1), records); code != 503 {
		t.Fatalf("got %d, want 503", code)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, a := post(h, key("gw", "b", 1), records); code != 200 || a.Already {
		t.Errorf("got %d, %+v: the key of a batch that was not added stands", code, a)
	}
	if good, _, n, _ := total(t, db); good != 1 || n != 1 {
		t.Errorf("got good %d of %d, want 1 of 1", good, n)
	}
}
