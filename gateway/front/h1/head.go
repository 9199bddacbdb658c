package h1

import (
	"bytes"
	"strings"

	"breakwater/gateway/exchange"
)

const version = " HTTP/1.1"

// Scan looks for the end of the head that p begins with, from the line that begins
// at from. With More it returns where to go on when more has come, with Take the
// length of the head.
func Scan(p []byte, from int) (next int, v Verdict) {
	for {
		i := bytes.IndexByte(p[from:], '\n')
		if i < 0 {
			return from, More
		}
		end := from + i
		line, crlf := bytes.CutSuffix(p[from:end], []byte{'\r'})
		switch {
		case from == 0 && !bytes.HasSuffix(line, []byte(version)):
			// Another version: it may have no more lines than this one.
			return 0, HandOver
		case !crlf:
			// A bare LF may be taken for a line's end, but other readers need not
			// (RFC 9112 section 2.2).
			return from, Refuse
		case len(line) == 0:
			return end + 1, Take
		}
		from = end + 1
	}
}

// Request is what the head of a request says about itself.
type Request struct {
	Method, Target, Host string
	Length               int64  // of its body; -1: it comes in chunks
	Close                bool   // the client asks for nothing more on the connection
	Announced            string // the fields that may come behind the body
}

// Parse reads a whole head, of which Scan has found the end, and adds its fields
// but Host. The strings lie over text.
func (q *Request) Parse(text string, fields *exchange.Head) Verdict {
	*q = Request{}
	line, rest, _ := strings.Cut(text, "\r\n")
	if !q.line(line) {
		return HandOver
	}
	hosts, lengths, codings := 0, 0, 0
	verdict := Take
	for {
		line, rest, _ = strings.Cut(rest, "\r\n")
		if line == "" {
			break
		}
		name, value, ok := field(line)
		if !ok {
			return Refuse
		}
		switch len(name) {
		case 4:
			if same(name, "Host") {
				hosts, q.Host = hosts+1, value
				continue
			}
		case 6:
			if same(name, "Expect") {
				verdict = HandOver // there is a second answer to be given before the body (RFC 9110 section 10.1.1)
			}
		case 7:
			switch {
			case same(name, "Upgrade"):
				verdict = HandOver // the connection may become another (RFC 9110 section 7.8)
			case same(name, "Trailer") && q.Announced == "":
				q.Announced = value
			case same(name, "Trailer"):
				q.Announced += "," + value
			}
		case 10:
			if same(name, "Connection") { // RFC 9112 section 9.6
				q.Close = q.Close || closes(value)
			}
		case 14:
			if same(name, "Content-Length") {
				lengths++
				if q.Length, ok = number(value); !ok {
					return Refuse
				}
			}
		case 17:
			if same(name, "Transfer-Encoding") {
				if codings++; codings > 1 || !same(value, "chunked") {
					// Where chunked is not the one coding, readers differ on where the
					// body ends (RFC 9112 section 6.3, rule 4).
					return RefuseCoding
				}
				q.Length = -1
			}
		}
		fields.Add(name, value)
	}
	switch {
	case hosts != 1: // RFC 9112 section 3.2
		return Refuse
	case lengths > 1: // twice the same is allowed, and not to be met (RFC 9112 section 6.3, rule 5)
		return Refuse
	case lengths > 0 && codings > 0: // the mark of a smuggled request (RFC 9112 section 6.1)
		return Refuse
	}
	return verdict
}

// line reads "METHOD SP origin-form SP HTTP/1.1" (RFC 9112 section 3), with exactly
// these spaces. Other forms of a target are rare, or refused by whoever takes over.
func (q *Request) line(line string) bool {
	line, ours := strings.CutSuffix(line, version)
	method, target, ok := strings.Cut(line, " ")
	if !ours || !ok || method == "" || target == "" || target[0] != '/' || !only(method, inToken) || !only(target, inTarget) {
		return false
	}
	q.Method, q.Target = method, target
	return true
}

// field reads a line of a head or of trailers. No space may stand before the colon,
// and a line that begins with one, which once continued the line before, has no name
// (RFC 9112 sections 5.1 and 5.2); controls may stand nowhere (RFC 9110 section 5.5).
func field(line string) (name, value string, ok bool) {
	i := strings.IndexByte(line, ':')
	if i <= 0 || !only(line[:i], inToken) {
		return "", "", false
	}
	value = line[i+1:]
	for value != "" && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	for value != "" && (value[len(value)-1] == ' ' || value[len(value)-1] == '\t') {
		value = value[:len(value)-1]
	}
	return line[:i], value, only(value, inValue)
}

// number reads a Content-Length: digits only, and not so many that it could
// overflow (RFC 9110 section 8.6).
func number(v string) (n int64, ok bool) {
	if v == "" || len(v) > 18 {
		return 0, false
	}
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(v[i]-'0')
	}
	return n, true
}

// closes reports whether a Connection field asks for the end of the connection. Blanks
// part words as commas do, which no grammar says (RFC 9110 section 7.6.1) and net/http
// does: who wrote so may have meant it, and an end that nobody asked for harms nobody.
func closes(list string) bool {
	for word := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		if same(word, "close") {
			return true
		}
	}
	return false
}

// same is strings.EqualFold for what is nearly always equal as it stands.
func same(a, b string) bool { return a == b || len(a) == len(b) && strings.EqualFold(a, b) }
