package wire_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/wire"
	"breakwater/internal/retrylog"
)

// scripted answers the requests of a connection one after the other; "" closes
// without an answer, and so does the end of the list.
func scripted(t *testing.T, script ...string) (address string, connections, requests *atomic.Int64, closed chan struct{}) {
	connections, requests = new(atomic.Int64), new(atomic.Int64)
	closed = make(chan struct{}, 100)
	address = upstream(t, func(c net.Conn, r *bufio.Reader) {
		connections.Add(1)
		defer func() { _ = c.Close(); closed <- struct{}{} }()
		for _, raw := range script {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			requests.Add(1)
			if raw == "" {
				return
			}
			if _, err := io.WriteString(c, raw); err != nil {
				return
			}
		}
	})
	return address, connections, requests, closed
}

const small = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestConnectionIsUsedAgain(t *testing.T) {
	tests := []struct {
		name, raw string
		again     bool
	}{
		{"after a length", small, true},
		{"after chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		{"after no body", "HTTP/1.1 204 No Content\r\n\r\n", true},
		{"HTTP/1.0 that keeps alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", true},
		{"not after close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false},
		{"not with HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		{"not with bytes behind the answer", small + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL", false},
		{"not with a keep-alive that is over", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address, connections, _, _ := scripted(t, tt.raw, tt.raw)
			p := pool(t, wire.Config{})
			for range 2 {
				if body := serveOne(t, p, request("GET", address, "-")); strings.Contains(body, "EVIL") {
					t.Errorf("body %q", body)
				}
			}
			if n := connections.Load(); (n == 1) != tt.again {
				t.Errorf("%d connections for two requests", n)
			}
		})
	}
}

func TestPolicies_R24(t *testing.T) {
	// The upstream closes after each answer, without saying so.
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			address, _, requests, closed := scripted(t, small)
			p := pool(t, wire.Config{})
			for i := range 50 {
				serveOne(t, p, request(method, address, "-"))
				<-closed // the FIN is on its way, and on loopback that is as good as there
				waitFor(t, func() bool { return requests.Load() == int64(i+1) })
			}
			if n := requests.Load(); n != 50 {
				t.Errorf("50 requests arrived as %d", n)
			}
		})
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatal("waited for 5 s")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestChaos_HiddenReplay(t *testing.T) {
	// A reused connection dies after the upstream has read the request: it may
	// have acted on it, so nobody below the retry policy sends it again.
	for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
		t.Run(method, func(t *testing.T) {
			address, _, requests, _ := scripted(t, small, "")
			p := pool(t, wire.Config{})
			serveOne(t, p, request("GET", address, "-"))
			body := "-"
			if method == "POST" || method == "PUT" {
				body = "hello"
			}
			x := request(method, address, body)
			x.Request.Head.Add("Idempotency-Key", "k")
			err := p.Serve(x)
			ue, _ := errors.AsType[*exchange.UpstreamError](err)
			if ue == nil || ue.Kind != exchange.ResetBeforeFirst || ue.Unprocessed {
				t.Errorf("got %v, want a reset that proves nothing", err)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("2 requests arrived as %d", n)
			}
		})
	}
}

