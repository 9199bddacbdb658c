package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"breakwater/internal/retrylog"
)

// The figure asks for a million requests: -reload-for 4m has them on two cores.
var reloadFor = flag.Duration("reload-for", 20*time.Second, "how long TestReliability_F5 reloads under load")

const (
	reloadPause = 100 * time.Millisecond // between two documents
	reloadMarks = 16                     // upstreams that tell revisions apart
	reloadConns = 4
)

// marked is one good document: its route bears its number, and its upstream has an
// endpoint that documents near to it do not have.
func marked(n int, marks []*httptest.Server, kept string) string {
	return fmt.Sprintf(`
apiVersion: breakwater/v1
kind: Upstream
name: mark
endpoints: [{address: %q}]
---
apiVersion: breakwater/v1
kind: Upstream
name: kept
endpoints: [{address: %q}]
---
apiVersion: breakwater/v1
kind: Route
name: revision-%d
service: order
core: true # so that each request has a line of its own
match: {path: "/orders/*"}
upstream: mark
timeout: 40s
retry: {enabled: true, max_retries: 2, per_try_timeout: 5000ms, retry_on_status: [502], backoff_base: 200ms, fallback_strategy: pass_through}
---
apiVersion: breakwater/v1
kind: Route
name: kept
service: kept
match: {path: "/kept/*"}
upstream: kept
timeout: 60m
`, marks[n%len(marks)].Listener.Addr(), kept, n)
}

// poisons are documents that must not serve; each is made of a good one.
func poisons() []func(good string) string {
	replace := func(old, new string) func(string) string {
		return func(good string) string { return strings.Replace(good, old, new, 1) }
	}
	return []func(string) string{
		func(good string) string { return good[:strings.Index(good, "per_try_timeout")] }, // half a file
		func(string) string { return "{" },
		replace("timeout: 40s", "timeout:"),
		replace("timeout: 40s", "tiemout: 20s"),
		replace("backoff_base: 200ms", "backoff_base: 5000ms"),
		replace("upstream: mark", "upstream: nobody"),
		replace("name: mark\nendpoints: [{address: \"127.0.0.1", "name: mark\nendpoints: [{address: \"169.254.169.254"),
		replace("kind: Route\nname: kept", "kind: Rout\nname: kept"),
	}
}

// TestReliability_F5: while its document is rewritten ten times a second, a quarter
// of them poisoned, a gateway loses no request, and each request is served by one
// configuration from its route to its line in the log, retries included. What the
// balancer knows of an upstream outlives all of them.
func TestReliability_F5(t *testing.T) {
	if slow(t) {
		return
	}
	w := &world{t: t, dir: t.TempDir(), url: map[string]string{}}
	marks := make([]*httptest.Server, reloadMarks)
	var slowly atomic.Int64
	for i := range marks {
		marks[i] = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			switch n := slowly.Add(1); {
			case n%1000 == 0:
				rw.WriteHeader(http.StatusBadGateway) // its retry comes after the next reload
				return
			case n%500 == 0:
				time.Sleep(2 * reloadPause) // its answer does
			}
			_, _ = fmt.Fprint(rw, marks[i].Listener.Addr())
		}))
		t.Cleanup(marks[i].Close)
	}
	release := make(chan struct{})
	kept := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/kept/failure" {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		<-release
	}))
	t.Cleanup(kept.Close)
	good := func(n int) string { return marked(n, marks, kept.Listener.Addr().String()) }

	file := filepath.Join(w.dir, "gw.yaml")
	write(t, file, good(0))
	w.gateway = w.alone("gateway", file, "data", "admin")

	// One failure and one request under way are what there is to be kept.
	if status, _ := w.request("GET", "data", "/kept/failure", "", nil); status != 500 {
		t.Fatalf("the failure is a %d", status)
	}
	held := make(chan error, 1)
	go func() {
		res, err := http.Get(w.url["data"] + "/kept/long")
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		held <- err
	}()
	w.await("a request is under way", 10*time.Second, func() bool { return w.keptStats().InFlight == 1 })
	first, since := w.keptStats(), time.Now()

	ctx, cancel := context.WithTimeout(t.Context(), *reloadFor)
	defer cancel()
	answers := make([]map[string]string, reloadConns)
	var load errgroup.Group
	for i := range answers {
		answers[i] = map[string]string{}
		load.Go(func() error { return closedLoop(ctx, w.url["data"], answers[i]) })
	}
	written, poisoned := 0, 0
	load.Go(func() error {
		rnd := rand.New(rand.NewPCG(5, 5))
		for tick := time.NewTicker(reloadPause); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C:
			}
			written++
			text := good(written)
			if rnd.IntN(4) == 0 {
				poisoned++
				text = poisons()[rnd.IntN(len(poisons()))](text)
			}
			write(t, file, text)
			if written%10 == 0 {
				now := w.keptStats()
				if now.InFlight != 1 || now.Failures != first.Failures || now.CostMS < 0.9*first.CostMS*decay(time.Since(since)) {
					return fmt.Errorf("after %d documents the balancer knows %+v, before them %+v", written, now, first)
				}
			}
		}
	})
	if err := load.Wait(); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-held; err != nil {
		t.Errorf("the request that outlived all reloads: %v", err)
	}
	w.gateway.stop()

	all := map[string]string{}
	for _, part := range answers {
		maps.Copy(all, part)
	}
	requests := len(all)
	seen := w.checkRevisions(all)
	t.Logf("%d requests; %d documents written, %d of them poisoned; %d applied, %d refused, %d tries by retries",
		requests, written, poisoned, seen.applied, seen.refused, seen.retries)
	// A gateway looks at its file twice a second.
	if least := int(reloadFor.Seconds()); seen.applied < least/2 || seen.refused < least/8 || seen.retries == 0 {
		t.Errorf("only %d documents were applied and %d refused, with %d retries", seen.applied, seen.refused, seen.retries)
	}
}

