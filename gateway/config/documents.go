package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/gateway/route"
	"breakwater/internal/conf"
)

// gateway reads the Gateway document; a nil m gives the defaults.
func (p *parser) gateway(m *conf.Map) {
	g := Gateway{
		Name: "gateway", Env: "prod", Listen: ":8080", Admin: "127.0.0.1:15000", CallerHeader: "X-Caller", TenantHeader: "X-Tenant",
		Spool: Spool{MaxBytes: 1 << 30},
		Caps:  fault.Caps{MaxPPM: 1_000_000, MaxLatency: 30 * time.Second, MaxSleeps: 1000},
	}
	if m != nil {
		if p.gatewayAt != nil {
			m.Node().Errorf("must be the only Gateway document, got another").Hint("first at %s:%d", p.gatewayAt.File(), p.gatewayAt.Line())
		}
		at := m.Node()
		p.gatewayAt = &at
		if name := m.Need("name").Name(); name != "" {
			g.Name = name
		}
		if env := m.Get("env").Name(); env != "" {
			g.Env = env
		}
		g.Listen = listen(m.Get("listen"), g.Listen)
		g.Admin = listen(m.Get("admin"), g.Admin)
		control := m.Get("control").Map()
		g.Control = baseURL(control.Get("url"))
		control.Done()
		g.CallerHeader = headerName(m.Get("caller_header"), g.CallerHeader)
		g.TenantHeader = headerName(m.Get("tenant_header"), g.TenantHeader)
		g.StrictUnits, _ = m.Get("strict_units").Bool(false)
		g.TrustedPeers = prefixes(m.Get("trusted_peers"))
		parseListener(m, &g)
		spool := m.Get("spool").Map()
		g.Spool.Dir = spool.Get("dir").Str("")
		g.Spool.MaxBytes = spool.Get("max_size").Size(g.Spool.MaxBytes, 1<<20, 1<<40)
		g.Spool.SyncEvery = spool.Get("sync_every").Duration(g.Spool.SyncEvery, time.Millisecond, time.Minute)
		spool.Done()
		caps := m.Get("caps").Map()
		g.Caps.MaxPPM = caps.Get("max_percent").PPM(g.Caps.MaxPPM)
		if g.Caps.MaxPPM == 0 {
			caps.Get("max_percent").Errorf("must be more than 0%%, got 0%%").Hint("to forbid faults altogether, set no_faults on the routes")
		}
		g.Caps.MaxLatency = caps.Get("max_latency").Duration(g.Caps.MaxLatency, time.Millisecond, 10*time.Minute)
		g.Caps.MaxSleeps = caps.Get("max_sleeps").Int(g.Caps.MaxSleeps, 1, 1_000_000)
		g.Caps.MaxDuration = caps.Get("max_duration").Duration(g.Caps.MaxDuration, time.Second, 30*24*time.Hour)
		caps.Done()
		m.Done()
	}
	p.cfg.Gateway = g
}

func (p *parser) upstream(m *conf.Map) {
	u := Upstream{ConnectTimeout: time.Second}
	u.Name = m.Need("name").Name()
	p.upstreams = append(p.upstreams, m.Get("name"))
	u.ConnectTimeout = m.Get("connect_timeout").Duration(u.ConnectTimeout, time.Millisecond, time.Minute)
	u.HeaderTimeout = m.Get("response_header_timeout").Duration(0, time.Millisecond, time.Hour)
	u.Health, u.Ejection = parseHealth(m.Get("health")), parseEjection(m.Get("ejection"))
	u.PanicPPM = m.Get("panic_threshold").PPM(0)
	parseProtocol(m, &u)
	p.upstreamRetry(m, &u)
	upstreamBreaker(m.Get("breaker"), &u)
	u.Concurrency = parseConcurrency(m.Get("concurrency"))
	list := m.Need("endpoints")
	seen := map[string]bool{}
	for _, item := range list.List() {
		e := item.Map()
		addr := e.Need("address")
		ep := Endpoint{Address: address(addr)}
		if ep.Address != "" && seen[ep.Address] {
			addr.Errorf("must stand once, got %s again", ep.Address).Coded("E-DUPLICATE")
		}
		seen[ep.Address] = true
		l := parseLabels(e.Get("labels"))
		ep.Instance, ep.Rack, ep.Zone, ep.Version = l.Instance, l.Rack, l.Zone, l.Version
		e.Done()
		u.Endpoints = append(u.Endpoints, ep)
	}
	if list.IsList() && len(u.Endpoints) == 0 {
		list.Errorf("must have at least one endpoint, got none").Coded("E-ENDPOINTS")
	}
	m.Done()
	p.cfg.Upstreams = append(p.cfg.Upstreams, u)
}

