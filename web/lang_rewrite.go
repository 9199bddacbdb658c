package web

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// translator rewrites sources of templates. text answers for a key; where it does
// not know, the English stays.
type translator struct {
	text    func(key string) (string, bool)
	open    []string // tags around what is written
	inValue bool     // of an attribute
	mark    bool
	errs    []error
}

// rewrite is a source in another language; mark says whether values that stay English
// are to be marked as such.
func rewrite(src string, mark bool, text func(key string) (string, bool)) (string, error) {
	t := &translator{text: text, mark: mark}
	out := t.source(pieces(src))
	return out, errors.Join(t.errs...)
}

func (t *translator) source(all []piece) string {
	var out strings.Builder
	var run []node
	flush := func() {
		out.WriteString(t.run(run))
		run = nil
	}
	for i := 0; i < len(all); {
		n, next, ok := nodeAt(all, i)
		if ok {
			run, i = append(run, n), next
			continue
		}
		flush()
		out.WriteString(t.piece(all[i]))
		t.nest(all[i])
		i++
	}
	flush()
	return out.String()
}

// run writes nodes that stand side by side: one unit if they say something
// together, each for itself if only what is inside their tags does.
func (t *translator) run(nodes []node) string {
	says := slices.ContainsFunc(nodes, func(n node) bool { return n.open == nil && hasLetter(n.text) })
	if says {
		return t.unit(nodes)
	}
	var out strings.Builder
	for _, n := range nodes {
		switch {
		case n.open != nil:
			out.WriteString(t.piece(*n.open) + t.run(n.inside) + n.close.src)
		case n.fill != nil:
			out.WriteString(t.filled(n.fill))
		default:
			out.WriteString(escape(t.between(n.text)))
		}
	}
	return out.String()
}

// between is what stands between values that say nothing together: the comma of a list.
func (t *translator) between(text string) string {
	if !t.mark {
		return text
	}
	if strings.HasSuffix(text, ".") {
		text = strings.TrimSuffix(text, ".") + "。"
	}
	return strings.NewReplacer(", ", "，", ": ", "：", "; ", "；", ". ", "。").Replace(text)
}

// filled is the source of what a request fills in; its tags may still say something.
func (t *translator) filled(all []piece) string {
	var out strings.Builder
	for _, p := range all {
		if p.kind == isText {
			p.src = t.between(p.src)
		}
		out.WriteString(t.piece(t.marked(p)))
	}
	return out.String()
}

// nest keeps the tags that are open. Where actions open one and close another it may
// be wrong, but what must not be marked stands directly in its tag.
func (t *translator) nest(p piece) {
	switch {
	case p.kind != isTag || strings.HasSuffix(p.src, "/>"):
	case !p.close:
		t.open = append(t.open, p.name)
	default:
		for i := len(t.open) - 1; i >= 0; i-- {
			if t.open[i] == p.name {
				t.open = t.open[:i]
				break
			}
		}
	}
}

// marked hands a value through shown. In an attribute, a choice or a drawing a tag
// around it would be text, or nothing.
func (t *translator) marked(p piece) piece {
	switch {
	case p.kind != isAction || !t.mark || t.inValue || len(t.open) > 0 && slices.Contains(textOnly[:], t.open[len(t.open)-1]):
		return p
	case slices.Contains(noValue[:], p.name):
		return p
	}
	p.src = strings.TrimSuffix(p.src, "}}") + " | shown}}"
	return p
}

var (
	textOnly = [...]string{"title", "option", "text", "desc", "svg"}
	noValue  = [...]string{"if", "with", "range", "else", "end", "template", "define", "block", "break", "continue", "set", "asset"}
)

