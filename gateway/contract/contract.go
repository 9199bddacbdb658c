// Package contract holds an upstream to what was agreed about its answers: which
// status and header mean what, and what the gateway makes of each. Documents are
// compared with the retry policies before they serve, and with what the upstream
// really answers afterwards.
package contract

import (
	"net/http"
	"regexp"
	"strings"

	"breakwater/internal/conf"
)

// Reaction is what the gateway makes of an answer.
type Reaction string

// The reactions.
const (
	Retry    Reaction = "retry"    // ask again, as far as the policy's limits go
	Never    Reaction = "never"    // do not ask again, whatever the client then gets
	Fallback Reaction = "fallback" // do not ask again, and answer in its place
	Pass     Reaction = "pass"     // give it to the client as it is
)

// Resilience is what one upstream has agreed to.
type Resilience struct {
	Name     string   `json:"name"`
	Upstream string   `json:"upstream"`
	Answers  []Answer `json:"answers"`
}

// Answer is one kind of answer: its status, and where the status alone does not
// tell it from another, a header.
type Answer struct {
	Status int `json:"status"`
	// Header must be there, in any case; with Value, it must have that value to
	// the byte.
	Header   string   `json:"header,omitempty"`
	Value    string   `json:"value,omitempty"`
	Meaning  string   `json:"meaning"`
	Reaction Reaction `json:"reaction"`
}

// String names the kind of answer: 503 with X-Backend-Status=overloaded.
func (a Answer) String() string {
	s := statusText(a.Status)
	if a.Header != "" {
		s += " with " + a.Header
	}
	if a.Value != "" {
		s += "=" + a.Value
	}
	return s
}

// Head is the head of an answer: Holds reports whether some field is called name
// and, where value is not empty, has it.
type Head interface{ Holds(name, value string) bool }

// Unlisted is what Find returns for an answer of which nothing was agreed.
const Unlisted = -1

// Find returns the first of c's answers that fits, or Unlisted.
func (c *Resilience) Find(status int, head Head) int {
	for i := range c.Answers {
		a := &c.Answers[i]
		if a.Status == status && (a.Header == "" || head.Holds(a.Header, a.Value)) {
			return i
		}
	}
	return Unlisted
}

// ParseResilience reads a ResilienceContract document. at holds where each of
// Answers stands.
func ParseResilience(m *conf.Map) (c Resilience, at []conf.Node) {
	c.Name, c.Upstream = m.Need("name").Name(), m.Need("upstream").Name()
	list := m.Need("answers")
	for _, item := range list.List() {
		a := parseAnswer(item.Map())
		if i := covered(c.Answers, a); i >= 0 && a.Status != 0 {
			item.Errorf("must stand before %s, which fits all that this fits", c.Answers[i]).
				Hint("the first that fits counts; that is line %d", at[i].Line()).Coded("E-ORDER")
		}
		c.Answers, at = append(c.Answers, a), append(at, item)
	}
	if list.IsList() && len(c.Answers) == 0 {
		list.Errorf("must list at least one answer, got none").Coded("E-ANSWERS")
	}
	m.Done()
	return c, at
}

func parseAnswer(m *conf.Map) Answer {
	a := Answer{Status: int(m.Need("status").Int(0, 100, 599))}
	switch header := m.Get("header"); {
	case header.IsMap():
		h := header.Map()
		a.Header = headerName(h.Need("key"))
		a.Value = h.Need("value").Str("")
		h.Done()
	case header.Present():
		a.Header = headerName(header)
	}
	a.Meaning = m.Need("meaning").Str("")
	a.Reaction = Reaction(m.Need("reaction").Enum("", string(Retry), string(Never), string(Fallback), string(Pass)))
	m.Done()
	return a
}

var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func headerName(n conf.Node) string {
	s := n.Str("")
	if s != "" && !token.MatchString(s) {
		n.Errorf("must be a header name, or {key: a name, value: text}, got %s", n.Got())
		return ""
	}
	return http.CanonicalHeaderKey(s)
}

// covered finds an answer of those before that fits all that a fits.
func covered(before []Answer, a Answer) int {
	for i, b := range before {
		if b.Status == a.Status && (b.Header == "" || strings.EqualFold(b.Header, a.Header) && (b.Value == "" || b.Value == a.Value)) {
			return i
		}
	}
	return -1
}