// closedLoop asks one after another until ctx ends, on one connection, and notes
// by request id who answered.
func closedLoop(ctx context.Context, base string, answers map[string]string) error {
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for ctx.Err() == nil {
		req, err := http.NewRequest("GET", base+"/orders/1", nil) // not ended with ctx: the last one counts too
		if err != nil {
			return err
		}
		res, err := tr.RoundTrip(req)
		if err != nil {
			return fmt.Errorf("after %d answers: %w", len(answers), err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != 200 {
			return fmt.Errorf("after %d answers: %d %s, %v", len(answers), res.StatusCode, body, err)
		}
		answers[res.Header.Get("X-Request-Id")] = string(body)
	}
	return nil
}

// decay is by what the balancer's averages fall in d, where nothing is observed.
func decay(d time.Duration) float64 { return math.Exp(-d.Seconds() / 10) }

type keptStats struct {
	InFlight int64   `json:"in_flight"`
	CostMS   float64 `json:"cost_ms"`
	Failures int64   `json:"failures_in_a_row"`
}

// keptStats is what the balancer knows of the upstream that all revisions have.
func (w *world) keptStats() keptStats {
	var stats struct {
		Upstreams struct {
			Kept struct {
				Endpoints []keptStats `json:"endpoints"`
			} `json:"kept"`
		} `json:"upstreams"`
	}
	if _, text := w.request("GET", "admin", "/stats", "", &stats); len(stats.Upstreams.Kept.Endpoints) != 1 {
		w.t.Errorf("/stats has not one endpoint: %s", text)
		return keptStats{}
	}
	return stats.Upstreams.Kept.Endpoints[0]
}

type revisionsSeen struct{ applied, refused, retries int }

// checkRevisions reads the log: each answer stands in it once, and its route, its
// revision, the endpoint of every try and the answer itself are of one document.
func (w *world) checkRevisions(answers map[string]string) (seen revisionsSeen) {
	w.t.Helper()
	type document struct{ route, endpoint string }
	documents := map[string]document{} // by revision
	var lines []retrylog.Exchange
	segments, err := filepath.Glob(filepath.Join(w.dir, "gateway-state", "spool", "*", "*.log"))
	if err != nil || len(segments) == 0 {
		w.t.Fatalf("no segments are left to be read: %v", err)
	}
	for _, path := range segments {
		file, err := os.Open(path)
		if err != nil {
			w.t.Fatal(err)
		}
		_, _, err = retrylog.Scan(file, func(r retrylog.Record) error {
			switch {
			case r.Exchange != nil && r.Exchange.Service == "order":
				lines = append(lines, *r.Exchange)
			case r.Config != nil && r.Config.Error != "":
				seen.refused++
			case r.Config != nil:
				seen.applied++
				var d document
				d.route, d.endpoint, err = markOf(r.Config.Effective)
				documents[r.Config.Revision] = d
				return err
			}
			return nil
		})
		_ = file.Close()
		if err != nil {
			w.t.Fatalf("%s: %v", path, err)
		}
	}
	for i := range lines {
		x := &lines[i]
		body, ok := answers[x.RequestID]
		delete(answers, x.RequestID)
		d := documents[x.Revision]
		if !ok || x.Count != 1 || d.route == "" || x.Route != d.route || body != d.endpoint || len(x.Tries) == 0 {
			w.t.Errorf("%+v was answered by %q (%v); its revision has %+v", *x, body, ok, d)
		}
		for _, try := range x.Tries {
			if try.Endpoint != d.endpoint {
				w.t.Errorf("%+v has a try at %s; its revision has %+v", *x, try.Endpoint, d)
			}
		}
		seen.retries += len(x.Tries) - 1
		if w.t.Failed() {
			break // one says it all
		}
	}
	for id := range answers {
		w.t.Errorf("answer %s, and %d more, stand not in the log", id, len(answers)-1)
		break
	}
	return seen
}

// markOf reads route and endpoint out of a configuration as the log has it.
func markOf(effective string) (route, endpoint string, err error) {
	var cfg struct {
		Routes    []struct{ Name, Service string }
		Upstreams []struct {
			Name      string
			Endpoints []struct{ Address string }
		}
	}
	if err := json.Unmarshal([]byte(effective), &cfg); err != nil {
		return "", "", err
	}
	for _, r := range cfg.Routes {
		if r.Service == "order" {
			route = r.Name
		}
	}
	for _, u := range cfg.Upstreams {
		if u.Name == "mark" && len(u.Endpoints) == 1 {
			endpoint = u.Endpoints[0].Address
		}
	}
	return route, endpoint, nil
}
