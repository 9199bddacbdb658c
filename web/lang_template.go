package web

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode"
)

// A template is rewritten into another language before it is parsed. What a reader
// sees as one text is one unit, and its key is the English with marks for the rest:
//
//	<p>Frozen since {{template "time" .At}}, see <a href="/gate">the gate</a>.</p>
//	Frozen since {0}, see <1>the gate</1>.
//
// {0} is what a request fills in: a value, a template, <code>, or a block of actions
// without any words. <1> is a tag inside the sentence. The translation may put them in
// another order. Everything else ends a unit: other tags, and {{if}} around words.
// What a translation says beside its marks is text: it is escaped, so it can bring
// neither markup nor actions.

// piece is the smallest part of a template's source.
type piece struct {
	kind  pieceKind
	src   string
	name  string // of a tag, or the first word of an action
	close bool   // </tag>
}

type pieceKind int

const (
	isText pieceKind = iota
	isAction
	isTag
	isRaw // <code> with all it holds, or the inside of what holds no text: <script>
)

// inSentence are the tags that may stand inside one.
var inSentence = [...]string{"a", "abbr", "b", "em", "i", "kbd", "s", "small", "span", "strong", "sub", "sup", "time", "u"}

// spoken are the attributes that people see or hear.
var spoken = [...]string{"alt", "aria-description", "aria-label", "data-label", "label", "placeholder", "title"}

// pieces cuts a source. Joined again they are the source, whatever it holds.
func pieces(src string) []piece {
	var out []piece
	text := 0
	flush := func(to int) {
		if to > text {
			out = append(out, piece{kind: isText, src: src[text:to]})
		}
	}
	for i := 0; i < len(src); {
		switch {
		case strings.HasPrefix(src[i:], "{{"):
			end := actionEnd(src, i)
			flush(i)
			out = append(out, actionPiece(src[i:end]))
			i, text = end, end
		case src[i] == '<' && i+1 < len(src) && (src[i+1] == '/' || src[i+1] == '!' || unicode.IsLetter(rune(src[i+1]))):
			end := tagEnd(src, i)
			p := tagPiece(src[i:end])
			flush(i)
			text = end
			if raw := holds(p); raw != isText {
				stop := end
				if j := strings.Index(src[end:], "</"+p.name); j >= 0 {
					stop = end + j
				}
				if raw == isRaw && p.name == "code" {
					stop = tagEnd(src, stop)
					p = piece{kind: isRaw, src: src[i:stop], name: "code"}
					out = append(out, p)
				} else {
					out = append(out, p)
					if stop > end {
						out = append(out, piece{kind: isRaw, src: src[end:stop], name: p.name})
					}
				}
				text = stop
			}
			i = text
			if p.kind == isTag && holds(p) == isText {
				out = append(out, p)
			}
		default:
			i++
		}
	}
	flush(len(src))
	return out
}

// holds says what stands inside a tag: text, or what is not for readers.
func holds(p piece) pieceKind {
	if !p.close && slices.Contains([]string{"code", "pre", "script", "style", "textarea"}, p.name) {
		return isRaw
	}
	return isText
}

// actionEnd is where the action that begins at i ends; its strings may hold braces.
func actionEnd(src string, i int) int {
	if j := strings.Index(src[i:], "/*"); j == 2 || j == 4 {
		if end := strings.Index(src[i:], "*/"); end >= 0 {
			if j := strings.Index(src[i+end:], "}}"); j >= 0 {
				return i + end + j + 2
			}
		}
		return len(src)
	}
	for j := i + 2; j < len(src); j++ {
		switch c := src[j]; {
		case c == '"' || c == '`' || c == '\'':
			for j++; j < len(src) && src[j] != c; j++ {
				if src[j] == '\\' && c != '`' {
					j++
				}
			}
		case strings.HasPrefix(src[j:], "}}"):
			return j + 2
		}
	}
	return len(src)
}

func tagEnd(src string, i int) int {
	quote := byte(0)
	for j := i + 1; j < len(src); j++ {
		switch c := src[j]; {
		case strings.HasPrefix(src[j:], "{{"):
			j = actionEnd(src, j) - 1
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '>':
			return j + 1
		}
	}
	return len(src)
}

