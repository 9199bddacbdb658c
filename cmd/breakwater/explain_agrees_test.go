package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/explain"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

var (
	agreeSeed  = flag.Uint64("agree.seed", 0, "seed of TestExplainAgreesWithTheGateway; 0: a new one")
	agreePairs = flag.Int("agree.pairs", 10_000, "pairs of TestExplainAgreesWithTheGateway")
)

const (
	agreeRoutes  = 160
	agreeWorkers = 64
	agreeRounds  = 6 // after so many a pair is held against what came, however late
	// slack is how much later than planned an answer may come on a busy machine. A
	// pair whose decisions change within it is not drawn.
	slack = 120 * time.Millisecond
)

// TestExplainAgreesWithTheGateway holds the explainer against the real binary:
// for each generated policy and exchange the gateway's own event must tell the
// same tries, the same reasons, waits within the same bounds and the same end.
func TestExplainAgreesWithTheGateway(t *testing.T) {
	if slow(t) {
		return
	}
	seed := *agreeSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (-agree.seed)", seed)
	w := newAgreement(t, rand.New(rand.NewPCG(seed, 1)))
	pairs := w.draw(*agreePairs)
	w.warm()
	began := time.Now()
	again := pairs
	for round := 1; len(again) > 0; round++ {
		w.send(again)
		events := w.events(again)
		var late []*pair
		for _, p := range again {
			ev, ok := events[p.id]
			switch {
			case round < agreeRounds && (!ok || p.elsewhere(ev)): // the machine was slow: that was another exchange
				p.id += "x"
				late = append(late, p)
			case !ok:
				t.Errorf("no event of %s", p.id)
			default:
				w.compare(p, ev)
			}
		}
		t.Logf("round %d: %d exchanges, %d to be sent again, %s", round, len(again), len(late), time.Since(began).Round(time.Millisecond))
		again = late
	}
	t.Logf("%d pairs: %s", len(pairs), w.seen)
	w.seen.spread(t)
}

// agreement is a gateway over scripted upstreams.
type agreement struct {
	t      *testing.T
	rnd    *rand.Rand
	dir    string
	data   string
	client *http.Client
	routes []agreeRoute
	engine *explain.Engine
	seen   *census
}

// pair is one policy with one exchange.
type pair struct {
	id     string
	route  agreeRoute
	sample explain.Sample
	want   explain.Answer
	status int // the client was told
}

func newAgreement(t *testing.T, rnd *rand.Rand) *agreement {
	t.Helper()
	w := &agreement{t: t, rnd: rnd, dir: t.TempDir(), seen: &census{}}
	up := httptest.NewServer(http.HandlerFunc(scripted))
	t.Cleanup(up.Close)
	more := []*httptest.Server{up}
	for range 2 {
		s := httptest.NewServer(http.HandlerFunc(scripted))
		t.Cleanup(s.Close)
		more = append(more, s)
	}
	var docs strings.Builder
	docs.WriteString("apiVersion: breakwater/v1\nkind: Gateway\nname: agree\ntrusted_peers: [127.0.0.1]\n")
	// Breakers go by what others did: explain takes them to be closed.
	docs.WriteString("---\napiVersion: breakwater/v1\nkind: Service\nname: agree\nbreaker: {enabled: false}\n")
	address := func(i int) string { return more[i].Listener.Addr().String() }
	upstream := func(name, budget string, addresses ...string) {
		fmt.Fprintf(&docs, "---\napiVersion: breakwater/v1\nkind: Upstream\nname: %s\nretry_budget: %s\nbreaker: {enabled: false}\nendpoints:\n", name, budget)
		for _, a := range addresses {
			fmt.Fprintf(&docs, "  - {address: %q}\n", a)
		}
	}
	upstream("live1", "off", address(0))
	upstream("live3", "off", address(0), address(1), address(2))
	upstream("dead1", "off", closedPort(t))
	upstream("dead2", "off", closedPort(t), closedPort(t))
	upstream("broke", "{ratio: 0, min_per_second: 0}", address(0))
	upstream("sick", "off", address(1))
	for i := range agreeRoutes {
		r := drawRoute(rnd, i)
		w.routes = append(w.routes, r)
		docs.WriteString("---\n" + r.yaml)
	}
	path := filepath.Join(w.dir, "gw.yaml")
	write(t, path, docs.String())

	var log conf.Log
	cfg := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(docs.String())}}, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.engine, err = explain.New(cfg); err != nil {
		t.Fatal(err)
	}
	listeners := map[string]net.Listener{}
	for _, name := range []string{"data", "admin"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		listeners[name] = l
	}
	logs, err := os.Create(filepath.Join(w.dir, "gateway.log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, logs: logs, listeners: listeners, args: []string{"gateway", "--name", "agree", "--config", path,
		"--state-dir", filepath.Join(w.dir, "state"), "--env", "test",
		"--listen", listeners["data"].Addr().String(), "--admin", listeners["admin"].Addr().String()}}
	t.Cleanup(func() {
		p.kill()
		_ = logs.Close()
		if t.Failed() {
			t.Logf("last lines of the gateway:\n%s", tail(logs.Name()))
		}
	})
	p.start()
	if err := awaitOK(t.Context(), "http://"+listeners["admin"].Addr().String()+"/readyz"); err != nil {
		t.Fatal(err)
	}
	w.data = "http://" + listeners["data"].Addr().String()
	transport := &http.Transport{MaxIdleConnsPerHost: agreeWorkers, DisableCompression: true}
	w.client = &http.Client{Transport: transport, Timeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	return w
}

