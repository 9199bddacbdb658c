package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/gateway/explain"
	"breakwater/injector/scenario"
	"breakwater/slo"
)

// Server renders the pages. It is safe for concurrent use.
type Server struct {
	cfg    Config
	assets *assets
	pages  *pages
	hub    *hub
	// What takes long to look back at.
	portions memo[[]slo.Portion]
	replays  memo[[]slo.Backtest]
	drills   memo[scenario.Scenario]
	retried  memo[tried]
	quarter  memo[[]readyTrend]
	watched  setupWatch
	engines  memo[*explain.Engine]
	changes  memo[[]explain.Change] // what was reported of two configurations changes no more
}

// New parses the templates and reads the assets; it fails only on a mistake in
// the binary itself.
func New(cfg Config) (*Server, error) {
	if cfg.Ledger == nil || cfg.Drills == nil || cfg.Gate == nil {
		return nil, fmt.Errorf("web needs a ledger, drills and a gate")
	}
	if err := cfg.whole(); err != nil {
		return nil, err
	}
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Env == "" {
		cfg.Env = "default"
	}
	if cfg.Actor == nil {
		cfg.Actor = func(*http.Request) string { return "web" }
	}
	if cfg.MayLift == nil {
		cfg.MayLift = func(*http.Request) bool { return false }
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 15 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	c, err := carry()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, assets: c.assets, pages: c.pages, hub: newHub(),
		portions: memo[[]slo.Portion]{keep: 30 * time.Second, most: 400}, replays: memo[[]slo.Backtest]{keep: time.Minute, most: 100},
		retried: memo[tried]{keep: triesKept, most: 50},
		quarter: memo[[]readyTrend]{keep: readyKept, most: 2}, drills: memo[scenario.Scenario]{keep: time.Hour, most: 1000}, engines: newEngines(), changes: memo[[]explain.Change]{keep: 10 * time.Minute, most: 20}}, nil
}

// Handler serves every page, the assets under /static/ and the stream.
func (s *Server) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(s.knownHost, secured, http.NewCrossOriginProtection().Handler)
	// The stream stands outside the compressor: it must leave at once.
	r.Method(http.MethodGet, "/api/v1/stream", s.Stream())
	r.Group(func(r chi.Router) {
		r.Use(compressed)
		r.Get("/", s.overview)
		s.moreRoutes(r)
		r.Get("/services/{service}", s.service)
		r.Get("/gamedays", s.gamedays)
		r.Get("/runs", s.runs)
		r.Get("/runs/{id}", s.run)
		r.Get("/gate", pageAgain(s.gate).plain)
		r.Get("/menu", s.menu)
		r.Post("/runs/{id}/abort", s.abort)
		r.Post("/halt", s.halt)
		r.Post("/halt/lift", s.lift)
		r.NotFound(s.notFound)
	})
	r.Method(http.MethodGet, "/static/*", s.assets)
	return r
}

// Run watches the ledger and the drills and tells open pages what changed. It
// returns nil when ctx ends, after telling every stream to end, so that a
// shutdown need not wait for open pages. Without it pages read but do not move.
// It is called once.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.hub.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.Tick(ctx)
		}
	}
}

// Changed tells open pages that a topic ("ledger" or "drills") has news; Tick
// finds out by itself, this only makes it sooner.
func (s *Server) Changed(topics ...string) { s.hub.announce(topics...) }