func TestCloseBeforeTheEnd(t *testing.T) {
	tests := []struct {
		name  string
		size  int
		again bool
	}{
		{"a short rest is read for the connection's sake", 3 << 10, true},
		{"a long one costs the connection", 1 << 20, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", tt.size, strings.Repeat("x", tt.size))
			address, connections, _, _ := scripted(t, raw, small)
			p := pool(t, wire.Config{})
			x := request("GET", address, "-")
			if err := p.Serve(x); err != nil {
				t.Fatal(err)
			}
			x.End(retrylog.OK)
			x = request("GET", address, "-")
			if err := p.Serve(x); err != nil {
				t.Fatal(err)
			}
			x.End(retrylog.OK)
			if n := connections.Load(); (n == 1) != tt.again {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestIdleLimits(t *testing.T) {
	address, _, _, _ := scripted(t, small)
	p := pool(t, wire.Config{MaxIdle: 1, IdleTimeout: time.Minute})
	var open []*exchange.Exchange
	for range 3 {
		x := request("GET", address, "-")
		if err := p.Serve(x); err != nil {
			t.Fatal(err)
		}
		open = append(open, x)
	}
	for _, x := range open {
		x.End(retrylog.OK)
	}
	if n := p.Idle(address); n != 1 {
		t.Errorf("%d idle connections, want 1", n)
	}
	p.Tick(time.Now().Add(59 * time.Second))
	if n := p.Idle(address); n != 1 {
		t.Errorf("%d idle connections after 59 s, want 1", n)
	}
	p.Tick(time.Now().Add(61 * time.Second))
	if n := p.Idle(address); n != 0 {
		t.Errorf("%d idle connections after 61 s, want 0", n)
	}
}

// slowly is a body that is not in memory: its reader waits for what is sent.
type slowly struct {
	parts   chan string
	stopped chan struct{}
	err     error
}

func (s *slowly) Read(p []byte) (int, error) {
	select {
	case part, ok := <-s.parts:
		if !ok {
			return 0, s.err
		}
		return copy(p, part), nil
	case <-s.stopped:
		return 0, errors.New("interrupted")
	}
}

func (s *slowly) Interrupt() { close(s.stopped) }
func (s *slowly) Resume()    {}

func streaming(endpoint string, length int64, end error, parts ...string) (*exchange.Exchange, *slowly) {
	x := request("POST", endpoint, "-")
	s := &slowly{parts: make(chan string, 10), stopped: make(chan struct{}), err: end}
	for _, p := range parts {
		s.parts <- p
	}
	x.Request.Body.Set(s, length)
	return x, s
}

func TestStreamedUpload(t *testing.T) {
	cut := &exchange.Refusal{Policy: "ingress", Reason: "body_framing", Status: 400}
	tests := []struct {
		name   string
		length int64
		end    error
		got    string // what the upstream read
		whole  bool
	}{
		{"chunked", -1, io.EOF, "helloworld", true},
		{"with a length", 10, io.EOF, "helloworld", true},
		{"a cut one never looks whole", -1, cut, "helloworld", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, whole := make(chan string, 1), make(chan bool, 1)
			address := upstream(t, func(c net.Conn, r *bufio.Reader) {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				b, err := io.ReadAll(req.Body)
				got <- string(b)
				whole <- err == nil
				_, _ = io.WriteString(c, small)
			})
			x, s := streaming(address, tt.length, tt.end, "hello", "world")
			close(s.parts)
			p := pool(t, wire.Config{})
			err := p.Serve(x)
			if tt.whole && err != nil || !tt.whole && !errors.Is(err, error(cut)) {
				t.Fatalf("got %v", err)
			}
			x.End(retrylog.OK)
			if g, w := <-got, <-whole; g != tt.got || w != tt.whole {
				t.Errorf("the upstream read %q, whole %v", g, w)
			}
			if n := p.Idle(address); (n == 1) != tt.whole {
				t.Errorf("%d idle connections", n)
			}
		})
	}
}

func TestEarlyAnswerStopsTheUpload(t *testing.T) {
	address := upstream(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.Copy(io.Discard, r)
	})
	x, s := streaming(address, -1, io.EOF, "hello") // and then nothing: the client waits
	p := pool(t, wire.Config{})
	if err := p.Serve(x); err != nil || x.Response.Status != 413 {
		t.Fatalf("got %d, %v, want 413", x.Response.Status, err)
	}
	body, err := io.ReadAll(x.Response.Body)
	if err != nil || string(body) != "no" {
		t.Errorf("body %q, %v", body, err)
	}
	x.End(retrylog.OK)
	select {
	case <-s.stopped:
	default:
		t.Error("the upload was not stopped")
	}
	if n := p.Idle(address); n != 0 {
		t.Error("a connection with half a request on it went back to the pool")
	}
}

func TestTunnel(t *testing.T) {
	address := upstream(t, func(c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil || req.Header.Get("Upgrade") != "websocket" || req.Header.Get("Connection") != "Upgrade" {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi ")
		_, _ = io.Copy(c, r)
	})
	x := request("GET", address, "-")
	x.Request.Upgrade = "websocket"
	if err := pool(t, wire.Config{}).Serve(x); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(x.Response.Tunnel, "there"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 8)
	if _, err := io.ReadFull(x.Response.Tunnel, got); err != nil || string(got) != "hi there" {
		t.Errorf("got %q, %v", got, err)
	}
	x.End(retrylog.OK)
	if _, err := x.Request.Body.Read(got); err != io.EOF {
		t.Errorf("body of the request: %v", err)
	}
}

func TestTrailersAndInform(t *testing.T) {
	address, _ := answers(t, "HTTP/1.1 103 Early Hints\r\nConnection: X-Named\r\nX-Named: leak\r\nLink: </s>\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\nSet-Cookie: a=b\r\n\r\n", false)
	x := request("GET", address, "-")
	var hints []exchange.Field
	x.Inform = func(status int, h *exchange.Head) {
		if status != 103 {
			t.Errorf("told of a %d", status)
		}
		hints = append(hints, h.Fields()...)
	}
	if err := pool(t, wire.Config{}).Serve(x); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(x.Response.Body); err != nil {
		t.Fatal(err)
	}
	if len(hints) != 1 || hints[0].Name != "Link" {
		t.Errorf("early hints %v, want only Link", hints)
	}
	if f := x.Response.Trailer.Fields(); len(f) != 1 || f[0] != (exchange.Field{Name: "X-Sum", Value: "1"}) {
		t.Errorf("trailers %v, want only X-Sum", f)
	}
	x.End(retrylog.OK)
}
