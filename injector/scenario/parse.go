package scenario

import (
	"slices"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/internal/conf"
)

const (
	apiVersion = "breakwater/v1"
	kind       = "Scenario"
	maxPhase   = 24 * time.Hour
)

// Parse reads the documents of ours in files; those of other kinds are left to
// their own readers. The error is conf.Mistakes, all of them.
func Parse(files ...conf.File) (Set, conf.Mistakes, error) {
	var log conf.Log
	var set Set
	for _, f := range files {
		docs := conf.Split(f, &log)
		lines := strings.SplitAfter(string(f.Data), "\n")
		for i, d := range docs {
			text := textOf(lines, docs, i)
			switch d.Kind {
			case kind:
				s := Decode(d, &log)
				s.Text = text
				set.Scenarios = append(set.Scenarios, s)
			case "GameDay":
				g := DecodeGameDay(d, &log)
				g.Text = text
				set.GameDays = append(set.GameDays, g)
			}
		}
	}
	set.check(&log)
	return set, log.Warnings(), log.Err()
}

// textOf cuts the document out of its file, comments before it included.
func textOf(lines []string, docs []conf.Document, i int) string {
	if len(docs) == 1 {
		return strings.Join(lines, "")
	}
	from, to := docs[i].Root.Line()-1, len(lines)
	for from > 0 && !strings.HasPrefix(lines[from-1], "---") {
		from--
	}
	for n := docs[i].Root.Line(); n < len(lines); n++ {
		if strings.HasPrefix(lines[n], "---") {
			to = n
			break
		}
	}
	return strings.Join(lines[from:to], "")
}

// Decode reads one document of kind Scenario; mistakes go to log.
func Decode(d conf.Document, log *conf.Log) Scenario {
	m := d.Root.Map()
	s := Scenario{File: d.Root.File(), Line: d.Root.Line()}
	m.Need("apiVersion").Enum("", apiVersion)
	m.Need("kind").Enum("", kind)
	s.ID = m.Need("id").Name()
	s.Title = m.Get("title").Str(s.ID)
	s.Tags = m.Get("tags").Strs()
	s.Target = target(m.Need("target"))
	s.Sample = sample(m.Need("sample"))
	s.Phases = phases(m.Need("phases"))
	s.Faults = faults(m.Need("faults"))
	h := m.Need("hypothesis").Map()
	ids := map[string]bool{}
	s.Steady = assertions(h.Get("steady"), "steady", ids)
	s.During = assertions(h.Get("during"), "during", ids)
	s.After = assertions(h.Get("after"), "after", ids)
	h.Done()
	if h.Node().Present() && len(s.Steady)+len(s.During)+len(s.After) == 0 {
		h.Node().Errorf("must expect something, got nothing that could fail")
	}
	s.Stop = stops(m.Need("stop"))
	s.Limits = limits(m.Get("limits"))
	if n := m.Get("search"); n.Present() {
		s.Search = search(n, s.Faults)
	}
	if n := m.Get("on_fail"); n.Present() {
		s.OnFail = onFail(n)
	}
	s.Accept = accepted(m.Get("accept"))
	m.Done()
	s.agree(m)
	return s
}

// agree looks at what two parts of a document say together.
func (s *Scenario) agree(m *conf.Map) {
	hypothesis := m.Get("hypothesis")
	for phase, list := range map[string][]Assertion{"steady": s.Steady, "during": s.During, "after": s.After} {
		for i, a := range list {
			// Only requests of the target are known to be hit, spared or left out.
			if a.Cohort == "" || a.Service == "" || s.Target.Service == "" || a.Service == s.Target.Service || !hypothesis.IsMap() {
				continue
			}
			hypothesis.Map().Get(phase).List()[i].Errorf("must be of the target %s where a cohort is looked at, got %s", s.Target.Service, a.Service)
		}
	}
	for i, f := range m.Get("faults").List() {
		if i >= len(s.Faults) {
			return
		}
		rule := s.Faults[i].Rule
		if rule.Kind == "" {
			continue // told of already
		}
		// Control and gateway refuse by the same words; this is the last net below
		// what is told at single fields.
		rule.Run, rule.Key, rule.PPM = "r", s.Sample.Key, s.Sample.PPM
		rule.Target = s.Target.Rule()
		if rule.Target.Service == "" {
			rule.Target.Service = "unknown" // told of at its place
		}
		if err := fault.Check(rule); err != nil {
			f.Errorf("cannot be: %v", err)
		}
	}
}

