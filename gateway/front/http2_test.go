package front_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
)

// h2client speaks HTTP/2 frame by frame, by prior knowledge.
type h2client struct {
	*http2.Framer
	net.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

func dialH2(t *testing.T, address string) *h2client {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := newH2(nc)
	if err := c.begin(); err != nil {
		t.Fatal(err)
	}
	return c
}

func newH2(nc net.Conn) *h2client {
	c := &h2client{Conn: nc, Framer: http2.NewFramer(nc, nc)}
	c.enc = hpack.NewEncoder(&c.block)
	c.Framer.AllowIllegalWrites = true
	return c
}

// begin sends what a connection begins with.
func (c *h2client) begin() error {
	if _, err := io.WriteString(c.Conn, http2.ClientPreface); err != nil {
		return err
	}
	return c.WriteSettings()
}

// head encodes a request with more fields.
func (c *h2client) head(more ...string) []byte {
	c.block.Reset()
	fields := append([]string{":method", "GET", ":scheme", "http", ":authority", "app.example"}, more...)
	if !strings.Contains(strings.Join(more, " "), ":path") {
		fields = append([]string{":path", "/a"}, fields...)
	}
	for i := 0; i < len(fields); i += 2 {
		_ = c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

// ended reads until the connection ends, and returns how it was told; or fails
// after most.
func (c *h2client) ended(t *testing.T, most time.Duration) (told []string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(most))
	for {
		f, err := c.ReadFrame()
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			t.Fatalf("the connection is open after %v", most)
		}
		if err != nil {
			return told
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			told = append(told, "GOAWAY "+f.ErrCode.String())
		case *http2.RSTStreamFrame:
			told = append(told, "RST "+f.ErrCode.String())
		}
	}
}

// waiter serves until its exchange is cancelled, as a try at a slow upstream does.
type waiter struct{ now, peak, all atomic.Int64 }

func (w *waiter) Serve(x *exchange.Exchange) error {
	if x.Request.Path == "/well" {
		x.Response.Status, x.Response.Length = 200, 0
		return nil
	}
	w.all.Add(1)
	for n := w.now.Add(1); ; {
		peak := w.peak.Load()
		if n <= peak || w.peak.CompareAndSwap(peak, n) {
			break
		}
	}
	defer w.now.Add(-1)
	return x.Wait(time.Minute, nil)
}

// TestReliability_X118 is F13: 50,000 streams begun and reset.
func TestReliability_X118(t *testing.T) {
	w := new(waiter)
	address := listen(t, front.Config{Service: w})
	c := dialH2(t, address)
	start := time.Now()
	go func() {
		for i := range uint32(50_000) {
			if c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: c.head(), EndStream: true, EndHeaders: true}) != nil ||
				c.WriteRSTStream(2*i+1, http2.ErrCodeCancel) != nil {
				return
			}
		}
	}()
	c.ended(t, 5*time.Second)
	if took := time.Since(start); took > time.Second {
		t.Errorf("closed after %v, want at most 1s", took)
	}
	if w.peak.Load() > 100 || w.all.Load() > 200 {
		t.Errorf("%d in flight and %d in all, want at most 100 and 200", w.peak.Load(), w.all.Load())
	}
	if res, err := http.Get("http://" + address + "/well"); err != nil || res.StatusCode != 200 {
		t.Errorf("another client got %v, %v", res, err)
	}
}

// counted counts the bytes that its connections yield.
type counted struct {
	net.Listener
	n *atomic.Int64
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.n}, err
}

type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// TestReliability_X120 is F14: a head that does not end.
func TestReliability_X120(t *testing.T) {
	w := new(waiter)
	f := front.New(front.Config{Service: w, Log: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := new(atomic.Int64)
	s := f.Server()
	go func() { _ = s.Serve(f.Listen(counted{l, taken})) }()
	t.Cleanup(func() { _ = s.Close() })
	c := dialH2(t, l.Addr().String())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head()}) != nil {
			return
		}
		for i := range 3000 { // 3 MB
			c.block.Reset()
			for j := range 10 {
				_ = c.enc.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d-%d", i, j), Value: strings.Repeat("v", 88), Sensitive: true})
			}
			if c.WriteContinuation(1, false, c.block.Bytes()) != nil {
				return
			}
		}
	}()
	c.ended(t, 5*time.Second)
	_ = c.Conn.Close()
	<-sent
	if n := taken.Load(); n > 128<<10 {
		t.Errorf("%d bytes were read before the cut, want at most 128 KiB", n)
	}
	if w.all.Load() != 0 {
		t.Error("it reached the service")
	}
}

