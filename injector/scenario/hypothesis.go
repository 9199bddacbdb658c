package scenario

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"breakwater/internal/conf"
)

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

// forms are the fields by which an assertion says what it looks at.
func forms() []string {
	return []string{"sli", "ratio", "amplification", "retries", "breaker", "flaps", "alert", "config", "probe", "repeats"}
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
		form := formOf(m)
		switch form {
		case "breaker", "alert", "config":
			happens(&a, m, form, phase)
		case "probe":
			probed(&a, m, phase)
		case "":
		default:
			measured(&a, m, form, phase)
		}
		a.Optional, _ = m.Get("optional").Bool(false)
		m.Done()
		out = append(out, a)
	}
	return out
}

func formOf(m *conf.Map) string {
	form := ""
	for _, f := range forms() {
		n := m.Get(f)
		switch {
		case n.Present() && form != "":
			n.Errorf("must stand alone, got %s beside it", form).Hint("write two assertions")
		case n.Present():
			form = f
		}
	}
	if form == "" && m.Node().IsMap() {
		m.Node().Errorf("must have %s or %s, got none of them", strings.Join(forms()[:len(forms())-1], ", "), forms()[len(forms())-1])
	}
	return form
}

// measured reads an assertion on a number.
func measured(a *Assertion, m *conf.Map, form, phase string) {
	n := m.Get(form)
	switch form {
	case "sli":
		a.Service, a.Measure = measureOf(n, Success, ErrorRate, P50, P90, P95, P99)
	case "ratio":
		a.Measure = Ratio
		a.Part, a.Whole = ratio(n)
		a.While = while(m.Get("while"))
		a.Service = m.Get("service").Name()
	default:
		a.Service, a.Measure = n.Name(), Measure(form)
	}
	if a.Measure == Repeats {
		a.Repeated = &Repeated{statuses(m.Need("status"))}
		if phase != "during" {
			n.Errorf("must stand in during: only what a fault takes away is asked again for sure")
		}
	}
	if share := a.Measure == Success || a.Measure == ErrorRate; share || a.Measure == "" {
		a.Cohort = Cohort(m.Get("cohort").Enum("", string(Exposed), string(Control), string(Unmatched)))
		a.Against = m.Get("against").Enum("", AgainstBaseline, AgainstControl)
	}
	a.MinRequests = m.Get("min_requests").Int(30, 1, 1_000_000_000)
	if phase != "during" {
		a.Window = m.Get("window").Span(0, time.Second, maxPhase)
	}
	if phase == "after" {
		a.Within = m.Get("within").Span(0, time.Second, maxPhase)
	}
	if a.Against != "" {
		compared(a, m, phase)
		return
	}
	a.Op = m.Need("op").Enum("", "<=", "<", ">=", ">")
	a.Limit = limitOf(m.Need("value"), a.Measure)
}

// compared reads by how much a share may be worse than another.
func compared(a *Assertion, m *conf.Map, phase string) {
	at := m.Get("against")
	switch {
	case phase == "steady":
		at.Errorf("must stand in during or after: the steady phase is what is compared with")
	case a.Against == AgainstControl && phase != "during":
		at.Errorf("must be %s after the injection: nobody is spared any more", AgainstBaseline)
	case a.Against == AgainstControl && (a.Cohort == Control || a.Cohort == Unmatched):
		at.Errorf("must compare the cohort %s with the one that was spared, got %s", Exposed, a.Cohort)
	case a.Against == AgainstControl:
		a.Cohort = Exposed
	}
	margin := m.Need("margin")
	if a.Limit = margin.PPM(0); a.Limit == 0 && margin.Present() {
		margin.Errorf("must be above 0%%, got 0%%").Hint("no finite number of requests shows that two shares are the same")
	}
}

// Parts and wholes of a ratio.
const (
	Degraded = "degraded"
	Failed   = "failed"
	Injected = "injected"
	Matched  = "matched"
	Requests = "requests"
	Attempts = "attempts"
)

func ratio(n conf.Node) (part, whole string) {
	text := n.Str("")
	part, whole, _ = strings.Cut(text, "/")
	known := []string{Degraded + "/" + Matched, Degraded + "/" + Requests, Failed + "/" + Requests, Injected + "/" + Attempts}
	if text != "" && !slices.Contains(known, text) {
		n.Errorf("must be %s, got %q", strings.Join(known, " or "), text)
		return "", ""
	}
	return part, whole
}

var openWhile = regexp.MustCompile(`^breaker\(([a-z0-9][a-z0-9._-]*)\) *= *open$`)

func while(n conf.Node) string {
	text := n.Str("")
	if text == "" {
		return ""
	}
	m := openWhile.FindStringSubmatch(text)
	if m == nil {
		n.Errorf("must be such as breaker(points)=open, got %q", text)
		return ""
	}
	return m[1]
}

func limitOf(n conf.Node, m Measure) int64 {
	switch {
	case m.Quantile() > 0:
		return n.Duration(0, time.Millisecond, maxLatency).Microseconds()
	case m == Amplification:
		return n.Decimal(0, 6, 0, 1_000_000_000)
	case m == Flaps:
		return n.Int(0, 0, 1_000_000)
	case m == "":
		n.Str("") // what it had to be is not known
		return 0
	}
	return n.PPM(0)
}

// happens reads an assertion on something that takes place, or does not.
func happens(a *Assertion, m *conf.Map, form, phase string) {
	n := m.Get(form)
	a.Measure, a.MinRequests = Measure(form), 1
	switch form {
	case "breaker":
		a.Service = n.Name()
		a.Event = m.Need("event").Enum("", Opened, Closed, HalfOpened, StaysClosed)
	case "alert":
		// Alerts are called as their own documents like.
		a.Service = n.Str("")
		a.Event = m.Need("expect").Enum("", Silent, Firing)
	case "config":
		// Or the revision, or the beginning of the hash, that has to be served.
		if a.Event = n.Str(""); a.Event != "" && a.Event != Unchanged && !revision.MatchString(a.Event) {
			n.Errorf("must be %s, or a revision of 6 to 64 hexadecimal digits, got %q", Unchanged, a.Event)
		}
	}
	within := m.Get("within")
	a.Within = within.Span(0, time.Second, maxPhase)
	if within.Present() && (a.Event == StaysClosed || a.Event == Silent || form == "config") {
		within.Errorf("must not be given: it has to hold all the time")
	}
	if phase == "steady" && within.Present() {
		within.Errorf("must not be given in the steady phase: it is looked at once, at its end")
	}
}

var revision = regexp.MustCompile(`^[0-9a-f]{6,64}$`)
