package conf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Node is a place in a document: a value, or where one is absent.
type Node struct {
	n    *yaml.Node // nil: absent
	up   *yaml.Node // where an absent value would stand
	file string
	path string
	log  *Log
}

// Present reports whether something stands here, be it only "null".
func (n Node) Present() bool { return n.n != nil }

// Path is the path of the field, such as routes[1].match.path.
func (n Node) Path() string { return n.path }

// File, Line and Col are the place; an absent value stands where its parent does.
func (n Node) File() string { return n.file }

// Line counts from 1.
func (n Node) Line() int { line, _ := n.place(); return line }

// Col counts from 1.
func (n Node) Col() int { _, col := n.place(); return col }

func (n Node) place() (line, col int) {
	at := n.n
	if at == nil {
		at = n.up
	}
	if at == nil {
		return 1, 1
	}
	return max(at.Line, 1), max(at.Column, 1)
}

// Errorf reports a mistake here. The text says what must be and what was found:
// "must be 0 to 5, got 9".
func (n Node) Errorf(format string, args ...any) *Mistake {
	line, col := n.place()
	m := n.log.Add(n.file, line, col, format, args...)
	m.Path = n.path
	return m
}

// Warnf reports something doubtful here.
func (n Node) Warnf(format string, args ...any) *Mistake {
	m := n.Errorf(format, args...)
	m.IsWarning = true
	return m
}

// what describes the value for "got ...".
func (n Node) what() string {
	switch {
	case n.n == nil:
		return "nothing"
	case n.n.Kind == yaml.MappingNode:
		return "a map"
	case n.n.Kind == yaml.SequenceNode:
		return "a list"
	case n.n.Kind == yaml.AliasNode:
		return "an alias"
	case n.null():
		return "nothing"
	case n.n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return strconv.Quote(clip(n.n.Value))
	default:
		return clip(n.n.Value)
	}
}

func clip(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

func (n Node) null() bool {
	return n.n != nil && n.n.Kind == yaml.ScalarNode && n.n.ShortTag() == "!!null"
}

func (n Node) child(key string, v *yaml.Node) Node {
	path := key
	if strings.ContainsAny(key, ".[] \n") || key == "" {
		path = strconv.Quote(key)
	}
	if n.path != "" {
		path = n.path + "." + path
	}
	return Node{n: v, up: n.n, file: n.file, path: path, log: n.log}
}

func (n Node) item(i int, v *yaml.Node) Node {
	return Node{n: v, up: n.n, file: n.file, path: n.path + "[" + strconv.Itoa(i) + "]", log: n.log}
}

// Map is a mapping being read. Each key is asked for with Get or Need; Done
// refuses the keys nobody asked for.
type Map struct {
	node  Node
	asked []string
}

// Map starts reading n as a mapping. An absent n gives an empty one without a
// word; anything else that is no mapping is a mistake.
func (n Node) Map() *Map {
	if n.n != nil && n.n.Kind != yaml.MappingNode {
		n.Errorf("must be a map, got %s", n.what())
		return &Map{node: Node{up: n.n, file: n.file, path: n.path, log: n.log}}
	}
	return &Map{node: n}
}

// Node is where the map stands.
func (m *Map) Node() Node { return m.node }

// Get returns the value of key, absent where there is none.
func (m *Map) Get(key string) Node {
	m.asked = append(m.asked, key)
	for i := 0; i+1 < m.len(); i += 2 {
		if k := m.node.n.Content[i]; k.Value == key {
			return m.node.child(key, m.node.n.Content[i+1])
		}
	}
	absent := m.node.child(key, nil)
	if absent.up == nil {
		absent.up = m.node.up
	}
	return absent
}

// Need is Get of a key that must be there.
func (m *Map) Need(key string) Node {
	n := m.Get(key)
	if !n.Present() && m.node.Present() {
		n.Errorf("must be given").Coded("E-MISSING")
	}
	return n
}

// Keys lists the keys as they stand.
func (m *Map) Keys() []string {
	var keys []string
	for i := 0; i+1 < m.len(); i += 2 {
		keys = append(keys, m.node.n.Content[i].Value)
	}
	return keys
}

// Done refuses every key that was not asked for, naming the nearest one that was.
func (m *Map) Done() {
	for i := 0; i+1 < m.len(); i += 2 {
		k := m.node.n.Content[i]
		if slices.Contains(m.asked, k.Value) {
			continue
		}
		at := m.node.child(k.Value, k)
		e := at.Errorf("must be a known field, got %s", clip(k.Value)).Coded("E-UNKNOWN")
		if near := nearest(k.Value, m.asked); near != "" {
			e.Hint("did you mean %s?", near)
		} else {
			known := slices.Clone(m.asked)
			slices.Sort(known)
			e.Hint("known here: %s", strings.Join(slices.Compact(known), ", "))
		}
	}
}

func (m *Map) len() int {
	if m.node.n == nil {
		return 0
	}
	return len(m.node.n.Content)
}

// List returns the items of a sequence; an absent n has none.
func (n Node) List() []Node {
	if n.n == nil {
		return nil
	}
	if n.n.Kind != yaml.SequenceNode {
		n.Errorf("must be a list, got %s", n.what())
		return nil
	}
	out := make([]Node, len(n.n.Content))
	for i, c := range n.n.Content {
		out[i] = n.item(i, c)
	}
	return out
}

// IsMap and IsList tell what stands here, for fields that may be either.
func (n Node) IsMap() bool { return n.n != nil && n.n.Kind == yaml.MappingNode }

// IsList reports whether n is a sequence.
func (n Node) IsList() bool { return n.n != nil && n.n.Kind == yaml.SequenceNode }

// Entry is one pair of a map whose keys are the user's own.
type Entry struct {
	Key   string
	Value Node
}

// Entries returns the pairs of a map whose keys are the user's own, in order.
func (n Node) Entries() []Entry {
	m := n.Map()
	var out []Entry
	for i := 0; i+1 < m.len(); i += 2 {
		k := m.node.n.Content[i].Value
		out = append(out, Entry{k, m.node.child(k, m.node.n.Content[i+1])})
	}
	return out
}

// JSON writes what stands here as JSON, for values that are somebody else's.
func (n Node) JSON() string {
	var v any
	if n.n == nil || n.n.Decode(&v) != nil {
		return "null"
	}
	text, err := json.Marshal(v)
	if err != nil { // a map by numbers, say
		n.Errorf("must be JSON, got %s", n.what())
		return "null"
	}
	return string(text)
}

// nearest returns the word of known that a typing mistake makes of got, or "".
func nearest(got string, known []string) string {
	best, least := "", max(len(got)/3, 1)+1
	if len(got) > 64 {
		return ""
	}
	for _, k := range known {
		if d := distance(strings.ToLower(got), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is Levenshtein's, on bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// oneOf joins words for a message: "a, b or c".
func oneOf(words []string) string {
	switch len(words) {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	}
	return fmt.Sprintf("%s or %s", strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
}