func TestReliability_X122_X124(t *testing.T) {
	for _, tt := range []struct{ name, field, value string }{
		{"a line end in a value", "x", "a\r\nTransfer-Encoding: chunked"},
		{"a space in a name", "x y", "1"},
		{"an upper case name", "X-Upper", "1"},
		{"a space in the path", ":path", "/a b"},
		{"a fragment in the path", ":path", "/a#b"},
		{"connection", "connection", "close"},
		{"transfer-encoding", "transfer-encoding", "chunked"},
		{"te", "te", "gzip"},
		{"upgrade", "upgrade", "websocket"},
		{"a pseudo field twice", ":path", "/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := new(waiter)
			c := dialH2(t, listen(t, front.Config{Service: w}))
			block := c.head(tt.field, tt.value)
			if tt.name == "a pseudo field twice" {
				block = append(block, c.head()...)
			}
			if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndStream: true, EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			for {
				f, err := c.ReadFrame()
				if err == io.EOF {
					break // the connection ended
				}
				if err != nil {
					t.Fatal(err)
				}
				if h, ok := f.(*http2.HeadersFrame); ok {
					fields, err := hpack.NewDecoder(4096, nil).DecodeFull(h.HeaderBlockFragment())
					if err != nil || fields[0].Value != "400" {
						t.Errorf("answered %v, %v", fields, err)
					}
					break
				}
				if _, ok := f.(*http2.RSTStreamFrame); ok {
					break
				}
				if _, ok := f.(*http2.GoAwayFrame); ok {
					break
				}
			}
			if w.all.Load() != 0 {
				t.Error("it reached the service")
			}
		})
	}
}

func TestReliability_X126(t *testing.T) {
	for _, tt := range []struct {
		name  string
		write func(c *h2client, i int) error
	}{
		{"pings", func(c *h2client, i int) error { return c.WritePing(false, [8]byte{byte(i)}) }},
		{"settings", func(c *h2client, _ int) error { return c.WriteSettings() }},
		{"priorities", func(c *h2client, _ int) error { return c.WritePriority(1, http2.PriorityParam{Weight: 1}) }},
		{"empty data", func(c *h2client, i int) error {
			if i == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head(), EndHeaders: true})
			}
			return c.WriteData(1, false, nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dialH2(t, listen(t, front.Config{Service: new(waiter)}))
			go func() {
				for i := 0; tt.write(c, i) == nil; i++ {
				}
			}()
			c.ended(t, 5*time.Second)
		})
	}
}

// TestReliability_X127 is the other side: what is slow and well-behaved lives.
func TestReliability_X127(t *testing.T) {
	const headTime = 100 * time.Millisecond
	address := listen(t, front.Config{
		Limits: front.Limits{HeadTime: headTime, WriteTime: headTime},
		Service: exchange.Func(func(x *exchange.Exchange) error {
			r, w := io.Pipe()
			go func() {
				for range 5 {
					time.Sleep(2 * headTime) // longer than any of the limits
					_, _ = io.WriteString(w, "x")
				}
				_ = w.Close()
			}()
			x.Response.Status, x.Response.Length, x.Response.Body = 200, -1, r
			return nil
		}),
	})
	res, err := h2transport(t).RoundTrip(request(t, "http://"+address+"/a", nil))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "xxxxx" || res.ProtoMajor != 2 {
		t.Errorf("got %q over %s, %v", body, res.Proto, err)
	}
}

func TestHTTP2HeadThatStops(t *testing.T) {
	c := dialH2(t, listen(t, front.Config{Service: new(waiter), Limits: front.Limits{HeadTime: 100 * time.Millisecond}}))
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.head()}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c.ended(t, 5*time.Second)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("closed after %v", took)
	}
}

// TestGRPCErrors: what the gateway says itself is a gRPC status to a gRPC client,
// in a head that ends the stream.
func TestGRPCErrors(t *testing.T) {
	address := listen(t, front.Config{Service: exchange.Func(func(x *exchange.Exchange) error {
		left, ok := x.Remaining(x.Event.Start)
		if !ok || left != 1500*time.Millisecond {
			t.Errorf("deadline in %v, %v, want what grpc-timeout says", left, ok)
		}
		x.Response.Status, x.Response.Local, x.Response.Length = 504, true, 2
		x.Response.Body = text("{}")
		x.Response.Head.Set("X-Request-Id", "1")
		return nil
	})})
	req := request(t, "http://"+address+"/a", strings.NewReader("m"))
	req.Header.Set("Content-Type", "application/grpc+proto")
	req.Header.Set("Grpc-Timeout", "1500m")
	res, err := h2transport(t).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || len(body) > 0 || res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "4" ||
		res.Header.Get("Content-Type") != "application/grpc" || res.Header.Get("X-Request-Id") != "1" || len(res.Trailer) > 0 {
		t.Errorf("got %d %v %q, %v", res.StatusCode, res.Header, body, err)
	}
}

func h2transport(t *testing.T) *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func request(t *testing.T, url string, body io.Reader) *http.Request {
	t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