// closedPort is an address that refuses connections. It stays bound for as long
// as the test runs, so that nobody else can listen there.
func closedPort(t *testing.T) string {
	t.Helper()
	address, err := reserve(t)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// scripted answers as the request's script says for this try, whose number the
// gateway tells in Retry-Count.
func scripted(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	var script []explain.Reply
	if err := json.Unmarshal([]byte(r.Header.Get("X-Script")), &script); err != nil || len(script) == 0 {
		http.Error(w, "no script", http.StatusTeapot)
		return
	}
	count, _ := strconv.Atoi(r.Header.Get("Retry-Count"))       // absent: 0
	inbound, _ := strconv.Atoi(r.Header.Get("X-Inbound-Count")) // absent: 0
	reply := script[min(max(count-inbound, 0), len(script)-1)]
	switch reply.Failure {
	case "try_timeout":
		<-r.Context().Done()
		return
	case "reset_before_first_byte", "bad_response":
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		if reply.Failure == "bad_response" {
			_, _ = buf.WriteString("SOMETHING ELSE\r\n\r\n")
			_ = buf.Flush()
		}
		_ = conn.Close()
		return
	}
	if reply.LatencyMS > 0 {
		slow := time.NewTimer(time.Duration(reply.LatencyMS) * time.Millisecond)
		defer slow.Stop()
		select {
		case <-slow.C:
		case <-r.Context().Done():
			return
		}
	}
	for name, values := range reply.Headers {
		for _, v := range values {
			w.Header().Add(name, v)
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
	w.WriteHeader(reply.Status)
	_, _ = io.WriteString(w, reply.Body)
}

// warm makes the sick upstream fail often enough for error-rate gates to shut.
func (w *agreement) warm() {
	w.t.Helper()
	var pairs []*pair
	for _, r := range w.routes {
		if r.upstream != "sick" {
			continue
		}
		for i := range 10 {
			p := &pair{id: fmt.Sprintf("warm-%s-%d", r.name, i), route: r}
			p.sample = explain.Sample{Method: "POST", Path: r.path, Answers: []explain.Reply{{Status: 500}}}
			pairs = append(pairs, p)
		}
	}
	if len(pairs) < 40 {
		w.t.Fatalf("%d requests make no upstream sick: take another seed", len(pairs))
	}
	w.send(pairs)
}

func (w *agreement) send(pairs []*pair) {
	work := make(chan *pair)
	var wg sync.WaitGroup
	for range agreeWorkers {
		wg.Go(func() {
			for p := range work {
				w.one(p)
			}
		})
	}
	for _, p := range pairs {
		work <- p
	}
	close(work)
	wg.Wait()
}

func (w *agreement) one(p *pair) {
	s := &p.sample
	script, err := json.Marshal(s.Answers) // with the planned latencies, not with those of a slow machine
	if err != nil {
		w.t.Error(err)
		return
	}
	var body io.Reader
	if s.BodyBytes > 0 {
		body = strings.NewReader(strings.Repeat("b", int(s.BodyBytes)))
	}
	req, err := http.NewRequest(s.Method, w.data+s.Path, body)
	if err != nil {
		w.t.Error(err)
		return
	}
	for name, values := range s.Headers {
		req.Header[name] = values
	}
	req.Header.Set("X-Request-Id", p.id)
	req.Header.Set("X-Script", string(script))
	req.Header.Set("X-Inbound-Count", s.Headers.Get("Retry-Count"))
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Errorf("%s: %v", p.id, err)
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	p.status = res.StatusCode
}

// events reads the gateway's log until it has all of pairs.
func (w *agreement) events(pairs []*pair) map[string]*retrylog.Exchange {
	w.t.Helper()
	wanted := map[string]bool{}
	for _, p := range pairs {
		wanted[p.id] = true
	}
	out := map[string]*retrylog.Exchange{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(60 * time.Second); len(out) < len(wanted) && time.Now().Before(end); <-tick.C {
		err := filepath.WalkDir(filepath.Join(w.dir, "state", "spool"), func(path string, d fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || d.IsDir() || ext != ".open" && ext != ".log" {
				return nil // renamed at this moment: it is there the next time
			}
			file, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer file.Close()
			_, _, err = retrylog.Scan(file, func(r retrylog.Record) error {
				if r.Exchange != nil && wanted[r.Exchange.RequestID] {
					out[r.Exchange.RequestID] = r.Exchange
				}
				return nil
			})
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return out
}

// elsewhere reports whether some try ended in another way than the script says, or
// so much later that a rule about slowness may have seen it.
func (p *pair) elsewhere(ev *retrylog.Exchange) bool {
	for i := range min(len(p.want.Tries), len(ev.Tries)) {
		plan, was := p.want.Tries[i], ev.Tries[i]
		if plan.Status != was.Status || plan.Failure != was.Kind || was.LatencyUS/1000 > plan.LatencyMS+slack.Milliseconds() {
			return true
		}
	}
	return false
}

func (w *agreement) compare(p *pair, ev *retrylog.Exchange) {
	w.t.Helper()
	var wrong []string
	differ := func(what string, want, got any) {
		if want != got {
			wrong = append(wrong, fmt.Sprintf("%s: explain says %v, the gateway %v", what, want, got))
		}
	}
	a := &p.want
	differ("route", a.Route, ev.Route)
	differ("tries", len(a.Tries), len(ev.Tries))
	differ("status of the event", a.Status, ev.Status)
	differ("status of the client", a.Status, p.status)
	differ("first reason", a.Reason, ev.Reason)
	differ("skip_reason", a.Skip, ev.Skip)
	differ("degraded", a.Degraded, ev.Degraded)
	for i := range min(len(a.Tries), len(ev.Tries)) {
		plan, was := a.Tries[i], ev.Tries[i]
		at := func(what string) string { return fmt.Sprintf("try %d: %s", i, what) }
		differ(at("status"), plan.Status, was.Status)
		differ(at("failure"), plan.Failure, was.Kind)
		differ(at("decision_reason"), plan.Reason, was.Reason)
		differ(at("skip_reason"), plan.Skip, was.Skip)
		if was.WaitMS < plan.WaitMS[0] || was.WaitMS > plan.WaitMS[1] {
			differ(at("wait"), fmt.Sprint(plan.WaitMS), was.WaitMS)
		}
		w.seen.wait(p.route.jitter, i, plan.WaitMS, was.WaitMS)
	}
	w.seen.add(a)
	if len(wrong) > 0 {
		sample, _ := json.Marshal(p.sample)
		w.t.Errorf("%s:\n  %s\n%s\n%s", p.id, strings.Join(wrong, "\n  "), p.route.yaml, sample)
	}
}
