package ingest

import (
	"strings"
	"unicode/utf8"
)

// maxKey bounds a name, so that no row is too long for its index.
const maxKey = 200

// clean makes a name that PostgreSQL takes: a single refused one would hold up
// everything that comes after it. What it returns is a copy.
func clean(s string) string {
	if len(s) > maxKey {
		s = s[:maxKey]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, _ := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && len(s) > 0 {
			s = s[:len(s)-1]
		}
	}
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
	}
	return strings.Clone(s)
}
