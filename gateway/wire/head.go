package wire

import (
	"fmt"
	"strconv"
	"strings"

	"breakwater/gateway/exchange"
)

// deadlineMS tells the upstream how long we shall wait. The wire writes it since
// only here all deadlines are known.
const deadlineMS = "X-Breakwater-Deadline-Ms"

// chaos asks a gateway for faults, and is for none behind it.
const chaos = "X-Breakwater-Chaos"

// appendHead writes x's head into c.out. Framing and connection fields are ours
// alone; whatever stands in the head under their names is left out.
func (c *conn) appendHead(x *exchange.Exchange) error {
	r := &x.Request
	if !clean(r.Method) || !clean(r.Path) || !clean(r.Query) || !clean(r.Host) {
		return fmt.Errorf("request line for %s holds a line end or NUL", x.Endpoint)
	}
	out := append(c.out[:0], r.Method...)
	out = append(append(out, ' '), r.Path...)
	if r.Query != "" {
		out = append(append(out, '?'), r.Query...)
	}
	out = append(out, " HTTP/1.1\r\n"...)
	host := r.Host
	if host == "" { // allowed in HTTP/1.0, which we do not speak upstream
		host = x.Endpoint
	}
	out = appendField(out, "Host", host)
	for _, f := range r.Head.Fields() {
		if ours(f.Name) {
			continue
		}
		// The filter in front let no such byte in; what a layer put there must
		// not become a second field, or a second request.
		if !clean(f.Name) || !clean(f.Value) {
			return fmt.Errorf("request field %q for %s holds a line end or NUL", f.Name, x.Endpoint)
		}
		out = appendField(out, f.Name, f.Value)
	}
	if left, ok := x.Remaining(c.begun); ok {
		out = appendInt(append(out, deadlineMS+": "...), max(left.Milliseconds(), 1))
	}
	switch {
	case r.Upgrade != "":
		out = appendField(append(out, "Connection: Upgrade\r\n"...), "Upgrade", r.Upgrade)
	case r.Body.Empty() && (r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH"):
		out = append(out, "Content-Length: 0\r\n"...) // RFC 9110 section 8.6
	case r.Body.Empty():
	case r.Body.Length >= 0:
		out = appendInt(append(out, "Content-Length: "...), r.Body.Length)
	default:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	c.out = append(out, "\r\n"...)
	return nil
}

// appendKept writes a body that is in memory behind the head.
func (c *conn) appendKept(x *exchange.Exchange, body []byte) {
	if x.Request.Body.Empty() || x.Request.Upgrade != "" {
		return
	}
	if x.Request.Body.Length >= 0 {
		c.out = append(c.out, body...)
		return
	}
	if len(body) > 0 {
		c.out = append(strconv.AppendInt(c.out, int64(len(body)), 16), "\r\n"...)
		c.out = append(append(c.out, body...), "\r\n"...)
	}
	c.out = appendLastChunk(c.out, &x.Request.Trailer)
}

func appendLastChunk(out []byte, trailer *exchange.Head) []byte {
	out = append(out, "0\r\n"...)
	for _, f := range trailer.Fields() {
		if exchange.TrailerAllowed(f.Name) && clean(f.Name) && clean(f.Value) {
			out = appendField(out, f.Name, f.Value)
		}
	}
	return append(out, "\r\n"...)
}

func appendField(out []byte, name, value string) []byte {
	out = append(append(out, name...), ": "...)
	return append(append(out, value...), "\r\n"...)
}

func appendInt(out []byte, n int64) []byte {
	return append(strconv.AppendInt(out, n, 10), "\r\n"...)
}

// clean reports whether s can stand in a head without ending its line.
func clean(s string) bool {
	for i := range len(s) {
		if b := s[i]; b == '\r' || b == '\n' || b == 0 {
			return false
		}
	}
	return true
}

// ours reports whether the wire itself says what stands under name.
func ours(name string) bool {
	switch len(name) {
	case 4:
		return strings.EqualFold(name, "Host")
	case 6:
		return strings.EqualFold(name, "Expect") // answered, or not, on our side
	case 7:
		return strings.EqualFold(name, "Upgrade")
	case 10:
		return strings.EqualFold(name, "Connection")
	case 14:
		return strings.EqualFold(name, "Content-Length")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	case 18:
		return strings.EqualFold(name, chaos)
	case 24:
		return strings.EqualFold(name, deadlineMS)
	}
	return false
}