func (p *parser) service(m *conf.Map) {
	s := Service{Name: m.Need("name").Name()}
	p.serviceAt = append(p.serviceAt, m.Get("name"))
	s.Owner = m.Get("owner").Str("")
	s.Tier = int(m.Get("tier").Int(0, 1, 4))
	s.Core, _ = m.Get("core").Bool(false)
	p.serviceBreaker(m.Get("breaker"), &s)
	s.Concurrency, s.Shed = parseServiceConcurrency(m.Get("concurrency"))
	m.Done()
	p.services[s.Name] = true
	p.cfg.Services = append(p.cfg.Services, s)
}

func (p *parser) route(m *conf.Map) {
	at := routePlaces{name: m.Need("name"), service: m.Need("service"), timeout: m.Get("timeout")}
	r := Route{Name: at.name.Name(), Service: at.service.Name()}
	p.split(m, &r, &at)
	r.Mirror = parseMirror(m.Get("mirror"), &at.mirror)
	r.MaxBody = m.Get("max_body").Size(0, 1, 1<<40)
	r.Timeout = at.timeout.Duration(15*time.Second, time.Millisecond, time.Hour)
	r.IdleTimeout = m.Get("idle_timeout").Duration(0, time.Millisecond, 24*time.Hour)
	r.MaxStream = m.Get("max_stream").Duration(0, time.Millisecond, 30*24*time.Hour)
	match := m.Need("match").Map()
	r.Match.Host = host(match.Get("host"))
	r.Match.Methods = match.Get("methods").Enums(route.Methods()...)
	at.path = match.Need("path")
	r.Match.Path = at.path.Str("")
	for _, e := range match.Get("headers").Entries() {
		r.Match.Headers = append(r.Match.Headers, headerMatch(e))
	}
	r.Match.Callers = callers(match.Get("callers"))
	r.Match.Windows = windows(match.Get("windows"))
	match.Done()
	r.Core, at.ownCore = m.Get("core").Bool(false)
	r.FaultVisible, _ = m.Get("fault_visible").Bool(false)
	r.NoFaults, _ = m.Get("no_faults").Bool(false)
	r.EnvoyFaultHeaders, _ = m.Get("envoy_fault_headers").Bool(false)
	at.retry = p.routeRetry(m)
	r.Tier = parseTier(m.Get("tier"))
	degrade := m.Get("degrade")
	r.Degrade, at.ownDegrade = parseDegrade(degrade), degrade.Present()
	r.Limit, at.limit = parseLimit(m.Get("limit"))
	m.Done()
	p.cfg.Routes = append(p.cfg.Routes, r)
	p.routes = append(p.routes, at)
}

// headerMatch reads name: value, name: {exact: value} or name: {present: true}.
func headerMatch(e conf.Entry) route.Header {
	if !token.MatchString(e.Key) {
		e.Value.Errorf("must be under a header name, got %q", e.Key)
	}
	h := route.Header{Name: canonical(e.Key)}
	if !e.Value.IsMap() {
		h.Value = e.Value.Str("")
		return h
	}
	m := e.Value.Map()
	exact, present := m.Get("exact"), m.Get("present")
	h.Value = exact.Str("")
	if h.Present, _ = present.Bool(false); present.IsBool() && !h.Present {
		present.Errorf("must be true, got %s", present.Got()).Hint("what asks for a header goes before what does not")
	}
	if exact.Present() == present.Present() && len(m.Keys()) != 1 {
		e.Value.Errorf("must have one of exact and present")
	}
	m.Done()
	return h
}

// callers reads whom a route is for. A caller is compared with what events call
// it, so what no event could name is refused.
func callers(n conf.Node) []string {
	if n.IsList() && len(n.List()) == 0 {
		n.Errorf("must name at least one caller, got none").Hint("a route that is for everybody has no callers")
	}
	var out []string
	for _, item := range n.List() {
		name := item.Str("")
		if name == "" {
			continue // said already
		}
		if len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
			item.Errorf("must be a caller's name of 1 to 64 plain characters, got %s", item.Got())
			continue
		}
		out = append(out, name)
	}
	return out
}

