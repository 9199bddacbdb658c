package scenario

import (
	"regexp"
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

// Bounds of what one fault may do; a gateway's own caps may be narrower.
const (
	maxLatency = 5 * time.Minute
	maxBody    = 64 << 10
)

// Parse reads the documents of ours in files; those of other kinds are left to
// their own readers. The error is conf.Mistakes, all of them.
func Parse(files ...conf.File) (Set, conf.Mistakes, error) {
	var log conf.Log
	var set Set
	for _, f := range files {
		docs := conf.Split(f, &log)
		for i, d := range docs {
			text := textOf(f.Data, docs, i)
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
func textOf(data []byte, docs []conf.Document, i int) string {
	if len(docs) == 1 {
		return string(data)
	}
	lines := strings.SplitAfter(string(data), "\n")
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
	m.Done()
	return s
}

func target(n conf.Node) Target {
	m := n.Map()
	t := Target{Service: m.Need("service").Name(), Routes: m.Get("routes").Strs(), Callers: m.Get("callers").Strs()}
	for _, key := range []string{"routes", "callers"} {
		if list := m.Get(key); list.Present() && len(list.List()) == 0 {
			list.Errorf("must name some, got an empty list").Hint("leave it out to mean all")
		}
		for _, item := range m.Get(key).List() {
			if strings.Contains(item.Str(""), "*") {
				item.Errorf("must be a name, got a pattern").Hint("leave %s out to mean all", key)
			}
		}
	}
	m.Done()
	return t
}

func sample(n conf.Node) Sample {
	m := n.Map()
	s := Sample{
		PPM:  m.Need("percent").PPM(0),
		Key:  m.Get("key").Enum("attempt", "attempt", "request"),
		Seed: m.Get("seed").Str("auto"),
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

func faults(n conf.Node) []Fault {
	var out []Fault
	seen := map[string]bool{}
	items := n.List()
	if n.IsList() && len(items) == 0 {
		n.Errorf("must hold at least one fault")
	}
	for _, item := range items {
		m := item.Map()
		f := Fault{ID: m.Need("id").Name()}
		if seen[f.ID] && f.ID != "" {
			m.Get("id").Errorf("must be unique, got %s again", f.ID)
		}
		seen[f.ID] = true
		latency, failure := m.Get("latency"), m.Get("error")
		switch {
		case latency.Present() && failure.Present():
			failure.Errorf("must stand alone, got latency beside it").Hint("write two faults")
		case latency.Present():
			f.Kind, f.Latency = fault.Latency, latencyOf(latency)
		case failure.Present():
			f.Kind = fault.Error
			e := failure.Map()
			f.Status = int(e.Need("status").Int(0, 400, 599))
			f.Body = e.Get("body").Str("")
			if len(f.Body) > maxBody {
				e.Get("body").Errorf("must be at most %d bytes, got %d", maxBody, len(f.Body))
			}
			e.Done()
		case item.IsMap():
			item.Errorf("must have latency or error, got neither")
		}
		m.Get("position").Enum("upstream", "upstream")
		f.Toothless = m.Get("toothless").Enum("", "allowed") == "allowed"
		m.Done()
		out = append(out, f)
	}
	return out
}

func latencyOf(n conf.Node) time.Duration {
	m := n.Map()
	m.Need("dist").Enum("", "fixed")
	d := m.Need("value").Duration(0, time.Millisecond, maxLatency)
	m.Done()
	return d
}

var sli = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]*)\.([a-z0-9_]+)$`)

// measureOf splits "order.error_rate" into a service and a measure.
func measureOf(n conf.Node, allowed ...Measure) (string, Measure) {
	text := n.Str("")
	if text == "" {
		return "", ""
	}
	m := sli.FindStringSubmatch(text)
	for _, a := range allowed {
		if m != nil && m[2] == string(a) {
			return m[1], a
		}
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = "<service>." + string(a)
	}
	n.Errorf("must be %s, got %q", strings.Join(words, " or "), text)
	return "", ""
}

func assertions(n conf.Node, phase string, ids map[string]bool) []Assertion {
	var out []Assertion
	for _, item := range n.List() {
		m := item.Map()
		a := Assertion{ID: m.Need("id").Name()}
		// Results are kept by id, so one id means one expectation.
		if a.ID != "" && ids[a.ID] {
			m.Get("id").Errorf("must be unique over all phases, got %s again", a.ID)
		}
		ids[a.ID] = true
		what := m.Get("sli")
		amplification, retries := m.Get("amplification"), m.Get("retries")
		switch {
		case what.Present():
			a.Service, a.Measure = measureOf(what, Success, ErrorRate, P95)
		case amplification.Present():
			a.Service, a.Measure = amplification.Name(), Amplification
		case retries.Present():
			a.Service, a.Measure = retries.Name(), Retries
		case item.IsMap():
			item.Errorf("must have sli, amplification or retries, got none of them")
		}
		a.Op = m.Need("op").Enum("", "<=", "<", ">=", ">")
		a.Limit = limitOf(m.Need("value"), a.Measure)
		a.MinRequests = m.Get("min_requests").Int(30, 1, 1_000_000_000)
		if phase != "during" {
			a.Window = m.Get("window").Span(0, time.Second, maxPhase)
		}
		if phase == "after" {
			a.Within = m.Get("within").Span(0, time.Second, maxPhase)
		}
		m.Done()
		out = append(out, a)
	}
	return out
}

func limitOf(n conf.Node, m Measure) int64 {
	switch m {
	case P95:
		return n.Duration(0, time.Millisecond, maxLatency).Microseconds()
	case Amplification:
		return n.Decimal(0, 6, 0, 1_000_000_000)
	case "":
		return 0
	}
	return n.PPM(0)
}

func stops(n conf.Node) []Stop {
	var out []Stop
	items := n.List()
	if n.IsList() && len(items) == 0 {
		n.Errorf("must hold at least one condition: a fault without a brake is refused")
	}
	for _, item := range items {
		m := item.Map()
		var s Stop
		burn, what, spent := m.Get("burn_rate"), m.Get("sli"), m.Get("budget_spent")
		switch {
		case burn.Present():
			s.Kind, s.Service = StopBurn, burn.Name()
			// A burn rate of 1 spends the budget exactly in its window.
			s.OverMilli = m.Need("over").Decimal(0, 3, 1, 10_000_000_000)
			for _, w := range m.Need("windows").List() {
				s.Windows = append(s.Windows, w.Span(time.Minute, 5*time.Second, time.Hour))
			}
			if len(s.Windows) != 2 && m.Get("windows").IsList() {
				m.Get("windows").Errorf("must be two windows, a short and a long one, got %d", len(s.Windows))
			} else if len(s.Windows) == 2 && s.Windows[0] >= s.Windows[1] {
				m.Get("windows").Errorf("must be the shorter window first")
			}
			s.MinBad = m.Get("min_bad").Int(10, 1, 1_000_000)
		case what.Present():
			service, measure := measureOf(what, ErrorRate, Success)
			s.Kind, s.Service = StopErrors, service
			op, ppm := m.Need("op"), m.Need("value").PPM(0)
			if measure == Success {
				op.Enum("", "<")
				ppm = 1_000_000 - ppm
			} else {
				op.Enum("", ">")
			}
			s.PPM = ppm
			s.For = m.Get("for").Span(15*time.Second, 5*time.Second, time.Hour)
			s.MinBad = m.Get("min_bad").Int(10, 1, 1_000_000)
		case spent.Present():
			s.Kind, s.PPM = StopBudget, spent.PPM(0)
			if s.PPM == 0 {
				spent.Errorf("must be above 0%%, got 0%%: it would stop the run before it starts")
			}
		case item.IsMap():
			item.Errorf("must have burn_rate, sli or budget_spent, got none of them")
		}
		m.Done()
		out = append(out, s)
	}
	return out
}

// maxTTL is the lease of a fault at a gateway; a document may shorten it alone.
const maxTTL = 15 * time.Second

func limits(n conf.Node) Limits {
	m := n.Map()
	l := Limits{TTL: m.Get("ttl").Duration(maxTTL, 10*time.Second, maxTTL)}
	m.Done()
	return l
}
