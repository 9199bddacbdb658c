package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

// retryParts are what the parser knows of retries until all documents are read.
type retryParts struct {
	conditions     []conditions
	conditionNames names
	companion      *conditions // of the bare six-key file
	behind         []conf.Node // of each upstream: its retries_behind
	late           []func()    // what waits until all documents are read
	told           map[place]bool
}

// bare reads a document without a head, where one of the forms is meant that need
// none: the six keys, their conditions, a retryBudget.
func (p *parser) bare(root conf.Node) bool {
	keys := root.Map().Keys()
	has := func(key string) bool { return slices.Contains(keys, key) }
	switch {
	case slices.ContainsFunc(sixKeys(), has):
		p.barePonytail(root)
	case has("conditions"):
		p.bareConditions(root)
	case has("retryBudget"):
		p.bareBudget(root)
	default:
		return false
	}
	return true
}

// beforeSettling does what the policies of routes build on.
func (p *parser) beforeSettling() {
	p.conditionNames.what = "conditions"
	for _, do := range p.late {
		do()
	}
	if p.ponytail != nil && len(p.cfg.Routes) == 0 { // nobody settles it
		own := *p.ponytail
		p.applyConditions(&own, p.companion)
	}
}

// checkAmplification warns where retries of ours meet retries of others on the
// way: three tries of three tries each are nine calls.
func (p *parser) checkAmplification() {
	for i := range p.cfg.Routes {
		r, at := &p.cfg.Routes[i], p.routes[i]
		here := int64(retry.Amplification(r.Retry))
		if here < 2 {
			continue
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(p.cfg.Targets(Route{Upstream: r.Upstream, Split: r.Split})))) {
			u, _ := p.cfg.Upstream(name)
			switch {
			case u.RetriesBehind > 0:
				at.name.Warnf("can make %d calls of one request: %d tries here, times %d behind %s", here*(1+u.RetriesBehind), here, 1+u.RetriesBehind, name).
					Hint("retry in one place of a path").Coded("W-AMPLIFICATION")
			case p.ourselves(u):
				most := int64(1)
				for _, other := range p.cfg.Routes {
					most = max(most, int64(retry.Amplification(other.Retry)))
				}
				at.name.Warnf("can make %d calls of one request: %s is this gateway, whose routes make up to %d tries of each", here*most, name, most).
					Hint("retry in one place of a path, and trust this address, so that Retry-Count is believed").Coded("W-AMPLIFICATION")
			}
		}
	}
}

// ourselves reports whether an endpoint of u is where this gateway listens.
func (p *parser) ourselves(u Upstream) bool {
	host, port, err := net.SplitHostPort(p.cfg.Gateway.Listen)
	if err != nil || port == "0" {
		return false
	}
	return slices.ContainsFunc(u.Endpoints, func(e Endpoint) bool {
		h, at, err := net.SplitHostPort(e.Address)
		if err != nil || at != port {
			return false
		}
		if strings.EqualFold(h, host) {
			return true
		}
		ip, err := netip.ParseAddr(h)
		local := strings.EqualFold(h, "localhost") || err == nil && ip.IsLoopback()
		everywhere := host == "" || host == "0.0.0.0" || host == "::"
		return local && everywhere
	})
}