func target(n conf.Node) Target {
	m := n.Map()
	match := m.Get("match").Map()
	t := Target{
		Service:        m.Need("service").Name(),
		Endpoint:       m.Get("endpoint").Str(""),
		ExcludeCallers: names(m.Get("exclude_callers")),
		ExcludeTenants: names(m.Get("exclude_tenants")),
	}
	for _, item := range listed(m.Get("routes")) {
		text := item.Str("")
		method, path, isCall := strings.Cut(text, " ")
		switch {
		case !isCall && strings.Contains(text, "*"):
			item.Errorf("must be a name, got a pattern").Hint("leave routes out to mean all")
		case !isCall:
			t.Routes = append(t.Routes, item.Name())
		case !slices.Contains(methods(), method) || !strings.HasPrefix(path, "/"):
			item.Errorf("must be a route's name, or a method and a path such as POST /v1/orders, got %q", text)
		default:
			t.Calls = append(t.Calls, Call{method, path})
		}
	}
	// These may stand under match or beside it: one and the same.
	either := func(key string) conf.Node {
		outer, inner := m.Get(key), match.Get(key)
		if outer.Present() && inner.Present() {
			inner.Errorf("must be given once, and stands in target too")
		}
		if outer.Present() {
			return outer
		}
		return inner
	}
	if list := either("methods"); list.Present() {
		t.Methods = list.Enums(methods()...)
	}
	t.Callers, t.Tenants = names(either("callers")), names(either("tenants"))
	t.OptIn, _ = either("opt_in").Bool(false)
	t.Headers = headers(match.Get("headers"))
	match.Done()
	m.Done()
	return t
}

func methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
}

// listed are the items of a list that has some, where it is there: an empty one
// would mean nobody to one reader and everybody to the next.
func listed(n conf.Node) []conf.Node {
	items := n.List()
	if n.IsList() && len(items) == 0 {
		n.Errorf("must name some, got an empty list").Hint("leave it out to mean all")
	}
	return items
}

func names(n conf.Node) []string {
	var out []string
	for _, item := range listed(n) {
		text := item.Str("")
		if strings.Contains(text, "*") {
			item.Errorf("must be a name, got a pattern").Hint("leave it out to mean all")
		}
		out = append(out, text)
	}
	return out
}

// headers reads fields that must be there: by one value, or by several.
func headers(n conf.Node) []fault.HeaderIn {
	var out []fault.HeaderIn
	for _, e := range n.Entries() {
		h := fault.HeaderIn{Name: e.Key}
		if !e.Value.IsMap() {
			h.Values = []string{e.Value.Str("")}
			out = append(out, h)
			continue
		}
		m := e.Value.Map()
		in, present := m.Get("in"), m.Get("present")
		switch {
		case in.Present() && present.Present():
			present.Errorf("must stand alone, got in beside it")
		case present.Present():
			if v, ok := present.Bool(true); ok && !v {
				present.Errorf("must be true: a field that has to be absent is not matched")
			}
		default:
			for _, item := range listed(m.Need("in")) {
				h.Values = append(h.Values, item.Str(""))
			}
		}
		m.Done()
		out = append(out, h)
	}
	return out
}

func sample(n conf.Node) Sample {
	m := n.Map()
	s := Sample{
		PPM:   m.Need("percent").PPM(0),
		Key:   m.Get("key").Enum(fault.KeyAttempt, fault.KeyAttempt, fault.KeyRequest, fault.KeyTrace, fault.KeyTenant, fault.KeyConnection),
		Seed:  m.Get("seed").Str("auto"),
		Ramp:  m.Get("ramp").Span(0, time.Second, maxPhase),
		First: m.Get("first").Int(0, 1, 1_000_000_000),
	}
	m.Done()
	return s
}

func phases(n conf.Node) Phases {
	m := n.Map()
	p := Phases{
		Baseline: m.Need("baseline").Span(0, time.Second, maxPhase),
		Inject:   m.Need("inject").Span(0, time.Second, maxPhase),
		Recover:  m.Need("recover").Span(0, time.Second, maxPhase),
	}
	m.Done()
	return p
}
