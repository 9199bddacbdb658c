package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"breakwater/gateway/exchange"
	"breakwater/gateway/internal/socket"
	"breakwater/internal/retrylog"
)

// read is what somebody made of an answer's bytes.
type read struct {
	status int
	fields []string // "name: value", lower case names, sorted, what goes for one connection left out
	body   string
	err    error // of the head
	cut    error // of the body
}

func byUs(raw []byte) read {
	p := NewPool(Config{})
	nc := canned{bytes.NewReader(raw)}
	c := &conn{nc: nc, quick: socket.New(nc), pool: p, shelf: p.shelf("u:1"), buf: make([]byte, readSize)}
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method = "GET"
	var r read
	if r.err = c.readHead(x); r.err != nil {
		return r
	}
	r.status, r.fields = x.Response.Status, listed(&x.Response.Head)
	if x.Response.Body != nil {
		b, err := io.ReadAll(x.Response.Body)
		r.body, r.cut = string(b), err
	}
	x.End(retrylog.OK)
	return r
}

func byNetHTTP(raw []byte) read {
	br := bufio.NewReaderSize(bytes.NewReader(raw), len(raw)+16)
	for range maxInformational {
		res, err := http.ReadResponse(br, &http.Request{Method: "GET"})
		if err != nil {
			return read{err: err}
		}
		if res.StatusCode >= 100 && res.StatusCode < 200 && res.StatusCode != 101 {
			continue
		}
		var head exchange.Head
		for name, values := range res.Header {
			for _, v := range values {
				head.Add(name, v)
			}
		}
		head.StripHop()
		head.Del("Content-Length")
		r := read{status: res.StatusCode, fields: listed(&head)}
		b, err := io.ReadAll(res.Body)
		r.body, r.cut = string(b), err
		return r
	}
	return read{err: errors.New("too many informational answers")}
}

func listed(h *exchange.Head) (out []string) {
	for _, f := range h.Fields() {
		out = append(out, strings.ToLower(f.Name)+": "+f.Value)
	}
	slices.Sort(out)
	return out
}

// stricter says for each of our refusals why net/http's leniency is not ours, and
// how to see in the bytes that this is what was refused. A refusal of what
// net/http takes that is not in the list is a disagreement nobody has explained.
var stricter = map[string]struct {
	why  string
	seen func(raw string) bool
}{
	"line of the head ends in a bare LF": {"RFC 9112 section 2.2 lets a recipient take it; one hop that does and one that does not see two answers",
		func(raw string) bool { return strings.Contains(strings.ReplaceAll(raw, "\r\n", ""), "\n") }},
	"line of the head is no field": {"a line without a name: net/http skips it",
		func(raw string) bool {
			return lines(raw, func(l string) bool { i := strings.Index(l, ":"); return i <= 0 })
		}},
	"field name is malformed": {"a folded line (RFC 9112 section 5.2: replace or refuse), or a name that is no token",
		func(raw string) bool {
			return lines(raw, func(l string) bool {
				name, _, _ := strings.Cut(l, ":")
				return strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f || !tchars[byte(r)] })
			})
		}},
	"field value holds a control character": {"RFC 9110 section 5.5: CR, LF and NUL are dangerous, the others invalid",
		func(raw string) bool { return lines(raw, func(l string) bool { return !plain(l) }) }},
	"reason holds a control character": {"it may be written again", func(raw string) bool { return lines(raw, func(l string) bool { return !plain(l) }) }},
	"status line is malformed": {"net/http takes more spaces than one, and answers without end that are empty",
		func(raw string) bool { return lines(raw, func(l string) bool { return strings.HasPrefix(l, "HTTP/") }) }},
	"status is not a number": {"net/http skips spaces before the status, and takes a sign for one of its three characters",
		func(raw string) bool {
			return lines(raw, func(l string) bool {
				return len(l) < 12 || strings.ContainsFunc(l[9:12], func(r rune) bool { return r < '0' || r > '9' })
			})
		}},
	"status is out of range": {"reliability 0.2: 099 panics a handler; nothing above 599 has a meaning (RFC 9110 section 15)",
		func(raw string) bool {
			return lines(raw, func(l string) bool { return len(l) >= 12 && (l[9:12] < "100" || l[9:12] > "599") })
		}},
	"answer does not begin like HTTP/1": {"net/http takes any HTTP/d.d",
		func(raw string) bool {
			return lines(raw, func(l string) bool { return !strings.HasPrefix(l, "HTTP/1.") })
		}},
	"101 that nobody asked for": {"RFC 9110 section 15.2.2: there is nothing it could switch to",
		func(raw string) bool { return strings.Contains(raw, " 101") }},
	"chunked in HTTP/1.0": {"RFC 9112 section 6.1: its framing is faulty; net/http reads to the end of the connection",
		func(raw string) bool { return strings.Contains(raw, "HTTP/1.0") }},
	"both Content-Length and Transfer-Encoding": {"RFC 9112 section 6.1: an attempt to smuggle; net/http drops the length",
		func(raw string) bool { return strings.Contains(strings.ToLower(raw), "content-length") }},
	"Content-Length is malformed or contradicts another": {"a length of 19 digits or more is nobody's; of a 1xx, 204 or 304 net/http reads none, and a hop before us might",
		func(raw string) bool { return strings.Contains(strings.ToLower(raw), "content-length") }},
	"Transfer-Encoding is not exactly chunked": {"of a 204 or 304 net/http reads none, and a hop before us might",
		func(raw string) bool { return strings.Contains(strings.ToLower(raw), "transfer-encoding") }},
	"line between chunks ends in a bare LF": {"RFC 9112 section 7.1 has CRLF only; in trailers net/http takes both",
		func(raw string) bool { return strings.Contains(strings.ReplaceAll(raw, "\r\n", ""), "\n") }},
	"line between chunks holds a control character": {"an extension or a trailer with one", func(raw string) bool {
		return strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f })
	}},
	"line between chunks is too long": {"a size line has 1 KiB; net/http gives extensions more", func(raw string) bool { return len(raw) > maxChunkLine }},
	"chunk size is malformed":         {"net/http takes a 16th digit, and none where there is an extension", func(raw string) bool { return strings.Contains(strings.ToLower(raw), "chunked") }},
}

