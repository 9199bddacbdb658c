package wire

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// answering is a connection that answers every write with the same bytes, at
// once and without a goroutine, so that only the wire's own work is measured.
type answering struct {
	canned
	raw  string
	left string
}

func (a *answering) Write(p []byte) (int, error) { a.left = a.raw; return len(p), nil }

func (a *answering) Read(p []byte) (int, error) {
	n := copy(p, a.left)
	a.left = a.left[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

const plainHead = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/json\r\nX-Request-Id: 7\r\nContent-Length: 1024\r\n\r\n"

// plainly serves one request of x over p, and reads its body into buf.
func plainly(tb testing.TB, p *Pool, x *exchange.Exchange, buf []byte) {
	x.Reset()
	x.Request.Method, x.Request.Path, x.Request.Host = "GET", "/orders/1", "app.example"
	x.Request.Head.Add("Accept", "*/*")
	x.Request.Head.Add("X-Caller", "web")
	x.Request.Body.Set(nil, 0)
	x.Endpoint = "u:1"
	x.SetDeadline(time.Now().Add(time.Second))
	if err := p.Serve(x); err != nil {
		tb.Fatal(err)
	}
	for {
		_, err := x.Response.Body.Read(buf)
		if err == io.EOF {
			break
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	x.End(retrylog.OK)
}

// An exchange that has been used before has memory for the answer.
func TestPlainRequestAllocatesNothing(t *testing.T) {
	c := &answering{raw: plainHead + strings.Repeat("x", 1024)}
	p := NewPool(Config{Dial: func(context.Context, string, string) (net.Conn, error) { return c, nil }})
	defer p.Close()
	x, buf := new(exchange.Exchange), make([]byte, 32<<10)
	if n := testing.AllocsPerRun(1000, func() { plainly(t, p, x, buf) }); n > 0 {
		t.Errorf("a plain request allocates %.0f times", n)
	}
}

func BenchmarkPlain(b *testing.B) {
	pipe := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			buf, raw := make([]byte, 4<<10), []byte(plainHead+strings.Repeat("x", 1024))
			for {
				if _, err := theirs.Read(buf); err != nil {
					return
				}
				if _, err := theirs.Write(raw); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}
	alone := func(context.Context, string, string) (net.Conn, error) {
		return &answering{raw: plainHead + strings.Repeat("x", 1024)}, nil
	}
	for _, tt := range []struct {
		name string
		dial func(context.Context, string, string) (net.Conn, error)
	}{{"wire alone", alone}, {"over net.Pipe", pipe}, {"over TCP", overTCP(b)}} {
		b.Run(tt.name, func(b *testing.B) {
			p := NewPool(Config{Dial: tt.dial})
			defer p.Close()
			x, buf := new(exchange.Exchange), make([]byte, 32<<10)
			b.ReportAllocs()
			for b.Loop() {
				plainly(b, p, x, buf)
			}
		})
	}
}

// overTCP dials a listener on loopback that answers each read with the plain head
// and 1 KiB.
func overTCP(tb testing.TB) func(context.Context, string, string) (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf, raw := make([]byte, 4<<10), []byte(plainHead+strings.Repeat("x", 1024))
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write(raw); err != nil {
						return
					}
				}
			}()
		}
	}()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}
