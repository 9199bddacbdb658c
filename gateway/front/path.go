package front

import (
	"errors"
	"strings"
)

var errTarget = errors.New("target is malformed")

// Normal returns the one form of a request target that routing, labels, fault
// targets and the wire share: unreserved characters decoded, other escapes in
// upper case, slashes merged, dot segments resolved. What could mean two things
// to two readers is refused: raw controls, raw non-ASCII, '#', '\', and %2F %5C
// %00 (an upstream may decode them before it looks for slashes).
func Normal(target string) (path, query string, err error) {
	raw, query, _ := strings.Cut(target, "?")
	for i := range len(query) {
		if b := query[i]; b <= ' ' || b >= 0x7f || b == '#' {
			return "", "", errTarget
		}
	}
	if raw == "" {
		raw = "/"
	}
	if raw[0] != '/' {
		return "", "", errTarget
	}
	if tidy(raw) {
		return raw, query, nil
	}
	decoded, err := decode(raw)
	if err != nil {
		return "", "", err
	}
	path, err = resolve(decoded)
	return path, query, err
}

// tidy reports whether a path is in normal form already, as nearly all are: only
// unreserved characters and slashes, no two in a row, none before a dot or ';'.
func tidy(path string) bool {
	before := byte('/')
	for i := range len(path) {
		b := path[i]
		if !unreserved(b) && b != '/' || i > 0 && before == '/' && (b == '/' || b == '.') {
			return false
		}
		before = b
	}
	return true
}

func unreserved(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
		b == '-' || b == '.' || b == '_' || b == '~'
}

func decode(raw string) (string, error) {
	const upper = "0123456789ABCDEF"
	var out strings.Builder
	out.Grow(len(raw))
	for i := 0; i < len(raw); i++ {
		b := raw[i]
		switch {
		case b == '%':
			if i+2 >= len(raw) {
				return "", errTarget
			}
			hi, lo := unhex(raw[i+1]), unhex(raw[i+2])
			if hi < 0 || lo < 0 {
				return "", errTarget
			}
			i += 2
			switch d := byte(hi<<4 | lo); {
			case d == '/' || d == '\\' || d == 0:
				return "", errTarget
			case unreserved(d):
				out.WriteByte(d)
			default:
				out.Write([]byte{'%', upper[hi], upper[lo]})
			}
		case b <= ' ' || b >= 0x7f || b == '#' || b == '\\':
			return "", errTarget
		case strings.IndexByte("\"<>^`{|}", b) >= 0: // not allowed raw, and harmless
			out.Write([]byte{'%', upper[b>>4], upper[b&15]})
		default:
			out.WriteByte(b)
		}
	}
	return out.String(), nil
}

func unhex(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}

// resolve merges slashes and takes dot segments away. A dot segment with
// parameters ("..;x") is one to some readers and none to others.
func resolve(path string) (string, error) {
	var kept []string
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "" && !last:
		case s == ".":
			if last {
				kept = append(kept, "")
			}
		case s == "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
		case dotted(s):
			return "", errTarget
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/"), nil
}

// dotted reports whether s is a dot segment followed by parameters.
func dotted(s string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(s, "."), ".")
	return len(rest) < len(s) && (strings.HasPrefix(rest, ";") || strings.HasPrefix(rest, "%3B"))
}
