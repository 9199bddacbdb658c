package scenario

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/conf"
)

// Probe is one request that control itself makes when a phase ends, to a host that
// whoever runs it has allowed. It asks from outside what no gateway counts.
type Probe struct {
	URL string
	// Statuses are the answers that are as they should be, Matches a regular expression
	// (RE2) that the body has to match too; "": any body.
	Statuses []Statuses
	Matches  string
	Timeout  time.Duration
}

// Repeated is how a service answers what it has done before.
type Repeated struct{ Statuses []Statuses }

// Statuses are those from From to To.
type Statuses struct{ From, To int }

// maxProbe is how long a probe may take: its control drives other runs meanwhile.
const maxProbe = 3 * time.Second

// Host is what is allowed or not: the name of the host, and the port that is asked.
func (p Probe) Host() (name, port string) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "", ""
	}
	if port = u.Port(); port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()), port
}

// Takes reports whether an answer is as it should be.
func (p Probe) Takes(status int, body []byte) bool {
	if !Among(p.Statuses, status) {
		return false
	}
	if p.Matches == "" {
		return true
	}
	re, err := regexp.Compile(p.Matches)
	return err == nil && re.Match(body)
}

// Expects says in words what has to be answered.
func (p Probe) Expects() string {
	out := Either(p.Statuses)
	if p.Matches != "" {
		out += " with " + p.Matches
	}
	return out
}

// Either writes statuses in words.
func Either(all []Statuses) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = s.String()
	}
	return strings.Join(words, " or ")
}

func (s Statuses) String() string {
	if s.From == s.To {
		return strconv.Itoa(s.From)
	}
	return fmt.Sprintf("%d-%d", s.From, s.To)
}

// Probes lists those of the hypothesis of s, in any phase.
func (s Scenario) Probes() (out []Probe) {
	for _, list := range [][]Assertion{s.Steady, s.During, s.After} {
		for _, a := range list {
			if a.Probe != nil {
				out = append(out, *a.Probe)
			}
		}
	}
	return out
}

// probed reads an assertion on what an address answers.
func probed(a *Assertion, m *conf.Map, phase string) {
	n := m.Get("probe")
	p := Probe{URL: n.Str(""), Matches: m.Get("matches").Str(""), Timeout: m.Get("timeout").Span(maxProbe, 100*time.Millisecond, maxProbe)}
	a.Measure, a.MinRequests = Probed, 1
	if why := badURL(p.URL); why != "" && n.Present() {
		n.Errorf("must be an http or https address without a name and password, such as http://points:8080/healthz: %s", why)
	}
	if _, err := regexp.Compile(p.Matches); err != nil || len(p.Matches) > 500 {
		m.Get("matches").Errorf("must be a regular expression of at most 500 bytes, got %q", p.Matches)
	}
	if p.Statuses = statuses(m.Get("status")); len(p.Statuses) == 0 {
		p.Statuses = []Statuses{{200, 299}}
	}
	if phase == "after" {
		a.Within = m.Get("within").Span(0, time.Second, maxPhase)
	}
	a.Probe = &p
}

// statuses reads a list of some.
func statuses(n conf.Node) (out []Statuses) {
	for _, x := range n.List() {
		s, ok := statusesOf(x.Text())
		if !ok {
			x.Errorf("must be a status such as 200, or some such as 200-299, got %s", x.Got())
		}
		out = append(out, s)
	}
	if len(out) > 20 {
		n.Errorf("must be 20 at most, got %d", len(out))
	}
	return out
}

// Among reports whether status is one of all.
func Among(all []Statuses, status int) bool {
	return slices.ContainsFunc(all, func(s Statuses) bool { return s.From <= status && status <= s.To })
}

func badURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "it cannot be read"
	case u.Scheme != "http" && u.Scheme != "https":
		return "its scheme is " + strconv.Quote(u.Scheme)
	case u.Hostname() == "":
		return "it names no host"
	case u.User != nil:
		return "it holds a name or a password"
	case len(text) > 2000:
		return "it is longer than 2000 bytes"
	}
	return ""
}

// statusesOf reads "200" or "200-299".
func statusesOf(text string) (Statuses, bool) {
	low, high, both := strings.Cut(text, "-")
	if !both {
		high = low
	}
	from, errFrom := strconv.Atoi(low)
	to, errTo := strconv.Atoi(high)
	ok := errFrom == nil && errTo == nil && len(low) == 3 && len(high) == 3 && from >= 100 && to <= 599 && from <= to
	return Statuses{from, to}, ok
}