func actionPiece(src string) piece {
	inside := strings.TrimSuffix(strings.TrimPrefix(src, "{{"), "}}")
	inside = strings.TrimSpace(strings.Trim(inside, "-"))
	name, _, _ := strings.Cut(inside, " ")
	if strings.HasPrefix(inside, "$") {
		if _, _, sets := strings.Cut(inside, "="); sets && !strings.Contains(inside, `"`) {
			name = "set" // a variable: it must stay where it is
		}
	}
	if strings.HasPrefix(inside, "/*") {
		name = "set"
	}
	return piece{kind: isAction, src: src, name: name}
}

func tagPiece(src string) piece {
	p := piece{kind: isTag, src: src}
	name := strings.TrimPrefix(src, "<")
	name, p.close = strings.CutPrefix(name, "/")
	if i := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' }); i >= 0 {
		name = name[:i]
	}
	p.name = strings.ToLower(name)
	return p
}

// node is a part of a sentence: text, something to fill in, or a tag around nodes.
type node struct {
	text        string
	fill        []piece
	open, close *piece
	inside      []node
}

// nodeAt reads the node that begins at i, and where the next one does; ok is false
// where a unit ends.
func nodeAt(all []piece, i int) (n node, next int, ok bool) {
	switch p := all[i]; p.kind {
	case isText:
		return node{text: html.UnescapeString(p.src)}, i + 1, true
	case isRaw:
		return node{fill: all[i : i+1]}, i + 1, p.name == "code"
	case isAction:
		if p.src == `{{"\u202f"}}` {
			return node{text: thinSpace}, i + 1, true
		}
		switch p.name {
		case "if", "with", "range":
			end := blockEnd(all, i)
			if end < 0 || wordy(all[i:end]) {
				return node{}, i, false
			}
			return node{fill: all[i:end]}, end, true
		case "else", "end", "define", "block", "break", "continue", "set":
			return node{}, i, false
		}
		return node{fill: all[i : i+1]}, i + 1, true
	default:
		if p.close || !slices.Contains(inSentence[:], p.name) || strings.HasSuffix(p.src, "/>") {
			return node{}, i, false
		}
		n = node{open: &all[i]}
		for j := i + 1; j < len(all); {
			if q := all[j]; q.kind == isTag && q.close && q.name == p.name {
				n.close = &all[j]
				return n, j + 1, true
			}
			inner, after, ok := nodeAt(all, j)
			if !ok {
				return node{}, i, false
			}
			n.inside, j = append(n.inside, inner), after
		}
		return node{}, i, false
	}
}

// blockEnd is after the {{end}} of the action at i.
func blockEnd(all []piece, i int) int {
	depth := 0
	for j := i; j < len(all); j++ {
		if all[j].kind != isAction {
			continue
		}
		switch all[j].name {
		case "if", "with", "range", "block", "define":
			depth++
		case "end":
			if depth--; depth == 0 {
				return j + 1
			}
		}
	}
	return -1
}

// wordy reports whether a block says anything itself, or holds more than a sentence may.
func wordy(block []piece) bool {
	for _, p := range block {
		switch p.kind {
		case isText:
			if hasLetter(html.UnescapeString(p.src)) {
				return true
			}
		case isTag:
			if !slices.Contains(inSentence[:], p.name) {
				return true
			}
		case isRaw:
			if p.name != "code" {
				return true
			}
		}
	}
	return false
}

func hasLetter(s string) bool { return strings.ContainsFunc(s, unicode.IsLetter) }

// unit is one text of a template with what its marks stand for.
type unit struct {
	key         string
	fills, tags []string // sources of {0}, {1}; of <1>, </1>, <2>, </2>
}

// unitOf makes the key of nodes; rewrite makes the source of what is filled in.
func unitOf(nodes []node, rewrite func([]piece) string) (unit, error) {
	var u unit
	var key strings.Builder
	var walk func([]node) error
	walk = func(nodes []node) error {
		for _, n := range nodes {
			switch {
			case n.open != nil:
				u.tags = append(u.tags, rewrite([]piece{*n.open}), n.close.src)
				number := len(u.tags) / 2
				fmt.Fprintf(&key, "<%d>", number)
				if err := walk(n.inside); err != nil {
					return err
				}
				fmt.Fprintf(&key, "</%d>", number)
			case n.fill != nil:
				fmt.Fprintf(&key, "{%d}", len(u.fills))
				u.fills = append(u.fills, rewrite(n.fill))
			case strings.ContainsAny(n.text, "{}<>"):
				return fmt.Errorf("text %q: a brace or an angle is a mark here; put it into <code>", n.text)
			default:
				key.WriteString(n.text)
			}
		}
		return nil
	}
	err := walk(nodes)
	u.key = key.String()
	return u, err
}
