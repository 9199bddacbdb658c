package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/internal/store"
	"breakwater/migrations"
)

var (
	pagesServices = flag.Int("pages.services", 200, "services of BenchmarkPages")
	pagesRoutes   = flag.Int("pages.routes", 2, "routes of each of them, with a row a minute")
	pagesDays     = flag.Int("pages.days", 30, "days of history")
	pagesHours    = flag.Int("pages.hours", 0, "of how many of the last hours every service has minutes, and two services of all days; 0: all of all days")
	pagesRounds   = flag.Int("pages.rounds", 120, "how often each page is asked for")
	pagesDB       = flag.String("pages.db", "", "an empty database that is filled and left as it is, or one filled so before; empty: one of its own")
	pagesOnly     = flag.String("pages.only", "", "only pages whose address has this in it")
)

// watch counts the statements of whoever has a count in their context.
type watch struct{}

type countKey struct{}

func (watch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if n, ok := ctx.Value(countKey{}).(*questions); ok && !strings.HasPrefix(q.SQL, "begin") && q.SQL != "commit" && q.SQL != "rollback" {
		n.n.Add(1)
		n.last.Store(&q.SQL)
	}
	return ctx
}

func (watch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

type questions struct {
	n    atomic.Int64
	last atomic.Pointer[string]
}

// crowded is a control over the history of a crowd.
type crowded struct {
	c    *control
	db   *pgxpool.Pool
	url  string
	http *http.Client
	key  string // of an admin
	// statements and server time of the last request
	asked *questions
	took  time.Duration
}

// newCrowded fills a database and builds a control over it. Its engines rest; of live it
// runs as control does, with traffic coming in.
func newCrowded(t testing.TB, dsn string, size crowd, live bool) *crowded {
	t.Helper()
	cfg, err := store.Config(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = watch{}
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	dir := size.documents(t)
	w := &crowded{db: db}
	var full bool
	if err := db.QueryRow(t.Context(), `select exists (select from audit where actor = 'person-1')`).Scan(&full); err != nil {
		t.Fatal(err)
	}
	if !full {
		size.fill(t, db, store.New(db), dir)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w.c = &control{log: slog.New(slog.DiscardHandler), io: streams{err: io.Discard}, db: db, store: store.New(db), metrics: prometheus.NewRegistry(),
		set: settings{config: dir, env: "prod", stateDir: t.TempDir()}, opt: controlOptions{openLoopback: true}}
	if err := w.c.build(time.UTC, l); err != nil {
		t.Fatal(err)
	}
	routes := w.c.routes()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n := &questions{}
		w.asked = n
		began := time.Now()
		routes.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), countKey{}, n)))
		w.took = time.Since(began)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	w.http = &http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(w.http.CloseIdleConnections)
	if !live {
		now, err := w.c.store.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.c.importDocuments(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if err := w.c.slo.Tick(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		w.admin(t)
		return w
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 2)
	go func() { done <- w.c.run(ctx, l) }()
	go func() { done <- w.traffic(ctx, size) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("control ended with %v", err)
			}
		}
	})
	for w.c.slo.Health().LastAt.IsZero() {
		select {
		case err := <-done:
			t.Fatalf("control ended with %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	w.admin(t)
	return w
}

// admin makes the requests to come those of an admin.
func (w *crowded) admin(t testing.TB) {
	t.Helper()
	now := time.Now()
	secret, err := auth.Issue(t.Context(), w.c.store, auth.Token{Name: fmt.Sprintf("admin-%d", now.UnixNano()), Role: auth.Admin, CreatedBy: "test", CreatedAt: now})
	if err != nil {
		t.Fatal(err)
	}
	w.c.guard.Forget()
	w.key = secret
}

const liveSQL = `
with beat as (update gateway set until_at = clock_timestamp(), last_ack = clock_timestamp()), boots as (update gateway_boot set until_at = clock_timestamp()),
minutes as (insert into gateway_minute (env, gateway, at, covered_us, lost) select 'prod', 'gw-' || g, date_trunc('minute', clock_timestamp()), 60000000, 0 from generate_series(0, 2) as g on conflict do nothing)
insert into rollup_minute as m (service, env, route, upstream, experiment, at, good, bad, exchanges, attempts, hist)
select 'service-' || lpad(s::text, 3, '0'), 'prod', 'service-' || lpad(s::text, 3, '0') || '-r' || r, 'service-' || lpad(s::text, 3, '0'), '', date_trunc('minute', clock_timestamp()), 1, 0, 1, 1, '{20940}'
from generate_series(0, @services::int - 1) as s, generate_series(0, @routes::int - 1) as r
on conflict (service, env, route, upstream, experiment, at) do update set good = m.good + 1, exchanges = m.exchanges + 1, attempts = m.attempts + 1, hist = histogram_add(m.hist, excluded.hist), revision = m.revision + 1`

// traffic is what gateways report each second.
func (w *crowded) traffic(ctx context.Context, size crowd) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if _, err := w.db.Exec(ctx, liveSQL, pgx.StrictNamedArgs{"services": size.services, "routes": size.routes}); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// get asks for a page as a browser does, and returns what came over the wire.
func (w *crowded) get(t testing.TB, path string) (status, wire int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Authorization", "Bearer "+w.key)
	res, err := w.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := raw
	if res.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, len(raw), string(text)
}

// addresses of pages that need an id, or have more than one face; all others are asked
// for as they stand in the router.
func addresses() map[string][]string {
	const one = "service-001"
	return map[string][]string{
		"/":                      {"/", "/?view=table", "/?tv=1", "/?q=service-01", "/?format=csv"},
		"/services/{service}":    {"/services/" + one, "/services/" + one + "?r=30d", "/services/service-000?r=1d"},
		"/slos":                  {"/slos", "/slos?q=goal", "/slos?format=json"},
		"/slos/{id}":             {"/slos/" + one + "-availability", "/slos/" + one + "-availability?r=30d", "/slos/service-000-availability?r=7d", "/slos/" + one + "-availability?target=99.5&window=7d"},
		"/now":                   {"/now", "/now?service=" + one},
		"/gate":                  {"/gate", "/gate?all=1", "/gate?view=decisions", "/gate?view=overrides", "/gate?view=policy", "/gate?table=verdicts&format=csv"},
		"/gamedays":              {"/gamedays", "/gamedays?view=week", "/gamedays?view=list"},
		"/gamedays/{id}":         {"/gamedays/g-3"},
		"/gamedays/{id}/notes":   {"/gamedays/g-3/notes"},
		"/runs":                  {"/runs", "/runs?state=failed"},
		"/runs/{id}":             {"/runs/r-3"},
		"/findings":              {"/findings", "/findings?view=all"},
		"/findings/{key}":        {"/findings/x-4"},
		"/findings/{key}/close":  {"/findings/x-4/close"},
		"/findings/{key}/accept": {"/findings/x-4/accept"},
		"/alerts":                {"/alerts", "/alerts?view=all", "/alerts?view=silences", "/alerts?view=deliveries"},
		"/alerts/{id}":           {"/alerts/i-4"},
		"/alerts/{id}/ack":       {"/alerts/i-4/ack"},
		"/breakers":              {"/breakers", "/breakers?r=6h"},
		"/retries":               {"/retries", "/retries?r=6h", "/retries?service=" + one},
		"/requests":              {"/requests", "/requests?service=" + one, "/requests?r=24h&status=503", "/requests?r=7d&reason=retry_budget"},
		"/requests/{id}":         {"/requests/q-7"},
		"/simulator":             {"/simulator", "/simulator?view=compare", "/simulator?event=q-7"},
		"/find":                  {"/find", "/find?q=service-01"},
		"/readiness":             {"/readiness", "/readiness?all=1"},
		"/readiness/{service}":   {"/readiness/" + one},
		"/scenarios/{name}/plan": {"/scenarios/drill-1/plan"},
		"/admin/config/{number}": {"/admin/config/1"},
		"/scenarios/{name}":      {"/scenarios/drill-1"},
		"/scenarios/{name}/run":  {"/scenarios/drill-1/run"},
		"/experiments/new":       {"/experiments/new", "/experiments/new?from=drill-1"},
	}
}

// notPages are routes of people that show no page to whoever comes by loopback.
var notPages = []string{"/signin", "/signin/oidc", "/signin/callback", "/password", "/static/*", "/healthz", "/readyz", "/metrics"}

// pages are all pages there are: those of the router, so that a new one is not forgotten.
func (w *crowded) pages(t testing.TB) (out []string) {
	t.Helper()
	all, err := auth.Walk(w.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	known, seen := addresses(), map[string]bool{}
	for _, route := range all {
		if route.Method != http.MethodGet || strings.HasPrefix(route.Pattern, "/api/") || slices.Contains(notPages, route.Pattern) || seen[route.Pattern] {
			continue
		}
		seen[route.Pattern] = true
		paths, listed := known[route.Pattern]
		if !listed && strings.Contains(route.Pattern, "{") {
			t.Errorf("%s needs an address in addresses()", route.Pattern)
		}
		if !listed {
			paths = []string{route.Pattern}
		}
		for _, p := range paths {
			if strings.Contains(p, *pagesOnly) {
				out = append(out, p)
			}
		}
	}
	for pattern := range known {
		if !seen[pattern] {
			t.Errorf("there is no page %s any more", pattern)
		}
	}
	slices.Sort(out)
	return out
}

// BenchmarkPages prints, of every page, how long the server takes, with every other page
// asked for in between and traffic coming in.
func BenchmarkPages(b *testing.B) {
	dsn := *pagesDB
	if dsn == "" {
		dsn = pgtest.DSN(b)
	}
	began := time.Now()
	w := newCrowded(b, dsn, crowd{services: *pagesServices, routes: *pagesRoutes, days: *pagesDays, hours: *pagesHours, until: began.UTC().Truncate(time.Minute), much: 100}, true)
	b.Logf("%d services, %d days: ready after %v", *pagesServices, *pagesDays, time.Since(began).Round(time.Second))
	pages := w.pages(b)
	took, size, statements := map[string][]time.Duration{}, map[string]int{}, map[string]int64{}
	rnd := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		for round := range *pagesRounds + 3 {
			for _, i := range rnd.Perm(len(pages)) {
				p := pages[i]
				status, wire, body := w.get(b, p)
				if status >= 400 {
					b.Fatalf("%s: %d %.300s", p, status, body)
				}
				if round >= 3 {
					took[p] = append(took[p], w.took)
				}
				size[p], statements[p] = wire, w.asked.n.Load()
			}
		}
	}
	var out strings.Builder
	worst := time.Duration(0)
	slices.SortFunc(pages, func(x, y string) int { return int(quantile(took[y], 99) - quantile(took[x], 99)) })
	for _, p := range pages {
		fmt.Fprintf(&out, "%8.1f %8.1f %8.1f %7.1f %4d  %s\n", millis(quantile(took[p], 50)), millis(quantile(took[p], 99)), millis(slices.Max(took[p])), float64(size[p])/1024, statements[p], p)
		worst = max(worst, quantile(took[p], 99))
	}
	fmt.Printf("  P50 ms   P99 ms   max ms  KiB gz  SQL  page\n%s", out.String()) // a log would be cut
	b.ReportMetric(millis(worst), "worst-p99-ms")
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func quantile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}
