package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"breakwater/internal/retrylog"
)

// control is a fake that counts each batch once, as the real one does.
type control struct {
	*httptest.Server
	// answer may refuse or drop a batch before or after it was counted.
	answer func(b retrylog.Batch, body []byte) (status int, count, cut bool)

	mu      sync.Mutex
	bodies  map[string][]byte // by boot and seq
	batches []retrylog.Batch  // counted, in order
	faults  []string
	posts   int
}

func newControl(t *testing.T, answer ...func(retrylog.Batch, []byte) (status int, count, cut bool)) *control {
	c := &control{bodies: map[string][]byte{}}
	if len(answer) > 0 {
		c.answer = answer[0]
	}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *control) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var b retrylog.Batch
	if err := errors.Join(err, json.Unmarshal([]byte(r.Header.Get(retrylog.BatchHeader)), &b)); err != nil || r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/api/v1/events" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts++
	status, count, cut := http.StatusOK, true, false
	if c.answer != nil {
		status, count, cut = c.answer(b, body)
	}
	if count {
		c.count(b, body)
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
	if status != http.StatusOK {
		http.Error(w, "no", status)
		return
	}
	fmt.Fprintf(w, `{"acked": %d}`, b.Seq)
}

func (c *control) count(b retrylog.Batch, body []byte) {
	key := fmt.Sprintf("%s/%d", b.Boot, b.Seq)
	if before, ok := c.bodies[key]; ok {
		if !bytes.Equal(before, body) {
			c.faults = append(c.faults, key+" came again with other bytes")
		}
		return
	}
	c.bodies[key] = body
	for i := len(c.batches) - 1; i >= 0; i-- {
		last := c.batches[i]
		if last.Boot != b.Boot {
			continue
		}
		if b.Seq != last.Seq+1 || !b.From.Equal(last.Until) || last.Last {
			c.faults = append(c.faults, fmt.Sprintf("%+v after %+v", b, last))
		}
		break
	}
	// What a watermark has closed stays closed.
	_, stats, err := retrylog.Scan(bytes.NewReader(body), func(r retrylog.Record) error {
		if r.Exchange != nil && r.Exchange.End.Before(b.From) {
			c.faults = append(c.faults, fmt.Sprintf("an event of %v is late in %+v", r.Exchange.End, b))
		}
		return nil
	})
	if err != nil || stats.Bad > 0 || stats.Tail > 0 {
		c.faults = append(c.faults, fmt.Sprintf("%s holds %+v, %v", key, stats, err))
	}
	c.batches = append(c.batches, b)
}

type seen struct {
	ids     map[string]int // by request id
	notices map[string]int64
	lost    map[string]int64 // by boot
	last    map[string]bool
	batches int
	posts   int
}

