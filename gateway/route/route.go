// Package route finds the route of a request: chi's tree over method and path,
// one tree for each host and set of headers that routes ask for.
//
// A Table is compiled once for a snapshot and never changes, so it needs no lock.
package route

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"breakwater/gateway/exchange"

	"github.com/go-chi/chi/v5"
)

// Match says which requests a route takes.
type Match struct {
	// Host is a host name without port, or "*.example.com" for any name under
	// it; "" takes every host.
	Host string `json:"host,omitempty"`
	// Methods empty means every standard method.
	Methods []string `json:"methods,omitempty"`
	// Path is a pattern of chi: /orders/{id}, /static/*.
	Path string `json:"path"`
	// Headers must all be there with exactly these values.
	Headers []Header `json:"headers,omitempty"`
}

// Header is a field and the value it must have.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Verdict is what a Table says of a request.
type Verdict int

// The verdicts.
const (
	NotFound   Verdict = iota // 404
	NotAllowed                // 405: some route takes the path, by another method
	Found
)

// Methods returns the methods a route may name.
func Methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}
}

// Table finds routes. It is safe for concurrent use.
type Table struct {
	groups   []*group
	contexts sync.Pool
}

// group is the routes that ask for the same host and headers: one chi tree.
type group struct {
	host    string
	headers []Header
	tree    *chi.Mux
	index   map[key]int
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
// refused with an *Error.
//
// Where several groups could take a request the more special one does: an exact
// host before "*.host" before any, and more headers before fewer.
func Compile(matches []Match) (*Table, error) {
	t := &Table{contexts: sync.Pool{New: func() any { return chi.NewRouteContext() }}}
	for i, m := range matches {
		if err := t.group(m).add(i, m); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(t.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(rank(b.host), rank(a.host)), cmp.Compare(len(b.headers), len(a.headers)))
	})
	return t, nil
}

// rank orders hosts from any to exact; among wildcards the longer is more special.
func rank(host string) int {
	switch {
	case host == "":
		return 0
	case strings.HasPrefix(host, "*."):
		return len(host)
	}
	return 1 << 16
}

func (t *Table) group(m Match) *group {
	host := strings.ToLower(m.Host)
	headers := slices.Clone(m.Headers)
	for i := range headers {
		headers[i].Name = http.CanonicalHeaderKey(headers[i].Name)
	}
	slices.SortFunc(headers, func(a, b Header) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	for _, g := range t.groups {
		if g.host == host && slices.Equal(g.headers, headers) {
			return g
		}
	}
	g := &group{host: host, headers: headers, tree: chi.NewRouter(), index: map[key]int{}}
	t.groups = append(t.groups, g)
	return g
}

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
		methods = Methods()
	}
	for _, method := range methods {
		if !slices.Contains(Methods(), method) {
			return &Error{i, -1, fmt.Sprintf("method must be one of %s, got %q", strings.Join(Methods(), " "), method)}
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
func (t *Table) Find(req *exchange.Request) (int, Verdict) {
	ctx := t.contexts.Get().(*chi.Context)
	defer t.contexts.Put(ctx)
	for _, g := range t.groups {
		if !g.takes(req) {
			continue
		}
		if i, ok := g.find(ctx, req.Method, req.Path); ok {
			return i, Found
		}
	}
	if len(t.allowed(ctx, req)) > 0 {
		return -1, NotAllowed
	}
	return -1, NotFound
}

// Allowed lists the methods by which req's path could be had, for the Allow
// header of a 405.
func (t *Table) Allowed(req *exchange.Request) []string {
	ctx := t.contexts.Get().(*chi.Context)
	defer t.contexts.Put(ctx)
	return t.allowed(ctx, req)
}

func (t *Table) allowed(ctx *chi.Context, req *exchange.Request) (out []string) {
	for _, method := range Methods() {
		for _, g := range t.groups {
			if !g.takes(req) {
				continue
			}
			if _, ok := g.find(ctx, method, req.Path); ok {
				out = append(out, method)
				break
			}
		}
	}
	return out
}

func (g *group) find(ctx *chi.Context, method, path string) (int, bool) {
	ctx.Reset()
	pattern := g.tree.Find(ctx, method, path)
	if pattern == "" {
		return 0, false
	}
	i, ok := g.index[key{method, pattern}]
	return i, ok
}

func (g *group) takes(req *exchange.Request) bool {
	if g.host != "" && !hostMatches(g.host, req.Host) {
		return false
	}
	for _, h := range g.headers {
		if !slices.ContainsFunc(req.Head.Fields(), func(f exchange.Field) bool {
			return f.Value == h.Value && strings.EqualFold(f.Name, h.Name)
		}) {
			return false
		}
	}
	return true
}

func hostMatches(want, host string) bool {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	host = strings.TrimSuffix(host, ".")
	if under, ok := strings.CutPrefix(want, "*"); ok { // ".example.com"
		return len(host) > len(under) && strings.EqualFold(host[len(host)-len(under):], under)
	}
	return strings.EqualFold(host, want)
}
