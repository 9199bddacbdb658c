package exchange

import "strings"

// StripHop removes the fields that are meant for one connection only, and those
// that Connection names (RFC 9110 section 7.6.1). Both ends strip what comes in
// before anybody reads it, and write their own connection fields themselves.
func (h *Head) StripHop() {
	named := ""
	for _, f := range h.fields {
		if equalFold(f.Name, "Connection") && f.Value != "" {
			if named != "" {
				named += ","
			}
			named += f.Value
		}
	}
	h.Keep(func(f Field) bool { return !hopByHop(f.Name) && (named == "" || !HasToken(named, f.Name)) })
}

// HasToken reports whether list, values with commas between, holds token
// without regard to case.
func HasToken(list, token string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if equalFold(strings.Trim(part, " \t"), token) {
			return true
		}
	}
	return false
}

func hopByHop(name string) bool {
	switch len(name) { // most names differ from all of these in length alone
	case 2:
		return equalFold(name, "TE")
	case 7:
		return equalFold(name, "Upgrade") || equalFold(name, "Trailer")
	case 10:
		return equalFold(name, "Connection") || equalFold(name, "Keep-Alive")
	case 14:
		return equalFold(name, "HTTP2-Settings")
	case 16:
		return equalFold(name, "Proxy-Connection")
	case 17:
		return equalFold(name, "Transfer-Encoding")
	case 18:
		return equalFold(name, "Proxy-Authenticate")
	case 19:
		return equalFold(name, "Proxy-Authorization")
	}
	return false
}

// TrailerAllowed reports whether a field may come behind a body: not framing,
// routing, authentication or anything else that is read before it (RFC 9110
// section 6.5.1).
func TrailerAllowed(name string) bool {
	return AnswerTrailerAllowed(name) && !strings.Contains(name, "_")
}

// AnswerTrailerAllowed is TrailerAllowed for answers, where an underscore fools
// nobody: gRPC's metadata may have one.
func AnswerTrailerAllowed(name string) bool {
	if hopByHop(name) {
		return false
	}
	for _, prefix := range []string{"X-Forwarded-", "X-Original-", "X-Breakwater-", "Content-", "If-", "Access-Control-"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return false
		}
	}
	switch strings.ToLower(name) {
	case "host", "authorization", "cookie", "set-cookie", "www-authenticate", "forwarded", "x-real-ip",
		"true-client-ip", "cache-control", "expect", "max-forwards", "pragma", "range", "age", "date",
		"expires", "location", "retry-after", "vary", "retry-count", "x-backend-status", "x-request-id":
		return false
	}
	return true
}
