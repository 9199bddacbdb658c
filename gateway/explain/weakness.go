package explain

import (
	"slices"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

// The codes of weaknesses that documents show by themselves: no field is mistaken,
// and yet something will not protect, or do harm, when it is needed.
const (
	TryOverTotal  = "W-PER-TRY"        // one try may take longer than the whole request
	NoTotal       = "W-NO-TOTAL"       // a route does not say how long it may take
	SlowConnect   = "W-CONNECT"        // to connect may take as long as a try
	Unlimited     = "W-NO-LIMIT"       // nothing bounds what is under way
	LimitAbove    = "W-LIMIT-ABOVE"    // a limit lets in more than what stands behind it takes
	AfterIgnored  = "W-RETRY-AFTER"    // tries come sooner than the upstream asked for
	NoBudget      = "W-BUDGET"         // nothing bounds the share of retries
	OneEndpoint   = "W-ONE-ENDPOINT"   // what users need stands on one endpoint
	NeverFilled   = "W-LAST-GOOD"      // a fallback that keeps nothing
	ProbeStorm    = "W-HALF-OPEN"      // a breaker lets a crowd in to try
	MirrorLive    = "W-MIRROR"         // copies of requests act on what is in use
	SlowUnseen    = "W-SLOW"           // a call is slow only after it is over
	BlindTo       = "W-BLIND"          // a breaker that does not count what fails
	OnlyObserved  = "W-OBSERVE"        // a policy that decides, and does nothing
	EjectAll      = "W-EJECT"          // every endpoint may be thrown out at once
	FallbackNever = "W-FALLBACK-NEVER" // a fallback that nothing brings about
)

// Weaknesses finds what a good configuration will come to grief by. It is strict,
// as advice may be: whoever knows better leaves a thing as it is. Documents with
// mistakes have none told: Validate says what is wrong with them first.
func Weaknesses(files []conf.File) conf.Mistakes {
	var parsed, log conf.Log
	cfg := config.Parse(files, &parsed)
	if parsed.Err() != nil {
		return nil
	}
	f := finder{cfg: cfg, at: map[[2]string]conf.Node{}}
	for _, d := range conf.SplitAll(files, &log) {
		if name := d.Root.Map().Get("name").Text(); name != "" {
			f.at[[2]string{d.Kind, name}] = d.Root
		}
	}
	for i := range cfg.Routes {
		f.route(&cfg.Routes[i])
	}
	for i := range cfg.Upstreams {
		f.upstream(&cfg.Upstreams[i])
	}
	for _, s := range cfg.AllServices() {
		f.service(&s)
	}
	return log.Warnings()
}

// finder holds a configuration beside the documents that it was read from.
type finder struct {
	cfg *config.Config
	at  map[[2]string]conf.Node // roots, by kind and name
}

// place is where a field of a document stands, or where it would.
func (f *finder) place(kind, name string, path ...string) conf.Node {
	n, ok := f.at[[2]string{kind, name}]
	if !ok && kind == "Service" { // none was written: the first route that names it speaks of it
		i := slices.IndexFunc(f.cfg.Routes, func(r config.Route) bool { return r.Service == name })
		return f.place("Route", f.cfg.Routes[i].Name, "service")
	}
	for _, key := range path {
		next := n.Map().Get(key)
		if !next.Present() {
			return next
		}
		if n = next; !n.IsMap() {
			return n
		}
	}
	return n
}

// routesOf are those of a service.
func (f *finder) routesOf(service string) (out []*config.Route) {
	for i := range f.cfg.Routes {
		if r := &f.cfg.Routes[i]; r.Service == service {
			out = append(out, r)
		}
	}
	return out
}

// askers are the routes that send requests to an upstream.
func (f *finder) askers(upstream string) (out []*config.Route) {
	for i := range f.cfg.Routes {
		r := &f.cfg.Routes[i]
		if slices.Contains(f.cfg.Targets(config.Route{Upstream: r.Upstream, Split: r.Split}), upstream) {
			out = append(out, r)
		}
	}
	return out
}

// behind are the upstreams that requests of a service go to, each once.
func (f *finder) behind(service string) (out []config.Upstream) {
	seen := map[string]bool{}
	for _, r := range f.routesOf(service) {
		for _, name := range f.cfg.Targets(config.Route{Upstream: r.Upstream, Split: r.Split}) {
			if u, ok := f.cfg.Upstream(name); ok && !seen[name] {
				seen[name] = true
				out = append(out, u)
			}
		}
	}
	return out
}
