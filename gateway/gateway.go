// Package gateway is the data plane: it compiles documents into a snapshot of
// routes and stacks, swaps it whole, serves requests by it, and records every
// one of them.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/route"
	"breakwater/internal/retrylog"

	"github.com/prometheus/client_golang/prometheus"
)

// Config of a Gateway: what documents do not say.
type Config struct {
	// Name and Env stand in every record; "" takes what the first documents say.
	Name, Env string
	// Recorder takes the records; nil: they are only counted.
	Recorder Recorder
	// Lines takes the retry decisions as they are made; nil: nobody reads them.
	Lines retry.Log
	// Faults is armed by whoever follows the plan; nil: an empty table.
	Faults *fault.Table
	// Switch is the kill switch behind POST /faults/halt; nil: Faults itself.
	Switch Switch
	// Limits of requests; zero fields take the standard ones.
	Limits front.Limits
	// Dial opens connections to upstreams; nil: a net.Dialer that refuses addresses
	// no upstream can have.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Rand draws from [0, 1) and is safe for concurrent use; nil: seeded anew.
	Rand func() float64
	// Metrics is where all metrics are registered; nil: a registry of its own.
	Metrics *prometheus.Registry
	// Stats adds parts to /stats by name.
	Stats map[string]func() any
	Log   *slog.Logger // nil: slog.Default
}

// Switch ends every fault at once, and allows new ones again.
type Switch interface {
	Halt(reason string)
	Resume() error
}

// Gateway serves by the last configuration that was good. It is safe for
// concurrent use.
type Gateway struct {
	cfg      Config
	log      *slog.Logger
	metrics  *metrics
	state    *registry
	policies *policies
	measures *measures
	probes   *prober
	mirrors  *mirrors
	traces   *traces
	headers  *headers
	deals    *contracts
	// substitutes are answers that stand in for an upstream and do not say so.
	substitutes *substitutes
	front       *front.Front
	now         atomic.Pointer[snapshot]
	tallies     tallies
	draining    atomic.Bool

	mu      sync.Mutex // of Apply and Refused
	lastErr string
	errAt   time.Time
}

// New returns a gateway that answers 503 until Apply.
func New(cfg Config) *Gateway {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Recorder == nil {
		cfg.Recorder = nowhere{}
	}
	if cfg.Rand == nil {
		cfg.Rand = newRand()
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	if cfg.Faults == nil {
		cfg.Faults = fault.NewTable(fault.Caps{})
	}
	if cfg.Switch == nil {
		cfg.Switch = tableSwitch{cfg.Faults}
	}
	if cfg.Dial == nil {
		cfg.Dial = guarded(nil)
	}
	g := &Gateway{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Metrics), state: newRegistry(cfg.Dial, cfg.Faults.Delays), mirrors: newMirrors(cfg.Metrics), traces: newTraces(), headers: newHeaders(), deals: newContracts(), substitutes: newSubstitutes()}
	g.probes, g.policies, g.measures = newProber(g), newPolicies(g), newMeasures(g)
	g.tallies.init()
	g.front = front.New(front.Config{
		Service: exchange.Func(g.serve),
		Refuse:  g.refuse,
		Trusted: g.trusts,
		Listening: func() front.Listening {
			if s := g.now.Load(); s != nil {
				return s.listening
			}
			return front.Listening{}
		},
		Unparsed: g.unparsed,
		Timed:    cfg.Faults.Delays,
		Limits:   cfg.Limits,
		Log:      cfg.Log,
	})
	observeConnections(cfg.Metrics, g.front.Stats)
	cfg.Metrics.MustRegister(newPolicyMetrics(g))
	return g
}

// Apply makes cfg the configuration, or changes nothing and says why.
func (g *Gateway) Apply(cfg config.Config) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	next, err := g.build(cfg)
	if err != nil {
		g.failed(err)
		return err
	}
	// Nothing below can fail.
	g.cfg.Faults.SetCaps(cfg.Gateway.Caps)
	g.now.Store(next)
	g.state.keep(next)
	g.policies.keep(next)
	g.measures.settle(time.Now()) // services and routes that are new
	g.headers.apply(&next.cfg)
	g.substitutes.apply(&next.cfg)
	g.deals.applied()
	g.mirrors.keep(next)
	g.probes.applied()
	g.lastErr = ""
	g.metrics.applied(next)
	g.log.Info("configuration applied", "revision", cfg.Revision, "routes", len(cfg.Routes))
	g.cfg.Recorder.Record(&retrylog.Record{Config: &retrylog.Config{
		At: next.appliedAt, Gateway: next.name, Env: next.env,
		Revision: cfg.Revision, Hash: cfg.Hash, Effective: string(next.effective),
	}})
	return nil
}

// Refused notes that newer documents could not be read: what serves stays.
func (g *Gateway) Refused(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed(err)
}

