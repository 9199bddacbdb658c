package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
	"breakwater/slo/ingest"
)

// lines are a batch of a busy gateway without coalescing: a thousand routes of
// twelve services, one request in a hundred failed.
func lines(n int, at time.Time) (body []byte) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for i := range n {
		status := 200
		if i%100 == 0 {
			status = 503
		}
		r := exchange(status, at.Add(time.Duration(i)*500*time.Microsecond))
		x := r.Exchange
		x.RequestID, x.Revision, x.Caller = fmt.Sprintf("0192f1c8a4b37c11-%d", i), "7f3a91c2", fmt.Sprintf("web-%d", i%5)
		x.Service, x.Route, x.Upstream = fmt.Sprintf("service-%d", i%12), fmt.Sprintf("route-%d", i*7%1000), fmt.Sprintf("upstream-%d", i%12)
		x.Tries[0].Endpoint = fmt.Sprintf("10.0.0.%d:8080", i%6)
		x.LatencyUS = int64(12_000 * math.Exp(0.5*rnd.NormFloat64()))
		body = retrylog.AppendRecord(body, &r)
	}
	return body
}

// Done-when: at least 100 000 events a second through HTTP into PostgreSQL. Each
// gateway has one batch on its way, as the real ones do; what a transaction costs
// is by rows, so it is the lines in it that count, of one gateway or of several.
func BenchmarkIngest(b *testing.B) {
	for _, of := range []struct{ gateways, size int }{{1, 2000}, {1, 10_000}, {2, 10_000}, {8, 2000}, {16, 2000}} {
		gateways, size := of.gateways, of.size
		b.Run(fmt.Sprintf("gateways=%d/lines=%d", gateways, size), func(b *testing.B) {
			db := pgtest.Pool(b)
			s := store.New(db)
			if _, err := s.Keep(b.Context(), noon); err != nil {
				b.Fatal(err)
			}
			server := httptest.NewServer(ingest.New(ingest.Config{Store: s, Now: func() time.Time { return noon }}))
			defer server.Close()
			body := lines(size, noon)
			var left atomic.Int64
			var wg sync.WaitGroup
			left.Store(int64(b.N))
			pid := pgtest.Cluster(b).Pid()
			before := cpu(b, pid)
			b.ResetTimer()
			for g := range gateways {
				wg.Go(func() {
					for seq := int64(1); left.Add(-1) >= 0; seq++ {
						if err := send(server.URL, key(fmt.Sprintf("gw-%d", g), "b", seq), body); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "events/s")
			used := cpu(b, pid)
			b.ReportMetric(float64((used.own-before.own).Nanoseconds())/float64(size*b.N), "own-cpu-ns/event")
			b.ReportMetric(float64((used.server-before.server).Nanoseconds())/float64(size*b.N), "server-cpu-ns/event")
			var n int64
			if err := db.QueryRow(b.Context(), `select sum(exchanges)::bigint from rollup_minute`).Scan(&n); err != nil || n != int64(size*b.N) {
				b.Errorf("%d of %d exchanges are counted, %v", n, size*b.N, err)
			}
		})
	}
}

func send(url string, k retrylog.Batch, body []byte) error {
	header, err := json.Marshal(k)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(retrylog.BatchHeader, string(header))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", res.Status)
	}
	return nil
}

// used is processor time: what an event costs, whatever else the machine does.
type used struct{ own, server time.Duration }

// cpu reads what this process and the server with its backends have used. Where
// there is no /proc the server's share is zero.
func cpu(b *testing.B, postmaster int) (u used) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	u.own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name may hold anything
		f := strings.Fields(rest)
		if len(f) < 14 || f[1] != strconv.Itoa(postmaster) {
			continue
		}
		for _, ticks := range f[11:13] {
			n, _ := strconv.Atoi(ticks)
			u.server += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return u
}
