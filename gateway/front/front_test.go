package front_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/internal/retrylog"
)

// listen serves a Front over svc on a free port.
func listen(t *testing.T, cfg front.Config) (address string) {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	if cfg.Refuse == nil {
		cfg.Refuse = func(x *exchange.Exchange, why *exchange.Refusal) error {
			x.Response.Status, x.Response.Local = why.Status, true
			x.Response.Head.Set("X-Reason", why.Reason)
			return nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := front.New(cfg)
	s := f.Server()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(f.Listen(l)) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

// onBoth runs a test on each face of a Front.
func onBoth(t *testing.T, test func(t *testing.T, on func() front.Listening)) {
	for name, fast := range map[string]bool{"standard": false, "fast": true} {
		t.Run(name, func(t *testing.T) {
			test(t, func() front.Listening { return front.Listening{Fast: fast} })
		})
	}
}

// talk sends raw bytes and reads answers until the end or a quiet moment.
func talk(t *testing.T, address, raw string) (res *http.Response, body string, bodyErr error) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(raw, " ")
	res, err = http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, bodyErr := io.ReadAll(res.Body)
	return res, string(b), bodyErr
}

// echo answers with the head as it was let in.
func echo(x *exchange.Exchange) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s?%s host=%s upgrade=%s retries=%d\n", x.Request.Method, x.Request.Path, x.Request.Query,
		x.Request.Host, x.Request.Upgrade, x.InboundRetries)
	for _, f := range x.Request.Head.Fields() {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
	}
	x.Response.Status, x.Response.Length = 200, int64(b.Len())
	x.Response.Body = io.NopCloser(strings.NewReader(b.String()))
	return nil
}

func TestFilter(t *testing.T) { onBoth(t, testFilter) }

func testFilter(t *testing.T, on func() front.Listening) {
	many := strings.Repeat("X-A: b\r\n", 200)
	tests := []struct {
		name, head string // behind "GET /a HTTP/1.1\r\nHost: app.example\r\n", or a whole message
		trusted    bool
		status     int
		has, lacks []string
	}{
		{name: "forwarded fields of a stranger", head: "X-Forwarded-For: 203.0.113.7\r\nX-Real-Ip: 203.0.113.7\r\nForwarded: for=203.0.113.7\r\nTrue-Client-Ip: 203.0.113.7\r\n",
			status: 200, has: []string{"X-Forwarded-For: 127.0.0.1\n", "X-Forwarded-Proto: http\n", "X-Forwarded-Host: app.example\n"}, lacks: []string{"203.0.113.7"}},
		{name: "and of a peer we trust", head: "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nRetry-Count: 2\r\n", trusted: true,
			status: 200, has: []string{"X-Forwarded-For: 203.0.113.7, 127.0.0.1\n", "X-Forwarded-Proto: https\n", "retries=2"}},
		{name: "control fields of a stranger", head: "Retry-Count: 3\r\nX-Backend-Status: overloaded\r\nX-Breakwater-Deadline-Ms: 1\r\nX-Original-Url: /admin\r\n",
			status: 200, has: []string{"retries=0"}, lacks: []string{"overloaded", "Deadline", "/admin", "Retry-Count"}},
		{name: "underscore twins", head: "X_Forwarded_For: 203.0.113.7\r\nTransfer_Encoding: chunked\r\nApi_Key: k\r\n",
			status: 200, has: []string{"pi_"}, lacks: []string{"203.0.113.7", "chunked"}},
		{name: "fields that Connection names", head: "Connection: close, X-Hop, X-Forwarded-For, X-Request-Id\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n",
			status: 200, has: []string{"X-Forwarded-For: 127.0.0.1", "X-Request-Id: "}, lacks: []string{"X-Hop", "Keep-Alive", "Connection"}},
		{name: "an upgrade to h2c", head: "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n",
			status: 200, has: []string{"upgrade= "}, lacks: []string{"h2c", "Settings"}},
		{name: "an upgrade to websocket", head: "Connection: Upgrade\r\nUpgrade: websocket\r\n", status: 200, has: []string{"upgrade=websocket"}},
		{name: "too many fields", head: many, status: 431},
		{name: "CONNECT", head: "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", status: 405},
		{name: "a host with a path", head: "GET /a HTTP/1.1\r\nHost: app.example/../admin\r\n\r\n", status: 400},
		{name: "OPTIONS *", head: "OPTIONS * HTTP/1.1\r\nHost: app.example\r\n\r\n", status: 400},
		{name: "an absolute target", head: "GET http://Other.Example/abs?x HTTP/1.1\r\nHost: app.example\r\n\r\n", status: 200, has: []string{"/abs?x host=other.example"}, lacks: []string{"app.example"}},
		{name: "a long target", head: "GET /" + strings.Repeat("a", 20<<10) + " HTTP/1.1\r\nHost: app.example\r\n\r\n", status: 414},
		{name: "a long query", head: "GET /?" + strings.Repeat("a&", 1001) + " HTTP/1.1\r\nHost: app.example\r\n\r\n", status: 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := front.Config{Listening: on, Service: exchange.Func(echo)}
			if tt.trusted {
				cfg.Trusted = netip.MustParsePrefix("127.0.0.0/8").Contains
			}
			raw := tt.head
			if !strings.HasSuffix(raw, "\r\n\r\n") {
				raw = "GET /a HTTP/1.1\r\nHost: app.example\r\n" + raw + "\r\n"
			}
			res, body, err := talk(t, listen(t, cfg), raw)
			if err != nil || res.StatusCode != tt.status {
				t.Fatalf("got %d, %v, want %d", res.StatusCode, err, tt.status)
			}
			for _, text := range tt.has {
				if !strings.Contains(body, text) {
					t.Errorf("no %q in\n%s", text, body)
				}
			}
			for _, text := range tt.lacks {
				if strings.Contains(body, text) {
					t.Errorf("%q in\n%s", text, body)
				}
			}
		})
	}
}