func (g *Gateway) failed(err error) {
	g.lastErr, g.errAt = err.Error(), time.Now().UTC()
	g.metrics.refused()
	g.log.Error("configuration refused", "err", err)
	record := &retrylog.Config{At: g.errAt, Gateway: g.cfg.Name, Env: g.cfg.Env, Error: g.lastErr}
	if s := g.now.Load(); s != nil {
		record.Gateway, record.Env = s.name, s.env
		record.Revision, record.Hash = s.cfg.Revision, s.cfg.Hash
	}
	g.cfg.Recorder.Record(&retrylog.Record{Config: record})
}

// Handler is the data plane.
func (g *Gateway) Handler() http.Handler { return g.front }

// drainTime is how long requests under way may take when the gateway stops.
const drainTime = 30 * time.Second

// Serve serves the data plane on l until ctx ends, and then lets the requests
// under way come to their end.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, g.front.Server(), g.front.Listen(l), func() { g.draining.Store(true) }, g.front.Drain)
}

// ServeAdmin serves the admin port on l until ctx ends.
func (g *Gateway) ServeAdmin(ctx context.Context, l net.Listener) error {
	return serve(ctx, &http.Server{Handler: g.Admin(), ReadHeaderTimeout: 5 * time.Second}, l, func() {}, func(context.Context) {})
}

// serve calls stopping when ctx ends, and rest, with the time that is left, for
// what the server does not wait for.
func serve(ctx context.Context, s *http.Server, l net.Listener, stopping func(), rest func(context.Context)) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stopping()
	// ctx is over; the drain has a time of its own.
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := s.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close() // whoever is still there is cut, and recorded as cut
	}
	rest(drain)
	if served := <-ended; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	if err != nil {
		return fmt.Errorf("stop serving on %s: %w", l.Addr(), err)
	}
	return nil
}

// sweepEvery is how often what is idle is looked at.
const sweepEvery = 10 * time.Second

// Run keeps house until ctx ends, and then closes the idle connections.
func (g *Gateway) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	defer g.state.close()
	defer g.policies.close()
	var probing sync.WaitGroup
	probing.Go(func() { g.probes.run(ctx) })
	probing.Go(func() { g.measures.run(ctx) })
	defer probing.Wait()
	defer g.mirrors.close(func(string) bool { return true })
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			g.state.tick(now)
			g.policies.tick(now)
			g.headers.tick(g.notice)
			g.substitutes.tick(g.notice)
		}
	}
}

// serve pins the snapshot, finds the route, and hands x to its stack.
func (g *Gateway) serve(x *exchange.Exchange) error {
	s := g.now.Load()
	if s == nil {
		return g.refuse(x, &exchange.Refusal{Policy: "route", Reason: "no_configuration", Status: http.StatusServiceUnavailable, RetryAfter: time.Second})
	}
	i, verdict := s.find(x)
	switch verdict {
	case route.NotFound:
		return g.refuse(x, &exchange.Refusal{Policy: "route", Reason: "no_route", Status: http.StatusNotFound})
	case route.NotAllowed:
		err := g.refuse(x, &exchange.Refusal{Policy: "route", Reason: "method", Status: http.StatusMethodNotAllowed})
		if err == nil {
			x.Response.Head.Set("Allow", s.allowed(x))
		}
		return err
	}
	return s.routes[i].service.Serve(x)
}

// trusts reports whether peer's forwarded and control fields are believed.
func (g *Gateway) trusts(peer netip.Addr) bool {
	s := g.now.Load()
	return s != nil && slices.ContainsFunc(s.cfg.Gateway.TrustedPeers, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// refuse answers and records a request that came to no route.
func (g *Gateway) refuse(x *exchange.Exchange, why *exchange.Refusal) error {
	r := &recorded{g: g, route: config.Route{Name: unmatched}, observers: g.metrics.observers("", unmatched)}
	if s := g.now.Load(); s != nil {
		r.snapshot = s
	} else {
		r.snapshot = &snapshot{name: g.cfg.Name, env: g.cfg.Env}
	}
	r.next = exchange.Func(func(*exchange.Exchange) error { return why })
	return r.Serve(x)
}

// unparsed records a message that nobody but net/http has seen.
func (g *Gateway) unparsed(peer string, status int) {
	x := new(exchange.Exchange)
	x.Reset()
	x.Event.Start = time.Now()
	x.Request.Peer = peer
	_ = g.refuse(x, &exchange.Refusal{Policy: "ingress", Reason: "malformed", Status: status}) // the answer is out already
	x.Event.BodyComplete = true
	x.End(x.Event.Outcome)
}

// unmatched is the route of requests that came to none.
const unmatched = "unmatched"

// Revision names the configuration that serves: "" for none.
func (g *Gateway) Revision() (revision, hash string) {
	if s := g.now.Load(); s != nil {
		return s.cfg.Revision, s.cfg.Hash
	}
	return "", ""
}

type nowhere struct{}

func (nowhere) Begin()                  {}
func (nowhere) Record(*retrylog.Record) {}

type tableSwitch struct{ table *fault.Table }

func (s tableSwitch) Halt(string)   { s.table.Halt() }
func (s tableSwitch) Resume() error { s.table.Resume(); return nil }
