package gateway

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/fault"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin is the handler of the admin port.
func (g *Gateway) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", g.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.cfg.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, g.stats(time.Now())) })
	mux.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, g.debugConfig()) })
	mux.HandleFunc("POST /faults/halt", func(w http.ResponseWriter, r *http.Request) {
		g.cfg.Switch.Halt(r.URL.Query().Get("reason"))
		reply(w, http.StatusOK, map[string]bool{"halted": true})
	})
	mux.HandleFunc("POST /faults/resume", func(w http.ResponseWriter, _ *http.Request) {
		if err := g.cfg.Switch.Resume(); err != nil {
			reply(w, http.StatusConflict, map[string]any{"halted": true, "reason": err.Error()})
			return
		}
		reply(w, http.StatusOK, map[string]bool{"halted": false})
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// A page in somebody's browser must not throw switches here, neither by a
	// plain form nor under a name of its own that resolves to this machine.
	return localNames(new(http.CrossOriginProtection).Handler(mux))
}

// localNames refuses requests that reached a loopback address under a name that
// is not a local one: the way of DNS rebinding.
func localNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && at.IP.IsLoopback() && !isLocal(r.Host) {
			reply(w, http.StatusForbidden, problem{
				Type: "about:blank", Title: "Forbidden", Status: http.StatusForbidden, Detail: "The admin port answers to local names only.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (g *Gateway) readyz(w http.ResponseWriter, _ *http.Request) {
	switch {
	case g.now.Load() == nil:
		http.Error(w, "no configuration yet", http.StatusServiceUnavailable)
	case g.draining.Load():
		http.Error(w, "draining", http.StatusServiceUnavailable)
	default:
		_, _ = w.Write([]byte("ready\n"))
	}
}

// debugConfig is what serves, and why nothing newer does.
func (g *Gateway) debugConfig() any {
	type view struct {
		Revision    string          `json:"revision"`
		Hash        string          `json:"hash"`
		AppliedAt   *time.Time      `json:"applied_at"`
		LastError   string          `json:"last_error"`
		LastErrorAt *time.Time      `json:"last_error_at,omitempty"`
		Config      json.RawMessage `json:"config"`
	}
	var v view
	g.mu.Lock()
	if v.LastError = g.lastErr; v.LastError != "" {
		at := g.errAt
		v.LastErrorAt = &at
	}
	g.mu.Unlock()
	if s := g.now.Load(); s != nil {
		v.Revision, v.Hash, v.AppliedAt, v.Config = s.cfg.Revision, s.cfg.Hash, &s.appliedAt, s.effective
	}
	return v
}

type endpointStats struct {
	Address  string  `json:"address"`
	InFlight int64   `json:"in_flight"`
	CostMS   float64 `json:"cost_ms"` // of one more request: latency average times in flight plus one
	Idle     int     `json:"idle_connections"`
	// State is ready, ejected (by failures under traffic) or unhealthy (by probes).
	State     balance.State `json:"state"`
	Failures  int64         `json:"failures_in_a_row"`
	Ejections int64         `json:"ejections"`
	OutForMS  int64         `json:"ejected_for_ms,omitempty"` // still

	Breaker     *breakerStats     `json:"breaker,omitempty"`
	Concurrency *concurrencyStats `json:"concurrency,omitempty"`
}

func (g *Gateway) stats(now time.Time) any {
	out := map[string]any{}
	for name, part := range g.cfg.Stats {
		out[name] = part()
	}
	out["draining"] = g.draining.Load()
	out["connections"] = g.front.Stats()
	out["tallies"] = g.Tallies()
	out["mirrors"] = g.mirrors.stats()
	out["headers"], out["contracts"] = g.headers.stats(), g.deals.stats()
	out["substitutes"] = g.substitutes.stats()
	out["faults"] = faultStats(g.cfg.Faults, now)
	out["measures"] = g.measures.stats(now)
	s := g.now.Load()
	if s == nil {
		return out
	}
	out["revision"] = s.cfg.Revision
	upstreams := map[string]any{}
	for _, up := range s.cfg.Pools() {
		list := []endpointStats{}
		wires := g.state.wire(up)
		for _, e := range g.state.pool(up.Name).Stats(now) {
			stands, limits := g.policies.endpointStats(up.Name, e.Address, now)
			list = append(list, endpointStats{
				e.Address, e.InFlight, e.CostMS, wires.Idle(e.Address), e.State, e.Failures, e.Ejections, e.OutFor.Milliseconds(), stands, limits,
			})
		}
		slices.SortFunc(list, func(a, b endpointStats) int { return strings.Compare(a.Address, b.Address) })
		upstreams[up.Name] = map[string]any{
			"endpoints":    list,
			"hold":         g.policies.holds.upstream(up.Name).stats(now),
			"retries_left": g.state.retry(up).Budget.Left(now), "retry_budget": g.state.retry(up).Budget.Stats(now),
		}
	}
	out["upstreams"] = upstreams
	out["services"] = g.policies.servicesStats(now)
	out["routes"] = g.policies.routesStats(s)
	out["quotas"] = g.policies.quotasStats(s, now)
	return out
}

func faultStats(t *fault.Table, now time.Time) any {
	armed := t.Armed(now)
	if armed == nil {
		armed = []fault.State{}
	}
	seen := t.Tallies()
	if seen == nil {
		seen = []fault.Tally{}
	}
	return map[string]any{"armed": armed, "tallies": seen, "missed": t.Missed(), "asleep": t.Asleep()}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // to a client that may have gone
}
