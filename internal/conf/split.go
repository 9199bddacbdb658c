package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of one file. A document of ours is a few kilobytes; what is larger or
// deeper is a mistake or an attack, and is refused before it costs anything.
const (
	MaxBytes = 256 << 10
	MaxDepth = 32
)

// Document is one YAML document, with the head by which its reader is chosen.
// APIVersion, Kind and Name are "" where absent; whoever decodes the document
// says so, since a bare ponytail file has none of them.
type Document struct {
	Root             Node
	APIVersion, Kind string
	Name             string
}

// Split parses a file into its documents. Syntax errors, aliases, anchors, tags,
// duplicate keys, and what passes the limits are reported to log; the documents
// before the first syntax error are returned all the same, so that all mistakes
// can be told at once.
func Split(f File, log *Log) []Document {
	if len(f.Data) > MaxBytes {
		log.Add(f.Name, 1, 1, "must be at most %d KiB, got %d KiB", MaxBytes>>10, (len(f.Data)+1023)>>10)
		return nil
	}
	if i := bytes.IndexByte(f.Data, 0); i >= 0 {
		line, col := placeOf(f.Data, i)
		log.Add(f.Name, line, col, "must be text, got a zero byte")
		return nil
	}
	if line := tooDeep(f.Data); line > 0 {
		log.Add(f.Name, line, 1, "must be nested at most %d deep", MaxDepth)
		return nil
	}
	var docs []Document
	dec := yaml.NewDecoder(bytes.NewReader(f.Data))
	for {
		var n yaml.Node
		err := decode(dec, &n)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			line, text := syntax(err, f.Data)
			log.Add(f.Name, line, 1, "must be YAML: %s", text)
			return docs
		}
		if n.Kind != yaml.DocumentNode || len(n.Content) == 0 {
			continue
		}
		root := Node{n: n.Content[0], file: f.Name, log: log}
		if root.null() {
			continue // only comments, or nothing between two "---"
		}
		if !root.sound(0) {
			continue
		}
		d := Document{Root: root}
		d.APIVersion, d.Kind, d.Name = root.peek("apiVersion"), root.peek("kind"), root.peek("name")
		docs = append(docs, d)
	}
}

// decode turns a panic of the parser into an error: one hostile file must not
// end a process that serves.
func decode(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: unreadable: %v", r)
		}
	}()
	return dec.Decode(n)
}

var yamlLine = regexp.MustCompile(`^yaml: (?:(?:unmarshal errors:\s*)?line (\d+): )?(.*)$`)

func syntax(err error, data []byte) (line int, text string) {
	lines := bytes.Count(data, []byte("\n")) + 1
	text = strings.Join(strings.Fields(err.Error()), " ")
	line = 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = min(max(n, 1), lines)
		}
	}
	return line, text
}

func placeOf(data []byte, i int) (line, col int) {
	before := data[:i]
	return bytes.Count(before, []byte("\n")) + 1, i - bytes.LastIndexByte(before, '\n')
}

// tooDeep finds brackets nested beyond any sense, before the parser recurses
// into them; the exact check is made on the tree. It returns the line, or 0.
func tooDeep(data []byte) int {
	depth, line := 0, 1
	for _, c := range data {
		switch c {
		case '\n':
			line++
		case '[', '{':
			depth++
			if depth > 64*MaxDepth {
				return line
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return 0
}

// sound reports what no document of ours may hold, all of it, and returns whether
// the document can be read all the same, for the sake of its other mistakes.
func (n Node) sound(depth int) bool {
	if depth > MaxDepth {
		n.Errorf("must be nested at most %d deep", MaxDepth)
		return false
	}
	y, ok := n.n, true
	if y.Kind == yaml.AliasNode {
		n.Errorf("must be written out, got the alias *%s", y.Value).Hint("aliases are not allowed")
		return false
	}
	if y.Anchor != "" {
		n.Errorf("must have no anchor, got &%s", y.Anchor).Hint("aliases are not allowed")
	}
	if y.Style&yaml.TaggedStyle != 0 {
		n.Errorf("must have no tag, got %s", y.Tag)
	}
	switch y.Kind {
	case yaml.SequenceNode:
		for i, c := range y.Content {
			ok = n.item(i, c).sound(depth+1) && ok
		}
	case yaml.MappingNode:
		seen := map[string]int{}
		for i := 0; i+1 < len(y.Content); i += 2 {
			k, v := y.Content[i], y.Content[i+1]
			at := Node{n: k, file: n.file, log: n.log, path: n.path}
			if k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge" || k.ShortTag() == "!!null" {
				at.Errorf("must have plain words as keys, got %s", at.what())
				ok = false
				continue
			}
			if !at.sound(depth) {
				ok = false
				continue
			}
			child := n.child(k.Value, v)
			if line, twice := seen[k.Value]; twice {
				at.path = child.path
				at.Errorf("must stand once, got it again").Hint("first in line %d", line)
				continue
			}
			seen[k.Value] = k.Line
			ok = child.sound(depth+1) && ok
		}
	}
	return ok
}

// peek reads a string without judging it.
func (n Node) peek(key string) string {
	if n.n == nil || n.n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.n.Content); i += 2 {
		if v := n.n.Content[i+1]; n.n.Content[i].Value == key && v.Kind == yaml.ScalarNode {
			return v.Value
		}
	}
	return ""
}