// unit is the translated source of nodes, with the blanks around them as they were.
func (t *translator) unit(nodes []node) string {
	u, err := unitOf(nodes, t.filled)
	if err != nil {
		t.errs = append(t.errs, err)
		return ""
	}
	key := keyOf(u.key)
	lead := u.key[:len(u.key)-len(strings.TrimLeftFunc(u.key, blank))]
	trail := u.key[len(strings.TrimRightFunc(u.key, blank)):]
	words, ok := t.text(key)
	if !ok {
		words = strings.TrimFunc(u.key, blank)
	}
	body, err := u.fill(words)
	if err != nil {
		t.errs = append(t.errs, fmt.Errorf("%q: %w", key, err))
	}
	return lead + body + trail
}

// fill puts sources in place of the marks of a translation. Each mark stands once.
func (u unit) fill(words string) (string, error) {
	var out strings.Builder
	used := map[string]bool{}
	var open []int
	for words != "" {
		i := strings.IndexAny(words, "{<")
		if i < 0 {
			out.WriteString(escape(words))
			break
		}
		out.WriteString(escape(words[:i]))
		words = words[i:]
		end, list, n, shut := "}", u.fills, 0, false
		if words[0] == '<' {
			end, list = ">", u.tags
		}
		mark, rest, ok := strings.Cut(words, end)
		mark = mark[1:]
		if ok && end == ">" {
			mark, shut = strings.CutPrefix(mark, "/")
		}
		n, err := strconv.Atoi(mark)
		at := n
		if end == ">" {
			at = 2 * (n - 1)
			if shut {
				at++
			}
		}
		name := words[:len(words)-len(rest)]
		if !ok || err != nil || at < 0 || at >= len(list) {
			return "", fmt.Errorf("there is no %s in the English text", name)
		}
		if used[name] {
			return "", fmt.Errorf("%s stands twice", name)
		}
		used[name] = true
		if end == ">" && !shut {
			open = append(open, n)
		} else if shut && (len(open) == 0 || open[len(open)-1] != n) {
			return "", fmt.Errorf("%s closes what is not open", name)
		} else if shut {
			open = open[:len(open)-1]
		}
		out.WriteString(list[at])
		words = rest
	}
	if missing := len(u.fills) + len(u.tags) - len(used); missing > 0 {
		return "", fmt.Errorf("%d marks of the English text are missing", missing)
	}
	return out.String(), nil
}

// escape writes text into a source: neither markup nor an action can come of it.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "{", "&#123;").Replace(s)
}

// piece writes one piece; the spoken attributes of a tag are units of their own.
func (t *translator) piece(p piece) string {
	if p.kind != isTag || p.close {
		return p.src
	}
	var out strings.Builder
	src, done := p.src, 0
	for i := 0; i < len(src); i++ {
		if strings.HasPrefix(src[i:], "{{") {
			i = actionEnd(src, i) - 1
			continue
		}
		if src[i] != '"' {
			continue
		}
		end := i + 1 // of the value
		for end < len(src) && src[end] != '"' {
			if strings.HasPrefix(src[end:], "{{") {
				end = actionEnd(src, end)
				continue
			}
			end++
		}
		name := strings.TrimSuffix(src[:i], "=")
		name = name[strings.LastIndexAny(name, " \n\t}")+1:]
		if slices.Contains(spoken[:], name) {
			out.WriteString(src[done:i+1] + t.value(src[i+1:min(end, len(src))]))
			done = end
		}
		i = end
	}
	if done > len(src) {
		done = len(src)
	}
	out.WriteString(src[done:])
	return out.String()
}

// value rewrites what an attribute says: text and actions, no tags.
func (t *translator) value(src string) string {
	var all []piece
	for src != "" {
		i := strings.Index(src, "{{")
		if i != 0 {
			if i < 0 {
				i = len(src)
			}
			all, src = append(all, piece{kind: isText, src: src[:i]}), src[i:]
			continue
		}
		end := actionEnd(src, 0)
		all, src = append(all, actionPiece(src[:end])), src[end:]
	}
	t.inValue = true
	defer func() { t.inValue = false }()
	return t.source(all)
}
