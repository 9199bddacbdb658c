package h1

import (
	"fmt"
	"strings"
	"testing"

	"breakwater/gateway/exchange"
)

// parse reads a whole head, as a connection does when all of it has come.
func parse(raw string) (q Request, fields exchange.Head, v Verdict) {
	end, v := Scan([]byte(raw), 0)
	if v == Take {
		v = q.Parse(raw[:end], &fields)
	}
	return q, fields, v
}

// TestHeads: what is taken, what is refused, and what is for another reader; each
// row names its rule.
func TestHeads(t *testing.T) {
	const get = "GET /a HTTP/1.1\r\nHost: a\r\n"
	for _, tt := range []struct {
		name, raw string
		want      Verdict
	}{
		{"the least", get + "\r\n", Take},
		{"RFC 9112 section 3: one more space", "GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", HandOver},
		{"section 3: a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", HandOver},
		{"section 3: a method that is none", "G(T /a HTTP/1.1\r\nHost: a\r\n\r\n", HandOver},
		{"section 3.2: another form of target", "GET http://a/a HTTP/1.1\r\nHost: a\r\n\r\n", HandOver},
		{"section 3.2: all of the server", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", HandOver},
		{"section 3.2: no Host", "GET /a HTTP/1.1\r\n\r\n", Refuse},
		{"section 3.2: two Hosts", get + "Host: b\r\n\r\n", Refuse},
		{"section 2.3: another version", "GET /a HTTP/1.0\r\nHost: a\r\n\r\n", HandOver},
		{"section 2.3: no version", "GET /a\r\n\r\n", HandOver},
		{"section 2.3: a version of two digits", "GET /a HTTP/1.11\r\n\r\n", HandOver},
		{"section 2.2: bare LF behind the request line", "GET /a HTTP/1.1\nHost: a\r\n\r\n", Refuse},
		{"section 2.2: bare LF behind a field", "GET /a HTTP/1.1\r\nHost: a\n\r\n", Refuse},
		{"section 2.2: bare LF as the empty line", get + "\n", Refuse},
		{"section 2.2: bare CR in a value", get + "X: a\rb\r\n\r\n", Refuse},
		{"section 2.2: a space before the first field", "GET /a HTTP/1.1\r\n Host: a\r\n\r\n", Refuse},
		{"section 2.2: two CR", get + "X: a\r\r\n\r\n", Refuse},
		{"section 5.1: a space before the colon", get + "X : a\r\n\r\n", Refuse},
		{"section 5.1: no name", get + ": a\r\n\r\n", Refuse},
		{"section 5.1: no colon", get + "X\r\n\r\n", Refuse},
		{"section 5.2: a folded line", get + "X: a\r\n b\r\n\r\n", Refuse},
		{"RFC 9110 section 5.5: NUL in a value", get + "X: a\x00b\r\n\r\n", Refuse},
		{"section 5.5: DEL in a value", get + "X: a\x7fb\r\n\r\n", Refuse},
		{"section 5.5: obs-text in a value", get + "X: \xff\r\n\r\n", Take},
		{"section 5.6.2: a name that is no token", get + "X@: a\r\n\r\n", Refuse},
		{"RFC 9112 section 6.1: length and chunks", get + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", Refuse},
		{"section 6.1: a coding that is not known", get + "Transfer-Encoding: gzip\r\n\r\n", RefuseCoding},
		{"section 6.1: chunked is not the last", get + "Transfer-Encoding: chunked, gzip\r\n\r\n", RefuseCoding},
		{"section 6.1: chunked twice", get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", RefuseCoding},
		{"section 6.1: in capitals", get + "Transfer-Encoding: CHUNKED\r\n\r\n", Take},
		{"section 6.1: with a control that some take for a space", get + "Transfer-Encoding: \vchunked\r\n\r\n", Refuse},
		{"section 6.3: two lengths", get + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", Refuse},
		{"section 6.3: the same length twice", get + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", Refuse},
		{"section 6.3: a list of lengths", get + "Content-Length: 1, 1\r\n\r\n", Refuse},
		{"RFC 9110 section 8.6: a sign", get + "Content-Length: +1\r\n\r\n", Refuse},
		{"section 8.6: no digits", get + "Content-Length:\r\n\r\n", Refuse},
		{"section 8.6: too many", get + "Content-Length: 9999999999999999999\r\n\r\n", Refuse},
		{"section 10.1.1: Expect", get + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n", HandOver},
		{"section 7.8: Upgrade", get + "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", HandOver},
		{"a mistake behind an Upgrade", get + "Upgrade: websocket\r\nX : a\r\n\r\n", Refuse},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HandOver},
		{"TLS", "\x16\x03\x01\x00\xa5\n", HandOver},
		{"the beginning", get, More},
		{"nothing", "", More},
	} {
		if _, _, v := parse(tt.raw); v != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, v, tt.want)
		}
	}
}

func TestHeadIsRead(t *testing.T) {
	q, fields, v := parse("PoST /a?b=c HTTP/1.1\r\nhOST: a.example\r\nX-A:\t one two \t\r\nx-empty:\r\nContent-Length: 007\r\n" +
		"Connection: x, Close\r\nTrailer: a\r\nTrailer: b\r\nX-A: 3\r\n\r\n")
	want := Request{Method: "PoST", Target: "/a?b=c", Host: "a.example", Length: 7, Close: true, Announced: "a,b"}
	if v != Take || q != want {
		t.Errorf("got %v, %+v, want %+v", v, q, want)
	}
	const all = "[{X-A one two} {x-empty } {Content-Length 007} {Connection x, Close} {Trailer a} {Trailer b} {X-A 3}]"
	if got := fmt.Sprint(fields.Fields()); got != all {
		t.Errorf("got %s, want %s", got, all)
	}
}

// TestScanInPieces: a head is the same however it comes.
func TestScanInPieces(t *testing.T) {
	for _, raw := range []string{
		"GET /a HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\nrest", "GET /a HTTP/1.1\r\nHost: a\n\r\n", "GET /a HTTP/1.0\r\n\r\n", "GET /a HTTP/1.1\r\nHost",
	} {
		end, want := Scan([]byte(raw), 0)
		line, v := 0, More
		for n := 0; n <= len(raw) && v == More; n++ {
			line, v = Scan([]byte(raw[:n]), line)
		}
		if line != end || v != want {
			t.Errorf("%q: %v at %d, and in pieces %v at %d", raw, want, end, v, line)
		}
	}
}

// chunked reads a body in pieces of n bytes.
func chunked(raw string, n int) (content string, trailer exchange.Head, used int, err error) {
	var c Chunks
	have := ""
	for !c.Over() {
		got, err := c.Next([]byte(have), &trailer)
		used, have = used+got, have[got:]
		if err != nil {
			return content, trailer, used, err
		}
		if take := min(int(c.Left()), len(have)); take > 0 {
			content, have = content+have[:take], have[take:]
			c.Took(take)
			used += take
			continue
		}
		if c.Over() {
			break
		}
		if raw == "" {
			return content, trailer, used, nil // not whole
		}
		piece := min(n, len(raw))
		have, raw = have+raw[:piece], raw[piece:]
	}
	return content, trailer, used, nil
}

func TestChunks(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, tt := range []struct {
		name, raw, content, trailer string
		bad                         bool
	}{
		{name: "two", raw: "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n", content: "hello0123456789"},
		{name: "none", raw: "0\r\n\r\n"},
		{name: "zeros in front", raw: "0005\r\nhello\r\n000\r\n\r\n", content: "hello"},
		{name: "RFC 9112 section 7.1.1: extensions", raw: "5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n", content: "hello"},
		{name: "section 7.1.2: trailers", raw: "0\r\nX-Sum: 1 \r\nX-Sum: 2\r\n\r\n", trailer: "[{X-Sum 1} {X-Sum 2}]"},
		{name: "RFC 9110 section 6.5.1: trailers that belong before", raw: "0\r\nContent-Length: 9\r\nHost: b\r\nAuthorization: x\r\n\r\n"},
		{name: "longer than said", raw: "5\r\nhello!\r\n0\r\n\r\n", content: "hello", bad: true},
		{name: "shorter than said", raw: "6\r\nhello\r\n0\r\n\r\n", content: "hello\r", bad: true},
		{name: "no digits", raw: "\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "0x", raw: "0x5\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "a sign", raw: "+5\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "an underscore", raw: "1_0\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "a space before", raw: " 5\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "a space behind", raw: "5 \r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "a space before an extension", raw: "5 ;a\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "too many digits", raw: "FFFFFFFFFFFFFFFFF\r\nx", bad: true},
		{name: "section 2.2: bare LF behind the size", raw: "5\nhello\r\n0\r\n\r\n", bad: true},
		{name: "bare LF behind the data", raw: "5\r\nhello\n0\r\n\r\n", content: "hello", bad: true},
		{name: "bare CR in an extension", raw: "5;a\rb\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "NUL in an extension", raw: "5;\x00\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "bare LF at the end", raw: "0\r\n\n", bad: true},
		{name: "bare LF in trailers", raw: "0\r\nX: a\nY: b\r\n\r\n", bad: true},
		{name: "a folded trailer", raw: "0\r\nX: a\r\n b\r\n\r\n", trailer: "[{X a}]", bad: true},
		{name: "a trailer without a colon", raw: "0\r\nX\r\n\r\n", bad: true},
		{name: "a long extension", raw: "5;" + long + "\r\nhello\r\n0\r\n\r\n", bad: true},
		{name: "a long extension that does not end", raw: "5;" + long, bad: true},
		{name: "long trailers", raw: "0\r\n" + strings.Repeat("X: "+long+"\r\n", 4) + "\r\n", trailer: "long", bad: true},
		{name: "much that is no content", raw: strings.Repeat("1;"+long[:500]+"\r\nx\r\n", 40) + "0\r\n\r\n", content: strings.Repeat("x", 33), bad: true},
		{name: "little content in many chunks", raw: strings.Repeat("1\r\nx\r\n", 5000) + "0\r\n\r\n", content: strings.Repeat("x", 5000)},
	} {
		for _, n := range []int{1, 3, 1 << 20} {
			content, trailer, used, err := chunked(tt.raw+"GET", n)
			got := ""
			if trailer.Len() > 0 {
				if got = fmt.Sprint(trailer.Fields()); tt.trailer == "long" {
					got = "long"
				}
			}
			if content != tt.content || got != tt.trailer || (err != nil) != tt.bad || !tt.bad && used != len(tt.raw) {
				t.Errorf("%s, by %d: read %.40q and %.40q, %d of %d, %v, want %.40q and %.40q", tt.name, n, content, got, used, len(tt.raw), err, tt.content, tt.trailer)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	var head, trailer exchange.Head
	for _, f := range [][2]string{
		{"Content-Type", "text/plain"}, {"Connection", "keep-alive"}, {"content-length", "9"}, {"Transfer-Encoding", "gzip"}, {"Trailer", "x"},
		{"Bad", "a\r\nSet-Cookie: b\x00"}, {"bad name", "x"}, {"", "x"}, {"Date", "now"},
	} {
		head.Add(f[0], f[1])
	}
	const first = "Content-Type: text/plain\r\nBad: a  Set-Cookie: b \r\nDate: now\r\n"
	for _, tt := range []struct{ got, want string }{
		{string(AppendHead(nil, 200, &head, "then", 5, false)), "HTTP/1.1 200 OK\r\n" + first + "Content-Length: 5\r\n\r\n"},
		{string(AppendHead(nil, 299, &head, "then", InChunks, true)), "HTTP/1.1 299 status code 299\r\n" + first + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
		{string(AppendHead(nil, 204, &trailer, "then", NoBody, false)), "HTTP/1.1 204 No Content\r\nDate: then\r\n\r\n"},
		{string(AppendInformation(nil, 103, &trailer)), "HTTP/1.1 103 Early Hints\r\n\r\n"},
		{string(AppendLast(nil, &head)), "0\r\nBad: a  Set-Cookie: b \r\n\r\n"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q\nwant %q", tt.got, tt.want)
		}
	}
	for n := 1; n < 1<<30; n = n*3 + 1 {
		var room [SizeRoom]byte
		if got, want := string(room[PutSize(room[:], n):]), fmt.Sprintf("%x\r\n", n); got != want {
			t.Errorf("size of %d is %q", n, got)
		}
	}
}
