package freeze

import (
	"slices"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

const (
	apiVersion = "breakwater/v1"
	kind       = "FreezePolicy"
)

// Parse reads the FreezePolicy documents of files; those of other kinds are left
// to their own readers. Mistakes go to log.
func Parse(files []conf.File, log *conf.Log) []Policy {
	var out []Policy
	var places []conf.Node
	for _, d := range conf.OfKind(conf.SplitAll(files, log), apiVersion, kind) {
		out = append(out, Decode(d))
		places = append(places, d.Root)
	}
	for i, p := range out {
		for j, q := range out[:i] {
			if p.Name == q.Name && p.Name != "" {
				places[i].Errorf("must have a name of its own, got %s again", p.Name).Hint("first at %s:%d", places[j].File(), places[j].Line())
			} else if overlap(p, q) {
				places[i].Errorf("must not rule what %s rules as closely", q.Name).Hint("name other services or environments; %s is at %s:%d", q.Name, places[j].File(), places[j].Line())
			}
		}
	}
	return out
}

// overlap reports whether both rule some service in some environment, neither
// more closely than the other.
func overlap(p, q Policy) bool {
	both := func(a, b []string) bool {
		return len(a) == 0 && len(b) == 0 || slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
	}
	return both(p.Services, q.Services) && both(p.Envs, q.Envs)
}

// Decode reads one document; what is left out is as in Default.
func Decode(d conf.Document) Policy {
	p := Default()
	m := d.Root.Map()
	m.Need("apiVersion").Enum("", apiVersion)
	m.Need("kind").Enum("", kind)
	p.Name = m.Need("name").Name()
	p.Services, p.Envs = names(m.Get("services")), names(m.Get("environments"))
	if n := m.Get("dependants"); n.IsList() {
		p.Dependants = names(n)
	} else if n.Present() {
		how := n.Enum("", "observed", "closure")
		p.Observed, p.Closure = how != "", how == "closure"
	}
	p.Owning = owning(m.Get("owner"))
	levels(m.Get("levels"), &p.Levels)
	thaw := m.Get("thaw").Map()
	p.Levels.ThawPPM = thaw.Get("left").PPM(p.Levels.ThawPPM)
	p.Levels.Hold = thaw.Get("hold").Span(p.Levels.Hold, time.Second, 30*24*time.Hour)
	p.Levels.MinFreeze = thaw.Get("min_freeze").Span(p.Levels.MinFreeze, time.Second, 30*24*time.Hour)
	thaw.Done()
	p.Levels.CoveragePPM = m.Get("coverage").PPM(p.Levels.CoveragePPM)
	if n := m.Get("passes"); n.Present() {
		p.Passes = passes(n)
	}
	p.Acts = acts(m.Get("measures"))
	for _, n := range m.Get("on_unknown").List() {
		p.OnUnknown = append(p.OnUnknown, settle(n))
	}
	p.Stale = m.Get("stale").Span(p.Stale, 5*time.Second, time.Hour)
	p.Valid = m.Get("valid").Span(p.Valid, time.Second, time.Hour)
	p.Fallback = m.Get("fallback").Span(p.Fallback, time.Second, 24*time.Hour)
	p.DryRun, _ = m.Get("dry_run").Bool(false)
	m.Done()
	return p
}

// names reads a list of names; an empty list would mean nobody, and is refused.
func names(n conf.Node) []string {
	var out []string
	for _, item := range n.List() {
		if s := item.Name(); s != "" {
			out = append(out, s)
		}
	}
	if n.IsList() && len(n.List()) == 0 {
		n.Errorf("must name some, got an empty list").Hint("leave it out to mean all")
	}
	return out
}

func levels(n conf.Node, p *slo.Policy) {
	m := n.Map()
	for _, f := range []struct {
		name, leave     string
		at, below       *int64
		defaultDistance int64
	}{
		{"warn", "warn_leave", &p.WarnPPM, &p.WarnLeavePPM, 100_000},
		{"emergency", "emergency_leave", &p.EmergencyPPM, &p.EmergencyLeavePPM, 100_000},
	} {
		enter, leave := m.Get(f.name), m.Get(f.leave)
		if enter.Present() {
			*f.at = enter.PPM(*f.at)
			*f.below = max(*f.at-f.defaultDistance, 0)
		}
		*f.below = leave.PPM(*f.below)
		// Left where it is entered, a level flaps with every request that fails.
		if *f.below >= *f.at {
			at := leave
			if !at.Present() {
				at = enter
			}
			at.Errorf("must be left below where it is entered, %s", slo.Percent(*f.at))
		}
	}
	if n.Present() && p.EmergencyPPM <= p.WarnPPM {
		n.Errorf("must have emergency above warn, got %s and %s", slo.Percent(p.EmergencyPPM), slo.Percent(p.WarnPPM))
	}
	m.Done()
}

func passes(n conf.Node) []Pass {
	out := []Pass{}
	for _, item := range n.List() {
		m := item.Map()
		at := m.Need("kind")
		x := Pass{Kind: Kind(at.Enum("", words(Kinds())...))}
		proof := m.Need("proof")
		for _, w := range proof.Enums(words(Proofs())...) {
			x.Proofs = append(x.Proofs, Proof(w))
		}
		if proof.IsList() && len(proof.List()) == 0 {
			proof.Errorf("must name at least one, got an empty list").Hint("declared takes the caller's word")
		}
		if slices.ContainsFunc(out, func(y Pass) bool { return y.Kind == x.Kind && x.Kind != "" }) {
			at.Errorf("must stand once, got %s again", x.Kind)
		}
		m.Done()
		out = append(out, x)
	}
	return out
}

func settle(n conf.Node) Settle {
	m := n.Map()
	s := Settle{Envs: names(m.Get("environments")), Allow: m.Need("answer").Enum("deny", "allow", "deny") == "allow"}
	for _, w := range m.Get("except").Enums(words(Kinds())...) {
		s.Except = append(s.Except, Kind(w))
	}
	m.Done()
	return s
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
