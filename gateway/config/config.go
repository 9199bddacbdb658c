// Package config turns documents into the Config of a gateway, or into every
// mistake they hold, each at its place.
package config

import (
	"net/netip"
	"slices"
	"time"

	"breakwater/gateway/contract"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/policy/shed"
	"breakwater/gateway/route"
)

// Config is everything a gateway is told by documents. It is a value: nothing in
// it changes once Parse has returned it.
type Config struct {
	Gateway   Gateway    `json:"gateway"`
	Upstreams []Upstream `json:"upstreams"`
	Routes    []Route    `json:"routes"`
	Services  []Service  `json:"services"`
	Quotas    []Quota    `json:"quotas,omitempty"`
	// Contracts say what upstreams have agreed about their answers.
	Contracts []contract.Resilience `json:"contracts,omitempty"`
	// Revision is the short form of Hash that events carry; Hash is over the
	// effective values, so the same configuration written another way has the
	// same one.
	Revision string `json:"revision"`
	Hash     string `json:"hash"`
}

// Gateway holds what concerns the process and not its traffic. Flags of the
// command line go before it.
type Gateway struct {
	Name   string `json:"name"`
	Env    string `json:"env"`
	Listen string `json:"listen"`
	Admin  string `json:"admin"`
	// Control is the base URL of control; "" runs without it.
	Control string `json:"control,omitempty"`
	// CallerHeader names the header that says who calls.
	CallerHeader string `json:"caller_header"`
	// TenantHeader names the header that says for whom: for whose account.
	TenantHeader string `json:"tenant_header"`
	// TrustedPeers are the addresses whose forwarded and control fields (request
	// id, Retry-Count, deadline) are believed; everybody else's are stripped.
	TrustedPeers []netip.Prefix `json:"trusted_peers,omitempty"`
	// StrictUnits asks that the two times of a retry policy are in one unit.
	StrictUnits bool `json:"strict_units,omitempty"`
	// TLS is spoken with clients where it names a certificate.
	TLS *Identity `json:"tls,omitempty"`
	// HTTP1Only refuses HTTP/2, which clients may else speak: by ALPN, or without
	// TLS by prior knowledge.
	HTTP1Only bool `json:"http1_only,omitempty"`
	// Front says which face takes plain HTTP/1.1; "" is auto.
	Front       string      `json:"front,omitempty"`
	Connections Connections `json:"connections,omitzero"`
	Spool       Spool       `json:"spool"`
	// Caps are what no experiment may pass.
	Caps fault.Caps `json:"caps"`
}

// Spool says where the event log lies, and how much of the disk it may take.
type Spool struct {
	Dir      string `json:"dir,omitempty"`
	MaxBytes int64  `json:"max_bytes"`
	// SyncEvery is how often the log is brought to the disk; 0: 10 ms.
	SyncEvery time.Duration `json:"sync_every,omitempty"`
}

// Upstream is a set of endpoints that give the same answers.
type Upstream struct {
	Name           string        `json:"name"`
	Endpoints      []Endpoint    `json:"endpoints"`
	ConnectTimeout time.Duration `json:"connect_timeout"`
	// Protocol is http1, h2 or h2c; "" is http1.
	Protocol string `json:"protocol,omitempty"`
	// TLS is spoken where it is set.
	TLS *UpstreamTLS `json:"tls,omitempty"`
	// HeaderTimeout is how long an answer's head may take; 0: as long as the tries may.
	HeaderTimeout time.Duration `json:"response_header_timeout,omitempty"`
	Health        *Health       `json:"health,omitempty"`
	Ejection      *Ejection     `json:"ejection,omitempty"`
	// PanicPPM is the share of ready endpoints under which all of them are used;
	// 0: never.
	PanicPPM int64 `json:"panic_threshold_ppm,omitempty"`
	// RetryBudget nil is the standard one.
	RetryBudget *retry.BudgetConfig `json:"retry_budget,omitempty"`
	// RetriesBehind is how often whatever stands behind the endpoints asks again on
	// its own: what one request can become is multiplied by it.
	RetriesBehind int64 `json:"retries_behind,omitempty"`
	// Breaker is of each endpoint; nil is the standard one.
	Breaker *breaker.Config `json:"breaker,omitempty"`
	// Concurrency bounds the tries under way at each endpoint.
	Concurrency concurrency.Config `json:"concurrency,omitzero"`
}

