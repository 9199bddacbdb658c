package gateway

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/policy/shed"
	"breakwater/gateway/quota"
	"breakwater/internal/retrylog"
)

// policies are the states of what protects: breakers, limits, kept answers. They
// outlive snapshots, by the name of what they belong to. A build makes what is
// missing; what is there takes a new configuration over when that serves.
type policies struct {
	g *Gateway

	mu       sync.Mutex
	services map[string]*guards
	gates    map[gateKey]*breaker.Breaker
	groups   map[string]*concurrency.Group // by upstream
	limiters map[string]*limiter.Limiter   // by route
	kept     map[string]*fallback.Store    // by route
	quotas   map[string]*limiter.Shared
	stores   map[config.QuotaStore]*quota.Store
	holds    holdings
}

// guards are the states that all routes of a service share.
type guards struct {
	breaker *breaker.Breaker
	limit   *concurrency.Limit
	shed    *shed.Shedder
}

type gateKey struct{ upstream, address string }

func newPolicies(g *Gateway) *policies {
	return &policies{
		g: g, services: map[string]*guards{}, gates: map[gateKey]*breaker.Breaker{}, groups: map[string]*concurrency.Group{},
		limiters: map[string]*limiter.Limiter{}, kept: map[string]*fallback.Store{},
		quotas: map[string]*limiter.Shared{}, stores: map[config.QuotaStore]*quota.Store{},
	}
}

// service returns the guards of the service that s describes, or that routes name.
func (p *policies) service(s config.Service) *guards {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.services[s.Name]; own != nil {
		return own
	}
	now := time.Now()
	told := func(t retrylog.Transition) {
		t.Service = s.Name
		p.g.changed(t)
	}
	own := &guards{
		breaker: breaker.New(s.BreakerConfig(), breaker.Deps{Changed: told}, now),
		limit:   concurrency.New(s.Concurrency, now, concurrency.Deps{Changed: told}),
	}
	own.shed = shed.New(s.Shed, now, shed.Deps{Changed: told, Pressure: own.limit.Load})
	p.services[s.Name] = own
	return own
}

// endpoints returns what stands before the endpoints of up: a breaker each, and a
// limit each.
func (p *policies) endpoints(up config.Upstream, pool *balance.Pool) func(address string) []balance.Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := func(t retrylog.Transition) {
		t.Upstream = up.Name
		p.g.changed(t)
	}
	now := time.Now()
	if p.groups[up.Name] == nil {
		p.groups[up.Name] = concurrency.NewGroup(up.Concurrency, told)
	}
	group := p.groups[up.Name]
	for _, address := range addresses(up) {
		key := gateKey{up.Name, address}
		if p.gates[key] == nil {
			p.gates[key] = breaker.New(up.BreakerConfig(), breaker.Deps{
				Endpoint: address, Changed: told,
				Hold: func() bool { return pool.Hold(address, time.Now()) },
				Free: func() { pool.Free(address) },
			}, now)
		}
	}
	return func(address string) (gates []balance.Gate) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !up.BreakerConfig().Disabled {
			gates = append(gates, breakerGate{breaker.Gate{Breaker: p.gates[gateKey{up.Name, address}]}})
		}
		if up.Concurrency.Enabled() {
			gates = append(gates, limitGate{group.Limit(address, now), up.Concurrency.Observe})
		}
		return gates
	}
}

func (p *policies) limiter(r config.Route) *limiter.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limiters[r.Name] == nil {
		p.limiters[r.Name] = limiter.New(r.Limit, time.Now())
	}
	return p.limiters[r.Name]
}

// answers returns where the last good answers of r are kept.
func (p *policies) answers(r config.Route) *fallback.Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Degrade.Action != fallback.LastGood {
		return nil
	}
	if p.kept[r.Name] == nil {
		p.kept[r.Name] = fallback.NewStore(r.Degrade.Keep, time.Now())
	}
	return p.kept[r.Name]
}

