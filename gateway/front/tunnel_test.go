package front_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/internal/retrylog"
)

// pair is a TCP connection and its other end.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// upgraded is a tunnel from a client to an upstream's socket; ended tells how.
func upgraded(t *testing.T, f *front.Front, address string) (client net.Conn, r *bufio.Reader) {
	t.Helper()
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := io.WriteString(client, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly"); err != nil {
		t.Fatal(err)
	}
	r = bufio.NewReader(client)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Sec-Websocket-Accept") != "x" {
		t.Fatal(res, err)
	}
	return client, r
}

type end struct {
	outcome retrylog.Outcome
	timeout string
	bytes   int64
}

func tunnelled(t *testing.T, idle, longest time.Duration) (f *front.Front, address string, upstream net.Conn, ended chan end) {
	t.Helper()
	ours, upstream := pair(t)
	ended = make(chan end, 1)
	f = front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(func(x *exchange.Exchange) error {
		x.OnEnd(exchange.EnderFunc(func(x *exchange.Exchange, o retrylog.Outcome) { ended <- end{o, x.Event.Timeout, x.Event.BytesOut} }))
		x.Response.Status, x.Response.Tunnel = 101, ours
		x.Response.Head.Add("Sec-WebSocket-Accept", "x")
		x.Streaming, x.Idle = true, idle
		if longest > 0 {
			x.SetDeadline(time.Now().Add(longest))
		}
		return nil
	})})
	return f, serve(t, f), upstream, ended
}

// serve serves f on a free port.
func serve(t *testing.T, f *front.Front) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := f.Server()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(f.Listen(l)) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

func TestTunnel(t *testing.T) {
	f, address, upstream, ended := tunnelled(t, 0, 0)
	client, r := upgraded(t, f, address)
	buf := make([]byte, 5)
	if _, err := io.ReadFull(upstream, buf); err != nil || string(buf) != "early" {
		t.Fatalf("the upstream got %q, %v", buf, err)
	}
	if _, err := io.WriteString(upstream, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "hello" {
		t.Fatalf("the client got %q, %v", buf, err)
	}
	select {
	case e := <-ended:
		t.Fatalf("ended as %v while the tunnel stood", e)
	default:
	}
	// The client has no more to say, and still listens.
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := upstream.Read(buf); n != 0 || err != io.EOF {
		t.Fatalf("the upstream got %d bytes, %v", n, err)
	}
	if _, err := io.WriteString(upstream, "world"); err != nil {
		t.Fatal(err)
	}
	_ = upstream.Close()
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "world" {
		t.Errorf("the client got %q, %v", rest, err)
	}
	if e := <-ended; e != (end{retrylog.OK, "", 10}) {
		t.Errorf("ended as %v", e)
	}
}

func TestTunnelBounds(t *testing.T) {
	t.Run("silence", func(t *testing.T) {
		const idle = 200 * time.Millisecond
		f, address, upstream, ended := tunnelled(t, idle, 0)
		_, r := upgraded(t, f, address)
		start := time.Now()
		for range 4 { // one half that talks keeps both
			time.Sleep(idle / 2)
			if _, err := io.WriteString(upstream, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if rest, err := io.ReadAll(r); err != nil || string(rest) != "xxxx" {
			t.Errorf("the client got %q, %v", rest, err)
		}
		if took := time.Since(start); took < 3*idle {
			t.Errorf("ended after %v, want at least %v", took, 3*idle)
		}
		if e := <-ended; e != (end{retrylog.OK, "idle", 4}) {
			t.Errorf("ended as %v", e)
		}
	})
	t.Run("the longest life", func(t *testing.T) {
		f, address, upstream, ended := tunnelled(t, 0, 200*time.Millisecond)
		_, r := upgraded(t, f, address)
		go func() {
			for {
				if _, err := io.WriteString(upstream, "x"); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		_, _ = io.Copy(io.Discard, r)
		if e := <-ended; e.outcome != retrylog.OK || e.timeout != "total" {
			t.Errorf("ended as %v", e)
		}
	})
	t.Run("the gateway stops", func(t *testing.T) {
		f, address, _, ended := tunnelled(t, 0, 0)
		_, r := upgraded(t, f, address)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		f.Drain(ctx)
		select {
		case e := <-ended:
			if e.outcome != retrylog.OK {
				t.Errorf("ended as %v", e)
			}
		default:
			t.Error("Drain returned before the tunnel had ended")
		}
		_, _ = io.Copy(io.Discard, r)
	})
}
