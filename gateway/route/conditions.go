package route

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"breakwater/gateway/exchange"
)

// conditions are what a match asks beside method and path.
type conditions struct {
	host    string
	headers []Header // sorted, no two alike
	callers []string // sorted
	windows []Window
	id      string // the same for the same conditions, however they were written
}

func conditionsOf(m Match) conditions {
	c := conditions{host: strings.ToLower(m.Host), windows: m.Windows}
	for _, h := range m.Headers {
		h.Name = http.CanonicalHeaderKey(h.Name)
		c.headers = append(c.headers, h)
	}
	slices.SortFunc(c.headers, func(a, b Header) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	c.headers = slices.Compact(c.headers)
	c.callers = slices.Clone(m.Callers)
	slices.Sort(c.callers)
	c.callers = slices.Compact(c.callers)
	windows := make([]string, len(m.Windows))
	for i, w := range m.Windows {
		windows[i] = w.String()
	}
	slices.Sort(windows)
	c.id = fmt.Sprintf("%q %#v %q %q", c.host, c.headers, c.callers, slices.Compact(windows))
	return c
}

// order says whose routes are tried first, before the path is looked at: those
// that ask for more. In this order of weight:
//
//  1. an exact host, then "*.host" (the longer first), then any;
//  2. callers named, then any;
//  3. more headers, then fewer; of as many, more exact values before fewer;
//  4. a time window, then always.
//
// What is alike in all of these stands in the order of the documents. Within the
// routes of the same conditions chi's own rule holds: a fixed segment goes before
// an expression, that before a parameter, that before a wildcard.
func order(a, b *conditions) int {
	return cmp.Or(
		cmp.Compare(b.rank(), a.rank()),
		more(len(a.callers) > 0, len(b.callers) > 0),
		cmp.Compare(len(b.headers), len(a.headers)),
		cmp.Compare(b.values(), a.values()),
		more(len(a.windows) > 0, len(b.windows) > 0),
	)
}

// more puts what is before what is not.
func more(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// rank orders hosts from any to exact; among wildcards the longer is more special.
func (c *conditions) rank() int {
	switch {
	case c.host == "":
		return 0
	case strings.HasPrefix(c.host, "*."):
		return len(c.host)
	}
	return 1 << 16
}

func (c *conditions) values() (n int) {
	for _, h := range c.headers {
		if !h.Present {
			n++
		}
	}
	return n
}

func (c *conditions) takes(host string, req *exchange.Request, f Facts) bool {
	if c.host != "" && !hostMatches(c.host, host) {
		return false
	}
	if len(c.callers) > 0 && !slices.Contains(c.callers, f.Caller) {
		return false
	}
	for i := range c.headers {
		if !c.headers[i].in(&req.Head) {
			return false
		}
	}
	for _, w := range c.windows {
		if w.Holds(f.Now) {
			return true
		}
	}
	return len(c.windows) == 0
}

// in reports whether any of several fields will do.
func (h *Header) in(head *exchange.Head) bool {
	for _, f := range head.Fields() {
		if (h.Present || f.Value == h.Value) && len(f.Name) == len(h.Name) && strings.EqualFold(f.Name, h.Name) {
			return true
		}
	}
	return false
}

// plainHost takes port and final dot off. The front has it in lower case already,
// so that nothing is allocated.
func plainHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func hostMatches(want, host string) bool {
	if under, ok := strings.CutPrefix(want, "*"); ok { // ".example.com"
		return len(host) > len(under) && strings.HasSuffix(host, under)
	}
	return host == want
}
