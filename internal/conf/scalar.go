package conf

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// text returns the scalar's text and whether it was written plain; what names
// the kind of value that was wanted, for the message.
func (n Node) text(what string) (s string, plain, ok bool) {
	if n.n.Kind != yaml.ScalarNode || n.null() {
		n.Errorf("must be %s, got %s", what, n.what())
		return "", false, false
	}
	quoted := n.n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	return n.n.Value, !quoted, true
}

// Str reads a string that is not empty; def where absent.
func (n Node) Str(def string) string {
	if n.n == nil {
		return def
	}
	s, plain, ok := n.text("a string")
	if !ok {
		return def
	}
	if tag := n.n.ShortTag(); plain && tag != "!!str" && tag != "!!timestamp" {
		n.Errorf("must be a string, got %s", n.what()).Hint("put it in quotes")
		return def
	}
	if strings.TrimSpace(s) == "" {
		n.Errorf("must be a string that is not empty, got %s", strconv.Quote(s))
		return def
	}
	return s
}

var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// Name reads a name by which documents refer to one another: lower-case letters,
// digits, '-', '_' and '.', at most 63. It becomes a metric label and a database key.
func (n Node) Name() string {
	if n.n == nil {
		return ""
	}
	s := n.Str("")
	if s != "" && !name.MatchString(s) {
		n.Errorf("must be a name of lower-case letters, digits, '-', '_' and '.', at most 63 long, got %s", n.what())
		return ""
	}
	return s
}

// Enum reads one of the given words; def where absent or mistaken.
func (n Node) Enum(def string, words ...string) string {
	if n.n == nil {
		return def
	}
	s, _, ok := n.text(oneOf(words))
	if !ok {
		return def
	}
	if slices.Contains(words, s) {
		return s
	}
	e := n.Errorf("must be %s, got %s", oneOf(words), n.what())
	if near := nearest(s, words); near != "" {
		e.Hint("did you mean %s?", near)
	}
	return def
}

// Bool reads true or false; ok is false where it is absent or mistaken. "true"
// in quotes, yes and 1 are none.
func (n Node) Bool(def bool) (v, ok bool) {
	if n.n == nil {
		return def, false
	}
	s, plain, ok := n.text("true or false")
	if !ok {
		return def, false
	}
	if !plain || n.n.ShortTag() != "!!bool" {
		n.Errorf("must be true or false, got %s", n.what())
		return def, false
	}
	return strings.EqualFold(s, "true"), true
}

