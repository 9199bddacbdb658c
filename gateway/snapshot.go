package gateway

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/route"
)

// snapshot is a configuration, compiled. It never changes; requests under way
// keep the one they began with.
type snapshot struct {
	cfg       config.Config
	name, env string
	table     *route.Table
	routes    []compiled
	listening front.Listening
	effective []byte // the configuration as JSON
	appliedAt time.Time
}

type compiled struct {
	route   config.Route
	service exchange.Service
}

// build compiles cfg; it changes nothing that serves.
func (g *Gateway) build(cfg config.Config) (*snapshot, error) {
	table, err := route.Compile(cfg.Matches())
	if err != nil {
		return nil, fmt.Errorf("compile routes: %w", err)
	}
	effective, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	for _, r := range cfg.Routes {
		for _, name := range cfg.Targets(r) {
			if _, ok := cfg.Upstream(name); !ok {
				return nil, fmt.Errorf("route %s: no upstream is called %q", r.Name, name)
			}
		}
	}
	s := &snapshot{
		cfg: cfg, name: g.cfg.Name, env: g.cfg.Env,
		table: table, effective: effective, appliedAt: time.Now().UTC(),
	}
	if s.name == "" {
		s.name = cfg.Gateway.Name
	}
	if s.env == "" {
		s.env = cfg.Gateway.Env
	}
	if s.listening, err = listening(cfg.Gateway); err != nil {
		return nil, err
	}
	if err := g.state.secure(cfg.Pools()); err != nil {
		return nil, err
	}
	g.deals.begin(cfg.Contracts)
	for _, r := range cfg.Routes {
		service, err := g.stack(s, r)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Name, err)
		}
		s.routes = append(s.routes, compiled{r, service})
	}
	return s, nil
}

// service is the document of a service, or an empty one.
func (s *snapshot) service(name string) config.Service {
	for _, sv := range s.cfg.Services {
		if sv.Name == name {
			return sv
		}
	}
	return config.Service{Name: name}
}

// find finds the route of x. A method that chi's tree does not know is taken by
// routes that name no methods.
func (s *snapshot) find(x *exchange.Exchange) (int, route.Verdict) {
	q := &x.Request
	i, verdict := s.table.Find(q, s.facts(x))
	if verdict == route.Found || slices.Contains(route.Methods(), q.Method) {
		return i, verdict
	}
	method := q.Method
	q.Method = "GET"
	i, verdict = s.table.Find(q, s.facts(x))
	q.Method = method
	if verdict == route.Found && len(s.routes[i].route.Match.Methods) > 0 {
		return -1, route.NotAllowed
	}
	return i, verdict
}

func (s *snapshot) allowed(x *exchange.Exchange) string {
	return strings.Join(s.table.Allowed(&x.Request, s.facts(x)), ", ")
}

// facts are read off x alone, so that a request that is routed twice comes to
// the same route.
func (s *snapshot) facts(x *exchange.Exchange) route.Facts {
	f := route.Facts{Now: x.Event.Start}
	if s.table.AsksCaller() {
		f.Caller = s.caller(&x.Request)
	}
	return f
}

// caller is whom the request says it comes from.
func (s *snapshot) caller(q *exchange.Request) string {
	if header := s.cfg.Gateway.CallerHeader; header != "" {
		return label(q.Head.Get(header))
	}
	return ""
}

// registry is the state of policies: what outlives a snapshot, by the identity
// of what it belongs to and by what shapes it.
type registry struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	timed func() bool // wire.Config.Timed

	mu      sync.Mutex
	pools   map[string]*balance.Pool
	retries map[string]*retry.State
	wires   map[wireKey]transport
	secured map[string]secured // by upstream, as the last build read it
}

type wireKey struct {
	upstream, protocol string
	connect, head      time.Duration
	secure             string // print of its TLS
}

// keyOf is called with the lock held.
func (r *registry) keyOf(up config.Upstream) wireKey {
	return wireKey{up.Name, up.Protocol, up.ConnectTimeout, up.HeaderTimeout, r.secured[up.Name].print}
}

func newRegistry(dial func(ctx context.Context, network, address string) (net.Conn, error), timed func() bool) *registry {
	return &registry{
		dial: dial, timed: timed,
		pools: map[string]*balance.Pool{}, retries: map[string]*retry.State{}, wires: map[wireKey]transport{}, secured: map[string]secured{},
	}
}

func (r *registry) pool(upstream string) *balance.Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools[upstream] == nil {
		r.pools[upstream] = balance.NewPool()
	}
	return r.pools[upstream]
}

// retry returns the state of retries to up. It takes a changed budget over when the
// snapshot that says so serves.
func (r *registry) retry(up config.Upstream) *retry.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retries[up.Name] == nil {
		r.retries[up.Name] = retry.NewState(up.Budget())
	}
	return r.retries[up.Name]
}

// wire returns the transport of up, whose TLS secure has read.
func (r *registry) wire(up config.Upstream) transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.keyOf(up)
	if r.wires[key] == nil {
		r.wires[key] = r.open(up, r.secured[up.Name].cfg)
	}
	return r.wires[key]
}

// keep forgets what s does not name. Requests of an older snapshot may still use
// it: a closed wire pool goes on dialing and keeps no connection.
func (r *registry) keep(s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	named := map[string]bool{}
	shaped := map[wireKey]bool{}
	for _, up := range s.cfg.Pools() {
		named[up.Name] = true
		shaped[r.keyOf(up)] = true
		if pool := r.pools[up.Name]; pool != nil {
			pool.Keep(addresses(up))
		}
		if own := r.retries[up.Name]; own != nil {
			own.Budget.Reconfigure(up.Budget())
		}
	}
	for name := range r.pools {
		if !named[name] {
			delete(r.pools, name)
			delete(r.retries, name)
		}
	}
	for key, w := range r.wires {
		if !shaped[key] {
			w.Close()
			delete(r.wires, key)
		}
	}
}

func addresses(up config.Upstream) []string {
	list := make([]string, len(up.Endpoints))
	for i, e := range up.Endpoints {
		list[i] = e.Address
	}
	return list
}

func (r *registry) tick(now time.Time) {
	for _, w := range r.allWires() {
		w.Tick(now)
	}
}

func (r *registry) close() {
	for _, w := range r.allWires() {
		w.Close()
	}
}

func (r *registry) allWires() (all []transport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.wires {
		all = append(all, w)
	}
	return all
}

// newRand draws from [0, 1), from all goroutines without a lock (splitmix64).
func newRand() func() float64 {
	var seed [8]byte
	_, _ = crand.Read(seed[:]) // never fails (crypto/rand)
	state := new(atomic.Uint64)
	state.Store(binary.LittleEndian.Uint64(seed[:]))
	return func() float64 {
		z := state.Add(0x9E3779B97F4A7C15)
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		return float64((z^z>>31)>>11) / (1 << 53)
	}
}
