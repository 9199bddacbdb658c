package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/gateway/spool"
	"breakwater/internal/auth"
	"breakwater/internal/pglocal"
	"breakwater/internal/retrylog"
	"breakwater/slo/ingest"
)

// Truth under fire: two gateways' spools ship into one control, while all of them
// and PostgreSQL are killed at random, batches are doubled, reordered and their
// answers lost, and one disk fills up. A gateway is this test's own binary, which
// writes down what it is about to record and what it has recorded.
//
// BREAKWATER_FIRE=500000 sets the number of requests; without there are
// 20 000, and it takes less than a minute.

// fireRequests is how many requests one gateway serves.
func fireRequests(t *testing.T) int64 {
	n := int64(20_000)
	if text := os.Getenv("BREAKWATER_FIRE"); text != "" {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 1000 {
			t.Fatalf("BREAKWATER_FIRE: must be a number from 1000, got %q", text)
		}
	}
	return n / 2
}

// fireExchange is request i of a gateway: its class follows from its number.
func fireExchange(gateway string, i int64) retrylog.Exchange {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", gateway, i)
	r := h.Sum64()
	x := retrylog.Exchange{
		Count: 1, RequestID: fmt.Sprintf("%s-%d", gateway, i), Start: time.Now(), Service: "fire-" + gateway, Route: fmt.Sprintf("route-%d", r%20),
		Upstream: "up", Method: "GET", Status: 200, FirstStatus: 200, Outcome: retrylog.OK, LatencyUS: int64(500 + r%50_000), BodyComplete: true,
		Origin: "upstream", Revision: "1", Tries: []retrylog.Try{{Endpoint: "10.0.0.1:80", Status: 200, LatencyUS: 400}},
	}
	switch r / 20 % 50 {
	case 0:
		x.Status, x.FirstStatus, x.Outcome, x.Tries[0].Status = 503, 503, retrylog.UpstreamFailure, 503
	case 1:
		x.Status, x.FirstStatus, x.Tries[0].Status = 404, 404, 404
	}
	return x
}

