package web

import (
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"breakwater/slo"
)

// Pages speak English and Chinese. English stands in the source, where it is read:
// templates stay sentences, and Go says v.say("Thaws %s.", at). A catalogue holds
// the other language, keyed by the English text, and is used in three ways:
//
//   - templates are rewritten text by text when they are parsed, once for each
//     language, so that a request costs nothing more (lang_template.go);
//   - sentences made in Go go through say and count;
//   - words of closed sets, such as states, stay English in Go, where they are
//     compared and counted, and become words of the reader in the template: {{word .}}.
//
// What other packages say (why a gate denies, how a guard decided) is English in API and
// command line, and goes through tell on pages (lang_tell.go). Rewriting marks what no
// catalogue knows as English, as it does with words of users, so that a screen reader
// does not read it as Chinese. Exports are read by programs: they are English always.

// lang is the language of one answer; the zero value is English.
type lang struct{ words *catalogue }

// tag names the language as HTML and HTTP do.
func (l lang) tag() string {
	if l.words == nil {
		return english
	}
	return l.words.tag
}

const english = "en"

// say is fmt.Sprintf in the language of the reader. The format is the key of the
// catalogue, so it is a literal: a test reads them all from the source.
func (l lang) say(format string, args ...any) string {
	if l.words != nil {
		if t, ok := l.words.text[keyOf(format)]; ok {
			return fmt.Sprintf(t, args...)
		}
	}
	return fmt.Sprintf(format, args...)
}

// count is "1 run" or "2 runs". Its key is "%s runs", because Chinese has one form.
func (l lang) count(n int, one, many string) string {
	if l.words != nil {
		if t, ok := l.words.text[keyOf("%s "+many)]; ok {
			return fmt.Sprintf(t, slo.Count(int64(n)))
		}
	}
	return plural(n, one, many)
}

// word is one of a closed set; what is in none stays as it is, so that a name or a
// number may come by.
func (l lang) word(w string) string {
	if l.words == nil {
		return w
	}
	if t, ok := l.words.text[keyOf(w)]; ok {
		return strings.ReplaceAll(t, "%%", "%") // a whole phrase may be a format elsewhere
	}
	return w
}

// of is a word that means something else elsewhere: a breaker that is open is not
// what an incident is.
func (l lang) of(kind, w string) string {
	if t := l.word(kind + "|" + w); l.words != nil && t != kind+"|"+w {
		return t
	}
	return l.word(w)
}

// shown is a value as it goes into a text of another language: words in Latin letters
// alone are of another package, or of a user, and are marked as English.
func shown(v any) any {
	s, ok := v.(string)
	if !ok || !latin(s) || !wordsBeside.MatchString(s) {
		return v
	}
	return template.HTML(`<span lang="en">` + template.HTMLEscapeString(s) + `</span>`)
}

// wordsBeside finds two words side by side; a name or a unit alone reads well anywhere.
var wordsBeside = regexp.MustCompile(`\pL{2,}[,:;]?[ \x{202f}]\pL`)

// phrase marks a literal that word will meet later, in a table or a constant. It
// does nothing: the test that reads the source finds it by its name.
func phrase(w string) string { return w }

// list is "a, b, c".
func (l lang) list(parts ...string) string {
	if l.words != nil {
		return strings.Join(parts, "、")
	}
	return strings.Join(parts, ", ")
}

// and is "a, b and c".
func (l lang) and(parts ...string) string {
	n := len(parts) - 1
	if n < 1 {
		return strings.Join(parts, "")
	}
	return l.say("%s and %s", l.list(parts[:n]...), parts[n])
}

// clauses is "a; b": each could stand alone, together they are one answer.
func (l lang) clauses(parts ...string) string {
	if l.words != nil {
		return strings.Join(parts, "；")
	}
	return strings.Join(parts, "; ")
}

// text puts whole sentences one after another and leaves out empty ones.
func (l lang) text(sentences ...string) string {
	sentences = slices.DeleteFunc(slices.Clone(sentences), func(s string) bool { return s == "" })
	if l.words == nil {
		return strings.Join(sentences, " ")
	}
	var out strings.Builder
	for i, s := range sentences {
		// A sentence of another package may stand in Latin letters: it keeps its space.
		if i > 0 && (latin(s) || latin(sentences[i-1])) {
			out.WriteByte(' ')
		}
		out.WriteString(s)
	}
	return out.String()
}

// latin reports whether s holds words, and none in Chinese.
func latin(s string) bool {
	return strings.ContainsFunc(s, unicode.IsLetter) && !strings.ContainsFunc(s, han)
}

func han(r rune) bool { return unicode.Is(unicode.Han, r) }

// langCookie keeps the reader's choice, as the theme is kept.
const langCookie = "lang"

// lang is the reader's choice: the address first, so that the link of the chooser
// holds at once, then what was kept, then what the browser prefers. A language
// that nobody translated is English.
func (s *Server) lang(r *http.Request) lang {
	if r.URL.Query().Get("format") != "" {
		return lang{} // an export
	}
	if asked := r.URL.Query().Get("lang"); asked != "" {
		if l, ok := s.pages.speaks(asked); ok {
			return l
		}
	} else if c, err := r.Cookie(langCookie); err == nil {
		if l, ok := s.pages.speaks(c.Value); ok {
			return l
		}
	}
	l, _ := s.pages.speaks(preferred(r.Header.Values("Accept-Language"), s.pages.tags()))
	return l
}

// keepLang writes down what the address chose.
func (s *Server) keepLang(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept-Language")
	switch asked := r.URL.Query().Get("lang"); {
	case asked == "auto":
		http.SetCookie(w, &http.Cookie{Name: langCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	case slices.Contains(s.pages.tags(), asked):
		http.SetCookie(w, &http.Cookie{Name: langCookie, Value: asked, Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	}
}

// langLinks is the chooser: each language names itself in itself.
func (s *Server) langLinks(r *http.Request, now lang) []Link {
	var out []Link
	for _, tag := range s.pages.tags() {
		l, _ := s.pages.speaks(tag)
		out = append(out, Link{Name: l.name(), Head: tag, Href: with(r, "lang", tag), Here: tag == now.tag()})
	}
	return out
}

func (l lang) name() string {
	if l.words == nil {
		return "English"
	}
	return l.words.name
}

// preferred picks among tags what a browser likes best (RFC 9110, 12.5.4; the
// lookup is that of RFC 4647, by the primary language first).
func preferred(headers, tags []string) string {
	best, most := english, 0.0
	for part := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, rest, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.ReplaceAll(rest, " ", ""), "q="); ok {
			n, err := strconv.ParseFloat(q, 64)
			if err != nil || n < 0 || n > 1 {
				continue
			}
			weight = n
		}
		if tag := match(strings.TrimSpace(name), tags); tag != "" && weight > most {
			best, most = tag, weight
		}
	}
	return best
}

// match finds the language of one range. Who asks for traditional characters is
// not served with simplified ones; another language of the list may fit better.
func match(asked string, tags []string) string {
	for _, no := range []string{"zh-hant", "zh-tw", "zh-hk", "zh-mo"} {
		if asked == no || strings.HasPrefix(asked, no+"-") {
			return ""
		}
	}
	primary, _, _ := strings.Cut(asked, "-")
	for _, tag := range tags {
		if p, _, _ := strings.Cut(strings.ToLower(tag), "-"); p == primary && primary != "" {
			return tag
		}
	}
	return ""
}