// cut is a body that fails after its text.
type cut struct {
	io.Reader
	err error
}

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = c.err
	}
	return n, err
}

func TestAnswers(t *testing.T) { onBoth(t, testAnswers) }

func testAnswers(t *testing.T, on func() front.Listening) {
	broken := &exchange.UpstreamError{Kind: exchange.BodyCut}
	tests := []struct {
		name, method string
		set          func(r *exchange.Response)
		status       int
		body         string
		whole        bool
		outcome      retrylog.Outcome
	}{
		{"a length", "GET", func(r *exchange.Response) { r.Status, r.Length, r.Body = 200, 2, text("ok") }, 200, "ok", true, retrylog.OK},
		{"no length", "GET", func(r *exchange.Response) { r.Status, r.Length, r.Body = 200, -1, text("ok") }, 200, "ok", true, retrylog.OK},
		{"no body", "GET", func(r *exchange.Response) { r.Status, r.Length = 404, -1 }, 404, "", true, retrylog.OK},
		{"HEAD", "HEAD", func(r *exchange.Response) { r.Status, r.Length = 200, 99 }, 200, "", true, retrylog.OK},
		{"204", "GET", func(r *exchange.Response) { r.Status, r.Body, r.Length = 204, text("never"), 5 }, 204, "", true, retrylog.OK},
		{"a failure", "GET", func(r *exchange.Response) { r.Status, r.Length, r.Body = 503, 2, text("no") }, 503, "no", true, retrylog.UpstreamFailure},
		{"a cut length", "GET", func(r *exchange.Response) {
			r.Status, r.Length, r.Body = 200, 9, io.NopCloser(cut{strings.NewReader("half"), broken})
		}, 200, "half", false, retrylog.UpstreamFailure},
		{"cut chunks", "GET", func(r *exchange.Response) {
			r.Status, r.Length, r.Body = 200, -1, io.NopCloser(cut{strings.NewReader("half"), broken})
		}, 200, "half", false, retrylog.UpstreamFailure},
		{"shorter than it said", "GET", func(r *exchange.Response) { r.Status, r.Length, r.Body = 200, 9, text("half") }, 200, "half", false, retrylog.UpstreamFailure},
		{"out of time in the body", "GET", func(r *exchange.Response) {
			r.Status, r.Length, r.Body = 200, -1, io.NopCloser(cut{strings.NewReader("half"), context.DeadlineExceeded})
		}, 200, "half", false, retrylog.Timeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ended := make(chan retrylog.Exchange, 1)
			address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
				x.OnEnd(exchange.EnderFunc(func(x *exchange.Exchange, o retrylog.Outcome) {
					ev := x.Event
					ev.Outcome = o
					ended <- ev
				}))
				tt.set(&x.Response)
				return nil
			})})
			res, body, err := talk(t, address, tt.method+" /a HTTP/1.1\r\nHost: a\r\n\r\n")
			if res.StatusCode != tt.status || body != tt.body || (err == nil) != tt.whole {
				t.Errorf("got %d %q, %v, want %d %q, whole %v", res.StatusCode, body, err, tt.status, tt.body, tt.whole)
			}
			if ev := <-ended; ev.Outcome != tt.outcome || ev.BodyComplete != tt.whole {
				t.Errorf("ended as %s, complete %v, want %s, %v", ev.Outcome, ev.BodyComplete, tt.outcome, tt.whole)
			}
		})
	}
}