// lines reports whether one of the lines of raw is as is says.
func lines(raw string, is func(line string) bool) bool {
	return slices.ContainsFunc(strings.Split(raw, "\r\n"), is)
}

// badSpace is the one thing that we take and net/http does not: white space
// between a chunk's size and its extensions, which a recipient must remove (RFC
// 9112 section 7.1.1, RFC 9110 section 5.6.3).
var badSpace = regexp.MustCompile("[0-9A-Fa-f][ \t]+;")

// FuzzAgainstNetHTTP holds the reader of answers against net/http's. What we take
// it takes too, and reads the same out of it; what we refuse it refuses, or the
// list says why not. There is one exception, badSpace.
func FuzzAgainstNetHTTP(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: 1\r\n\r\n",
		"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.0 404\r\nConnection: keep-alive\r\n\r\nbody to the end",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\n\nx",
		"HTTP/1.1 +20 OK\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nPragma: no-cache\r\nConnection: x\r\nX: y\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 304 No\r\nTransfer-Encoding: gzip\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		us, them := byUs(raw), byNetHTTP(raw)
		if us.err == nil && them.err != nil {
			t.Fatalf("we took an answer that net/http refuses: %v", them.err)
		}
		for _, refusal := range []struct{ ours, theirs error }{{us.err, them.err}, {us.cut, them.cut}} {
			if refusal.ours == nil || refusal.theirs != nil {
				continue
			}
			bad, ok := errors.AsType[badResponse](refusal.ours)
			if !ok {
				t.Fatalf("we failed with %v where net/http did not", refusal.ours)
			}
			if e, listed := stricter[string(bad)]; !listed || !e.seen(string(raw)) {
				t.Fatalf("we refused what net/http takes, for a reason that is not explained: %v", bad)
			}
			return
		}
		if us.err != nil {
			return
		}
		if us.status != them.status {
			t.Fatalf("status %d, net/http reads %d", us.status, them.status)
		}
		if us.cut == nil && them.cut != nil && badSpace.Match(raw) {
			return
		}
		if us.cut == nil && them.cut != nil {
			t.Fatalf("we read %q to its end, net/http did not: %v", us.body, them.cut)
		}
		if us.cut == nil && us.body != them.body {
			t.Fatalf("body %q, net/http reads %q", us.body, them.body)
		}
		// net/http puts Cache-Control beside a Pragma of HTTP/1.0's time.
		if !slices.Contains(us.fields, "pragma: no-cache") && !slices.Equal(us.fields, them.fields) {
			t.Fatalf("fields %q, net/http reads %q", us.fields, them.fields)
		}
	})
}
