package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"breakwater/gateway/route"
	"breakwater/internal/conf"
)

// APIVersion is what our documents begin with.
const APIVersion = "breakwater/v1"

// Parse decodes the documents of files. What it finds wrong or doubtful is in
// log; the Config may be used only where Loadable says so. Documents that are not
// the gateway's (SLO, Scenario, FreezePolicy ...) are passed over.
func Parse(files []conf.File, log *conf.Log) *Config {
	p := &parser{cfg: &Config{}, log: log, services: map[string]bool{}}
	p.gateway(nil)
	for _, d := range conf.SplitAll(files, log) {
		p.document(d)
	}
	p.crossCheck()
	seal(p.cfg)
	return p.cfg
}

// Loadable reports whether a gateway may serve what Parse returned. There is one
// mistake it may serve with: a retry policy without `enabled`, which has always
// meant true, and which only the validator insists on.
func Loadable(log *conf.Log) bool {
	return !slices.ContainsFunc(log.Errors(), func(m *conf.Mistake) bool {
		return m.Code != codeEnabled || m.Text != textEnabled
	})
}

// parser holds what is known while documents are read, and where it stood.
type parser struct {
	cfg *Config
	log *conf.Log

	gatewayAt  *conf.Node
	ponytail   *policy // of a bare six-key file
	ponytailAt conf.Node
	retryParts
	protection
	upstreams []conf.Node // of each upstream: its name
	serviceAt []conf.Node
	quotas    []conf.Node // of each quota: its name
	contracts []contractPlaces
	routes    []routePlaces
	services  map[string]bool
}

// routePlaces are the nodes of a route that cross-checks speak of.
type routePlaces struct {
	name, service, path, timeout conf.Node
	upstream, mirror             conf.Node
	split                        []branchPlaces
	ownCore, ownDegrade          bool
	retry                        retryPlaces
	limit                        limitPlaces
}

func (p *parser) document(d conf.Document) {
	root := d.Root
	if !root.IsMap() {
		root.Errorf("must be a map, got %s", root.Got()).Hint("a document begins with apiVersion, kind and name")
		return
	}
	if d.APIVersion == "" && d.Kind == "" && p.bareFile(root) {
		return
	}
	if d.APIVersion == "openslo/v1" || d.APIVersion == "openslo/v2alpha" {
		return // control's
	}
	switch d.Kind {
	case "SLO", "Scenario", "GameDay", "FreezePolicy", "AlertRoute":
		return // control's
	}
	m := root.Map()
	m.Need("apiVersion").Enum("", APIVersion)
	kind := m.Need("kind").Enum("", "Gateway", "Upstream", "Route", "Service", "RetryConditions", "Quota", "ResilienceContract", "SLO", "Scenario", "GameDay", "FreezePolicy", "AlertRoute")
	switch kind {
	case "Gateway":
		p.gateway(m)
	case "Upstream":
		p.upstream(m)
	case "Route":
		p.route(m)
	case "Service":
		p.service(m)
	case "RetryConditions":
		p.retryConditions(m)
	case "Quota":
		p.quota(m)
	case "ResilienceContract":
		p.contract(m)
	}
}

// bareFile reads a document without a head, where it is a retry policy or a breaker.
func (p *parser) bareFile(root conf.Node) bool {
	if isBareBreaker(root) {
		p.bareBreakerFile(root)
		return true
	}
	return p.bare(root)
}

// crossCheck is about what only several documents together can get wrong.
func (p *parser) crossCheck() {
	upstreams, services, routes := names{what: "upstream"}, names{what: "service"}, names{what: "route"}
	for i, u := range p.cfg.Upstreams {
		upstreams.add(u.Name, p.upstreams[i])
	}
	for i, s := range p.cfg.Services {
		services.add(s.Name, p.serviceAt[i])
	}
	for i, r := range p.cfg.Routes {
		routes.add(r.Name, p.routes[i].name)
	}

	p.beforeSettling()
	known := map[string]bool{}
	for _, u := range p.cfg.Upstreams {
		known[u.Name] = false
	}
	for i := range p.cfg.Routes {
		r, at := &p.cfg.Routes[i], p.routes[i]
		p.checkTargets(r, &at, known)
		if len(p.services) > 0 && r.Service != "" && !p.services[r.Service] {
			at.service.Warnf("has no Service document: nobody owns it").Coded("W-SERVICE")
		}
		p.settle(r, &at.retry, at.timeout)
		if !at.ownCore {
			r.Core = slices.ContainsFunc(p.cfg.Services, func(s Service) bool { return s.Name == r.Service && s.Core })
		}
	}
	p.settleBreakers()
	p.settleDegrade()
	p.checkAmplification()
	p.compile()
	p.checkLimits()
	p.checkContracts()
	if p.log.Err() != nil {
		return // the route that uses it may be the one that is mistaken
	}
	for i, u := range p.cfg.Upstreams {
		if !known[u.Name] {
			p.upstreams[i].Warnf("is used by no route").Coded("W-UNUSED")
		}
	}
}

// compile tries the routing table, and tells each pattern that cannot stand in it.
func (p *parser) compile() {
	var matches []route.Match
	var index []int // of matches, in Routes
	for i, r := range p.cfg.Routes {
		if r.Match.Path != "" {
			matches, index = append(matches, r.Match), append(index, i)
		}
	}
	for {
		_, err := route.Compile(matches)
		e, bad := errors.AsType[*route.Error](err)
		if !bad {
			return
		}
		m := p.routes[index[e.Index]].path.Errorf("%s", e.Text)
		if e.Other >= 0 {
			other := p.routes[index[e.Other]].path
			m.Hint("see %s:%d", other.File(), other.Line())
		}
		matches, index = slices.Delete(matches, e.Index, e.Index+1), slices.Delete(index, e.Index, e.Index+1)
	}
}

// names reports those that stand twice.
type names struct {
	what  string
	first map[string]conf.Node
}

func (l *names) add(name string, at conf.Node) {
	if name == "" {
		return
	}
	if f, twice := l.first[name]; twice {
		at.Errorf("must be unique, got the %s %s again", l.what, name).Hint("first at %s:%d", f.File(), f.Line()).Coded("E-DUPLICATE")
		return
	}
	if l.first == nil {
		l.first = map[string]conf.Node{}
	}
	l.first[name] = at
}

// seal hashes the effective values.
func seal(c *Config) {
	c.Hash, c.Revision = "", ""
	text, _ := json.Marshal(c) // plain values only: cannot fail
	sum := sha256.Sum256(text)
	c.Hash = hex.EncodeToString(sum[:])
	c.Revision = c.Hash[:12]
}

func canonical(name string) string { return http.CanonicalHeaderKey(name) }