var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// Int reads a whole number from lo to hi; def where absent or mistaken.
func (n Node) Int(def, lo, hi int64) int64 {
	if n.n == nil {
		return def
	}
	s, plain, ok := n.text("a whole number")
	if !ok {
		return def
	}
	if !plain || !integer.MatchString(s) {
		n.Errorf("must be a whole number, got %s", n.what())
		return def
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < lo || v > hi {
		n.Errorf("must be %d to %d, got %s", lo, hi, clip(s))
		return def
	}
	return v
}

var decimal = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?$`)

// Decimal reads a number such as 99.9 exactly, as that many of its last of
// digits decimal places: Decimal(0, 3, 0, 100_000) makes 99.9 into 99900.
// No float is involved, so 0.3 is 300 thousandths and not nearly so.
func (n Node) Decimal(def int64, digits int, lo, hi int64) int64 {
	if n.n == nil {
		return def
	}
	s, plain, ok := n.text("a number")
	if !ok {
		return def
	}
	v, places, good := scaled(s, digits)
	switch {
	case !plain || places < 0:
		n.Errorf("must be a number, got %s", n.what())
	case places > digits:
		n.Errorf("must have at most %d decimal places, got %s", digits, clip(s))
	case !good || v < lo || v > hi:
		n.Errorf("must be %s to %s, got %s", unscaled(lo, digits), unscaled(hi, digits), clip(s))
	default:
		return v
	}
	return def
}

// scaled parses s as a decimal with digits places. places is -1 where s is no
// number, else how many it has beside trailing zeros; ok is false on overflow.
func scaled(s string, digits int) (v int64, places int, ok bool) {
	m := decimal.FindStringSubmatch(s)
	if m == nil {
		return 0, -1, false
	}
	frac := strings.TrimRight(m[3], "0")
	if len(frac) > digits {
		return 0, len(frac), false
	}
	v, err := strconv.ParseInt(m[1]+m[2]+frac+strings.Repeat("0", digits-len(frac)), 10, 64)
	return v, len(frac), err == nil
}

func unscaled(v int64, digits int) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	s := strconv.FormatInt(v, 10)
	if len(s) <= digits {
		s = strings.Repeat("0", digits+1-len(s)) + s
	}
	whole, frac := s[:len(s)-digits], strings.TrimRight(s[len(s)-digits:], "0")
	if frac != "" {
		whole += "." + frac
	}
	return sign + whole
}

// PPM reads a share such as "25%" or "0.05%", at most "100%", as parts per
// million. A bare number is refused: 0.25 has meant both a quarter and a quarter
// of a percent to somebody.
func (n Node) PPM(def int64) int64 {
	if n.n == nil {
		return def
	}
	s, _, ok := n.text(`a share such as "25%"`)
	if !ok {
		return def
	}
	num, percent := strings.CutSuffix(s, "%")
	v, places, good := scaled(num, 4)
	if !percent || places < 0 {
		e := n.Errorf(`must be a share such as "25%%", got %s`, n.what())
		if !percent && places >= 0 {
			e.Hint(`write "%s%%" if that many percent are meant`, num)
		}
		return def
	}
	if places > 4 {
		n.Errorf("must have at most 4 decimal places, got %s", n.what())
		return def
	}
	if !good || v < 0 || v > 1_000_000 {
		n.Errorf("must be 0%% to 100%%, got %s", n.what())
		return def
	}
	return v
}

var (
	short = regexp.MustCompile(`^([1-9][0-9]*)(ms|s|m)$`)
	long  = regexp.MustCompile(`^([1-9][0-9]*)(ms|s|m|h|d|w)$`)
)

// Duration reads a time such as 800ms, 2s or 5m, from lo to hi; def where absent
// or mistaken. There is one way to write each: no fractions, no sums, no bare numbers.
func (n Node) Duration(def, lo, hi time.Duration) time.Duration {
	return n.duration(short, "a duration such as 800ms, 2s or 5m", def, lo, hi)
}

// Span is Duration with h, d and w too, for windows and due dates.
func (n Node) Span(def, lo, hi time.Duration) time.Duration {
	return n.duration(long, "a span such as 5m, 12h or 30d", def, lo, hi)
}

func (n Node) duration(grammar *regexp.Regexp, what string, def, lo, hi time.Duration) time.Duration {
	if n.n == nil {
		return def
	}
	s, _, ok := n.text(what)
	if !ok {
		return def
	}
	m := grammar.FindStringSubmatch(s)
	if m == nil {
		e := n.Errorf("must be %s, got %s", what, n.what())
		if integer.MatchString(s) {
			e.Hint("the unit is missing")
		}
		return def
	}
	unit := unitOf(m[2])
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || v > int64(hi/unit) || time.Duration(v)*unit < lo {
		n.Errorf("must be %s to %s, got %s", FormatDuration(lo), FormatDuration(hi), clip(s))
		return def
	}
	return time.Duration(v) * unit
}

func unitOf(s string) time.Duration {
	switch s {
	case "ms":
		return time.Millisecond
	case "s":
		return time.Second
	case "m":
		return time.Minute
	case "h":
		return time.Hour
	case "d":
		return 24 * time.Hour
	}
	return 7 * 24 * time.Hour
}

// FormatDuration writes d as the grammar of Duration reads it, in the largest
// unit that divides it; parts of a millisecond are dropped.
func FormatDuration(d time.Duration) string {
	switch {
	case d != 0 && d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d != 0 && d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

// Unit returns the unit a duration was written in ("ms"), or "".
func (n Node) Unit() string {
	if n.n == nil {
		return ""
	}
	if m := long.FindStringSubmatch(n.n.Value); m != nil {
		return m[2]
	}
	return ""
}

// Strs reads a list of strings; nil where absent.
func (n Node) Strs() []string {
	var out []string
	for _, item := range n.List() {
		if s := item.Str(""); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Enums reads a list of given words, each at most once.
func (n Node) Enums(words ...string) []string {
	var out []string
	for _, item := range n.List() {
		s := item.Enum("", words...)
		if s == "" {
			continue
		}
		if slices.Contains(out, s) {
			item.Errorf("must stand once, got %s again", s)
			continue
		}
		out = append(out, s)
	}
	return out
}

var size = regexp.MustCompile(`^([1-9][0-9]*)(KiB|MiB|GiB)$`)

// Size reads an amount of memory such as 256MiB, in bytes; def where absent or mistaken.
func (n Node) Size(def, lo, hi int64) int64 {
	if n.n == nil {
		return def
	}
	s, _, ok := n.text("a size such as 256MiB")
	if !ok {
		return def
	}
	m := size.FindStringSubmatch(s)
	if m == nil {
		n.Errorf("must be a size such as 256MiB, got %s", n.what()).Hint("units are KiB, MiB and GiB")
		return def
	}
	shift := 10
	switch m[2] {
	case "MiB":
		shift = 20
	case "GiB":
		shift = 30
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || v > hi>>shift || v<<shift < lo {
		n.Errorf("must be %d MiB to %d MiB, got %s", lo>>20, hi>>20, clip(s))
		return def
	}
	return v << shift
}

// Got describes what stands here, for "got ...".
func (n Node) Got() string { return n.what() }

// IsBool reports whether true or false stands here.
func (n Node) IsBool() bool {
	return n.n != nil && n.n.Kind == yaml.ScalarNode && n.n.Style == 0 && n.n.ShortTag() == "!!bool"
}

// Text is the text of a scalar of any kind as it stands, "" for anything else; for
// documents of other tools, whose types are not ours to judge.
func (n Node) Text() string {
	if n.n == nil || n.n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.n.Value
}
