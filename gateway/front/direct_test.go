package front_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/internal/retrylog"
)

// pieces is a body that comes in pieces, and ends with err.
type pieces struct {
	left []string
	err  error
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, p.err
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// TestPastNetHTTP: an answer is the same for its client and in the log whether
// net/http wrote it or not.
func TestPastNetHTTP(t *testing.T) {
	type answer struct {
		status int
		head   string // lines
		length int64
		body   *pieces
	}
	whole := func(parts ...string) *pieces { return &pieces{left: parts, err: io.EOF} }
	cut := &exchange.UpstreamError{Kind: exchange.BodyCut, Err: io.ErrUnexpectedEOF}
	big := strings.Repeat("0123456789abcdef", 10<<10)
	for _, tt := range []struct {
		name, method string
		make         func() answer
	}{
		{"small", "GET", func() answer {
			return answer{200, "Content-Type: text/plain\nDate: Thu, 01 Jan 2026 00:00:00 GMT", 5, whole("hello")}
		}},
		{"no type, no date", "GET", func() answer { return answer{200, "x-lower: 1", 5, whole("<html")} }},
		{"fields twice", "GET", func() answer { return answer{200, "Set-Cookie: a=1\nVary: x\nSet-Cookie: b=2", 5, whole("he", "llo")} }},
		{"empty", "GET", func() answer { return answer{200, "", 0, nil} }},
		{"empty, with a body that says so", "GET", func() answer { return answer{200, "", 0, whole()} }},
		{"no body, and a length of one", "GET", func() answer { return answer{503, "", 7, nil} }},
		{"no body, no length", "GET", func() answer { return answer{502, "", -1, nil} }},
		{"unknown status", "GET", func() answer { return answer{299, "", 2, whole("ok")} }},
		{"HEAD", "HEAD", func() answer { return answer{200, "", 1 << 20, nil} }},
		{"HEAD without a length", "HEAD", func() answer { return answer{200, "", -1, nil} }},
		{"204", "GET", func() answer { return answer{204, "", -1, nil} }},
		{"304", "GET", func() answer { return answer{304, "Etag: x", 100, nil} }},
		{"large", "GET", func() answer { return answer{200, "", int64(len(big)), whole(big)} }},
		{"large, in pieces", "GET", func() answer {
			return answer{200, "", int64(len(big)), whole(big[:1], big[1:40_000], big[40_000:])}
		}},
		{"large head", "GET", func() answer { return answer{200, "X-Long: " + big[:32<<10-100], 5, whole("hello")} }},
		{"larger head", "GET", func() answer { return answer{200, "X-Long: " + big[:40<<10], 5, whole("hello")} }},
		{"no length: chunks", "GET", func() answer { return answer{200, "", -1, whole("he", "llo")} }},
		{"a field that is none", "GET", func() answer { return answer{200, "bad name: x\nGood: y", 5, whole("hello")} }},
		{"a value with a line end", "GET", func() answer { return answer{200, "Bad: x\rSet-Cookie: y", 5, whole("hello")} }},
		{"cut before its first byte", "GET", func() answer { return answer{200, "", 5, &pieces{nil, cut}} }},
		{"cut in the middle", "GET", func() answer { return answer{200, "", 5, &pieces{[]string{"he"}, cut}} }},
		{"shorter than said", "GET", func() answer { return answer{200, "", 5, whole("he")} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ends := make(chan string, 8)
			cfg := front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(func(x *exchange.Exchange) error {
				a, res := tt.make(), &x.Response
				for line := range strings.SplitSeq(a.head, "\n") {
					if name, value, ok := strings.Cut(line, ": "); ok {
						res.Head.Add(name, value)
					}
				}
				if res.Status, res.Length = a.status, a.length; a.body != nil {
					res.Body = a.body
				}
				x.OnEnd(exchange.EnderFunc(func(x *exchange.Exchange, o retrylog.Outcome) {
					ends <- fmt.Sprintf("%s, %d bytes, whole %v", o, x.Event.BytesOut, x.Event.BodyComplete)
				}))
				return nil
			})}
			slow := httptest.NewServer(front.New(cfg)) // no connection of ours: all goes through net/http
			defer slow.Close()
			addresses := []string{slow.Listener.Addr().String(), serve(t, front.New(cfg))}
			cfg.Listening = func() front.Listening { return front.Listening{Fast: true} }
			addresses = append(addresses, serve(t, front.New(cfg)))
			var seen [3][]string
			for i, address := range addresses {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				r := bufio.NewReader(c)
				for range 3 { // and the connection goes on, or does not
					if _, err := io.WriteString(c, tt.method+" /a HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
						break
					}
					got, more := readAnswer(r, tt.method)
					if got == "" {
						break
					}
					if seen[i] = append(seen[i], got+"; "+<-ends); !more {
						break
					}
				}
			}
			if len(seen[0]) == 0 || !slices.Equal(seen[0], seen[1]) || !slices.Equal(seen[0], seen[2]) {
				t.Errorf("by net/http:\n%.700q\npast it:\n%.700q\nby the fast face:\n%.700q", seen[0], seen[1], seen[2])
			}
		})
	}
}

