package config

import (
	"breakwater/gateway/policy/breaker"
	"breakwater/internal/conf"
)

// protection is what is known of breakers until every document is read.
type protection struct {
	breaker   *breaker.Config // of a circuitbreaker file
	breakerAt conf.Node
	// degrade says, by service, where its circuitbreaker names what is answered
	// while it is open; "" is the bare file's.
	degrade map[string]conf.Node
}

// bareBreakerFile takes a circuitbreaker file as the breaker of all services that
// have none of their own.
func (p *parser) bareBreakerFile(root conf.Node) {
	if p.protection.breaker != nil {
		root.Errorf("must be the only breaker without a service, got another").
			Hint("the first stands at %s:%d", p.protection.breakerAt.File(), p.protection.breakerAt.Line())
	}
	cfg, degrade := parseBreaker(root, breaker.Default())
	p.protection.breaker, p.protection.breakerAt = &cfg, root
	p.noteDegrade("", degrade)
}

func (p *parser) noteDegrade(service string, at conf.Node) {
	if !at.Present() {
		return
	}
	if p.protection.degrade == nil {
		p.protection.degrade = map[string]conf.Node{}
	}
	p.protection.degrade[service] = at
}

// serviceBreaker reads the breaker of a service, which counts its final answers.
func (p *parser) serviceBreaker(n conf.Node, s *Service) {
	if !n.Present() {
		return
	}
	cfg, degrade := parseBreaker(n, breaker.Default())
	s.Breaker = &cfg
	p.noteDegrade(s.Name, degrade)
}

// upstreamBreaker reads the breaker of each endpoint, which counts tries.
func upstreamBreaker(n conf.Node, u *Upstream) {
	if !n.Present() {
		return
	}
	cfg, degrade := parseBreaker(n, breaker.DefaultEndpoint())
	if degrade.Present() {
		degrade.Errorf("must not be given of an upstream").Hint("what is answered in its place stands in the route: degrade")
	}
	u.Breaker = &cfg
}

// settleDegrade has routes without a word of their own answer as the circuitbreaker
// of their service says, or the bare one.
func (p *parser) settleDegrade() {
	for service, at := range p.protection.degrade {
		degrade := meshDegrade(at)
		for i := range p.cfg.Routes {
			r := &p.cfg.Routes[i]
			_, named := p.protection.degrade[r.Service]
			if p.routes[i].ownDegrade || degrade.Action == "" || r.Service != service && (service != "" || named) {
				continue
			}
			r.Degrade = degrade
		}
	}
}

// settleBreakers gives the bare breaker to every service without one of its own.
func (p *parser) settleBreakers() {
	if p.protection.breaker == nil {
		return
	}
	p.cfg.Services = p.cfg.AllServices()
	for i := range p.cfg.Services {
		if p.cfg.Services[i].Breaker == nil {
			p.cfg.Services[i].Breaker = p.protection.breaker
		}
	}
}
