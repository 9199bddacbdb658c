package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/internal/retrylog"
)

// slowStore takes a while, refuses some batches, and remembers transactions.
type slowStore struct {
	mu    sync.Mutex
	takes time.Duration
	bad   int64 // a batch of this sequence is never taken
	away  bool
	tx    [][]int64
	seen  map[string]bool
}

func (s *slowStore) Ingest(ctx context.Context, batches ...*Batch) ([]bool, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var seqs []int64
	already := make([]bool, len(batches))
	for _, b := range batches {
		if s.away || s.bad != 0 && b.Key.Seq == s.bad {
			return nil, errors.New("refused")
		}
	}
	for i, b := range batches {
		seqs = append(seqs, b.Key.Seq)
		k := fmt.Sprint(b.Key.Gateway, b.Key.Seq)
		already[i] = s.seen[k]
		s.seen[k] = true
	}
	slices.Sort(seqs)
	s.tx = append(s.tx, seqs)
	return already, nil
}

func batchOf(gateway string, seq int64) *Batch {
	return &Batch{Key: retrylog.Batch{Gateway: gateway, Boot: "b", Seq: seq}}
}

func TestBatchesThatWaitShareATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{takes: 50 * time.Millisecond, seen: map[string]bool{}}
		g := newGroup(s)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if already, err := g.ingest(t.Context(), batchOf("gw", int64(i+1))); already || err != nil {
					t.Errorf("batch %d: %v, %v", i+1, already, err)
				}
			})
			synctest.Wait() // the first is on its way when the others come
		}
		wg.Wait()
		if len(s.tx) != 2 || len(s.tx[0]) != 1 || len(s.tx[1]) != 7 {
			t.Errorf("transactions %v, want one batch and then seven", s.tx)
		}
	})
}

func TestUnderPressureGatewaysComeToShareEveryTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{takes: 30 * time.Millisecond, seen: map[string]bool{}}
		g := newGroup(s)
		var wg sync.WaitGroup
		for gw := range 3 {
			wg.Go(func() {
				for seq := range 20 {
					time.Sleep(time.Duration(1+gw*2) * time.Millisecond) // reading the next batch
					if _, err := g.ingest(t.Context(), batchOf(fmt.Sprint("gw", gw), int64(seq+1))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		shared := 0
		for _, tx := range s.tx {
			if len(tx) == 3 {
				shared++
			}
		}
		if shared < 18 {
			t.Errorf("%d of %d transactions hold all three gateways' batches", shared, len(s.tx))
		}
	})
}

func TestAnOnlyGatewayWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{takes: 10 * time.Millisecond, seen: map[string]bool{}}
		g := newGroup(s)
		start := time.Now()
		for seq := range 10 {
			if _, err := g.ingest(t.Context(), batchOf("gw", int64(seq+1))); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("ten transactions of 10 ms took %s", took)
		}
	})
}

// S40, of a whole request: what one batch spoils, it spoils for itself.
func TestSLO_S40_ABatchTheStoreRefusesDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{takes: 10 * time.Millisecond, bad: 3, seen: map[string]bool{}}
		g := newGroup(s)
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = g.ingest(t.Context(), batchOf("gw", int64(i))) })
			synctest.Wait()
		}
		wg.Wait()
		for i, err := range errs {
			if (err != nil) != (i == 3) {
				t.Errorf("batch %d: %v", i, err)
			}
		}
	})
}

func TestAStoreThatIsAwayIsToldToAllSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{takes: time.Hour, seen: map[string]bool{}}
		g := newGroup(s)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), storeWait)
				defer cancel()
				if _, err := g.ingest(ctx, batchOf("gw", int64(i))); err == nil {
					t.Error("no error")
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 2*storeWait+gather {
			t.Errorf("it took %s", took)
		}
	})
}

// The one whose request runs the transaction goes away: the others' batches are in it.
func TestATransactionDoesNotEndWithTheRequestThatRunsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{takes: 100 * time.Millisecond, seen: map[string]bool{}}
		g := newGroup(s)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.ingest(ctx, batchOf("gw", 1)) })
		synctest.Wait()
		cancel()
		wg.Go(func() {
			if _, err := g.ingest(t.Context(), batchOf("gw", 2)); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if len(s.tx) != 2 {
			t.Errorf("transactions %v", s.tx)
		}
	})
}

// Folders are used again: nothing of one batch may show up in the next.
func TestSLO_T30_BatchesOneAfterAnotherDoNotMix(t *testing.T) {
	s := &keepAll{}
	h := New(Config{Store: s, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	var want int64
	for i := range int64(50) {
		var xs []retrylog.Exchange
		for j := range i % 7 {
			x := answered(200)
			x.Route, x.Caller = fmt.Sprint("r", j%3), fmt.Sprint("c", i)
			x.End = noon.Add(-time.Duration(j%2) * time.Minute)
			xs = append(xs, x)
		}
		want += i % 7
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(goodHeader(func(k *retrylog.Batch) { k.Seq = i + 1 }), lines(records(xs...))))
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if s.exchanges != want || s.hist != want || s.facets != want {
		t.Errorf("%d exchanges, %d in histograms, %d by caller, want %d of each", s.exchanges, s.hist, s.facets, want)
	}
}

type keepAll struct{ exchanges, hist, facets int64 }

func (k *keepAll) Ingest(_ context.Context, batches ...*Batch) ([]bool, error) {
	for _, b := range batches {
		for _, r := range b.Rows {
			k.exchanges += r.Exchanges
			k.hist += r.Hist.Bins().Count()
		}
		for _, f := range b.Facets {
			if f.Dimension == "caller" {
				k.facets += f.Total
			}
		}
	}
	return make([]bool, len(batches)), nil
}