// Endpoint is one address with the labels by which incidents are narrowed down.
type Endpoint struct {
	Address  string `json:"address"` // host:port
	Instance string `json:"instance,omitempty"`
	Rack     string `json:"rack,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version,omitempty"`
}

// Route is one promise: requests that match go to an upstream under a policy.
type Route struct {
	Name    string      `json:"name"`
	Service string      `json:"service"`
	Match   route.Match `json:"match"`
	// Upstream is where requests go; with a Split the one of its heaviest branch.
	Upstream string `json:"upstream"`
	// Split shares requests out over branches. The choice is made once for each
	// request, by its id or, where Sticky, by its caller.
	Split  []Branch `json:"split,omitempty"`
	Sticky bool     `json:"sticky,omitempty"`
	// EscapeSplit lets retries leave a branch that failed for the heaviest one.
	EscapeSplit bool    `json:"retry_escape_split,omitempty"`
	Mirror      *Mirror `json:"mirror,omitempty"`
	// MaxBody is how many bytes a request's body may have; 0: any number.
	MaxBody int64 `json:"max_body,omitempty"`
	// Timeout is the total, all tries and waits included.
	Timeout time.Duration `json:"timeout"`
	// A stream leaves the total at its head. IdleTimeout is then its longest silence,
	// 0: 5 min, and MaxStream its longest life, 0: none.
	IdleTimeout time.Duration  `json:"idle_timeout,omitempty"`
	MaxStream   time.Duration  `json:"max_stream,omitempty"`
	Retry       retry.Config   `json:"retry"`
	Limit       limiter.Config `json:"limit,omitzero"`
	// Tier is how much its requests matter under pressure; "" is default.
	Tier    shed.Tier       `json:"tier,omitempty"`
	Degrade fallback.Config `json:"degrade,omitzero"`
	// Core routes write one event line an exchange; others may be folded.
	Core bool `json:"core"`
	// FaultVisible lets the client see the header that names an experiment.
	FaultVisible bool `json:"fault_visible"`
	// NoFaults marks health, login and control routes: nothing is ever injected there.
	NoFaults bool `json:"no_faults"`
	// EnvoyFaultHeaders lets trusted peers ask for faults by Envoy's fields.
	EnvoyFaultHeaders bool `json:"envoy_fault_headers,omitempty"`
}

// Service is who answers for a set of routes.
type Service struct {
	Name  string `json:"name"`
	Owner string `json:"owner,omitempty"`
	Tier  int    `json:"tier,omitempty"`
	Core  bool   `json:"core"`
	// Breaker counts what clients of the service are told at last; nil is the
	// standard one.
	Breaker *breaker.Config `json:"breaker,omitempty"`
	// Concurrency bounds its requests under way.
	Concurrency concurrency.Config `json:"concurrency,omitzero"`
	// Shed is which of them are refused first when there are too many.
	Shed shed.Config `json:"shed,omitzero"`
}

// BreakerConfig is the breaker of the service.
func (s *Service) BreakerConfig() breaker.Config {
	if s.Breaker == nil {
		return breaker.Default()
	}
	return *s.Breaker
}

// BreakerConfig is the breaker of each endpoint.
func (u *Upstream) BreakerConfig() breaker.Config {
	if u.Breaker == nil {
		return breaker.DefaultEndpoint()
	}
	return *u.Breaker
}

// AllServices are the services that have a document, and those that routes name
// all the same.
func (c *Config) AllServices() []Service {
	all := slices.Clone(c.Services)
	for _, r := range c.Routes {
		if !slices.ContainsFunc(all, func(s Service) bool { return s.Name == r.Service }) {
			all = append(all, Service{Name: r.Service})
		}
	}
	return all
}

// Matches returns what the routes match, in the order of Routes, for route.Compile.
func (c *Config) Matches() []route.Match {
	out := make([]route.Match, len(c.Routes))
	for i, r := range c.Routes {
		out[i] = r.Match
	}
	return out
}