// TestFireGatewayProcess is a gateway of the test below, and nothing without it.
func TestFireGatewayProcess(t *testing.T) {
	dir, name := os.Getenv("BREAKWATER_FIRE_DIR"), os.Getenv("BREAKWATER_FIRE_NAME")
	if dir == "" {
		return
	}
	number := func(key string) int64 {
		n, err := strconv.ParseInt(os.Getenv(key), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	from, until, rate := number("BREAKWATER_FIRE_FROM"), number("BREAKWATER_FIRE_UNTIL"), number("BREAKWATER_FIRE_RATE")
	truth, err := os.OpenFile(filepath.Join(dir, "truth"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spool.Open(spool.Config{
		Dir: filepath.Join(dir, "spool"), Gateway: name, Env: "fire", Control: os.Getenv("BREAKWATER_FIRE_CONTROL"), Every: 200 * time.Millisecond,
		Token: os.Getenv("BREAKWATER_FIRE_TOKEN"), SegmentBytes: 256 << 10, MaxBytes: number("BREAKWATER_FIRE_BYTES"), KeepBytes: 1 << 30, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Ship(ctx) })
	line := make([]byte, 0, 32)
	say := func(mark byte, i int64) {
		line = append(strconv.AppendInt(append(line[:0], mark), i, 10), '\n')
		if _, err := truth.Write(line); err != nil {
			t.Error(err)
		}
	}
	// In strides of ten milliseconds: a kill -9 may come anywhere.
	tick := time.NewTicker(10 * time.Millisecond)
	for i := from; i < until; {
		for range max(1, rate/100) {
			if i == until {
				break
			}
			x := fireExchange(name, i)
			say('b', i)
			s.Begin()
			s.Record(&retrylog.Record{Exchange: &x})
			say('d', i)
			i++
		}
		<-tick.C
	}
	for wait := time.Now().Add(2 * time.Minute); len(s.Stats().Unshipped) > 0 && time.Now().Before(wait); {
		<-tick.C
	}
	cancel()
	group.Wait()
	end, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := s.Close(end); err != nil {
		t.Error(err)
	}
}

// fire is the world of the test.
type fire struct {
	*world
	rnd   *rand.Rand
	proxy string
	token string
	calm  chan struct{} // closed: the proxy forwards as it should
}

// fireGateway is one of the two, through all its lives.
type fireGateway struct {
	name, dir string
	until     int64
	bytes     int64
	cmd       *exec.Cmd
	kills     int
}

func newFire(t *testing.T) *fire {
	f := &fire{world: &world{t: t, dir: t.TempDir(), url: map[string]string{}, began: time.Now()}, rnd: rand.New(rand.NewPCG(11, 5)), calm: make(chan struct{})}
	f.pgCfg = pglocal.Config{Dir: filepath.Join(f.dir, "pg"), Settings: []string{"fsync=off", "shared_buffers=64MB"}, Log: slog.New(slog.DiscardHandler)}
	f.startDatabase()
	t.Cleanup(func() {
		if err := f.pg.Stop(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(f.pg.Dir())
	})
	db, err := pgxpool.New(t.Context(), f.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	f.db = db
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f.url["control"] = "http://" + l.Addr().String()
	f.control = f.process("control", map[string]net.Listener{"control": l}, "control", "--open-loopback", "--control", l.Addr().String(),
		"--state-dir", filepath.Join(f.dir, "state"), "--env", "fire")
	f.control.start()
	f.ready("control")
	token, err := os.ReadFile(auth.GatewayTokenFile(filepath.Join(f.dir, "state")))
	if err != nil {
		t.Fatal(err)
	}
	f.token = strings.TrimSpace(string(token))
	server := httptest.NewServer(f.between(f.url["control"]))
	t.Cleanup(server.Close)
	f.proxy = server.URL
	return f
}

// between is the network: it doubles batches, sends old ones again, loses answers.
func (f *fire) between(control string) http.Handler {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(1, 9))
	type sent struct {
		header http.Header
		body   []byte
	}
	var old []sent
	client := &http.Client{Timeout: 15 * time.Second}
	post := func(s sent) (int, []byte) {
		req, err := http.NewRequest(http.MethodPost, control+"/api/v1/events", bytes.NewReader(s.body))
		if err != nil {
			return http.StatusBadGateway, nil
		}
		req.Header = s.header.Clone()
		res, err := client.Do(req)
		if err != nil {
			return http.StatusBadGateway, nil
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return http.StatusBadGateway, nil
		}
		return res.StatusCode, body
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s := sent{r.Header.Clone(), body}
		mu.Lock()
		dice := rnd.IntN(100)
		var again []sent
		if dice < 25 && len(old) > 0 {
			again = append(again, old[rnd.IntN(len(old))])
		}
		if len(old) < 200 {
			old = append(old, s)
		} else {
			old[rnd.IntN(len(old))] = s
		}
		mu.Unlock()
		select {
		case <-f.calm:
			dice = 100
		default:
		}
		switch {
		case dice < 5: // lost on the way there
			w.WriteHeader(http.StatusBadGateway)
			return
		case dice < 20: // doubled, at the same time
			var group sync.WaitGroup
			group.Go(func() { post(s) })
			defer group.Wait()
		case dice < 25:
			defer func() {
				for _, o := range again {
					post(o)
				}
			}()
		}
		status, answer := post(s)
		if dice >= 90 && dice < 100 { // the answer is lost
			status, answer = http.StatusBadGateway, nil
		}
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	})
}

// start begins a life of g where the last one ended.
func (f *fire) start(g *fireGateway, rate int64) {
	f.t.Helper()
	begun, _ := f.truth(g)
	from := int64(0)
	for i := range begun {
		from = max(from, i+1)
	}
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestFireGatewayProcess$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), "BREAKWATER_FIRE_DIR="+g.dir, "BREAKWATER_FIRE_NAME="+g.name, "BREAKWATER_FIRE_CONTROL="+f.proxy,
		fmt.Sprintf("BREAKWATER_FIRE_FROM=%d", from), fmt.Sprintf("BREAKWATER_FIRE_UNTIL=%d", g.until), fmt.Sprintf("BREAKWATER_FIRE_RATE=%d", rate),
		fmt.Sprintf("BREAKWATER_FIRE_BYTES=%d", g.bytes), "BREAKWATER_FIRE_TOKEN="+f.token)
	logs, err := os.OpenFile(filepath.Join(f.dir, g.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer logs.Close()
	cmd.Stdout, cmd.Stderr = logs, logs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	g.cmd = cmd
}

func (g *fireGateway) kill() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait() // says it was killed
		g.cmd = nil
		g.kills++
	}
}

// truth reads what g was about to record, and what it had recorded.
func (f *fire) truth(g *fireGateway) (begun, done map[int64]bool) {
	f.t.Helper()
	begun, done = map[int64]bool{}, map[int64]bool{}
	file, err := os.Open(filepath.Join(g.dir, "truth"))
	if os.IsNotExist(err) {
		return begun, done
	}
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text := lines.Text()
		if text == "" {
			continue
		}
		i, err := strconv.ParseInt(text[1:], 10, 64)
		if err != nil {
			f.t.Fatalf("truth of %s: %q", g.name, text)
		}
		if text[0] == 'd' {
			done[i] = true
		} else {
			begun[i] = true
		}
	}
	return begun, done
}

// fireKey is what exchanges are counted by.
type fireKey struct{ route, class string }

func (f *fire) counted(service string) map[fireKey]int64 {
	f.t.Helper()
	rows, err := f.db.Query(context.Background(), `select route, sum(good)::bigint, sum(bad)::bigint, sum(neutral)::bigint, sum(exchanges)::bigint
		from rollup_minute where service = $1 group by route`, service)
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	out := map[fireKey]int64{}
	for rows.Next() {
		var route string
		var good, bad, neutral, all int64
		if err := rows.Scan(&route, &good, &bad, &neutral, &all); err != nil {
			f.t.Fatal(err)
		}
		if good+bad+neutral != all {
			f.t.Errorf("%s %s: %d + %d + %d exchanges of %d", service, route, good, bad, neutral, all)
		}
		for class, n := range map[string]int64{"good": good, "bad": bad, "neutral": neutral} {
			if n > 0 {
				out[fireKey{route, class}] = n
			}
		}
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	return out
}

// logged reads the log that g left on its disk: each id once, and its class.
func (f *fire) logged(g *fireGateway) (ids map[string]bool, classes map[fireKey]int64) {
	f.t.Helper()
	ids, classes = map[string]bool{}, map[fireKey]int64{}
	segments, err := filepath.Glob(filepath.Join(g.dir, "spool", "*", "*.log"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, path := range segments {
		file, err := os.Open(path)
		if err != nil {
			f.t.Fatal(err)
		}
		_, _, err = retrylog.Scan(file, func(r retrylog.Record) error {
			if x := r.Exchange; x != nil {
				if ids[x.RequestID] {
					f.t.Errorf("%s stands twice in the log", x.RequestID)
				}
				ids[x.RequestID] = true
				classes[fireKey{x.Route, className(ingest.Classify(x))}] += x.Count
			}
			return nil
		})
		_ = file.Close()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return ids, classes
}
