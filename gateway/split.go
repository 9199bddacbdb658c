package gateway

import (
	"slices"
	"strings"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/route"
	"breakwater/internal/retrylog"
)

// split sends each request into one branch. The choice is made above retry, and
// from the request alone, so that all tries of it stay in their branch.
type split struct {
	route    string
	weights  route.Weights
	sticky   bool
	names    []string
	branches []exchange.Service
}

// Serve implements exchange.Service.
func (p *split) Serve(x *exchange.Exchange) error {
	key := x.Event.RequestID
	if p.sticky && x.Event.Caller != "" {
		key = x.Event.Caller
	}
	i := p.weights.Pick(route.Hash(p.route, key))
	x.Event.Upstream = p.names[i]
	return p.branches[i].Serve(x)
}

// branches is where the requests of r go, retries and all.
func (g *Gateway) branches(s *snapshot, r config.Route) (exchange.Service, error) {
	ups, weights, err := s.cfg.Branches(r)
	if err != nil {
		return nil, err
	}
	p := &split{route: r.Name, weights: weights, sticky: r.Sticky}
	tries := make([]exchange.Service, len(ups))
	hosts := make([]untried, len(ups))
	for i, up := range ups {
		tries[i], hosts[i] = g.tries(r, up), g.hosts(up)
	}
	heaviest := weights.Heaviest()
	for i, up := range ups {
		service, others, state := tries[i], hosts[i], g.state.retry(up)
		if r.EscapeSplit && i != heaviest {
			service, others = escape(tries[i], tries[heaviest]), hosts[heaviest]
		}
		fallback := r.Retry.Fallback
		if r.Retry.Replaces() {
			fallback = retry.Return503
		}
		p.names = append(p.names, up.Name)
		// Outside balance: every try is judged, budgeted and placed anew.
		p.branches = append(p.branches, retry.Layer(r.Retry, retry.Deps{
			Upstream: up.Name, OtherHost: others.any, Budget: state.Budget, Kind: up.Budget().Kind, Rates: rates(s, up, state),
			Log: g.cfg.Lines, Rand: g.cfg.Rand,
		})(upstreamCode(fallback)(service)))
	}
	if len(p.branches) == 1 {
		return p.branches[0], nil
	}
	return p, nil
}

// rates are what the error-rate gates of all routes to up go by: the first tries of
// every one of them count. Without a gate nobody counts.
func rates(s *snapshot, up config.Upstream, state *retry.State) *retry.Rates {
	name, _, _ := strings.Cut(up.Name, "/") // a subset has a state of its own
	for _, r := range s.cfg.Routes {
		if r.Retry.Gate.MaxPPM > 0 && slices.Contains(s.cfg.Targets(r), name) {
			return state.Rates
		}
	}
	return nil
}

// untried are the endpoints that a retry may go to.
type untried []*balance.Endpoint

func (g *Gateway) hosts(up config.Upstream) untried {
	return g.state.pool(up.Name).Endpoints(balance.Config{Endpoints: addresses(up)}, time.Now())
}

// any reports whether one of them is ready that none of tries went to. A retry that
// has such a one needs no pause; after a failure to connect it needs such a one.
func (u untried) any(tries []retrylog.Try, now time.Time) bool {
	return slices.ContainsFunc(u, func(e *balance.Endpoint) bool {
		return e.State(now) == balance.Ready && !slices.ContainsFunc(tries, func(t retrylog.Try) bool { return t.Endpoint == e.Address })
	})
}

// escape sends the first try home and every further one to the refuge: a client
// whose lot was the failing canary is not held to it.
func escape(home, refuge exchange.Service) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		if len(x.Event.Tries) == 0 {
			return home.Serve(x)
		}
		return refuge.Serve(x)
	})
}
