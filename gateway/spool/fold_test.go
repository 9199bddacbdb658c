package spool

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/histogram"
	"breakwater/internal/retrylog"
	"breakwater/slo/ingest"
)

// plainOne is an exchange that may be folded.
func plainOne(id string, us int64) *retrylog.Record {
	r := exchange(id)
	r.Fold = 1 + int64(histogram.Index(us)) + (us+999)/1000*histogram.Size
	x := r.Exchange
	x.Start = time.Now().UTC()
	x.Upstream, x.Caller, x.Revision, x.FirstStatus = "order", "web", "r1", 200
	x.LatencyUS, x.BytesOut, x.Tries[0].LatencyUS = us, 1024, us
	return r
}

func (s *Spool) fold1(r *retrylog.Record) {
	s.Begin()
	s.Record(r)
}

// lines are the exchanges that control has, in no order.
func (c *control) lines(t *testing.T) (out []retrylog.Exchange) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.bodies {
		_, _, err := retrylog.Scan(bytes.NewReader(body), func(r retrylog.Record) error {
			if r.Exchange != nil {
				out = append(out, *r.Exchange)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return out
}

// rows are minute rows of lines, with what may differ left out: which minute it
// was, and the part of a microsecond by which a mean is rounded.
func rows(lines []retrylog.Exchange) map[ingest.Key]ingest.Row {
	records := make([]retrylog.Record, len(lines))
	for i := range lines {
		records[i].Exchange = &lines[i]
	}
	limit := func(string, string) time.Duration { return 70 * time.Millisecond }
	out := map[ingest.Key]ingest.Row{}
	for _, r := range ingest.Fold(records, time.Now(), limit).Rows {
		r.At = time.Time{}
		sum := out[r.Key]
		sum.Key = r.Key
		sum.Exchanges += r.Exchanges
		sum.Good += r.Good
		sum.Attempts += r.Attempts
		sum.OverLimit += r.OverLimit
		sum.Hist.Merge(r.Hist)
		out[r.Key] = sum
	}
	return out
}

// Eight writers at windows of 50 ms, which the keeper seals under them: what
// arrives is to the bit what a line for each would have come to.
func TestFoldedMinutesEqualUnfoldedOnes(t *testing.T) {
	c := newControl(t)
	cfg := config(t, t.TempDir(), c)
	cfg.Every, cfg.SegmentBytes = 50*time.Millisecond, 16<<20
	s := open(t, cfg)
	stop := run(t, s)
	var mu sync.Mutex
	var raw []retrylog.Exchange
	var group sync.WaitGroup
	const workers, each = 8, 500
	for w := range workers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var mine []retrylog.Exchange
			for i := range each {
				// Limits and bins have edges at 70 ms and around 1 ms.
				us := []int64{900 + r.Int64N(200), 69_000 + r.Int64N(2000), r.Int64N(50)}[r.IntN(3)]
				rec := plainOne(fmt.Sprintf("%d-%d", w, i), us)
				rec.Exchange.Route = []string{"order-create", "order-get"}[r.IntN(2)]
				s.fold1(rec)
				mine = append(mine, *rec.Exchange)
			}
			mu.Lock()
			defer mu.Unlock()
			raw = append(raw, mine...)
		})
	}
	group.Wait()
	stop()
	c.seen(t) // no event was late to its watermark
	lines := c.lines(t)
	var n, us, bytes, want int64
	for _, x := range lines {
		n, us, bytes = n+x.Count, us+x.Count*x.LatencyUS, bytes+x.BytesOut
		if x.Tries[0].LatencyUS != x.LatencyUS {
			t.Fatalf("%+v", x)
		}
	}
	for _, x := range raw {
		want += x.LatencyUS
	}
	if st := s.Stats(); n != workers*each || bytes != 1024*n || st.Dropped != 0 || st.Folded != n-int64(len(lines)) || st.Ended != n {
		t.Errorf("%d of %d in %d lines with %d bytes, %+v", n, workers*each, len(lines), bytes, st)
	}
	if us > want || us < want-n {
		t.Errorf("latencies of %d us became %d", want, us)
	}
	if len(lines) == len(raw) {
		t.Errorf("%d lines for %d exchanges", len(lines), len(raw))
	}
	if got, want := rows(lines), rows(raw); !reflect.DeepEqual(got, want) {
		t.Errorf("rows\n%v\nwant\n%v", got, want)
	}
}

