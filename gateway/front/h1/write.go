package h1

import (
	"net/http"
	"strconv"

	"breakwater/gateway/exchange"
)

// How the end of an answer's body is told, beside a length (RFC 9112 section 6.3).
const (
	InChunks = -1
	NoBody   = -2 // of HEAD, 204 and 304, where no length is told
)

// AppendHead appends the head of an answer: its fields as they came, framing and
// connection fields by us alone. length is that of the body, or how else its end is
// told; date stands where the head has none (RFC 9110 section 6.6.1).
func AppendHead(out []byte, status int, head *exchange.Head, date string, length int64, last bool) []byte {
	out, dated := appendFields(AppendStatus(out, status), head)
	if !dated {
		out = append(append(append(out, "Date: "...), date...), "\r\n"...)
	}
	switch {
	case length >= 0:
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), length, 10), "\r\n"...)
	case length == InChunks:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	if last { // RFC 9112 section 9.6
		out = append(out, "Connection: close\r\n"...)
	}
	return append(out, "\r\n"...)
}

// AppendInformation appends a 1xx, which is a head alone (RFC 9110 section 15.2).
func AppendInformation(out []byte, status int, head *exchange.Head) []byte {
	out, _ = appendFields(AppendStatus(out, status), head)
	return append(out, "\r\n"...)
}

// AppendStatus appends a status line (RFC 9112 section 4).
func AppendStatus(out []byte, status int) []byte {
	out = append(strconv.AppendInt(append(out, "HTTP/1.1 "...), int64(status), 10), ' ')
	if text := http.StatusText(status); text != "" {
		return append(append(out, text...), "\r\n"...)
	}
	return append(strconv.AppendInt(append(out, "status code "...), int64(status), 10), "\r\n"...)
}

func appendFields(out []byte, head *exchange.Head) (all []byte, dated bool) {
	for _, f := range head.Fields() {
		switch len(f.Name) {
		case 0:
			continue
		case 4:
			dated = dated || same(f.Name, "Date")
		case 7:
			if same(f.Name, "Trailer") {
				continue
			}
		case 10:
			if same(f.Name, "Connection") {
				continue
			}
		case 14:
			if same(f.Name, "Content-Length") {
				continue
			}
		case 17:
			if same(f.Name, "Transfer-Encoding") {
				continue
			}
		}
		out = appendField(out, f)
	}
	return out, dated
}

// appendField appends a field. What would end its line early could begin a second
// field, or a second answer: such a name is left out, and in a value it becomes a
// space (RFC 9110 section 5.5).
func appendField(out []byte, f exchange.Field) []byte {
	if !only(f.Name, inToken) {
		return out
	}
	out = append(append(out, f.Name...), ": "...)
	from := len(out)
	out = append(out, f.Value...)
	for i, b := range out[from:] {
		if b == '\r' || b == '\n' || b == 0 {
			out[from+i] = ' '
		}
	}
	return append(out, "\r\n"...)
}

// SizeRoom is the most that PutSize takes.
const SizeRoom = 10

// PutSize writes the line before a chunk of n bytes to the end of room, and returns
// where it begins.
func PutSize(room []byte, n int) (at int) {
	at = len(room) - 2
	copy(room[at:], "\r\n")
	for ; n > 0; n >>= 4 {
		at--
		room[at] = "0123456789abcdef"[n&15]
	}
	return at
}

// AppendLast appends the last chunk and behind it the trailers that may stand there
// (RFC 9112 section 7.1.2, RFC 9110 section 6.5.1).
func AppendLast(out []byte, trailer *exchange.Head) []byte {
	out = append(out, "0\r\n"...)
	for _, f := range trailer.Fields() {
		if f.Name != "" && exchange.AnswerTrailerAllowed(f.Name) {
			out = appendField(out, f)
		}
	}
	return append(out, "\r\n"...)
}
