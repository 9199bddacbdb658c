// Package route finds the route of a request: chi's tree over method and path,
// one tree for each set of other conditions that routes make.
//
// A Table is compiled once for a snapshot and never changes, so it needs no lock.
package route

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"breakwater/gateway/exchange"

	"github.com/go-chi/chi/v5"
)

// Match says which requests a route takes: those that meet all of it.
type Match struct {
	// Host is a host name without port, or "*.example.com" for any name under
	// it; "" takes every host.
	Host string `json:"host,omitempty"`
	// Methods empty means every standard method.
	Methods []string `json:"methods,omitempty"`
	// Path is a pattern of chi: /orders/{id}, /static/*.
	Path string `json:"path"`
	// Headers must all be there.
	Headers []Header `json:"headers,omitempty"`
	// Callers are the names of whom it is for; empty takes everybody.
	Callers []string `json:"callers,omitempty"`
	// Windows are when it is there: in any one of them; empty is always.
	Windows []Window `json:"windows,omitempty"`
}

// Header is a field that must be there, with exactly this value or, where
// Present, with any.
type Header struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Present bool   `json:"present,omitempty"`
}

// Facts are what a match may ask beside the request itself.
type Facts struct {
	Caller string    // as the event names it
	Now    time.Time // of the request's arrival
}

// Verdict is what a Table says of a request.
type Verdict int

// The verdicts.
const (
	NotFound   Verdict = iota // 404
	NotAllowed                // 405: some route takes the path, by another method
	Found
)

var standard = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

// Methods returns the methods a route may name.
func Methods() []string { return slices.Clone(standard) }

// Table finds routes. It is safe for concurrent use.
type Table struct {
	exact    map[string][]*group // by host
	rest     []*group            // wildcard hosts, then any
	callers  bool
	contexts sync.Pool
}

// group is the routes that make the same conditions: one chi tree.
type group struct {
	conditions
	tree  *chi.Mux
	index map[key]int
}

type key struct{ method, pattern string }

// Error says which match is wrong, and why.
type Error struct {
	Index int    // of the match
	Other int    // the match that takes the same requests, or -1
	Text  string // what is wrong with its path or method
}

func (e *Error) Error() string { return fmt.Sprintf("route %d: %s", e.Index, e.Text) }

// Compile builds the table of matches; Find answers with an index into it. A
// pattern chi cannot read, and two matches that take the very same requests, are
// refused with an *Error. Order says which of several that could take a request
// does.
func Compile(matches []Match) (*Table, error) {
	t := &Table{exact: map[string][]*group{}, contexts: sync.Pool{New: func() any { return chi.NewRouteContext() }}}
	var groups []*group
	for i, m := range matches {
		want := conditionsOf(m)
		at := slices.IndexFunc(groups, func(g *group) bool { return g.id == want.id })
		if at < 0 {
			at, groups = len(groups), append(groups, &group{conditions: want, tree: chi.NewRouter(), index: map[key]int{}})
		}
		if err := groups[at].add(i, m); err != nil {
			return nil, err
		}
		t.callers = t.callers || len(m.Callers) > 0
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return order(&a.conditions, &b.conditions) })
	for _, g := range groups {
		if g.host != "" && !strings.HasPrefix(g.host, "*.") {
			t.exact[g.host] = append(t.exact[g.host], g)
		} else {
			t.rest = append(t.rest, g)
		}
	}
	return t, nil
}

// AsksCaller reports whether any match depends on Facts.Caller.
func (t *Table) AsksCaller() bool { return t.callers }

func (g *group) add(i int, m Match) (err error) {
	// chi panics on a pattern it cannot read; here a user wrote the pattern.
	defer func() {
		if r := recover(); r != nil {
			text := strings.TrimPrefix(fmt.Sprint(r), "chi: ")
			err = &Error{i, -1, fmt.Sprintf("must be a path pattern, got %s: %s", m.Path, text)}
		}
	}()
	if !strings.HasPrefix(m.Path, "/") {
		return &Error{i, -1, fmt.Sprintf("must begin with /, got %q", m.Path)}
	}
	methods := m.Methods
	if len(methods) == 0 {
		methods = standard
	}
	for _, method := range methods {
		if !slices.Contains(standard, method) {
			return &Error{i, -1, fmt.Sprintf("method must be one of %s, got %q", strings.Join(standard, " "), method)}
		}
		if j, taken := g.taken(method, m.Path); taken {
			return &Error{i, j, fmt.Sprintf("must take requests that no other route takes, got %s %s again", method, m.Path)}
		}
		g.tree.MethodFunc(method, m.Path, func(http.ResponseWriter, *http.Request) {})
		g.index[key{method, m.Path}] = i
	}
	return nil
}

// taken reports whether the tree has a pattern that differs from path at most in
// the names of its parameters: chi would let the later one win silently.
func (g *group) taken(method, path string) (int, bool) {
	shape := shapeOf(path)
	for k, i := range g.index {
		if k.method == method && shapeOf(k.pattern) == shape {
			return i, true
		}
	}
	return 0, false
}

// shapeOf drops the names of parameters: /a/{id} and /a/{name} take the same paths.
func shapeOf(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); {
		if pattern[i] != '{' {
			b.WriteByte(pattern[i])
			i++
			continue
		}
		depth, end := 0, i
		for end < len(pattern) {
			if pattern[end] == '{' {
				depth++
			} else if pattern[end] == '}' {
				depth--
			}
			end++
			if depth == 0 {
				break
			}
		}
		_, expr, _ := strings.Cut(strings.TrimSuffix(pattern[i+1:end], "}"), ":")
		b.WriteString("{" + expr + "}")
		i = end
	}
	return b.String()
}

// Find returns the index of the match that takes req. Path and Host are read in
// the normal form that the front gives them; a port of Host does not matter.
func (t *Table) Find(req *exchange.Request, f Facts) (int, Verdict) {
	ctx := t.contexts.Get().(*chi.Context)
	defer t.contexts.Put(ctx)
	host := plainHost(req.Host)
	if i, ok := t.find(ctx, host, req.Method, req, f); ok {
		return i, Found
	}
	for _, method := range standard {
		if _, ok := t.find(ctx, host, method, req, f); ok {
			return -1, NotAllowed
		}
	}
	return -1, NotFound
}

// Allowed lists the methods by which req's path could be had, for the Allow
// header of a 405.
func (t *Table) Allowed(req *exchange.Request, f Facts) (out []string) {
	ctx := t.contexts.Get().(*chi.Context)
	defer t.contexts.Put(ctx)
	host := plainHost(req.Host)
	for _, method := range standard {
		if _, ok := t.find(ctx, host, method, req, f); ok {
			out = append(out, method)
		}
	}
	return out
}

// find goes through the groups in their order; the first whose tree has the path
// decides.
func (t *Table) find(ctx *chi.Context, host, method string, req *exchange.Request, f Facts) (int, bool) {
	for _, groups := range [2][]*group{t.exact[host], t.rest} {
		for _, g := range groups {
			if !g.takes(host, req, f) {
				continue
			}
			ctx.Reset()
			if pattern := g.tree.Find(ctx, method, req.Path); pattern != "" {
				if i, ok := g.index[key{method, pattern}]; ok {
					return i, true
				}
			}
		}
	}
	return 0, false
}
