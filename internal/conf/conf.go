// Package conf decodes YAML strictly and knows its lines: every mistake of a
// file is reported at once, at file:line:col, with the path of the field, what
// must stand there, what was found, and a hint where there is one.
//
// A document is read through a cursor, not by reflection: Split gives one Node a
// document, and Node methods read values. An absent or mistaken field yields its
// default, so a decoder runs to its end whatever it meets; only the Log says
// whether the result may be used.
package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// File is a named text.
type File struct {
	Name string
	Data []byte
}

// Mistake is one thing wrong, or, with Warning set, one thing doubtful.
type Mistake struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Col       int    `json:"col"`
	Path      string `json:"path,omitempty"` // routes[1].retry.max_retries; "" is the document itself
	Text      string `json:"text"`           // must be 0 to 5, got 9
	HintText  string `json:"hint,omitempty"`
	Code      string `json:"code,omitempty"` // E-UNKNOWN, W-MISSING
	IsWarning bool   `json:"warning,omitempty"`
}

// Error renders m as `file:line:col: path: text (hint) [code]`.
func (m *Mistake) Error() string {
	var b strings.Builder
	b.WriteString(m.File)
	b.WriteByte(':')
	b.WriteString(strconv.Itoa(m.Line))
	b.WriteByte(':')
	b.WriteString(strconv.Itoa(m.Col))
	b.WriteString(": ")
	if m.Path != "" {
		b.WriteString(m.Path)
		b.WriteString(": ")
	}
	b.WriteString(m.Text)
	if m.HintText != "" {
		b.WriteString(" (")
		b.WriteString(m.HintText)
		b.WriteByte(')')
	}
	if m.Code != "" {
		b.WriteString(" [")
		b.WriteString(m.Code)
		b.WriteByte(']')
	}
	return b.String()
}

// Hint adds advice, and returns m.
func (m *Mistake) Hint(format string, args ...any) *Mistake {
	m.HintText = fmt.Sprintf(format, args...)
	return m
}

// Coded adds a code by which tools know the kind of mistake, and returns m.
func (m *Mistake) Coded(code string) *Mistake {
	m.Code = code
	return m
}

// Mistakes is a list of them; as an error it says them all, one a line.
type Mistakes []*Mistake

func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// Log collects what decoding finds. The zero value is ready. It belongs to one
// goroutine.
type Log struct{ list Mistakes }

// Errors returns the mistakes, sorted by place.
func (l *Log) Errors() Mistakes { return l.pick(false) }

// Warnings returns the doubtful things, sorted by place.
func (l *Log) Warnings() Mistakes { return l.pick(true) }

// All returns mistakes and warnings, sorted by place.
func (l *Log) All() Mistakes {
	out := slices.Clone(l.list)
	sortByPlace(out)
	return out
}

// Err returns Errors as one error, or nil where there are none.
func (l *Log) Err() error {
	if errs := l.Errors(); len(errs) > 0 {
		return errs
	}
	return nil
}

func (l *Log) pick(warning bool) Mistakes {
	var out Mistakes
	for _, m := range l.list {
		if m.IsWarning == warning {
			out = append(out, m)
		}
	}
	sortByPlace(out)
	return out
}

func sortByPlace(ms Mistakes) {
	slices.SortStableFunc(ms, func(a, b *Mistake) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
}

// Add reports a mistake at a place that no Node stands for.
func (l *Log) Add(file string, line, col int, format string, args ...any) *Mistake {
	m := &Mistake{File: file, Line: line, Col: col, Text: fmt.Sprintf(format, args...)}
	l.list = append(l.list, m)
	return m
}
