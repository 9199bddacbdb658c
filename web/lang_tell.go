package web

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What other packages say (why a gate denies, how a guard decided) reaches the pages as
// whole English sentences: API, command line and exports say the same. Files told*.txt
// of a catalogue know them again by their words:
//
//	breaker of {0} is open since {1}: {2}
//		{0} 的断路器自 {1} 起断开：[2]
//
// {0} is whatever stands there; it may stand in any order on the other side, as it is,
// so that names stay names, or as [0], told again: a sentence inside a sentence, a
// state, a span of time. What no file knows stays English.

// telling is one such sentence: what stands around its blanks, and its translation.
type telling struct {
	around []string // one more than there are blanks
	out    []string // texts, and blanks as {0} or [0]
}

var (
	blanksIn = regexp.MustCompile(`\{\d+\}`)
	blanksTo = regexp.MustCompile(`[{\[]\d+[}\]]`)
	// Spans as package slo writes them, with either space.
	spansIn = regexp.MustCompile(`^\d+[ \x{202f}](?:d|h|min|s|ms)(?: \d+[ \x{202f}](?:d|h|min|s|ms))*$`)
)

// newTelling reads one entry. Blanks are numbered in the order of the English.
func newTelling(key, text string) (telling, error) {
	x := telling{around: blanksIn.Split(key, -1)}
	for i, m := range blanksIn.FindAllString(key, -1) {
		if m != fmt.Sprintf("{%d}", i) {
			return x, fmt.Errorf("blank %s of %q must be {%d}", m, key, i)
		}
		if i > 0 && x.around[i] == "" {
			return x, fmt.Errorf("words must stand between blanks of %q", key)
		}
	}
	used := map[int]bool{}
	rest := text
	for _, m := range blanksTo.FindAllString(text, -1) {
		before, after, _ := strings.Cut(rest, m)
		x.out, rest = append(x.out, before, m), after
		n, _ := strconv.Atoi(m[1 : len(m)-1])
		used[n] = true
		if n >= len(x.around)-1 {
			return x, fmt.Errorf("there is no %s in %q", m, key)
		}
	}
	x.out = append(x.out, rest)
	if len(used) < len(x.around)-1 {
		return x, fmt.Errorf("a blank of %q is missing in %q", key, text)
	}
	return x, nil
}

// match is what stands in the blanks of s.
func (x telling) match(s string) ([]string, bool) {
	last := len(x.around) - 1
	rest, ok := strings.CutPrefix(s, x.around[0])
	if !ok || last == 0 {
		return nil, ok && rest == ""
	}
	if rest, ok = strings.CutSuffix(rest, x.around[last]); !ok {
		return nil, false
	}
	blanks := make([]string, 0, last)
	for _, words := range x.around[1:last] {
		blank, after, ok := strings.Cut(rest, words)
		if !ok || blank == "" || strings.Contains(blank, ": ") { // of another sentence
			return nil, false
		}
		blanks, rest = append(blanks, blank), after
	}
	blanks = append(blanks, rest)
	if rest == "" || last == 1 && x.around[0] == "" && strings.Contains(rest, ": ") {
		return nil, false
	}
	return blanks, (x.around[last] != "." || !strings.Contains(rest, ". "))
}

// sortTold puts the sentence with most words of its own first: it knows best.
func (c *catalogue) sortTold() {
	slices.SortStableFunc(c.told, func(a, b telling) int {
		return cmp.Compare(len(strings.Join(b.around, "")), len(strings.Join(a.around, "")))
	})
}

// tell is what another package said, in the language of the reader: a sentence, several
// one after the other, or clauses side by side.
func (l lang) tell(s string) string {
	if l.words == nil || s == "" {
		return s
	}
	return (&teller{l, mostLooks}).tell(s)
}

// mostLooks is how often one text is compared with all entries. A sentence of ours takes
// fewer than ten; some of what is told are people's own words, of any shape and length.
const mostLooks = 100

// teller tells one text.
type teller struct {
	lang
	left int // looks
}

func (l *teller) tell(s string) string {
	if t, ok := l.tellPart(s); ok {
		return t
	}
	// A full stop ends a sentence, unless what stands before it is none.
	for i := 0; i+2 < len(s) && l.left > 0; i++ {
		if s[i] != '.' || s[i+1] != ' ' {
			continue
		}
		if first, ok := l.tellPart(s[:i+1]); ok {
			return l.text(first, l.tell(s[i+2:]))
		}
	}
	return s
}

// tellPart is one sentence; with the name of what it is about before it, or clauses of
// which each is known.
func (l *teller) tellPart(s string) (string, bool) {
	if l.left <= 0 {
		return "", false
	}
	if t, ok := l.tellWhole(s); ok {
		return t, true
	}
	if first, size := utf8.DecodeRuneInString(s); unicode.IsUpper(first) { // the beginning of a sentence on the page
		if t, ok := l.tellWhole(string(unicode.ToLower(first)) + s[size:]); ok {
			return t, true
		}
	}
	if name, rest, ok := strings.Cut(s, ": "); ok && !strings.Contains(name, " ") {
		if t, ok := l.tellPart(rest); ok {
			if known, ok := l.tellWhole(name); ok {
				name = known
			}
			return l.say("%s: %s", name, t), true
		}
	}
	for _, x := range [...]struct {
		by   string
		join func(...string) string
	}{{"; ", l.clauses}, {", ", l.list}} {
		if parts, ok := l.tellEach(strings.Split(s, x.by)); ok {
			return x.join(parts...), true
		}
	}
	return "", false
}

func (l *teller) tellEach(parts []string) ([]string, bool) {
	if len(parts) < 2 {
		return nil, false
	}
	for i, p := range parts {
		t, ok := l.tellPart(p)
		if !ok {
			return nil, false
		}
		parts[i] = t
	}
	return parts, true
}

func (l lang) tellAll(all []string) []string {
	if l.words == nil {
		return all
	}
	out := make([]string, 0, len(all))
	for _, s := range all {
		out = append(out, l.tell(s))
	}
	return out
}

func (l *teller) tellWhole(s string) (string, bool) {
	if spansIn.MatchString(s) {
		return l.tellSpan(s), true
	}
	l.left--
	for _, x := range l.words.told {
		blanks, ok := x.match(s)
		if !ok {
			continue
		}
		var out strings.Builder
		for i, part := range x.out {
			if i%2 == 0 {
				out.WriteString(part)
				continue
			}
			n, _ := strconv.Atoi(part[1 : len(part)-1])
			if part[0] == '[' {
				out.WriteString(l.tell(blanks[n]))
			} else {
				out.WriteString(blanks[n])
			}
		}
		return out.String(), true
	}
	if t, ok := l.words.text[keyOf(s)]; ok { // a word of a closed set, which stands there already
		return strings.ReplaceAll(t, "%%", "%"), true
	}
	return "", false
}

// tellSpan is "1 d 4 h" with the units of the reader.
func (l lang) tellSpan(s string) string {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\u202f' })
	for i := 1; i < len(parts); i += 2 {
		parts[i-1] += thinSpace + l.of("unit", parts[i])
		parts[i] = ""
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}