// readAnswer renders an answer so that two can be compared.
func readAnswer(r *bufio.Reader, method string) (seen string, more bool) {
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return "", false
	}
	body, err := io.ReadAll(res.Body)
	if d := res.Header.Get("Date"); d != "Thu, 01 Jan 2026 00:00:00 GMT" {
		if _, bad := http.ParseTime(d); bad != nil {
			return "no date", false
		}
		res.Header.Del("Date") // of now
	}
	var lines []string
	for name, values := range res.Header {
		lines = append(lines, fmt.Sprintf("%s=%q", name, values))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s %v %d %v %q: %v", res.Status, res.TransferEncoding, res.ContentLength, lines, body, err), err == nil && !res.Close
}

// TestPastNetHTTPPipelined: requests that came at once are answered one behind the
// other, with nothing in between.
func TestPastNetHTTPPipelined(t *testing.T) { onBoth(t, testPastNetHTTPPipelined) }

func testPastNetHTTPPipelined(t *testing.T, on func() front.Listening) {
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(echo)})
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 20
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\nPOST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", i, i)
	}
	if _, err := io.WriteString(c, all.String()); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for i := range n {
		for _, method := range []string{"GET", "POST"} {
			seen, more := readAnswer(r, method)
			if !strings.HasPrefix(seen, "200 OK") || !strings.Contains(seen, fmt.Sprintf("%s /%d?", method, i)) || !more {
				t.Fatalf("answer %d to %s is %q", i, method, seen)
			}
		}
	}
}

// TestPastNetHTTPLonger: a body that is longer than it said is cut at its length,
// and the connection ends: what follows could be taken for the next answer.
func TestPastNetHTTPLonger(t *testing.T) { onBoth(t, testPastNetHTTPLonger) }

func testPastNetHTTPLonger(t *testing.T, on func() front.Listening) {
	ended := make(chan retrylog.Outcome, 1)
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
		x.Response.Status, x.Response.Length = 200, 3
		x.Response.Body = &pieces{[]string{"abcdef"}, io.EOF}
		x.OnEnd(exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { ended <- o }))
		return nil
	})})
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c) // a reset is an end too
	if !strings.HasSuffix(string(got), "\r\n\r\nabc") {
		t.Errorf("got %q", got)
	}
	if o := <-ended; o == retrylog.OK {
		t.Errorf("ended as %v", o)
	}
}

// TestPastNetHTTPFraming: how the answer is framed is ours to say, whatever stands in
// its head.
func TestPastNetHTTPFraming(t *testing.T) { onBoth(t, testPastNetHTTPFraming) }

func testPastNetHTTPFraming(t *testing.T, on func() front.Listening) {
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
		for _, f := range []exchange.Field{{Name: "Connection", Value: "x"}, {Name: "content-length", Value: "9"}, {Name: "Transfer-Encoding", Value: "chunked"}, {Name: "Trailer", Value: "X-T"}} {
			x.Response.Head.Add(f.Name, f.Value)
		}
		x.Response.Status, x.Response.Length = 200, 5
		x.Response.Body = &pieces{[]string{"hello"}, io.EOF}
		return nil
	})})
	res, body, err := talk(t, address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if err != nil || body != "hello" || res.ContentLength != 5 || len(res.TransferEncoding) > 0 || len(res.Header) != 2 {
		t.Errorf("got %v %q, %v", res, body, err)
	}
}

// TestPastNetHTTPAtTheEnd: an answer given while the server stops says that its
// connection ends.
func TestPastNetHTTPAtTheEnd(t *testing.T) {
	arrived := make(chan struct{})
	var f *front.Front
	f = front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(func(x *exchange.Exchange) error {
		close(arrived)
		for end := time.Now().Add(5 * time.Second); !f.Closing() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		x.Response.Status = 200
		return nil
	})})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := f.Server()
	served := make(chan error, 1)
	go func() { served <- s.Serve(f.Listen(l)) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-arrived
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(got), "HTTP/1.1 200 OK\r\n") || !strings.Contains(string(got), "Connection: close\r\n") {
		t.Errorf("got %q", got)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
