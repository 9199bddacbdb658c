package openslo

import "strings"

// textOf cuts out the document that holds a line. "---" at the start of a line
// always ends a document, inside of text blocks too.
func textOf(lines []string, line int) string {
	mark := func(l string) bool { return strings.HasPrefix(l, "---") || strings.HasPrefix(l, "...") }
	from := min(line, len(lines))
	for from > 0 && !mark(lines[from-1]) {
		from--
	}
	to := min(line, len(lines))
	for to < len(lines) && !mark(lines[to]) {
		to++
	}
	return strings.TrimSpace(strings.Join(lines[from:to], "")) + "\n"
}