func text(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

func TestUploads(t *testing.T) { onBoth(t, testUploads) }

func testUploads(t *testing.T, on func() front.Listening) {
	const chunked = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name, raw string
		body      string
		status    int // of the Refusal that reading gives; 0: none
		trailer   string
	}{
		{"a length", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "hello", 0, ""},
		{"chunks and a trailer", strings.Replace(chunked, "\r\n\r\n", "\r\nTrailer: X-Sum\r\n\r\n", 1) + "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "hello", 0, "1"},
		{"a trailer that poses as a header", strings.Replace(chunked, "\r\n\r\n", "\r\nTrailer: Authorization\r\n\r\n", 1) + "0\r\nAuthorization: x\r\n\r\n", "", 0, ""},
		{"bad chunks", chunked + "0x5\r\nhello\r\n0\r\n\r\n", "", 400, ""},
		{"a slow body", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", "abc", 408, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []byte
			var readErr error
			trailer := ""
			address := listen(t, front.Config{
				Listening: on,
				Limits:    front.Limits{BodyGrace: 200 * time.Millisecond},
				Service: exchange.Func(func(x *exchange.Exchange) error {
					got, readErr = io.ReadAll(&x.Request.Body)
					for _, f := range x.Request.Trailer.Fields() {
						trailer += f.Value
					}
					x.Response.Status = 200
					return nil
				}),
			})
			res, _, err := talk(t, address, tt.raw)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("got %v, %v", res, err)
			}
			refusal, _ := errors.AsType[*exchange.Refusal](readErr)
			if string(got) != tt.body || (readErr != nil) != (tt.status != 0) || refusal != nil && refusal.Status != tt.status || trailer != tt.trailer {
				t.Errorf("read %q and trailer %q, %v, want %q, %q and status %d", got, trailer, readErr, tt.body, tt.trailer, tt.status)
			}
			// net/http takes some chunks for good that others read in another way.
			if chunks := strings.Contains(tt.raw, "chunked"); chunks && !on().Fast && !res.Close {
				t.Error("a chunked upload left the connection open")
			} else if res.Close != (tt.status != 0 || chunks && !on().Fast) {
				t.Errorf("the connection is closed: %v", res.Close)
			}
		})
	}
}

func TestPanicIsRescued(t *testing.T) { onBoth(t, testPanicIsRescued) }

func testPanicIsRescued(t *testing.T, on func() front.Listening) {
	ended := make(chan retrylog.Outcome, 1)
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
		x.OnEnd(exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { ended <- o }))
		panic("boom")
	})})
	if _, err := http.Post("http://"+address+"/a", "text/plain", strings.NewReader("x")); err == nil {
		t.Error("an answer was made up")
	}
	if o := <-ended; o != retrylog.Panicked {
		t.Errorf("ended as %s", o)
	}
}

func TestInformPassesEarlyHints(t *testing.T) { onBoth(t, testInformPassesEarlyHints) }

func testInformPassesEarlyHints(t *testing.T, on func() front.Listening) {
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
		var h exchange.Head
		h.Add("Link", "</s.css>")
		x.Inform(103, &h)
		x.Response.Status, x.Response.Length = 200, 0
		return nil
	})})
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(all), "\r\n\r\n")
	if !strings.HasPrefix(first, "HTTP/1.1 103 ") || !strings.Contains(first, "Link: </s.css>") || strings.Contains(second, "Link") {
		t.Errorf("got %q", all)
	}
}
