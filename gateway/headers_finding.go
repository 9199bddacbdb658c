package gateway

import (
	"fmt"
	"slices"
	"strings"
)

// reliance is a field of answers that the configuration speaks of.
type reliance struct {
	Names []string // one of them is enough
	Value string   // "" any
	// Statuses are those of the answers on which it matters; nil: all failures.
	Statuses []int
	// Waits says that something never happens without the field. Where it does
	// not, its absence means nothing, and only a twin of it is told.
	Waits bool
	By    []string // routes whose policies say so; empty: read on every answer
}

func (r reliance) equal(o reliance) bool {
	return r.Value == o.Value && r.Waits == o.Waits && slices.Equal(r.Names, o.Names) && slices.Equal(r.Statuses, o.Statuses)
}

func (r *reliance) named(name string) bool {
	for _, n := range r.Names {
		if len(n) == len(name) && strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

func (r *reliance) concerns(status int) bool {
	if r.Statuses == nil {
		return status >= 400
	}
	return slices.Contains(r.Statuses, status)
}

// enoughAnswers is how many answers without a field make it missing.
const enoughAnswers = 20

// HeaderFinding is a field that policies rely on and that does not come, or not
// as they wait for it.
type HeaderFinding struct {
	Header  string   `json:"header"`
	Value   string   `json:"value,omitempty"`
	Routes  []string `json:"routes,omitempty"` // whose policies rely on it
	Answers int64    `json:"answers"`          // looked at that could have had it
	// Twin is what comes in its place: a field of nearly that name, or with Value
	// nearly that value. "" where nothing does.
	Twin string `json:"twin,omitempty"`
	// Kind says how the twin differs: case, separators, spelling, renamed.
	Kind string `json:"twin_kind,omitempty"`
	Text string `json:"text"`
}

// findings are what is wrong by now, in the order of what is watched.
func (c *census) findings() []HeaderFinding {
	out := []HeaderFinding{}
	names := c.list()
	list := *c.watched.Load()
	for _, w := range list {
		if f, bad := w.finding(c.upstream, c.looked.Load(), names, list); bad {
			out = append(out, f)
		}
	}
	return out
}

func (w *watched) finding(upstream string, looked int64, names []HeaderName, all []*watched) (HeaderFinding, bool) {
	f := HeaderFinding{Header: strings.Join(w.Names, " or "), Value: w.Value, Routes: w.By, Answers: w.asked.Load()}
	what := f.Header
	if w.Value != "" {
		what += "=" + w.Value
	}
	used := ""
	if len(w.By) > 0 {
		used = ", which " + listed(w.By) + " relies on,"
	}
	if w.seen.Load() > 0 {
		near := w.near.Load()
		if near == nil || w.exact.Load() > 0 {
			return f, false
		}
		f.Twin, f.Kind = *near, valueDiffers(*near, w.Value)
		f.Text = fmt.Sprintf("%s: %s%s was never seen, but the value %q was (%s): values are compared to the byte", upstream, what, used, f.Twin, f.Kind)
		return f, true
	}
	for _, n := range names {
		if slices.ContainsFunc(all, func(o *watched) bool { return o.named(n.Name) }) {
			continue // a field of its own right
		}
		for _, name := range w.Names {
			if how := nameDiffers(n.Name, name); how != "" && looked >= enoughAnswers {
				f.Twin, f.Kind = n.Name, how
				f.Text = fmt.Sprintf("%s: %s%s was never seen, but %s was (%s): something between renames it, or one of the two is misspelt",
					upstream, what, used, n.Name, how)
				return f, true
			}
		}
	}
	if !w.Waits || f.Answers < enoughAnswers {
		return f, false
	}
	// The number stays out of the text: the text is what tells findings apart.
	f.Text = fmt.Sprintf("%s: %s%s was never seen on an answer it could stand on", upstream, what, used)
	return f, true
}

func listed(routes []string) string {
	const most = 5
	if len(routes) == 1 {
		return "route " + routes[0]
	}
	if len(routes) > most {
		return fmt.Sprintf("each of %d routes", len(routes))
	}
	return "each of " + strings.Join(routes, ", ")
}

// nameDiffers says how a name that was seen differs from the one that is waited
// for, where one can be taken for the other, else "". Case alone is no difference.
func nameDiffers(seen, want string) string {
	a, b := nameWords(seen), nameWords(want)
	one, other := strings.Join(a, ""), strings.Join(b, "")
	switch {
	case one == other:
		return "separators"
	case len(want) >= 8 && apart([]byte(one), []byte(other)) <= 2:
		return "spelling"
	case len(b) >= 2 && within(b, a), len(a) >= 2 && within(a, b):
		return "renamed"
	}
	return ""
}

// nameWords splits a name at its separators, in lower case, without the X that says
// only that a field is no standard.
func nameWords(name string) []string {
	w := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == ' ' })
	if len(w) > 1 && w[0] == "x" {
		return w[1:]
	}
	return w
}

// within reports whether all of few stand in many, in order: X-Original-Backend-Status
// is how one ingress renames X-Backend-Status.
func within(few, many []string) bool {
	for _, w := range many {
		if len(few) > 0 && few[0] == w {
			few = few[1:]
		}
	}
	return len(few) == 0
}

// nearValue reports whether a value is what is waited for but for its case, its
// spaces and separators, or a letter. Other values are none of our business. It is
// asked of every failure, so it allocates nothing.
func nearValue(seen, want string) bool { return valueDiffers(seen, want) != "" }

func valueDiffers(seen, want string) string {
	var one, other [longestWord]byte
	switch {
	case seen == want || len(seen) > len(one) || len(want) > len(other):
		return ""
	case strings.EqualFold(seen, want):
		return "case"
	case strings.TrimSpace(seen) == strings.TrimSpace(want):
		return "spaces"
	}
	a, b := fold(one[:0], seen), fold(other[:0], want)
	switch {
	case string(a) == string(b):
		return "separators"
	case len(b) >= 6 && apart(a, b) <= 1, len(b) >= 10 && apart(a, b) <= 2:
		return "spelling"
	}
	return ""
}

const longestWord = 72 // bytes of names and values that are compared

// fold appends s to b in lower case, without what separates words.
func fold(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case strings.IndexByte(" -_.\"'", c) >= 0:
		case c >= 'A' && c <= 'Z':
			b = append(b, c|0x20)
		default:
			b = append(b, c)
		}
	}
	return b
}

// apart is how many letters have to be changed, added or taken away to make b of
// a (Levenshtein). More than 2 are far enough for everybody who asks.
func apart(a, b []byte) int {
	var line [longestWord + 1]int
	if d := len(a) - len(b); d > 2 || d < -2 || len(b) > longestWord {
		return 3
	}
	row := line[:len(b)+1]
	for j := range row {
		row[j] = j
	}
	for i := range a {
		corner := row[0]
		row[0] = i + 1
		for j := range b {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
