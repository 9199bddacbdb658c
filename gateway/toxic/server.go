package toxic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"breakwater/gateway/policy/fault"
)

// Switch is the gateway's say in what may be done; *fault.Table is one.
type Switch interface {
	Caps() fault.Caps
	// Stopped is closed once the kill switch is on, and another one when it is off.
	Stopped() <-chan struct{}
	Halted() bool
}

// Alarm wakes sleepers.
type Alarm interface {
	After(d time.Duration) (over <-chan struct{}, stop func())
}

// Config of a Server.
type Config struct {
	Switch Switch
	Alarm  Alarm // compulsory, as is Switch
	// Lease is how long toxics live without a word of a client: any request to the API
	// renews all of them, and whoever made them may be gone. 0: DefaultLease.
	Lease time.Duration
	// Dial opens connections to upstreams; nil: a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger // nil: slog.Default
}

// DefaultLease is long for a test between two calls, and short for a leftover.
const DefaultLease = 10 * time.Minute

// Server keeps proxies by name. It is safe for concurrent use.
type Server struct {
	cfg Config

	mu      sync.Mutex // of changes, one at a time
	proxies map[string]*proxy
	heard   time.Time // the last request of a client
}

// New returns a Server without proxies.
func New(cfg Config) *Server {
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Lease <= 0 {
		cfg.Lease = DefaultLease
	}
	return &Server{cfg: cfg, proxies: map[string]*proxy{}}
}

// tick is how often toxics are looked at that may have lived for too long.
const tick = 200 * time.Millisecond

// Serve serves the API on l until ctx ends, and then closes all proxies.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	api := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { s.guard(ctx) })
	running.Go(func() {
		<-ctx.Done()
		_ = api.Close() // nobody waits long for an answer here
	})
	err := api.Serve(l)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.proxies {
		p.disable()
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the toxiproxy API on %s: %w", l.Addr(), err)
	}
	return nil
}

// guard takes all toxics away when the kill switch is thrown, and each when it has
// lived as long as any fault may.
func (s *Server) guard(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		stopped := s.cfg.Switch.Stopped()
		if s.cfg.Switch.Halted() {
			stopped = nil // nothing can come while it is on
			s.clear(time.Time{})
		}
		select {
		case <-ctx.Done():
			return
		case <-stopped:
			s.clear(time.Time{})
			s.cfg.Log.Warn("toxics removed", "reason", "halted")
		case now := <-ticker.C:
			s.clear(now.Add(-s.cfg.Switch.Caps().MaxDuration))
			s.lapse(now)
		}
	}
}

// lapse takes all toxics away when no client has spoken for a lease.
func (s *Server) lapse(now time.Time) {
	s.mu.Lock()
	over := !s.heard.IsZero() && now.Sub(s.heard) >= s.cfg.Lease
	if over {
		s.heard = time.Time{}
	}
	s.mu.Unlock()
	if over {
		s.clear(time.Time{})
		s.cfg.Log.Warn("toxics removed", "reason", "no client has spoken", "lease_ms", s.cfg.Lease.Milliseconds())
	}
}

func (s *Server) clear(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.proxies {
		p.clear(before)
	}
}

// Handler is the API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]string{"version": "2.5.0", "server": "breakwater"})
	})
	for pattern, f := range map[string]func(*http.Request) (int, any, error){
		"GET /proxies": s.index, "POST /proxies": s.create, "POST /populate": s.populate, "POST /reset": s.reset,
		"GET /proxies/{proxy}": s.show, "POST /proxies/{proxy}": s.update, "PATCH /proxies/{proxy}": s.update, "DELETE /proxies/{proxy}": s.remove,
		"GET /proxies/{proxy}/toxics": s.toxics, "POST /proxies/{proxy}/toxics": s.addToxic,
		"GET /proxies/{proxy}/toxics/{toxic}": s.showToxic, "POST /proxies/{proxy}/toxics/{toxic}": s.updateToxic,
		"PATCH /proxies/{proxy}/toxics/{toxic}": s.updateToxic, "DELETE /proxies/{proxy}/toxics/{toxic}": s.removeToxic,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.heard = time.Now()
			status, v, err := f(r)
			if err != nil {
				m, ok := errors.AsType[*mistake](err)
				if !ok {
					m = &mistake{err.Error(), http.StatusInternalServerError}
				}
				if status, v = m.Status, any(m); r.URL.Path == "/populate" {
					v = populated{m, s.views(nil)}
				}
			}
			reply(w, status, v)
		})
	}
	// A page in somebody's browser must not open ports here.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.UserAgent(), "Mozilla/") || new(http.CrossOriginProtection).Check(r) != nil {
			reply(w, http.StatusForbidden, &mistake{"browsers are not served", http.StatusForbidden})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func reply(w http.ResponseWriter, status int, v any) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // to a client that may have gone
}

func (s *Server) views(which []*proxy) []view {
	out := []view{}
	for _, p := range which {
		out = append(out, p.view())
	}
	return out
}

func (s *Server) sorted() []*proxy {
	var out []*proxy
	for _, p := range s.proxies {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *proxy) int { return strings.Compare(a.name, b.name) })
	return out
}
