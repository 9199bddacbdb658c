package store_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/gateway/spool"
	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
	"breakwater/slo/ingest"
)

// shipped is a gateway's spool that ships into a real ledger.
type shipped struct {
	t       *testing.T
	spool   *spool.Spool
	refused atomic.Int64
	stop    func()
}

func ship(t *testing.T, db *pgxpool.Pool) *shipped {
	t.Helper()
	s := &shipped{t: t}
	h := ingest.New(ingest.Config{Store: store.New(db), Log: slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			s.refused.Add(1)
		}
		w.WriteHeader(rec.Code)
		_, _ = io.Copy(w, rec.Body)
	}))
	t.Cleanup(server.Close)
	var err error
	s.spool, err = spool.Open(spool.Config{Dir: t.TempDir(), Gateway: "gw", Env: "prod", Control: server.URL, Every: 20 * time.Millisecond,
		SegmentBytes: 16 << 20, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = s.spool.Ship(ctx) })
	s.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		end, done := context.WithTimeout(context.Background(), 30*time.Second)
		defer done()
		if err := s.spool.Close(end); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *shipped) record(n int) (worst time.Duration) {
	for i := range n {
		r := exchange([]int{200, 200, 503}[i%3], time.Time{})
		r.Exchange.Gateway, r.Exchange.Env = "", ""
		start := time.Now()
		s.spool.Begin()
		s.spool.Record(&r)
		worst = max(worst, time.Since(start))
	}
	return worst
}

func (s *shipped) await(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.t.Fatalf("still not: %s", what)
		}
	}
}

// The database says that its disk is full, as it would, in the middle of a batch.
func TestReliability_X152_WithADatabaseWithoutRoomTheSpoolHoldsAndNothingIsLost(t *testing.T) {
	db := pgtest.Pool(t)
	s := ship(t, db)
	s.record(30)
	s.await("a batch is counted", func() bool { _, _, n, _ := total(t, db); return n == 30 })
	if _, err := db.Exec(t.Context(), `
		create function no_room() returns trigger language plpgsql as $$
		begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
		create trigger no_room before insert or update on gateway_minute for each row execute function no_room()`); err != nil {
		t.Fatal(err)
	}
	s.record(300)
	s.await("batches are refused", func() bool { return s.refused.Load() > 2 })
	if good, bad, n, _ := total(t, db); n != 30 || good != 20 || bad != 10 {
		t.Errorf("half a batch was added: good %d bad %d of %d", good, bad, n)
	}
	if st := s.spool.Stats(); st.Dropped != 0 {
		t.Errorf("%d events dropped while the database had no room", st.Dropped)
	}
	if _, err := db.Exec(t.Context(), `drop trigger no_room on gateway_minute`); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if good, bad, n, hist := total(t, db); n != 330 || good != 220 || bad != 110 || hist != 330 {
		t.Errorf("good %d bad %d of %d, %d in histograms; want 220, 110 of 330", good, bad, n, hist)
	}
	if lost := number(t, db, `select coalesce(sum(lost), 0)::bigint from gateway_minute`); lost != 0 {
		t.Errorf("%d events are counted as lost", lost)
	}
}

// F15, scaled: the ledger is away while events come in, and then catches up.
func TestReliability_X150_F15_WhatCameWhileTheDatabaseWasAwayIsCaughtUp(t *testing.T) {
	db := pgtest.Pool(t)
	s := ship(t, db)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `lock table batch`); err != nil { // nobody is answered
		t.Fatal(err)
	}
	const events = 30_000
	s.record(events)
	s.await("a batch is refused", func() bool { return s.refused.Load() > 0 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s.await("all is counted", func() bool {
		return number(t, db, `select coalesce(sum(exchanges), 0)::bigint from rollup_minute`) == events
	})
	t.Logf("caught up with %d events in %s", events, time.Since(start))
	if st := s.spool.Stats(); st.Dropped != 0 {
		t.Errorf("%d events dropped", st.Dropped)
	}
	if good, bad, n, _ := total(t, db); good != events*2/3 || bad != events/3 || n != events {
		t.Errorf("good %d bad %d of %d", good, bad, n)
	}
}

// Connections are killed at any statement of a transaction.
func TestReliability_F9_KilledConnectionsNeitherLoseNorDouble(t *testing.T) {
	db := pgtest.Pool(t)
	h := handler(store.New(db), noon.Add(time.Hour))
	done := make(chan struct{})
	var killed atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		rnd := rand.New(rand.NewPCG(6, 6))
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(rnd.IntN(15)) * time.Millisecond):
			}
			var n int64
			err := db.QueryRow(context.Background(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
				where datname = current_database() and pid <> pg_backend_pid()`).Scan(&n)
			if err == nil {
				killed.Add(n)
			}
		}
	})
	var senders sync.WaitGroup
	const each = 40
	for g := range 3 {
		senders.Go(func() {
			for seq := int64(1); seq <= each; seq++ {
				k := key(fmt.Sprintf("gw%d", g), "b", seq)
				records := []retrylog.Record{exchange(200, noon), exchange(503, noon), exchange(200, noon.Add(-time.Minute))}
				for range 500 {
					if code, _ := post(h, k, records); code == 200 {
						break
					}
				}
			}
		})
	}
	senders.Wait()
	close(done)
	group.Wait()
	if good, bad, n, hist := total(t, db); good != 3*each*2 || bad != 3*each || n != 3*each*3 || hist != n {
		t.Errorf("after %d kills: good %d bad %d of %d, %d in histograms", killed.Load(), good, bad, n, hist)
	}
	if n := number(t, db, `select coalesce(sum(good + bad), 0)::bigint from service_minute`); n != 3*each*3 {
		t.Errorf("%d by service", n)
	}
	if killed.Load() == 0 {
		t.Error("no connection was killed: this test tests nothing")
	}
}