func TestOneLineForAllThatAreAlike(t *testing.T) {
	c := newControl(t)
	cfg := config(t, t.TempDir(), c)
	cfg.Every = time.Second
	s := open(t, cfg)
	all := []*retrylog.Record{}
	add := func(change func(x *retrylog.Exchange)) {
		for i := range 3 {
			r := plainOne(fmt.Sprintf("%d-%d", len(all), i), 1000)
			change(r.Exchange)
			all = append(all, r)
		}
	}
	// Each of these is a line of its own for three; what is not plain makes three.
	folded := []func(x *retrylog.Exchange){
		func(*retrylog.Exchange) {},
		func(x *retrylog.Exchange) { x.Service = "points" },
		func(x *retrylog.Exchange) { x.Route = "other" },
		func(x *retrylog.Exchange) { x.Upstream = "other" },
		func(x *retrylog.Exchange) { x.Method = "GET" },
		func(x *retrylog.Exchange) { x.Caller = "app" },
		func(x *retrylog.Exchange) { x.Tenant = "t" },
		func(x *retrylog.Exchange) { x.Tier = "critical" },
		func(x *retrylog.Exchange) { x.Gateway = "gw2" },
		func(x *retrylog.Exchange) { x.Env = "prod" },
		func(x *retrylog.Exchange) { x.Revision = "r2" },
		func(x *retrylog.Exchange) { x.Status = 204 },
		func(x *retrylog.Exchange) { x.Tries[0].Endpoint = "127.0.0.1:2" },
		func(x *retrylog.Exchange) { x.Service, x.Route = "ordero", "rder-create" }, // the same letters
	}
	single := []func(x *retrylog.Exchange){
		func(x *retrylog.Exchange) { x.Outcome = retrylog.ClientAbort },
		func(x *retrylog.Exchange) { x.Status = 404 },
		func(x *retrylog.Exchange) { x.BodyComplete = false },
		func(x *retrylog.Exchange) { x.Tries = append(x.Tries, x.Tries[0]) },
		func(x *retrylog.Exchange) { x.Tries = nil },
		func(x *retrylog.Exchange) { x.Tries[0].Fault = "f" },
		func(x *retrylog.Exchange) { x.Tries[0].Kind = "dial" },
		func(x *retrylog.Exchange) { x.Tries[0].Reason = "status_code_match=503" },
		func(x *retrylog.Exchange) { x.Tries[0].Skip = "deadline" },
		func(x *retrylog.Exchange) { x.Observed = "limiter:rate" },
		func(x *retrylog.Exchange) { x.Skip = "method" },
		func(x *retrylog.Exchange) { x.Reason = "status_503" },
		func(x *retrylog.Exchange) { x.Degraded = "return_503" },
		func(x *retrylog.Exchange) { x.Refusal = "limiter:rate" },
		func(x *retrylog.Exchange) { x.Experiment = "run" },
		func(x *retrylog.Exchange) { x.BusinessCode = "E1" },
		func(x *retrylog.Exchange) { x.DepTimeouts = 1 },
		func(x *retrylog.Exchange) { x.RequestID += strings.Repeat("x", 400) }, // finds no room
	}
	for _, change := range append(folded, single...) {
		add(change)
	}
	// One window, whenever the test runs: nobody seals before the end.
	for _, r := range all {
		s.fold1(r)
	}
	second := map[int64]bool{}
	for _, r := range all {
		second[r.Exchange.End.UnixMicro()/s.fold.width] = true
	}
	run(t, s)()
	want := len(folded) + 3*len(single)
	lines := c.lines(t)
	if n := len(lines); n < want || n > want+len(folded)*(len(second)-1) {
		t.Errorf("%d lines in %d windows, want %d", n, len(second), want)
	}
	for _, x := range lines {
		if len(second) == 1 && x.Count == 3 && !strings.HasSuffix(x.RequestID, "-0") || x.End.IsZero() || x.Start.IsZero() {
			t.Errorf("not that of the first: %+v", x)
		}
	}
}

// More keys than a window has room for: the rest has lines of its own.
func TestAFullTableLosesNothing(t *testing.T) {
	c := newControl(t)
	cfg := config(t, t.TempDir(), c)
	cfg.SegmentBytes, cfg.Every = 8<<20, time.Hour // one window
	s := open(t, cfg)
	const n = 3 * foldSlots
	for round := range 2 {
		for i := range n {
			r := plainOne(fmt.Sprintf("%d-%d", round, i), 1000)
			r.Exchange.Caller = fmt.Sprint(i)
			s.fold1(r)
		}
	}
	run(t, s)()
	got := map[string]int64{}
	lines := c.lines(t)
	for _, x := range lines {
		got[x.Caller] += x.Count
	}
	for caller, times := range got {
		if times != 2 {
			t.Errorf("caller %s: %d times", caller, times)
		}
	}
	if len(got) != n || len(lines) >= 2*n {
		t.Errorf("%d callers in %d lines", len(got), len(lines))
	}
}

func TestABrokenTableCostsNoEvent(t *testing.T) {
	c := newControl(t)
	s := open(t, config(t, t.TempDir(), c))
	if err := s.fold.f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		s.fold1(plainOne(fmt.Sprint(i), 1000))
	}
	run(t, s)()
	if got := c.seen(t); len(got.ids) != 10 || got.lost[s.id] != 0 {
		t.Errorf("%+v", got)
	}
}

func TestFoldingAllocatesNothing(t *testing.T) {
	s := open(t, config(t, t.TempDir(), nil))
	defer s.Close(context.Background())
	r := plainOne("r", 1000)
	if n := testing.AllocsPerRun(1000, func() { s.fold1(r) }); n > 0.1 && !raceEnabled {
		t.Errorf("%v allocations a record", n)
	}
}

func BenchmarkFold(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Ship(ctx) }()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := plainOne("r", 1000)
		for i := int64(0); pb.Next(); i++ {
			r.Exchange.LatencyUS = 200 + i%500
			s.fold1(r)
		}
	})
	b.ReportMetric(float64(s.Stats().Dropped)/float64(b.N), "dropped/op")
	cancel()
	<-done
	_ = s.Close(context.Background())
}
