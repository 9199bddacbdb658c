package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/wire"
	"breakwater/internal/retrylog"
)

// upstream listens on a free port and hands each connection to serve.
func upstream(t *testing.T, serve func(c net.Conn, r *bufio.Reader)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c, bufio.NewReader(c))
			}()
		}
	}()
	return l.Addr().String()
}

// answers replies to each request with the same bytes and counts requests.
func answers(t *testing.T, raw string, thenClose bool) (address string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	return upstream(t, func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			requests.Add(1)
			if _, err := io.WriteString(c, raw); err != nil || thenClose {
				return
			}
		}
	}), requests
}

func pool(t *testing.T, cfg wire.Config) *wire.Pool {
	p := wire.NewPool(cfg)
	t.Cleanup(p.Close)
	return p
}

// request makes an exchange; body "-" means none.
func request(method, endpoint, body string) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method, x.Request.Path, x.Request.Host = method, "/a", "app.example"
	x.Endpoint = endpoint
	x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: endpoint})
	x.Request.Body.Set(nil, 0)
	if body != "-" {
		x.Request.Body.Set(strings.NewReader(body), int64(len(body)))
		x.Request.Body.Keep(64 << 10)
		_, _ = io.Copy(io.Discard, &x.Request.Body) // now it is wholly kept
		_ = x.Request.Body.Rewind()
	}
	return x
}

func kindOf(err error) exchange.Kind {
	if ue, ok := errors.AsType[*exchange.UpstreamError](err); ok {
		return ue.Kind
	}
	return ""
}

func TestAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		name, method, raw string
		status            int
		body              string
		kind              exchange.Kind // of the head's error
		bodyKind          exchange.Kind // of the body's error
	}{
		{name: "a length", raw: ok + "Content-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		{name: "no reason at all", raw: "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "the same length twice", raw: ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "chunks", raw: ok + "Transfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n", status: 200, body: "hello0123456789"},
		{name: "until the end", raw: ok + "\r\nhello", status: 200, body: "hello"},
		{name: "HTTP/1.0", raw: "HTTP/1.0 200 OK\r\n\r\nhello", status: 200, body: "hello"},
		{name: "204 has no body", raw: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "HEAD has no body", method: "HEAD", raw: ok + "Content-Length: 5\r\n\r\n", status: 200},
		{name: "after a 103", raw: "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok", status: 200, body: "ok"},

		{name: "two framings", raw: ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", kind: exchange.BadResponse},
		{name: "two lengths", raw: ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", kind: exchange.BadResponse},
		{name: "a signed length", raw: ok + "Content-Length: +5\r\n\r\nhello", kind: exchange.BadResponse},
		{name: "a length out of range", raw: ok + "Content-Length: 18446744073709551621\r\n\r\nhello", kind: exchange.BadResponse},
		{name: "an unknown coding", raw: ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", kind: exchange.BadResponse},
		{name: "chunked in HTTP/1.0", raw: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", kind: exchange.BadResponse},
		{name: "status 099", raw: "HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok", kind: exchange.BadResponse},
		{name: "status 600", raw: "HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\nok", kind: exchange.BadResponse},
		{name: "status 2000", raw: "HTTP/1.1 2000 Odd\r\nContent-Length: 2\r\n\r\nok", kind: exchange.BadResponse},
		{name: "HTTP/2.0", raw: "HTTP/2.0 200 OK\r\n\r\n", kind: exchange.BadResponse},
		{name: "a bare CR", raw: ok + "X-B: a\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok", kind: exchange.BadResponse},
		{name: "a bare LF", raw: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", kind: exchange.BadResponse},
		{name: "a NUL", raw: ok + "X-B: a\x00b\r\nContent-Length: 2\r\n\r\nok", kind: exchange.BadResponse},
		{name: "a folded line", raw: ok + "X-A: one\r\n two\r\nContent-Length: 2\r\n\r\nok", kind: exchange.BadResponse},
		{name: "a name with a space", raw: ok + "X A: one\r\nContent-Length: 2\r\n\r\nok", kind: exchange.BadResponse},
		{name: "a 101 nobody asked for", raw: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\nRAW", kind: exchange.BadResponse},
		{name: "a head of 2 MB", raw: ok + "X-Big: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", kind: exchange.BadResponse},
		{name: "no HTTP", raw: "SSH-2.0-OpenSSH\r\n", kind: exchange.BadResponse},
		{name: "nothing", raw: "", kind: exchange.ResetBeforeFirst},
		{name: "half a head", raw: "HTTP/1.1 200 OK\r\nConte", kind: exchange.ResetAfterFirst},

		{name: "a cut length", raw: ok + "Content-Length: 100\r\n\r\nhello", status: 200, body: "hello", bodyKind: exchange.BodyCut},
		{name: "cut chunks", raw: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", status: 200, body: "hello", bodyKind: exchange.BodyCut},
		{name: "a chunk longer than its size", raw: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX\r\n0\r\n\r\n", status: 200, body: "hello", bodyKind: exchange.BodyCut},
		{name: "a chunk size with 0x", raw: ok + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", status: 200, bodyKind: exchange.BodyCut},
		{name: "a chunk size beyond 64 bits", raw: ok + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n", status: 200, bodyKind: exchange.BodyCut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address, _ := answers(t, tt.raw, true)
			if tt.method == "" {
				tt.method = "GET"
			}
			x := request(tt.method, address, "-")
			err := pool(t, wire.Config{}).Serve(x)
			if kindOf(err) != tt.kind || (err == nil) != (tt.kind == "") {
				t.Fatalf("got %v, want kind %q", err, tt.kind)
			}
			if x.Response.Status != tt.status {
				t.Errorf("status %d, want %d", x.Response.Status, tt.status)
			}
			if x.Response.Body == nil {
				if tt.body != "" {
					t.Error("no body")
				}
				return
			}
			body, err := io.ReadAll(x.Response.Body)
			if string(body) != tt.body || kindOf(err) != tt.bodyKind || (err == nil) != (tt.bodyKind == "") {
				t.Errorf("body %q, %v, want %q and kind %q", body, err, tt.body, tt.bodyKind)
			}
			if tt.bodyKind != "" && x.Event.Tries[0].Kind != string(tt.bodyKind) {
				t.Errorf("the event says kind %q, want %q", x.Event.Tries[0].Kind, tt.bodyKind)
			}
			x.End(retrylog.OK)
		})
	}
}

func serveOne(t *testing.T, p *wire.Pool, x *exchange.Exchange) string {
	t.Helper()
	if err := p.Serve(x); err != nil {
		t.Fatal(err)
	}
	var body []byte
	if x.Response.Body != nil {
		var err error
		if body, err = io.ReadAll(x.Response.Body); err != nil {
			t.Fatal(err)
		}
	}
	x.End(retrylog.OK)
	return string(body)
}

func TestHeadOnTheWire(t *testing.T) {
	got := make(chan string, 1)
	address := upstream(t, func(c net.Conn, r *bufio.Reader) {
		var all bytes.Buffer
		for !bytes.HasSuffix(all.Bytes(), []byte("\r\n\r\nhello")) {
			b, err := r.ReadByte()
			if err != nil {
				break
			}
			all.WriteByte(b)
		}
		got <- all.String()
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	x := request("PUT", address, "hello")
	x.Request.Query = "q=1"
	x.Request.Head.Add("X-A", "1")
	x.Request.Head.Add("Content-Length", "99")
	x.Request.Head.Add("Connection", "X-A")
	serveOne(t, pool(t, wire.Config{}), x)
	want := "PUT /a?q=1 HTTP/1.1\r\nHost: app.example\r\nX-A: 1\r\nContent-Length: 5\r\n\r\nhello"
	if raw := <-got; raw != want {
		t.Errorf("sent\n%q, want\n%q", raw, want)
	}
	x = request("GET", address, "-")
	x.Request.Head.Add("X-A", "1\r\nX-B: 2")
	if err := pool(t, wire.Config{}).Serve(x); err == nil {
		t.Error("a line end inside a field was sent")
	}
}

func TestUnprocessedDial(t *testing.T) {
	refuse := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	err := pool(t, wire.Config{Dial: refuse}).Serve(request("GET", "u:1", "-"))
	ue, ok := errors.AsType[*exchange.UpstreamError](err)
	if !ok || ue.Kind != exchange.Dial || !ue.Unprocessed {
		t.Errorf("got %v, want an unprocessed dial failure", err)
	}
}

func TestWaitsEnd(t *testing.T) {
	silent := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs); _ = theirs.Close() }()
		return ours, nil
	}
	tests := []struct {
		name     string
		deadline time.Duration
		cancel   time.Duration
		want     error
		took     time.Duration
	}{
		{"at the deadline", time.Second, time.Hour, context.DeadlineExceeded, time.Second},
		{"when the client goes", time.Hour, time.Second, exchange.ErrClientGone, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := wire.NewPool(wire.Config{Dial: silent})
				defer p.Close()
				x := request("GET", "u:1", "-")
				start := time.Now()
				x.SetDeadline(start.Add(tt.deadline))
				token := x.Token()
				timer := time.AfterFunc(tt.cancel, func() { token.Cancel(exchange.ErrClientGone) })
				defer timer.Stop()
				err := p.Serve(x)
				if took := time.Since(start); !errors.Is(err, tt.want) || kindOf(err) != exchange.Canceled || took != tt.took {
					t.Errorf("got %v after %v, want %v after %v", err, took, tt.want, tt.took)
				}
			})
		})
	}
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		start := time.Now()
		err := wire.NewPool(wire.Config{Dial: hang, ConnectTimeout: time.Second}).Serve(request("GET", "u:1", "-"))
		if took := time.Since(start); kindOf(err) != exchange.ConnectTimeout || took != time.Second {
			t.Errorf("got %v after %v, want a connect timeout after 1s", err, took)
		}
	})
}
