package config

import (
	"slices"
	"strings"
	"time"

	"breakwater/gateway/route"
	"breakwater/internal/conf"
)

// Branch is one part of a split.
type Branch struct {
	Upstream string `json:"upstream"`
	// Subset narrows the upstream down to the endpoints with all these labels.
	Subset Labels `json:"subset,omitzero"`
	Weight int64  `json:"weight"` // 0 gets nothing
}

// Labels are those an endpoint may have; "" is any.
type Labels struct {
	Instance string `json:"instance,omitempty"`
	Rack     string `json:"rack,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version,omitempty"`
}

// Mirror sends copies of requests to another upstream, whose answers nobody sees.
type Mirror struct {
	Upstream string `json:"upstream"`
	PPM      int64  `json:"ppm"` // of requests
	// MaxBody is up to which size a body is copied; a request with a longer one
	// is not mirrored.
	MaxBody int64         `json:"max_body"`
	Timeout time.Duration `json:"timeout"`
}

// Upstream returns the upstream called name.
func (c *Config) Upstream(name string) (Upstream, bool) {
	for _, u := range c.Upstreams {
		if u.Name == name {
			return u, true
		}
	}
	return Upstream{}, false
}

// Targets lists the names of the upstreams that r sends requests or copies to.
func (c *Config) Targets(r Route) (names []string) {
	if len(r.Split) == 0 {
		names = append(names, r.Upstream)
	}
	for _, b := range r.Split {
		names = append(names, b.Upstream)
	}
	if r.Mirror != nil {
		names = append(names, r.Mirror.Upstream)
	}
	return names
}

// Branches returns where the requests of r go, each as an upstream of its own: a
// subset has a name of its own too, so that it is measured, balanced and given
// its retry budget apart from the rest.
func (c *Config) Branches(r Route) (ups []Upstream, w route.Weights, err error) {
	split := r.Split
	if len(split) == 0 {
		split = []Branch{{Upstream: r.Upstream, Weight: 1}}
	}
	weights := make([]int64, len(split))
	for i, b := range split {
		up, _ := c.Upstream(b.Upstream)
		ups, weights[i] = append(ups, b.of(up)), b.Weight
	}
	w, err = route.NewWeights(weights)
	return ups, w, err
}

// Pools returns every upstream that requests may go to, subsets among them.
func (c *Config) Pools() []Upstream {
	out := slices.Clone(c.Upstreams)
	seen := map[string]bool{}
	for _, r := range c.Routes {
		for _, b := range r.Split {
			up, _ := c.Upstream(b.Upstream)
			if sub := b.of(up); b.Subset != (Labels{}) && !seen[sub.Name] {
				seen[sub.Name] = true
				out = append(out, sub)
			}
		}
	}
	return out
}

// of narrows up down to the subset of b.
func (b Branch) of(up Upstream) Upstream {
	if b.Subset == (Labels{}) {
		return up
	}
	up.Name += "/" + b.Subset.String()
	up.Endpoints = slices.DeleteFunc(slices.Clone(up.Endpoints), func(e Endpoint) bool { return !b.Subset.on(e) })
	return up
}

func (l Labels) on(e Endpoint) bool {
	have := e.labels()
	return !slices.ContainsFunc(l.pairs(), func(p [2]string) bool { return !slices.Contains(have.pairs(), p) })
}

func (e Endpoint) labels() Labels { return Labels{e.Instance, e.Rack, e.Zone, e.Version} }

// pairs are the labels that are given.
func (l Labels) pairs() (out [][2]string) {
	for _, p := range [][2]string{{"instance", l.Instance}, {"rack", l.Rack}, {"zone", l.Zone}, {"version", l.Version}} {
		if p[1] != "" {
			out = append(out, p)
		}
	}
	return out
}

// String gives labels as version=v2,zone=a.
func (l Labels) String() string {
	var parts []string
	for _, p := range l.pairs() {
		parts = append(parts, p[0]+"="+p[1])
	}
	return strings.Join(parts, ",")
}

func parseLabels(n conf.Node) Labels {
	m := n.Map()
	l := Labels{
		Instance: m.Get("instance").Str(""), Rack: m.Get("rack").Str(""), Zone: m.Get("zone").Str(""), Version: m.Get("version").Str(""),
	}
	m.Done()
	return l
}

// branchPlaces are the nodes of a branch that cross-checks speak of.
type branchPlaces struct{ upstream, subset conf.Node }