func (c *control) seen(t *testing.T) seen {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults {
		t.Error(f)
	}
	s := seen{ids: map[string]int{}, notices: map[string]int64{}, lost: map[string]int64{}, last: map[string]bool{}, batches: len(c.batches), posts: c.posts}
	for _, b := range c.batches {
		s.lost[b.Boot] += b.Lost
		s.last[b.Boot] = b.Last
	}
	for _, body := range c.bodies {
		_, _, err := retrylog.Scan(bytes.NewReader(body), func(r retrylog.Record) error {
			if r.Exchange != nil {
				s.ids[r.Exchange.RequestID]++
			}
			if r.Notice != nil {
				s.notices[r.Notice.Kind] += r.Notice.Count
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return s
}

func config(t *testing.T, dir string, c *control) Config {
	cfg := Config{
		Dir: dir, Gateway: "gw", Env: "test", Token: "secret", SegmentBytes: 64 << 10, Every: 20 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		// A kill takes nothing from the kernel.
		sync:         func(*os.File) error { return nil },
		dataSync:     func(*os.File) error { return nil },
		writeSync:    func(f *os.File, b []byte, at int64) error { _, err := f.WriteAt(b, at); return err },
		journalBytes: 128 << 10, // turned often
	}
	if c != nil {
		cfg.Control, cfg.Client = c.URL, c.Client()
	}
	return cfg
}

func open(t *testing.T, cfg Config) *Spool {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run starts Ship; stop ends it and closes the spool.
func run(t *testing.T, s *Spool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Ship(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func exchange(id string) *retrylog.Record {
	return &retrylog.Record{Exchange: &retrylog.Exchange{
		Count: 1, RequestID: id, Service: "order", Route: "order-create", Method: "POST", Status: 200, Outcome: retrylog.OK,
		Origin: "upstream", BodyComplete: true, Tries: []retrylog.Try{{Endpoint: "127.0.0.1:1", Status: 200, LatencyUS: 900}},
	}}
}

func (s *Spool) one(id string) {
	s.Begin()
	s.Record(exchange(id))
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func TestEveryRecordArrivesOnceOverRotations(t *testing.T) {
	c := newControl(t)
	reg := prometheus.NewRegistry()
	cfg := config(t, t.TempDir(), c)
	cfg.Registerer = reg
	s := open(t, cfg)
	stop := run(t, s)
	const workers, each = 8, 500
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range each {
				s.one(fmt.Sprintf("%d-%d", w, i))
				if i%50 == 0 { // a keeper of 64 KiB segments needs a moment at times
					eventually(t, "a spare segment", func() bool { return s.spare.Load() != nil })
				}
			}
		})
	}
	group.Wait()
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 6 {
		t.Errorf("%d metrics, %v", n, err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
	stop()
	got := c.seen(t)
	dropped := s.Stats().Dropped
	if int64(len(got.ids))+dropped != workers*each || got.lost[s.id] != dropped || !got.last[s.id] {
		t.Errorf("%d arrived, %d dropped of %d, %d said to be lost, last %v", len(got.ids), dropped, workers*each, got.lost[s.id], got.last[s.id])
	}
	if dropped > workers*each/10 {
		t.Errorf("%d dropped with room on the disk", dropped)
	}
	for id, n := range got.ids {
		if n != 1 {
			t.Errorf("%s arrived %d times", id, n)
		}
	}
	if left := s.Stats().Unshipped; len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestLostAnswersAreSentAgainAsTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := newControl(t, func(retrylog.Batch, []byte) (int, bool, bool) {
		switch r.IntN(4) {
		case 0:
			return 200, true, true // counted, and the answer lost
		case 1:
			return 503, false, false
		case 2:
			return 401, false, false
		}
		return 200, true, false
	})
	dir := t.TempDir()
	for range 3 { // boots, each closed
		s := open(t, config(t, dir, c))
		stop := run(t, s)
		for i := range 200 {
			s.one(fmt.Sprintf("%s-%d", s.id, i))
			if i%40 == 0 {
				posts := c.seen(t).posts
				eventually(t, "another post", func() bool { return c.seen(t).posts > posts })
			}
		}
		stop()
	}
	got := c.seen(t)
	if len(got.ids) != 600 || got.posts <= got.batches {
		t.Errorf("%d of 600 ids in %d batches and %d posts", len(got.ids), got.batches, got.posts)
	}
	for id, n := range got.ids {
		if n != 1 {
			t.Errorf("%s was counted %d times", id, n)
		}
	}
}

func TestEmptyBatchesCarryTheWatermark(t *testing.T) {
	c := newControl(t)
	s := open(t, config(t, t.TempDir(), c))
	run(t, s)
	eventually(t, "five empty batches", func() bool { return c.seen(t).batches >= 5 })
	if until := s.Stats().AckedUntil; time.Since(until) > 10*time.Second {
		t.Errorf("watermark at %v", until)
	}
}

func TestASecondProcessIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, config(t, dir, nil))
	if _, err := Open(config(t, dir, nil)); err == nil {
		t.Error("two spools in one directory")
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	again := open(t, config(t, dir, nil))
	if err := again.Close(context.Background()); err != nil {
		t.Error(err)
	}
	again.one("late") // traffic that outlives the spool is dropped, not fatal
	if d := again.Stats().Dropped; d != 1 {
		t.Errorf("%d dropped after Close, want 1", d)
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	cfg := config(t, t.TempDir(), nil)
	cfg.SegmentBytes = 8 << 20
	s := open(t, cfg)
	defer s.Close(context.Background())
	r := exchange("r")
	if n := testing.AllocsPerRun(1000, func() { s.Begin(); s.Record(r) }); n > 0.1 && !raceEnabled {
		t.Errorf("%v allocations a record", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler), MaxBytes: 1 << 40, Keep: time.Nanosecond})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Ship(ctx) }()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := exchange("r")
		for pb.Next() {
			s.Begin()
			s.Record(r)
		}
	})
	b.ReportMetric(float64(s.Stats().Dropped)/float64(b.N), "dropped/op")
	cancel()
	<-done
	_ = s.Close(context.Background())
}

func files(t *testing.T, pattern ...string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil {
		t.Fatal(err)
	}
	return list
}