var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func headerName(n conf.Node, def string) string {
	s := n.Str(def)
	if !token.MatchString(s) {
		n.Errorf("must be a header name, got %s", n.Got())
		return def
	}
	return canonical(s)
}

// prefixes reads a list of networks; a plain address is a network of one.
func prefixes(n conf.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, item := range n.List() {
		text := item.Str("")
		prefix, err := netip.ParsePrefix(text)
		if addr, aerr := netip.ParseAddr(text); aerr == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case err != nil:
			item.Errorf("must be an address or a network such as 10.0.0.0/8, got %s", item.Got())
		case prefix.Bits() == 0:
			item.Errorf("must not be everybody, got %s", item.Got()).Hint("any client could then forge request ids, deadlines and retry counts")
		default:
			out = append(out, prefix.Masked())
		}
	}
	return out
}

// listen reads [host]:port; port 0 takes any free one.
func listen(n conf.Node, def string) string {
	s := n.Str(def)
	if _, port, err := net.SplitHostPort(s); err != nil || !portNumber(port, 0) {
		n.Errorf("must be host:port or :port, got %s", n.Got())
		return def
	}
	return s
}

func portNumber(s string, least int) bool {
	v, err := strconv.Atoi(s)
	return err == nil && v >= least && v <= 65535 && strconv.Itoa(v) == s
}

func baseURL(n conf.Node) string {
	s := n.Str("")
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		n.Errorf("must be a URL such as http://127.0.0.1:8081, got %s", n.Got())
		return ""
	}
	return strings.TrimSuffix(s, "/")
}

var hostName = regexp.MustCompile(`^(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$`)

func host(n conf.Node) string {
	s := n.Str("")
	name := strings.TrimPrefix(s, "*.")
	if s != "" && !hostName.MatchString(name) {
		n.Errorf("must be a host name without port, or *.name, got %s", n.Got())
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

// address reads host:port of an upstream. What answers only to the machine it
// runs on is refused: a gateway that can be pointed at the metadata service of
// its cloud hands out its own keys.
func address(n conf.Node) string {
	s := n.Str("")
	if s == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !portNumber(port, 1) || host == "" {
		n.Errorf("must be host:port, got %s", n.Got())
		return ""
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		last := host[strings.LastIndexByte(strings.TrimSuffix(host, "."), '.')+1:]
		switch {
		case !hostName.MatchString(host):
			n.Errorf("must be host:port, got %s", n.Got())
		case strings.HasPrefix(strings.ToLower(last), "0x") || last[0] >= '0' && last[0] <= '9':
			// 2852039166, 0xa9fea9fe and 0251.254.169.254 are all 169.254.169.254 to somebody.
			n.Errorf("must be a host name or an address in its usual form, got %s", n.Got()).Coded("E-ADDRESS")
		case strings.EqualFold(strings.TrimSuffix(host, "."), "metadata.google.internal"):
			n.Errorf("must not be a cloud's metadata service, got %s", n.Got()).Coded("E-ADDRESS")
		default:
			return s
		}
		return ""
	}
	if why := Forbidden(ip); why != "" {
		n.Errorf("must not be %s, got %s", why, n.Got()).Coded("E-ADDRESS")
		return ""
	}
	if ip.Is4In6() { // a filter elsewhere may know 127.0.0.1 and not [::ffff:127.0.0.1]
		n.Errorf("must be a host name or an address in its usual form, got %s", n.Got()).Hint("that is %s", ip.Unmap()).Coded("E-ADDRESS")
		return ""
	}
	return s
}

// Forbidden says what no upstream's address may be and ip is: "" where it may. It
// is asked of what a document says, and again of what a name resolves to.
func Forbidden(ip netip.Addr) string {
	zone := ip.Zone()
	ip = ip.Unmap().WithZone("")
	switch {
	case ip.IsLinkLocalUnicast(), ip == netip.MustParseAddr("fd00:ec2::254"), ip == netip.MustParseAddr("100.100.100.200"):
		return "a link-local or metadata address"
	case ip.IsUnspecified():
		return "the unspecified address"
	case ip.IsMulticast(), ip == netip.MustParseAddr("255.255.255.255"):
		return "a multicast or broadcast address"
	case zone != "":
		return "an address with a zone"
	}
	return ""
}