// split reads where a route sends its requests: one upstream, or a split.
func (p *parser) split(m *conf.Map, r *Route, at *routePlaces) {
	list, sticky, escape := m.Get("split"), m.Get("sticky"), m.Get("retry_escape_split")
	r.Sticky = sticky.Enum("request", "request", "caller") == "caller"
	r.EscapeSplit, _ = escape.Bool(false)
	if !list.Present() {
		at.upstream = m.Need("upstream")
		r.Upstream = at.upstream.Name()
		for _, n := range []conf.Node{sticky, escape} {
			if n.Present() {
				n.Errorf("must stand with a split, got none").Coded("E-SPLIT")
			}
		}
		return
	}
	if at.upstream = m.Get("upstream"); at.upstream.Present() {
		at.upstream.Errorf("must not stand beside split, got both").Coded("E-SPLIT")
	}
	var weights []int64
	seen := map[string]bool{}
	for _, item := range list.List() {
		bm := item.Map()
		b := Branch{Weight: 1}
		places := branchPlaces{bm.Need("upstream"), bm.Get("subset")}
		b.Upstream = places.upstream.Name()
		b.Subset = parseLabels(places.subset)
		b.Weight = bm.Get("weight").Int(1, 0, 1_000_000)
		bm.Done()
		if id := b.Upstream + "/" + b.Subset.String(); b.Upstream != "" && seen[id] {
			item.Errorf("must stand once, got %s again", strings.TrimSuffix(id, "/")).Coded("E-DUPLICATE")
		} else {
			seen[id] = true
		}
		r.Split, weights, at.split = append(r.Split, b), append(weights, b.Weight), append(at.split, places)
	}
	w, err := route.NewWeights(weights)
	switch {
	case !list.IsList():
	case len(weights) == 0:
		list.Errorf("must have at least one branch, got none").Coded("E-SPLIT")
	case err != nil:
		list.Errorf("must have a weight above 0 somewhere, got only 0").Hint("0 means no traffic at all").Coded("E-WEIGHTS")
	default:
		r.Upstream = r.Split[w.Heaviest()].Upstream
	}
}

func parseMirror(n conf.Node, upstream *conf.Node) *Mirror {
	if !n.Present() {
		return nil
	}
	m := n.Map()
	*upstream = m.Need("upstream")
	c := &Mirror{Upstream: upstream.Name()}
	percent := m.Get("percent")
	if c.PPM = percent.PPM(1_000_000); c.PPM == 0 {
		percent.Errorf("must be more than 0%%, got %s", percent.Got()).Hint("to mirror nothing, take mirror away")
	}
	c.MaxBody = m.Get("max_body").Size(64<<10, 1<<10, maxMirrorBody)
	c.Timeout = m.Get("timeout").Duration(5*time.Second, time.Millisecond, time.Minute)
	m.Done()
	return c
}

// maxMirrorBody is the most a mirror may copy of a body: it lies in memory until
// the mirror has had it.
const maxMirrorBody = 4 << 20

// checkTargets holds the upstreams a route names against those that there are,
// and marks them in known.
func (p *parser) checkTargets(r *Route, at *routePlaces, known map[string]bool) {
	need := func(n conf.Node, name string) bool {
		if name == "" {
			return false
		}
		if _, ok := known[name]; !ok {
			n.Errorf("must be the name of an Upstream document, got %s", name).Coded("E-UPSTREAM")
			return false
		}
		known[name] = true
		return true
	}
	if len(r.Split) == 0 {
		need(at.upstream, r.Upstream)
	}
	for i, b := range r.Split {
		if up, _ := p.cfg.Upstream(b.Upstream); need(at.split[i].upstream, b.Upstream) && b.Weight > 0 && len(b.of(up).Endpoints) == 0 && b.Subset != (Labels{}) {
			at.split[i].subset.Errorf("must fit an endpoint of %s, got %s", b.Upstream, b.Subset).Coded("E-SUBSET")
		}
	}
	if r.Mirror != nil {
		need(at.mirror, r.Mirror.Upstream)
	}
}

// windows reads when a route is there.
func windows(n conf.Node) (out []route.Window) {
	if n.IsList() && len(n.List()) == 0 {
		n.Errorf("must have at least one window, got none").Hint("a route that is always there has no windows")
	}
	for _, item := range n.List() {
		text := item.Str("")
		if text == "" {
			continue // said already
		}
		w, err := route.ParseWindow(text)
		if err != nil {
			item.Errorf("%v", err).Coded("E-WINDOW")
			continue
		}
		out = append(out, w)
	}
	return out
}