// shared returns the quota called name, or nil for "".
func (p *policies) shared(cfg config.Config, name string) (*limiter.Shared, error) {
	if name == "" {
		return nil, nil
	}
	q, ok := cfg.Quota(name)
	if !ok {
		return nil, fmt.Errorf("no quota is called %q", name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	store, err := p.store(q.Store)
	if err != nil {
		return nil, fmt.Errorf("quota %s: %w", name, err)
	}
	if p.quotas[name] == nil {
		p.quotas[name] = limiter.NewShared(q.QuotaConfig, store.Quota(q.Rate), func(t retrylog.Transition) {
			t.Upstream = name
			p.g.changed(t)
		}, time.Now())
	}
	return p.quotas[name], nil
}

// store returns the Redis of s, dialed when it is first asked. The lock is held.
func (p *policies) store(s config.QuotaStore) (*quota.Store, error) {
	if own := p.stores[s]; own != nil {
		return own, nil
	}
	cfg := quota.Config{URL: s.URL, Username: s.Username}
	if !strings.HasPrefix(s.URL, "unix:") {
		cfg.Dial = p.g.cfg.Dial
	}
	if s.PasswordFile != "" {
		text, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read the password of the store: %w", err)
		}
		cfg.Password = strings.TrimRight(string(text), "\r\n")
	}
	own, err := quota.Open(cfg)
	if err != nil {
		return nil, err
	}
	p.stores[s] = own
	return own, nil
}

// keep has every state go by s, and forgets what s does not name.
func (p *policies) keep(s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	services := map[string]bool{}
	for _, sv := range s.cfg.AllServices() {
		services[sv.Name] = true
		if own := p.services[sv.Name]; own != nil {
			own.breaker.Reconfigure(sv.BreakerConfig(), now)
			p.foretell(sv.Name, own.breaker, now)
			own.limit.Reconfigure(sv.Concurrency, now)
			own.shed.Reconfigure(sv.Shed)
		}
	}
	forget(p.services, services)
	p.keepEndpoints(s, now)
	p.keepRoutes(s, now)
	p.holds.keep(s)
}

// foretell warns of a breaker that the traffic of now could never trip: it
// protects nobody. Without traffic nothing is known.
func (p *policies) foretell(service string, b *breaker.Breaker, now time.Time) {
	rate := b.Stats(now).RateMilli
	if rate == 0 || b.Config().Disabled {
		return
	}
	if f := breaker.Feasible(b.Config(), rate); !f.CanTrip {
		p.g.log.Warn("breaker can never trip", "service", service, "calls_per_second", float64(rate)/1000, "why", f.Why)
	}
}

func (p *policies) keepEndpoints(s *snapshot, now time.Time) {
	gates, groups := map[gateKey]bool{}, map[string]bool{}
	for _, up := range s.cfg.Pools() {
		groups[up.Name] = true
		if group := p.groups[up.Name]; group != nil {
			group.Reconfigure(up.Concurrency, now)
			group.Keep(addresses(up))
		}
		for _, address := range addresses(up) {
			key := gateKey{up.Name, address}
			gates[key] = true
			if own := p.gates[key]; own != nil {
				own.Reconfigure(up.BreakerConfig(), now)
			}
		}
	}
	forget(p.groups, groups)
	forget(p.gates, gates)
}

func (p *policies) keepRoutes(s *snapshot, now time.Time) {
	routes, kept := map[string]bool{}, map[string]bool{}
	for _, r := range s.cfg.Routes {
		routes[r.Name] = true
		kept[r.Name] = r.Degrade.Action == fallback.LastGood
		if own := p.limiters[r.Name]; own != nil {
			own.Reconfigure(r.Limit, now)
		}
		if own := p.kept[r.Name]; own != nil {
			own.Reconfigure(r.Degrade.Keep)
		}
	}
	forget(p.limiters, routes)
	forget(p.kept, kept)
	quotas, stores := map[string]bool{}, map[config.QuotaStore]bool{}
	for _, q := range s.cfg.Quotas {
		quotas[q.Name] = true
		if own := p.quotas[q.Name]; own != nil {
			if store := p.stores[q.Store]; store != nil {
				own.Reconfigure(q.QuotaConfig, store.Quota(q.Rate), now)
				stores[q.Store] = true
			}
		}
	}
	forget(p.quotas, quotas)
	for key, store := range p.stores {
		if !stores[key] {
			_ = store.Close() // nothing waits for it any more
			delete(p.stores, key)
		}
	}
}

func forget[K comparable, V any](m map[K]V, named map[K]bool) {
	for key := range m {
		if !named[key] {
			delete(m, key)
		}
	}
}

// tick forgets buckets that are as good as new.
func (p *policies) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.limiters {
		l.Tick(now)
	}
	for _, s := range p.quotas {
		s.Tick(now)
	}
}

func (p *policies) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, store := range p.stores {
		_ = store.Close() // the gateway stops
	}
}
